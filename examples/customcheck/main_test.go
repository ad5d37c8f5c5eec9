package main

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pullwalk/pullwalk"
	"github.com/pullwalk/pullwalk/reach"
)

func TestBothRulesAreToldAsTheyAre(t *testing.T) {
	var out strings.Builder
	require.NoError(t, run(t.Context(), &out), out.String())
	text := out.String()
	require.Contains(t, text, "every hop held; not a complete pull")
	require.Contains(t, text, "every hop held, and a check of the caller's own fails")
	require.Contains(t, text, "First broken:    layer route at registry.corp.test:")
	require.Contains(t, text, "(x.egress-source)")
	require.Contains(t, text, "leave from 127.0.0.1, which is in none of [10.40.0.0/16]")
	require.Contains(t, text, "Owner:           network")
	require.Equal(t, 2, strings.Count(text, ": ok\n"), "at the registry and at the blob host")
	require.Equal(t, 2, strings.Count(text, ": failed\n"))
}

// The check alone, without a diagnosis: an Input is plain data.
func TestEgressCheckAlone(t *testing.T) {
	c := egressCheck(netip.MustParsePrefix("10.40.0.0/16"))
	in := pullwalk.Input{Host: "registry.corp.test", Port: 443, Dialer: from("10.40.1.7:40000")}
	findings, err := c.Run(t.Context(), in)
	require.NoError(t, err)
	require.Empty(t, findings)

	in.Dialer = from("10.50.1.7:40000")
	findings, err = c.Run(t.Context(), in)
	require.NoError(t, err)
	require.Len(t, findings, 1)
	require.Equal(t, "10.50.1.7", findings[0].Fact("source"))

	in.Dialer = from("")
	_, err = c.Run(t.Context(), in)
	require.Error(t, err)
}

// from is a dialer whose connections leave from an address; "" = none comes about.
type from string

var _ reach.Dialer = from("")

func (f from) DialContext(context.Context, string, string) (net.Conn, error) {
	if f == "" {
		return nil, errors.New("no connection")
	}
	client, server := net.Pipe()
	_ = server.Close()
	return leaving{client, net.TCPAddrFromAddrPort(netip.MustParseAddrPort(string(f)))}, nil
}

type leaving struct {
	net.Conn
	local net.Addr
}

func (l leaving) LocalAddr() net.Addr { return l.local }
