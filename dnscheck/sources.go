package dnscheck

import (
	"errors"
	"fmt"
	"io/fs"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/pullwalk/pullwalk/classify"
	"github.com/pullwalk/pullwalk/internal/nodefs"
	"github.com/pullwalk/pullwalk/internal/noderuntime"
)

// Source is a file tree from which resolver files can be read.
type Source struct {
	// Name says in words whose tree it is: "runtime containerd (process 812)".
	Name string
	// FS is the tree, its root the node's. Symbolic links are followed by FS alone: a tree under a
	// mounted host root has to keep absolute ones inside of itself.
	FS fs.FS
}

// SourcesAt lists the trees in which the runtime's resolver files may stand, the nearest to the
// runtime first: the mount namespace of its process, found in the proc directory below root, then
// root itself. root is where the node's file tree is mounted; "" or "/" = this machine. It is empty
// where settings are not kept in files (Windows), and where root cannot be read.
//
// A runtime may live in a mount namespace of its own (a snap, a container, a virtual machine's
// guest) and then reads another resolv.conf than the host. Reading it takes the rights of a
// debugger of that process, proc_pid_root(5); without them the host's files count, and nothing says
// so: the process was not seen either.
func SourcesAt(root string) []Source {
	switch runtime.GOOS {
	case "windows", "plan9", "js", "wasip1":
		if root == "" {
			return nil
		}
	}
	name := "host root " + root
	if root == "" || root == "/" {
		root, name = "/", "this machine"
	}
	tree, err := nodefs.New(root)
	if err != nil {
		return nil
	}
	var sources []Source
	if rt, ok := noderuntime.Find(tree); ok {
		if own, err := rt.Root(tree, root); err == nil {
			sources = append(sources, Source{fmt.Sprintf("runtime %s (process %d)", rt.Name, rt.PID), own})
		}
	}
	return append(sources, Source{name, tree})
}

// ReadSettings reads /etc/resolv.conf, /etc/nsswitch.conf and /etc/hosts, as far as they are there,
// from the first of the trees that can be read; the others become [Settings.Views]. It never fails:
// what could not be read is in [Settings.Problems].
func ReadSettings(sources []Source) Settings {
	return readSettings(sources, maxHostsEntries, func([]string) bool { return true })
}

// readSettings reads the lines of the hosts file that keep wants, at most limit.
func readSettings(sources []Source, limit int, keep func(names []string) bool) Settings {
	if len(sources) == 0 {
		reason := "resolver settings are not kept in files on " + runtime.GOOS
		return Settings{Problems: []string{reason}, unknown: reason}
	}
	var problems []string
	chosen := 0
	for ; chosen < len(sources)-1; chosen++ {
		// Only a tree that cannot be entered is passed over: a missing file in it is what the
		// runtime finds, too.
		_, err := fs.Stat(sources[chosen].FS, "etc")
		if err == nil || errors.Is(err, fs.ErrNotExist) {
			break
		}
		addProblem(&problems, sources[chosen].Name, 0, "could not be read: "+classify.Redact(err.Error(), 256))
	}
	src := sources[chosen]
	s, hosts, changed := readTree(src.FS, problems)
	s.Source = classify.Redact(src.Name, maxNameText)
	s.Cluster = looksLikePod(s.Search)
	for i, other := range sources {
		if i == chosen || len(s.Views) == maxViews {
			continue
		}
		if data, _, err := readBounded(other.FS, strings.TrimPrefix(resolvConfFile, "/")); err == nil {
			v := parseResolvConf(data, "")
			if !slices.Equal(v.Nameservers, s.Nameservers) || !slices.Equal(v.Search, s.Search) {
				s.Views = append(s.Views, View{other.Name, resolvConfFile, v.Nameservers, v.Search})
			}
		}
	}
	s.followStub(src.FS)
	s.Hosts = parseHosts(hosts, &s.Problems, limit, keep)
	for i := range s.Hosts {
		s.Hosts[i].Changed = changed
	}
	return s
}

func readTree(fsys fs.FS, problems []string) (s Settings, hosts []byte, hostsChanged time.Time) {
	resolv, changed, err := readFile(fsys, resolvConfFile, &problems)
	s = parseResolvConf(resolv, nodeDomain(fsys))
	s.Changed = changed
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		// Whether the runtime can read it is not known: its defaults are no answer.
		s.unknown = problems[len(problems)-1]
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
				s.leaveToC(nsswitchFile + ": " + shown(source))
			}
		}
	}

	hosts, hostsChanged, err = readFile(fsys, hostsFile, &s.Problems)
	s.hostsUnread = err != nil && !errors.Is(err, fs.ErrNotExist)
	if routes, _, err := readBounded(fsys, "proc/net/ipv6_route"); err == nil {
		s.routes6 = append([]byte{}, routes...) // empty, not nil: known to hold none
	}
	return s, hosts, hostsChanged
}

// nodeDomain is what follows the first dot of the node's own name, the search list of Go when the
// file has none; "" = none, or not readable.
func nodeDomain(fsys fs.FS) string {
	data, _, err := readBounded(fsys, "etc/hostname")
	if err != nil {
		return ""
	}
	name, _, _ := strings.Cut(string(data), "\n")
	_, domain, _ := strings.Cut(strings.TrimSpace(name), ".")
	return domain
}

// looksLikePod recognises the search list that a kubelet writes for a pod with dnsPolicy
// ClusterFirst: NAMESPACE.svc.DOMAIN and svc.DOMAIN.
func looksLikePod(search []string) bool {
	for _, d := range search {
		if (d == "svc" || strings.HasPrefix(d, "svc.")) &&
			slices.ContainsFunc(search, func(other string) bool { return strings.HasSuffix(other, "."+d) }) {
			return true
		}
	}
	return false
}
