package dnscheck

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// Addresses that mean the same everywhere. Google's two are public address space and still lead
// through a private route; sharedAddresses is RFC 6598, between a provider's customers;
// azurePlatform answers inside every Azure network.
var (
	googlePrivate    = netip.MustParsePrefix("199.36.153.8/30")
	googleRestricted = netip.MustParsePrefix("199.36.153.4/30")
	sharedAddresses  = netip.MustParsePrefix("100.64.0.0/10")
	azurePlatform    = netip.MustParseAddr("168.63.129.16")
)

// Why an address cannot be the one of a registry.
const (
	whyUnspecified = "means no host (RFC 1122 section 3.2.1.3, RFC 4291 section 2.5.2)"
	whyMulticast   = "is a multicast address"
	whyBroadcast   = "is the broadcast address"
	whyLinkLocal   = "is link-local and needs an interface, which DNS cannot name"
)

// unusable says why addr cannot be dialled in a pull; "" = it can. Loopback and private addresses
// can.
func unusable(addr netip.Addr) string {
	addr = addr.Unmap()
	switch {
	case addr.IsUnspecified(), addr.Is4() && addr.As4()[0] == 0:
		return whyUnspecified
	case addr.IsMulticast():
		return whyMulticast
	case addr == netip.AddrFrom4([4]byte{255, 255, 255, 255}):
		return whyBroadcast
	case addr.IsLinkLocalUnicast() && addr.Zone() == "":
		return whyLinkLocal
	}
	return ""
}

// isPrivate reports whether packets to addr stay off the internet. The ranges for documentation
// count as public.
func isPrivate(addr netip.Addr) bool {
	addr = addr.Unmap()
	return addr.IsPrivate() || addr.IsLoopback() || addr.IsLinkLocalUnicast() ||
		sharedAddresses.Contains(addr) || googlePrivate.Contains(addr) || googleRestricted.Contains(addr)
}

// allPublic returns addrs if all of them are usable and public, else nil: a public IPv6 address
// beside a private IPv4 one is ordinary.
func allPublic(addrs []netip.Addr) []netip.Addr {
	if slices.ContainsFunc(addrs, func(a netip.Addr) bool { return unusable(a) != "" || isPrivate(a) }) {
		return nil
	}
	return addrs
}

// privateOf returns the addresses of the private ranges (RFC 1918, RFC 4193).
func privateOf(addrs []netip.Addr) []netip.Addr {
	return slices.DeleteFunc(slices.Clone(addrs), func(a netip.Addr) bool { return !a.IsPrivate() })
}

// overlap reports whether a and b have an address in common.
func overlap(a, b []netip.Addr) bool {
	return slices.ContainsFunc(a, func(x netip.Addr) bool { return slices.Contains(b, x) })
}

func sameAddresses(a, b []netip.Addr) bool {
	missing := func(from []netip.Addr) func(netip.Addr) bool {
		return func(x netip.Addr) bool { return !slices.Contains(from, x) }
	}
	return !slices.ContainsFunc(a, missing(b)) && !slices.ContainsFunc(b, missing(a))
}

func ipv4First(addrs []netip.Addr) []netip.Addr {
	order := map[bool]int{true: 0, false: 1}
	slices.SortStableFunc(addrs, func(a, b netip.Addr) int { return order[a.Is4()] - order[b.Is4()] })
	return addrs
}

// joined lists at most eight addresses.
func joined(addrs []netip.Addr) string {
	var texts []string
	for _, a := range addrs[:min(len(addrs), 8)] {
		texts = append(texts, a.String())
	}
	text := strings.Join(texts, ", ")
	if n := len(addrs) - len(texts); n > 0 {
		text = fmt.Sprintf("%s and %d more", text, n)
	}
	return text
}

// Hint is general knowledge about a name or an address in a [Report]. It proves nothing of this
// node.
type Hint struct {
	// Subject is the name or the address.
	Subject string `json:"subject"`
	// Text is a phrase about it.
	Text string `json:"text"`
	// Source is the URL of the document that says so.
	Source string `json:"source"`
}

const maxHints = 8

