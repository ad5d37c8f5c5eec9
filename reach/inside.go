package reach

import (
	"fmt"
	"net"
	"net/netip"
	"strings"

	"github.com/pullwalk/pullwalk/classify"
)

// Range is a network that exists only inside a cluster or a node.
type Range struct {
	Prefix netip.Prefix `json:"prefix"`
	// Name says what it is, for people: "pod range", "service range".
	Name string `json:"name"`
	// Service marks a range of Service addresses, which every node answers itself.
	Service bool `json:"service,omitempty"`
}

// inside says that dst lies in a network inside this machine, so that its
// packets never leave it; false if nothing speaks for that.
//
// It judges a route that works: the address of a registry on the node itself is
// legitimate, and so is one on the node's own network. So loopback addresses
// and ordinary interfaces are not findings, and none of them fails by itself.
func inside(ranges []Range, router Router, route Route, dst netip.Addr, endpoint string) (classify.Finding, bool) {
	if dst.IsLoopback() || !route.Usable() {
		return classify.Finding{}, false
	}
	facts := []classify.Fact{{Key: classify.FactAddress, Value: dst.String()}, {Key: classify.FactRoute, Value: string(route.Kind)}}
	finding := func(cause classify.Cause, certainty classify.Certainty, summary string) (classify.Finding, bool) {
		f := classify.New(cause, summary, facts...)
		f.Endpoint, f.Severity, f.Certainty = endpoint, classify.SeverityWarn, certainty
		if route.Kind == RouteLocal {
			f.Severity = classify.SeverityInfo // as meant, where a registry runs on the node
		}
		return route.addFacts(f), true
	}
	for _, r := range ranges {
		if !r.Prefix.IsValid() || !r.Prefix.Contains(dst) {
			continue
		}
		facts = append(facts, classify.Fact{Key: classify.FactPrefix, Value: r.Prefix.String()})
		name := classify.Redact(r.Name, 64)
		if r.Service {
			return finding(classify.RouteServiceAddress, classify.CertaintyLikely,
				fmt.Sprintf("%v lies in the %s %v: this node answers for it itself, whatever is behind it elsewhere", dst, name, r.Prefix))
		}
		return finding(classify.RouteOverlap, classify.CertaintyLikely,
			fmt.Sprintf("%v lies in the %s %v of this cluster, so its packets may never leave the node", dst, name, r.Prefix))
	}
	switch {
	case route.Kind == RouteLocal:
		holder, prefix := holderOf(router, dst)
		if holder == "" {
			return classify.Finding{}, false // known from the caller's Router alone
		}
		facts = append(facts, classify.Fact{Key: classify.FactInterface, Value: holder}, classify.Fact{Key: classify.FactPrefix, Value: prefix.String()})
		if holder == "kube-ipvs0" || holder == "nodelocaldns" {
			return finding(classify.RouteServiceAddress, classify.CertaintyProven,
				fmt.Sprintf("%v is a Service address that this node holds itself on %s", dst, holder))
		}
		return finding(classify.RouteLocalAddress, classify.CertaintyProven,
			fmt.Sprintf("%v is an address of this machine itself, on %s, so packets to it never leave", dst, holder))
	case route.OnLink && innerInterface(router, route.Interface):
		return finding(classify.RouteOverlap, classify.CertaintyLikely,
			fmt.Sprintf("packets to %v go to %s, a network inside this machine, instead of its uplink", dst, route.Interface))
	}
	return classify.Finding{}, false
}

// innerInterface reports whether only containers or virtual machines of this
// machine are behind an interface: by the names that Docker, CNI plugins, libvirt
// and LXC give, and on Linux by what the interface is.
func innerInterface(router Router, name string) bool {
	if innerName(name) {
		return true
	}
	inner := false
	if namespace, own := routerNamespace(router); own {
		_ = inNamespace(namespace, func() error { // not seen = not said
			inner = innerLink(name)
			return nil
		})
	}
	return inner
}

// routerNamespace returns the namespace that the routes come from; false if they
// come from the caller's own Router, whose machine need not be this one.
func routerNamespace(router Router) (string, bool) {
	switch r := router.(type) {
	case nil:
		return "", true
	case System:
		return r.Namespace, true
	case *System:
		return r.Namespace, true
	}
	return "", false
}

// innerName goes by the name alone. A bridge that carries the uplink ("br0",
// "vmbr0") has another.
func innerName(name string) bool {
	switch name {
	case "docker0", "docker_gwbridge", "cni0", "cbr0", "kube-bridge", "weave", "lxcbr0", "lxdbr0", "podman0", "kube-ipvs0":
		return true
	}
	for _, prefix := range []string{"br-", "virbr", "cni-podman", "podman", "cali", "lxc", "azv", "flannel", "vxlan.calico", "tunl", "cilium_"} {
		if strings.HasPrefix(name, prefix) {
			return name != "br-ex" // the uplink of OpenShift's OVN
		}
	}
	return false
}

// holderOf returns the interface of this machine that holds addr, "" if none does
// or it cannot be seen.
func holderOf(router Router, addr netip.Addr) (name string, prefix netip.Prefix) {
	if namespace, own := routerNamespace(router); own {
		_ = inNamespace(namespace, func() error { // not seen = not said
			name, prefix = ownerOf(addr)
			return nil
		})
	}
	return name, prefix
}

func ownerOf(addr netip.Addr) (string, netip.Prefix) {
	links, err := net.Interfaces()
	if err != nil {
		return "", netip.Prefix{}
	}
	for _, link := range links {
		addrs, err := link.Addrs()
		if err != nil {
			continue
		}
		for _, a := range addrs {
			ipNet, ok := a.(*net.IPNet)
			if !ok {
				continue
			}
			own, ok := netip.AddrFromSlice(ipNet.IP)
			if !ok || own.Unmap() != addr {
				continue
			}
			ones, _ := ipNet.Mask.Size()
			return link.Name, netip.PrefixFrom(own.Unmap(), ones)
		}
	}
	return "", netip.Prefix{}
}
