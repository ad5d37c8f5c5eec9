package reach_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"

	"github.com/pullwalk/pullwalk/classify"
	"github.com/pullwalk/pullwalk/reach"
)

func (s *space) add(l netlink.Link) {
	s.t.Helper()
	s.with(func(h *netlink.Handle) {
		if err := h.LinkAdd(l); err != nil {
			s.t.Skipf("needs a kernel with links of type %s: %v", l.Type(), err)
		}
	})
}

// attach makes port a port of the bridge master.
func (s *space) attach(port, master string) {
	s.t.Helper()
	s.with(func(h *netlink.Handle) {
		l, err := h.LinkByName(port)
		require.NoError(s.t, err)
		m, err := h.LinkByName(master)
		require.NoError(s.t, err)
		require.NoError(s.t, h.LinkSetMaster(l, m))
	})
}

// A bridge of whatever name covers the registry's address, if nothing leads out
// of it.
func TestBridgeInside(t *testing.T) {
	t.Parallel()
	node := newSpace(t)
	node.add(&netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: "mynet"}})
	node.add(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "c1"}, PeerName: "c1-in"})
	node.up("c1")
	node.up("c1-in")
	node.attach("c1", "mynet")
	node.up("mynet", "10.20.0.1/24")
	from := reach.System{Namespace: node.path}
	c := &reach.Checker{Router: from, Dialer: from}
	r, err := c.CheckRoute(t.Context(), target.Addr())
	require.NoError(t, err)
	require.Equal(t, []classify.Cause{classify.RouteOverlap}, causes(r), "%+v", r.Route)
	assert.Equal(t, "mynet", r.Findings()[0].Fact(classify.FactInterface))

	// With a port that leads out, it is an ordinary network.
	for _, uplink := range []netlink.Link{
		&netlink.Vxlan{LinkAttrs: netlink.LinkAttrs{Name: "uplink"}, VxlanId: 7, Port: 4789},
		&netlink.Gretap{LinkAttrs: netlink.LinkAttrs{Name: "uplink"}, Local: []byte{10, 20, 0, 1}, Remote: []byte{10, 20, 0, 9}},
		&netlink.Macvlan{LinkAttrs: netlink.LinkAttrs{Name: "uplink", ParentIndex: linkIndex(node, "c1-in")}},
	} {
		var err error
		node.with(func(h *netlink.Handle) { err = h.LinkAdd(uplink) })
		if err != nil {
			continue // not every kernel has every type
		}
		node.attach("uplink", "mynet")
		r, err = c.CheckRoute(t.Context(), target.Addr())
		require.NoError(t, err)
		assert.Empty(t, r.Findings())
		return
	}
	t.Log("this kernel has no link that leads out")
}

func linkIndex(s *space, name string) (index int) {
	s.t.Helper()
	s.with(func(h *netlink.Handle) {
		l, err := h.LinkByName(name)
		require.NoError(s.t, err)
		index = l.Attrs().Index
	})
	return index
}

// kube-proxy in IPVS mode gives the node every Service address.
func TestServiceAddressOfTheNode(t *testing.T) {
	t.Parallel()
	node := newSpace(t)
	node.add(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "kube-ipvs0"}, PeerName: "far"})
	node.up("far")
	node.up("kube-ipvs0", "10.20.0.4/32", "10.20.0.5/32")
	from := reach.System{Namespace: node.path}
	c := &reach.Checker{Router: from, Dialer: from}
	r, err := c.CheckRoute(t.Context(), target.Addr())
	require.NoError(t, err)
	require.Equal(t, []classify.Cause{classify.RouteServiceAddress}, causes(r))
	assert.Equal(t, classify.SeverityInfo, r.Findings()[0].Severity)
	assert.True(t, r.Held())

	// Nothing behind it: the refusal is explained.
	r = check(t, c, target)
	require.Equal(t, []classify.Cause{classify.RouteServiceAddress, classify.EndpointConnectionRefused}, causes(r))
	assert.Equal(t, classify.SeverityWarn, r.Findings()[0].Severity)
	assert.Equal(t, "kube-ipvs0", r.Findings()[0].Fact(classify.FactInterface))
	assert.Equal(t, "10.20.0.4/32", r.Findings()[0].Fact(classify.FactPrefix))
}