// The addresses of resolvers that are the same everywhere.
var knownServers = []struct {
	addr         netip.Addr
	text, source string
}{
	{netip.MustParseAddr("127.0.0.53"), "systemd-resolved's stub; see behind for what it forwards to", "https://man7.org/linux/man-pages/man8/systemd-resolved.service.8.html"},
	{netip.MustParseAddr("127.0.0.54"), "systemd-resolved's forwarding stub", "https://man7.org/linux/man-pages/man8/systemd-resolved.service.8.html"},
	{azurePlatform, "Azure's platform resolver; it answers from inside a virtual network only, by the private zones linked to that network", "https://learn.microsoft.com/azure/virtual-network/what-is-ip-address-168-63-129-16"},
	{netip.MustParseAddr("169.254.10.10"), "AKS LocalDNS on the node; a failure here may be that of the server it forwards to", "https://learn.microsoft.com/azure/aks/localdns-custom"},
	{netip.MustParseAddr("169.254.20.10"), "a node-local DNS cache of the cluster, meant for pods", "https://kubernetes.io/docs/tasks/administer-cluster/nodelocaldns/"},
	{netip.MustParseAddr("169.254.25.10"), "Kubespray's node-local DNS cache", "https://github.com/kubernetes-sigs/kubespray/blob/master/docs/advanced/dns-stack.md"},
	{netip.MustParseAddr("169.254.169.253"), "the Amazon-provided resolver of a VPC", "https://docs.aws.amazon.com/vpc/latest/userguide/AmazonDNS-concepts.html"},
	{netip.MustParseAddr("169.254.169.254"), "Google Cloud's metadata server, which is the VPC's resolver", "https://cloud.google.com/compute/docs/internal-dns"},
	{netip.MustParseAddr("100.100.100.100"), "Tailscale's MagicDNS: a VPN client has taken the node's resolver file over", "https://tailscale.com/kb/1081/magicdns"},
}

const (
	googleSource = "https://cloud.google.com/vpc/docs/configure-private-google-access"
	azureSource  = "https://learn.microsoft.com/azure/private-link/private-endpoint-dns"
	acrSource    = "https://learn.microsoft.com/azure/container-registry/container-registry-private-link"
	s3Source     = "https://docs.aws.amazon.com/vpc/latest/privatelink/vpc-endpoints-s3.html"
	ecrSource    = "https://docs.aws.amazon.com/AmazonECR/latest/userguide/vpc-endpoints.html"
)

// What is known of names by their end. Only names that were met are matched; none is made up from
// them.
var knownNames = []struct {
	suffixes     []string
	text, source string
}{
	{[]string{".data.azurecr.io", ".data.azurecr.cn", ".data.azurecr.us"}, "an Azure registry's data endpoint: layers come from it, and its private zone needs a record of its own for it", acrSource},
	{[]string{".azurecr.io"}, "an Azure registry; through a private endpoint it is an alias into privatelink.azurecr.io, and each REGION.data name needs a record there too", acrSource},
	{[]string{".azurecr.cn"}, "an Azure registry; its private zone is privatelink.azurecr.cn", azureSource},
	{[]string{".azurecr.us"}, "an Azure registry; its private zone is privatelink.azurecr.us", azureSource},
	{[]string{".blob.core.windows.net"}, "Azure blob storage, from which an Azure registry without a dedicated data endpoint serves layers; its private zone is privatelink.blob.core.windows.net", azureSource},
	{[]string{".pkg.dev", ".gcr.io"}, "Google's registry; for private access its zone points to private.googleapis.com (199.36.153.8/30) or restricted.googleapis.com (199.36.153.4/30)", googleSource},
}

// hintsFor looks up the nameservers, the name and its addresses.
func hintsFor(nameservers []netip.AddrPort, name string, addrs []netip.Addr) []Hint {
	var all []Hint
	add := func(subject, text, source string) {
		h := Hint{subject, text, source}
		if len(all) < maxHints && !slices.Contains(all, h) {
			all = append(all, h)
		}
	}
	for _, n := range nameservers {
		for _, k := range knownServers {
			if k.addr == n.Addr().Unmap() {
				add(k.addr.String(), k.text, k.source)
			}
		}
	}
	name = lower(name)
	for _, k := range knownNames {
		if slices.ContainsFunc(k.suffixes, func(s string) bool { return strings.HasSuffix(name, s) }) {
			add(name, k.text, k.source)
			break
		}
	}
	if isECR(name) {
		add(name, "an ECR registry; it is private through the endpoints ecr.dkr and ecr.api with private DNS on, and layers come from S3, which needs a gateway of its own", ecrSource)
	}
	if isS3(name) {
		add(name, "an S3 bucket; through a gateway endpoint its addresses stay public, and a route leads them into the private network", s3Source)
	}
	for _, addr := range addrs {
		switch {
		case googlePrivate.Contains(addr):
			add(addr.String(), "private.googleapis.com: reached through a route inside the VPC", googleSource)
		case googleRestricted.Contains(addr):
			add(addr.String(), "restricted.googleapis.com: reached through a route inside the VPC", googleSource)
		}
	}
	return all
}

// isECR recognises ACCOUNT.dkr.ecr.REGION.amazonaws.com and the like.
func isECR(name string) bool {
	_, rest, _ := strings.Cut(name, ".")
	return strings.HasPrefix(rest, "dkr.ecr.") && (strings.HasSuffix(rest, ".amazonaws.com") || strings.HasSuffix(rest, ".amazonaws.com.cn")) ||
		strings.HasPrefix(rest, "dkr-ecr.") && strings.HasSuffix(rest, ".on.aws")
}

// isS3 recognises BUCKET.s3.REGION.amazonaws.com, BUCKET.s3.amazonaws.com and the like.
func isS3(name string) bool {
	return strings.HasSuffix(name, ".amazonaws.com") && (strings.Contains(name, ".s3.") || strings.Contains(name, ".s3-"))
}
