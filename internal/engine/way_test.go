package engine

import (
	"context"
	"net/netip"
	"net/url"
	"testing"
	"testing/fstest"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pullwalk/pullwalk/dnscheck"
	"github.com/pullwalk/pullwalk/internal/judge"
	"github.com/pullwalk/pullwalk/internal/node"
	"github.com/pullwalk/pullwalk/internal/noderuntime"
	"github.com/pullwalk/pullwalk/internal/notify"
	"github.com/pullwalk/pullwalk/internal/pull"
	"github.com/pullwalk/pullwalk/internal/registry"
)

// A registry may name the very address at which the node gets its credentials: its realm
// must not ride on the probe that the node's own settings were given.
func TestARegistryDoesNotLeadToWhereCredentialsComeFrom(t *testing.T) {
	t.Parallel()
	c := testCall()
	s := c.images[0].newSource(noderuntime.Source{})
	metadata := pull.Target{Scheme: "http", Host: "169.254.169.254", Port: 80, Role: registry.RoleCredential}
	s.run.AddBarred(metadata, "")
	require.NotNil(t, s.run.Find(metadata))
	realm := metadata
	realm.Role = registry.RoleToken
	require.Nil(t, s.run.Find(realm))
}

// What is left of a host that the pull did without is accounted for, step by step.
func TestLeavingAHost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := testCall()
		c.opts.Limits.DNS, c.view.DNS = time.Hour, dnscheck.ExchangerFunc(func(ctx context.Context, _ netip.AddrPort, _ string, _ dnscheck.Question) (dnscheck.Answer, error) {
			<-ctx.Done() // nobody answers
			return dnscheck.Answer{}, ctx.Err()
		})
		c.view.FS = fstest.MapFS{"etc/resolv.conf": {Data: []byte("nameserver 10.20.0.2\n")}}
		c.view.ResolverFiles = []dnscheck.Source{{FS: c.view.FS}}
		c.view.Proxy = func(*url.URL) (*url.URL, error) { return nil, nil }
		c.prober = c.newProber()
		s := c.images[0].newSource(noderuntime.Source{})
		h := s.run.Host(t.Context(), pull.Target{Scheme: "https", Host: "blobs.corp.test", Port: 443, Role: registry.RoleBlob, Expected: true, Known: true})
		h.Record(pull.Step{ID: pull.StepRoute, Status: pull.StatusOK}, 0)
		begin := time.Now()
		w := wayOf(h)
		w.leave()
		require.Equal(t, expectedGrace, time.Since(begin))
		require.True(t, w.left)
		c.prober.Close()
		var ids []pull.StepID
		var statuses []pull.Status
		steps := judge.EndpointSoFar(h.Log())
		for _, st := range steps {
			ids, statuses = append(ids, st.ID), append(statuses, st.Status)
		}
		require.Equal(t, []pull.StepID{pull.StepDNS, pull.StepRoute, pull.StepConnect, pull.StepTLS}, ids, "each step is accounted for")
		require.Equal(t, []pull.Status{pull.StatusInconclusive, pull.StatusOK, pull.StatusBlocked, pull.StatusBlocked}, statuses)
		require.Equal(t, "dns@blobs.corp.test:443", steps[3].BlockedBy)
	})
}

// testCall is a call of which nothing is known.
func testCall() *call {
	c := newCall([]registry.Reference{{}}, Options{})
	c.view, c.profile, c.notify = &node.View{}, noderuntime.Of("", ""), notify.New(nil, nil)
	c.prober = c.newProber()
	c.images[0].group = &group{}
	return c
}
