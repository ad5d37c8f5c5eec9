package reach

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func entry(prefix, gateway string, index int) ribEntry {
	e := ribEntry{prefix: netip.MustParsePrefix(prefix), ifIndex: index}
	if gateway != "" {
		e.gateway = netip.MustParseAddr(gateway)
	}
	return e
}

func TestWithTable(t *testing.T) {
	t.Parallel()
	table := []ribEntry{
		entry("0.0.0.0/0", "10.20.0.1", 1),
		entry("10.20.0.0/24", "", 1),
		{prefix: netip.MustParsePrefix("10.40.0.0/16"), gateway: netip.MustParseAddr("10.20.0.3"), ifIndex: 2, mtu: 1280},
		{prefix: netip.MustParsePrefix("10.40.9.0/24"), blackhole: true},
		{prefix: netip.MustParsePrefix("10.40.8.0/24"), reject: true},
		entry("10.20.0.2/32", "", 3),
		entry("10.20.0.2/32", "", 9),
	}
	src := netip.MustParseAddr("10.20.0.2")
	for _, tc := range []struct {
		dst   string
		kind  RouteKind // what the kernel said
		want  Route
		index int
	}{
		{"192.0.2.1", RouteUnicast, Route{Kind: RouteUnicast, Gateway: netip.MustParseAddr("10.20.0.1")}, 1},
		{"10.20.0.4", RouteUnicast, Route{Kind: RouteUnicast, OnLink: true}, 1},
		{"10.40.0.4", RouteUnicast, Route{Kind: RouteUnicast, Gateway: netip.MustParseAddr("10.20.0.3"), MTU: 1280}, 2},
		{"10.40.9.4", RouteUnicast, Route{Kind: RouteBlackhole}, 0},
		{"10.40.8.4", RouteUnicast, Route{Kind: RouteUnreachable}, 0},
		{"10.20.0.2", RouteLocal, Route{Kind: RouteLocal}, 3},
		{"10.20.0.4", RouteUnreachable, Route{Kind: RouteUnreachable}, 0}, // never turned into a way out
		{"2001:db8::4", RouteUnreachable, Route{Kind: RouteNone}, 0},
		{"2001:db8::4", RouteUnicast, Route{Kind: RouteUnicast, Method: methodUDPConnect}, 0}, // table not understood
	} {
		dst := netip.MustParseAddr(tc.dst)
		got, index := withTable(Route{Destination: dst, Source: src, Kind: tc.kind, Method: methodUDPConnect}, table)
		tc.want.Destination, tc.want.Source = dst, src
		if tc.want.Method == "" {
			tc.want.Method = methodBSDRoute
		}
		assert.Equal(t, tc.want, got, tc.dst)
		assert.Equal(t, tc.index, index, tc.dst)
	}
}

func TestPrefixOf(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		addr string
		mask []byte
		host bool
		want string // "" = refused
	}{
		{"10.20.0.0", []byte{255, 255, 255, 0}, false, "10.20.0.0/24"},
		{"10.20.0.7", []byte{255, 255, 240, 0}, false, "10.20.0.0/20"},
		{"10.20.0.7", nil, true, "10.20.0.7/32"},
		{"0.0.0.0", nil, false, "0.0.0.0/0"},
		{"0.0.0.0", []byte{0, 0, 0, 0}, false, "0.0.0.0/0"},
		{"10.20.0.7", nil, false, ""},
		{"10.0.0.0", []byte{255, 0, 255, 0}, false, ""},
		{"10.0.0.0", []byte{0x5f, 0, 0, 0}, false, ""},
		{"10.0.0.0", []byte{255}, false, ""},
		{"2001:db8::", []byte{255, 255, 255, 255, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}, false, "2001:db8::/32"},
	} {
		got, ok := prefixOf(netip.MustParseAddr(tc.addr), tc.mask, tc.host)
		require.Equal(t, tc.want != "", ok, "%+v", tc)
		if ok {
			assert.Equal(t, tc.want, got.String())
		}
	}
	_, ok := prefixOf(netip.Addr{}, nil, true)
	assert.False(t, ok)
}

// FuzzRIB feeds tables made of raw bytes and compares the match with a search
// bit by bit.
func FuzzRIB(f *testing.F) {
	f.Add([]byte{10, 20, 0, 0, 255, 255, 0, 0, 0, 10, 20, 1, 0, 255, 255, 255, 0, 0}, []byte{10, 20, 1, 7})
	f.Add([]byte{0, 0, 0, 0, 0, 0, 0, 0, 0, 192, 0, 2, 7, 0, 0, 0, 0, 1}, []byte{192, 0, 2, 7})
	f.Add([]byte{10, 0, 0, 0, 255, 0, 255, 0, 0}, []byte{10, 1, 0, 1})
	f.Fuzz(func(t *testing.T, raw, to []byte) {
		dst, ok := netip.AddrFromSlice(to)
		if !ok || !dst.Is4() {
			t.Skip()
		}
		var entries []ribEntry
		want := -1
		for ; len(raw) >= 9; raw = raw[9:] {
			addr, mask, host := netip.AddrFrom4([4]byte(raw[:4])), raw[4:8], raw[8]&1 == 1
			prefix, ok := prefixOf(addr, mask, host)
			if !ok {
				continue
			}
			entries = append(entries, ribEntry{prefix: prefix, ifIndex: len(entries) + 1})
			length, matches := 32, true
			if !host {
				for length = 0; length < 32 && mask[length/8]>>(7-length%8)&1 == 1; length++ {
				}
			}
			for bit := range length {
				a, b := raw[bit/8]>>(7-bit%8)&1, to[bit/8]>>(7-bit%8)&1
				matches = matches && a == b
			}
			if matches {
				want = max(want, length)
			}
		}
		got, found := longestMatch(entries, dst)
		if found != (want >= 0) || found && got.prefix.Bits() != want {
			t.Fatalf("%v in %v: got %v (%v), want /%d", dst, entries, got.prefix, found, want)
		}
		seen, index := withTable(Route{Destination: dst, Kind: RouteUnicast}, entries)
		if !seen.Usable() || index != got.ifIndex {
			t.Fatalf("%+v %d", seen, index)
		}
	})
}
