package dnscheck

import (
	"errors"
	"io"
	"io/fs"
	"net/netip"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/pullwalk/pullwalk/classify"
)

// Settings is how the node's files tell a Go program to resolve names.
type Settings struct {
	// Source is the file tree that the files were read from, in words: that of the
	// runtime's process, of the host, of this process. Empty = the tree that was
	// given without a name.
	Source string `json:"source,omitempty"`
	// Views are resolver files that the runtime does not use and that say something
	// else: those of the other sources, and the uplinks of a stub. At most 4.
	Views []View `json:"views,omitempty"`
	// Behind are the servers that a local stub among Nameservers forwards to, as
	// its own state files say, at most 8. Empty = no stub, or its files are not
	// there.
	Behind []Behind `json:"behind,omitempty"`
	// Cluster says that the file looks like one that a kubelet wrote for a pod.
	Cluster bool `json:"cluster,omitempty"`
	// Changed is when the file was last written; zero = not known.
	Changed time.Time `json:"changed,omitzero"`
	// File is where the nameservers come from, "/etc/resolv.conf"; empty = this
	// system keeps no such file and nothing is known.
	File string `json:"file,omitempty"`
	// Nameservers are those that count, in order, at most three; when the file
	// names none, the two that Go asks then, see DefaultNameservers.
	Nameservers []netip.AddrPort `json:"nameservers,omitempty"`
	// DefaultNameservers says that the file is missing or names no usable
	// nameserver, so that 127.0.0.1 and ::1 are asked.
	DefaultNameservers bool `json:"defaultNameservers,omitempty"`
	// Ignored are nameserver lines that are never asked: after the third, or not
	// an IP address. At most 16.
	Ignored []string `json:"ignored,omitempty"`
	// Search is the search list without trailing dots, at most 32. When the file
	// has none it is the domain of the node's own name, as for Go, taken from
	// /etc/hostname.
	Search []string `json:"search,omitempty"`
	// NDots is the number of dots from which on a name is asked as it stands
	// first; 1 unless set.
	NDots int `json:"ndots"`
	// Attempts is how often the list of nameservers is gone through; 2 unless set.
	Attempts int `json:"attempts"`
	// TimeoutMS is what the runtime waits for one answer; 5000 unless set.
	TimeoutMS int64 `json:"timeoutMs"`
	// Rotate says that lookups start at changing nameservers ("options rotate").
	// A report describes one that starts at the first.
	Rotate bool `json:"rotate,omitempty"`
	// SingleRequest says that A and AAAA are asked one after the other.
	SingleRequest bool `json:"singleRequest,omitempty"`
	// UseTCP says that the nameservers are asked over TCP only ("options use-vc").
	UseTCP bool `json:"useTcp,omitempty"`
	// NoReload says that the runtime reads the file once, when it starts ("options
	// no-reload"); without it Go looks at it again every 5 s.
	NoReload bool `json:"noReload,omitempty"`
	// LeftToCLibrary are the words in resolv.conf and nsswitch.conf for which a
	// runtime that was built with cgo leaves lookups to the C library (conf.go), at
	// most 8. Empty = none; a runtime without cgo passes over them.
	LeftToCLibrary []string `json:"leftToCLibrary,omitempty"`
	// Order is where names are looked up: "files" (the hosts file) and "dns", one
	// of them or both.
	Order []string `json:"order,omitempty"`
	// HostsFirst says that Order begins with the hosts file.
	HostsFirst bool `json:"hostsFirst"`
	// Hosts are the lines of the hosts file, at most 10000. Nil in a [Report],
	// which holds only those that match.
	Hosts []HostsEntry `json:"hosts,omitempty"`
	// Problems says what could not be read or understood, in sentences, at most
	// 32. Empty = all was read. A missing nsswitch.conf or hosts file is none.
	Problems []string `json:"problems,omitempty"`

	unknown     string // why the nameservers are not known; "" = they are
	hostsUnread bool   // a hosts file is there that could not be read
	nss         string // the hosts line of nsswitch.conf, for the C library
}

// ReadSettings reads /etc/resolv.conf, /etc/nsswitch.conf and /etc/hosts, as far
// as they are there, from a file tree whose root is the node's. It never fails:
// what could not be read is said in [Settings.Problems]. nil = this machine,
// see [SourcesAt]; there the files are read on Unix only.
//
// Symbolic links are followed by fsys alone; a tree under a mounted host root has
// to keep absolute ones inside of it.
func ReadSettings(fsys fs.FS) Settings {
	if fsys == nil {
		return ReadSettingsFrom(machine())
	}
	return ReadSettingsFrom([]Source{{FS: fsys}})
}

// ReadSettingsFrom is [ReadSettings] for several trees: the first that can be
// read counts, the others become [Settings.Views].
func ReadSettingsFrom(sources []Source) Settings {
	f := readFiles(sources)
	s := f.settings
	s.Hosts = parseHosts(f.hosts, &s.Problems, maxHostsEntries, func([]string) bool { return true })
	date(s.Hosts, f.hostsChanged)
	return s
}

func date(entries []HostsEntry, changed time.Time) {
	for i := range entries {
		entries[i].Changed = changed
	}
}

