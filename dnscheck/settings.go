package dnscheck

import (
	"net/netip"
	"slices"
	"time"
)

// Settings is how the node's files tell a Go program to resolve names.
type Settings struct {
	// Source says in words which file tree was read: that of the runtime's process, of the host, of
	// this process. Empty = a tree that was given without a name.
	Source string `json:"source,omitempty"`
	// Views are resolver files that the runtime does not use and that differ: those of the other
	// sources, and the uplinks of a stub. At most 4.
	Views []View `json:"views,omitempty"`
	// Behind are the upstreams of a local stub among Nameservers, from its own state files, at most
	// 8. Empty = no stub, or no such files.
	Behind []Behind `json:"behind,omitempty"`
	// Cluster says that the file looks like one that a kubelet wrote for a pod.
	Cluster bool `json:"cluster,omitempty"`
	// Changed is when the file was last written; zero = not known.
	Changed time.Time `json:"changed,omitzero"`
	// File is where the nameservers come from, "/etc/resolv.conf"; empty = this system keeps no
	// such file and nothing is known.
	File string `json:"file,omitempty"`
	// Nameservers are those that count, in order, at most three.
	Nameservers []netip.AddrPort `json:"nameservers,omitempty"`
	// DefaultNameservers says that the file is missing or names no usable nameserver, so that
	// Nameservers are 127.0.0.1 and ::1.
	DefaultNameservers bool `json:"defaultNameservers,omitempty"`
	// Ignored are nameserver lines that are never asked: after the third, or not an IP address. At
	// most 16.
	Ignored []string `json:"ignored,omitempty"`
	// Search is the search list without trailing dots, at most 32. Without one in the file it is
	// the domain in /etc/hostname, as for Go.
	Search []string `json:"search,omitempty"`
	// NDots is the number of dots from which on a name is asked as it stands first; 1 unless set.
	NDots int `json:"ndots"`
	// Attempts is how often the list of nameservers is gone through; 2 unless set.
	Attempts int `json:"attempts"`
	// TimeoutMS is how long the runtime waits for one answer, in milliseconds; 5000 unless set.
	TimeoutMS int64 `json:"timeoutMs"`
	// Rotate says that lookups start at changing nameservers ("options rotate"). A report describes
	// one that starts at the first.
	Rotate bool `json:"rotate,omitempty"`
	// SingleRequest says that A and AAAA are asked one after the other.
	SingleRequest bool `json:"singleRequest,omitempty"`
	// UseTCP says that the nameservers are asked over TCP only ("options use-vc").
	UseTCP bool `json:"useTcp,omitempty"`
	// NoReload says that the runtime reads the file only when it starts ("options no-reload");
	// without it Go looks at it again every 5 s.
	NoReload bool `json:"noReload,omitempty"`
	// LeftToCLibrary are the words in resolv.conf and nsswitch.conf for which a runtime built with
	// cgo leaves lookups to the C library (conf.go), at most 8. Empty = none; a runtime without cgo
	// passes over them.
	LeftToCLibrary []string `json:"leftToCLibrary,omitempty"`
	// Order is where names are looked up: "files" (the hosts file) and "dns", one of them or both.
	Order []string `json:"order,omitempty"`
	// HostsFirst says that Order begins with the hosts file.
	HostsFirst bool `json:"hostsFirst"`
	// Hosts are the lines of the hosts file, at most 10000. Nil in a [Report], which holds only
	// those that match.
	Hosts []HostsEntry `json:"hosts,omitempty"`
	// Problems says in sentences what could not be read or understood, at most 32. A missing
	// nsswitch.conf or hosts file is none.
	Problems []string `json:"problems,omitempty"`

	unknown     string // why the nameservers are not known; "" = they are
	hostsUnread bool   // there is a hosts file that could not be read
	nss         string // the hosts line of nsswitch.conf, for the C library
	routes6     []byte // /proc/net/ipv6_route; nil = not known
}

// View is what one resolver file says that the runtime does not use.
type View struct {
	// Source is the tree, as [Settings.Source].
	Source string `json:"source,omitempty"`
	// File is its path in that tree.
	File string `json:"file"`
	// Nameservers are as in [Settings], at most 3.
	Nameservers []netip.AddrPort `json:"nameservers,omitempty"`
	// Search is as in [Settings], at most 32.
	Search []string `json:"search,omitempty"`
}

// Behind is an upstream: a server that a local stub forwards to.
type Behind struct {
	// Server is where it listens.
	Server netip.AddrPort `json:"server"`
	// Link is the network interface it belongs to, by name where that is known, else by number;
	// empty = all.
	Link string `json:"link,omitempty"`
	// Domains are those that go to this link; "~" before one means that it only routes, and "~." is
	// everything. Empty = not said.
	Domains []string `json:"domains,omitempty"`
	// File is where this stands.
	File string `json:"file"`
}

// HostsEntry is one line of a hosts file.
type HostsEntry struct {
	// Address is the first word of the line.
	Address netip.Addr `json:"address"`
	// Names are the names of the line as written, at most 16.
	Names []string `json:"names,omitempty"`
	// File is the hosts file.
	File string `json:"file"`
	// Line counts from 1.
	Line int `json:"line"`
	// Changed is when the file was last written; zero = not known. The line itself may be older.
	Changed time.Time `json:"changed,omitzero"`
}

const (
	resolvConfFile = "/etc/resolv.conf"
	nsswitchFile   = "/etc/nsswitch.conf"
	hostsFile      = "/etc/hosts"

	sourceFiles = "files"
	sourceDNS   = "dns"

	dnsPort        = 53
	maxNameservers = 3 // resolv.conf(5), MAXNS; Go keeps the same limit
	maxViews       = 4
	maxBehind      = 8
	maxLeft        = 8
)

func (s *Settings) usesDNS() bool { return slices.Contains(s.Order, sourceDNS) }

// leaveToC notes a word for which Go leaves the lookup to the C library.
func (s *Settings) leaveToC(why string) {
	if len(s.LeftToCLibrary) < maxLeft && !slices.Contains(s.LeftToCLibrary, why) {
		s.LeftToCLibrary = append(s.LeftToCLibrary, why)
	}
}
