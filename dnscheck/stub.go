package dnscheck

import (
	"io/fs"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

const (
	maxLinks   = 64
	maxDomains = 16
)

// The stub addresses of systemd-resolved (systemd-resolved.service(8)); 127.0.0.54 forwards without
// answering itself.
var resolvedStubs = []netip.Addr{netip.MustParseAddr("127.0.0.53"), netip.MustParseAddr("127.0.0.54")}

// Files that list the upstreams of a stub: that of systemd-resolved.service(8) for programs that
// want the uplinks, and NetworkManager's when a local dnsmasq stands before them
// (NetworkManager.conf(5)).
const (
	resolvedUplinks = "/run/systemd/resolve/resolv.conf"
	managerUplinks  = "/run/NetworkManager/no-stub-resolv.conf"
)

// Where systemd keeps the settings per link: of systemd-resolved (set over its bus, as VPN clients
// do) and of systemd-networkd (from its files or a lease). The formats are private to systemd; what
// is not understood is skipped.
var linkDirs = []string{"/run/systemd/resolve/netif", "/run/systemd/netif/links"}

// followStub fills in the upstreams when the runtime asks a stub on this machine.
func (s *Settings) followStub(fsys fs.FS) {
	var stubs []netip.Addr
	for _, n := range s.Nameservers {
		if a := n.Addr().Unmap(); a.IsLoopback() {
			stubs = append(stubs, a)
		}
	}
	if s.DefaultNameservers || len(stubs) == 0 {
		return
	}
	resolved, file := overlap(stubs, resolvedStubs), managerUplinks
	if resolved {
		file = resolvedUplinks
	}
	if data, _, err := readBounded(fsys, strings.TrimPrefix(file, "/")); err == nil {
		up := parseUplinks(data)
		if len(s.Views) < maxViews && len(up.Nameservers) > 0 {
			s.Views = append(s.Views, View{s.Source, file, up.Nameservers[:min(len(up.Nameservers), maxNameservers)], up.Search})
		}
		for _, server := range up.Nameservers {
			s.addBehind(Behind{Server: server, File: file})
		}
	}
	if resolved {
		s.readLinks(fsys)
	}
}

// parseUplinks is parseResolvConf without the limit of three: no resolver reads this file.
func parseUplinks(data []byte) Settings {
	s := parseResolvConf(data, "")
	if s.DefaultNameservers {
		s.Nameservers = nil
	}
	for _, text := range s.Ignored {
		if addr, err := netip.ParseAddr(text); err == nil && len(s.Nameservers) < maxBehind {
			s.Nameservers = append(s.Nameservers, netip.AddrPortFrom(addr, dnsPort))
		}
	}
	return s
}

func (s *Settings) addBehind(b Behind) {
	if b.Server.Addr().Unmap().IsLoopback() {
		return // it would ask itself
	}
	for i := range s.Behind {
		if s.Behind[i].Server == b.Server {
			if s.Behind[i].Link == "" {
				s.Behind[i].Link, s.Behind[i].Domains, s.Behind[i].File = b.Link, b.Domains, b.File
			}
			return
		}
	}
	if len(s.Behind) < maxBehind {
		s.Behind = append(s.Behind, b)
	}
}

func (s *Settings) readLinks(fsys fs.FS) {
	for _, dir := range linkDirs {
		path := strings.TrimPrefix(dir, "/")
		entries, err := fs.ReadDir(fsys, path)
		if err != nil {
			continue
		}
		for _, e := range entries[:min(len(entries), maxLinks)] {
			index, err := strconv.Atoi(e.Name())
			if err != nil {
				continue
			}
			data, _, err := readBounded(fsys, path+"/"+e.Name())
			if err != nil {
				continue
			}
			servers, domains := parseLink(data)
			link := linkName(fsys, index)
			for _, server := range servers {
				s.addBehind(Behind{server, link, domains, dir + "/" + e.Name()})
			}
		}
	}
}

// parseLink reads "DNS=10.20.0.4 fe80::1%2" and the like: SERVERS and DOMAINS of systemd-resolved,
// DNS, DOMAINS and ROUTE_DOMAINS of systemd-networkd. A server may carry a port, an interface and
// the name in its certificate.
func parseLink(data []byte) (servers []netip.AddrPort, domains []string) {
	for line := range lines(data, nil, "") {
		key, value, _ := strings.Cut(line.text, "=")
		switch key {
		case "DNS", "SERVERS":
			for _, text := range fields(value) {
				text, _, _ = strings.Cut(text, "#")
				if n, ok := parseServer(text); ok && len(servers) < maxBehind {
					servers = append(servers, n)
				}
			}
		case "DOMAINS", "ROUTE_DOMAINS":
			for _, text := range fields(value) {
				routes := key == "ROUTE_DOMAINS" || strings.HasPrefix(text, "~")
				text = strings.TrimSuffix(strings.TrimPrefix(text, "~"), ".")
				if text != "" && checkDomain(text) != nil || len(domains) == maxDomains {
					continue
				}
				switch {
				case text == "":
					text = "~."
				case routes:
					text = "~" + text
				}
				if !slices.Contains(domains, text) {
					domains = append(domains, text)
				}
			}
		}
	}
	return servers, domains
}

func parseServer(text string) (netip.AddrPort, bool) {
	if addr, err := netip.ParseAddr(text); err == nil {
		return netip.AddrPortFrom(addr, dnsPort), true
	}
	if n, err := netip.ParseAddrPort(text); err == nil && n.Port() != 0 {
		return n, true
	}
	// "10.20.0.4%eth0", which only IPv6 addresses may carry elsewhere.
	text, _, _ = strings.Cut(text, "%")
	addr, err := netip.ParseAddr(text)
	return netip.AddrPortFrom(addr, dnsPort), err == nil
}

// linkName finds the name of an interface in /sys; else it is its number.
func linkName(fsys fs.FS, index int) string {
	number := strconv.Itoa(index)
	entries, err := fs.ReadDir(fsys, "sys/class/net")
	if err != nil {
		return number
	}
	for _, e := range entries[:min(len(entries), maxLinks)] {
		data, _, err := readBounded(fsys, "sys/class/net/"+e.Name()+"/ifindex")
		if err == nil && strings.TrimSpace(string(data)) == number {
			return shown(e.Name())
		}
	}
	return number
}

// ownsSuffix reports whether a link's domains send name to it.
func (b *Behind) ownsSuffix(name string) bool {
	return slices.ContainsFunc(b.Domains, func(d string) bool {
		d = strings.ToLower(strings.TrimPrefix(d, "~"))
		_, ok := below(lower(name), d)
		return ok && d != "."
	})
}