// files are settings with the hosts file still unread, so that a lookup need not
// build what it does not want.
type files struct {
	settings     Settings
	hosts        []byte
	hostsChanged time.Time
	routes6      []byte // /proc/net/ipv6_route; nil = not known
}

func readFiles(sources []Source) files {
	if len(sources) == 0 {
		reason := "resolver settings are not kept in files on " + runtime.GOOS
		return files{settings: Settings{Problems: []string{reason}, unknown: reason}}
	}
	var problems []string
	chosen := len(sources) - 1
	for i, src := range sources {
		// Only a tree that cannot be entered is passed over: a missing file in it is
		// what the runtime finds, too.
		if _, err := fs.Stat(src.FS, "etc"); err == nil || i == chosen || errors.Is(err, fs.ErrNotExist) {
			chosen = i
			break
		} else {
			problems = addProblem(problems, src.Name, 0, "could not be read: "+classify.Redact(err.Error(), 256))
		}
	}
	src := sources[chosen]
	f := readTree(src.FS, problems)
	f.settings.Source = classify.Redact(src.Name, maxNameText)
	f.settings.Cluster = f.settings.looksLikePod()
	for i, other := range sources {
		if i != chosen && len(f.settings.Views) < maxViews {
			if v, ok := viewOf(other); ok && !(slices.Equal(v.Nameservers, f.settings.Nameservers) && slices.Equal(v.Search, f.settings.Search)) {
				f.settings.Views = append(f.settings.Views, v)
			}
		}
	}
	f.settings.followStub(src.FS)
	return f
}

func readTree(fsys fs.FS, problems []string) files {
	resolv, changed, err := readFile(fsys, resolvConfFile, &problems)
	unknown := ""
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		// Whether the runtime can read it is not known: its defaults are no answer.
		unknown = problems[len(problems)-1]
	}
	s := parseResolvConf(resolv, nodeDomain(fsys))
	s.unknown, s.Changed = unknown, changed
	if unknown != "" {
		s.Nameservers, s.DefaultNameservers = nil, false
	}
	s.Problems = append(problems, s.Problems...)

	nss, _, _ := readFile(fsys, nsswitchFile, &s.Problems)
	s.Order = parseNSSwitch(nss, &s.Problems)
	s.HostsFirst = s.Order[0] == sourceFiles
	s.nss = nssHosts(nss)
	if sources, ok := nssSources(s.nss); ok {
		for _, source := range sources {
			if source != sourceFiles && source != sourceDNS && source != "myhostname" && !strings.HasPrefix(source, "mdns") {
				s.leave(nsswitchFile + ": " + shown(source))
			}
		}
	}

	hosts, hostsChanged, err := readFile(fsys, hostsFile, &s.Problems)
	s.hostsUnread = err != nil && !errors.Is(err, fs.ErrNotExist)
	routes, _, err := readBounded(fsys, "proc/net/ipv6_route")
	if err != nil {
		routes = nil
	} else if routes == nil {
		routes = []byte{}
	}
	return files{s, hosts, hostsChanged, routes}
}

var errNotRegular = errors.New("not a regular file")

const maxLeft = 8

func (s *Settings) leave(why string) {
	if len(s.LeftToCLibrary) < maxLeft && !slices.Contains(s.LeftToCLibrary, why) {
		s.LeftToCLibrary = append(s.LeftToCLibrary, why)
	}
}

// readFile reads at most maxFile bytes of a regular file (a pipe would block for
// ever). A missing resolv.conf is said, other missing files are ordinary.
func readFile(fsys fs.FS, file string, problems *[]string) ([]byte, time.Time, error) {
	var changed time.Time
	if info, err := fs.Stat(fsys, strings.TrimPrefix(file, "/")); err == nil {
		changed = info.ModTime().UTC()
	}
	data, more, err := readBounded(fsys, strings.TrimPrefix(file, "/"))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if file == resolvConfFile {
			*problems = addProblem(*problems, file, 0, "does not exist")
		}
	case err != nil:
		*problems = addProblem(*problems, file, 0, "could not be read: "+classify.Redact(err.Error(), 256))
	case more:
		*problems = addProblem(*problems, file, 0, "is larger than 1 MiB; only the beginning was read")
	}
	return data, changed, err
}

func readBounded(fsys fs.FS, path string) (data []byte, more bool, err error) {
	info, err := fs.Stat(fsys, path)
	if err != nil {
		return nil, false, err
	}
	if !info.Mode().IsRegular() {
		return nil, false, errNotRegular
	}
	f, err := fsys.Open(path)
	if err != nil {
		return nil, false, err
	}
	defer f.Close()
	data, err = io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, false, err
	}
	if len(data) > maxFile {
		return data[:maxFile], true, nil
	}
	return data, false, nil
}

// nodeDomain is what follows the first dot of the node's own name, the search
// list of Go when the file has none; "" = none, or not readable.
func nodeDomain(fsys fs.FS) string {
	data, _, err := readBounded(fsys, "etc/hostname")
	if err != nil {
		return ""
	}
	name, _, _ := strings.Cut(string(data), "\n")
	_, domain, _ := strings.Cut(strings.TrimSpace(name), ".")
	return domain
}
