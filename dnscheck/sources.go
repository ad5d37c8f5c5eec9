package dnscheck

import (
	"fmt"
	"io/fs"
	"net/netip"
	"runtime"
	"slices"
	"strings"

	"github.com/pullwalk/pullwalk/internal/nodefs"
	"github.com/pullwalk/pullwalk/internal/noderuntime"
)

const maxViews = 4

// Source is a file tree from which resolver files can be read.
type Source struct {
	// Name says whose tree it is, in words: "runtime containerd (process 812)".
	Name string
	FS   fs.FS
}

// View is what one resolver file says, without being asked.
type View struct {
	// Source is the tree, as [Settings.Source]; File is its path in that tree.
	Source string `json:"source,omitempty"`
	File   string `json:"file"`
	// Nameservers and Search are as in [Settings], at most 3 and 32.
	Nameservers []netip.AddrPort `json:"nameservers,omitempty"`
	Search      []string         `json:"search,omitempty"`
}

// SourcesAt lists the trees in which the runtime's resolver files may stand, the
// nearest to the runtime first: the mount namespace of its process, found in the
// proc directory below root, then root itself. root is where the node's file tree
// is mounted; "" or "/" = this machine. It is empty where settings are not kept in
// files, and where root cannot be read.
//
// A runtime may live in a mount namespace of its own (a snap, a container, a
// virtual machine's guest), and then reads another resolv.conf than the host.
// Reading it takes the rights of a debugger of that process, proc_pid_root(5);
// without them the host's files count, and [Settings.Problems] says nothing: the
// process was then not seen either.
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

func machine() []Source { return SourcesAt("") }

// viewOf reads what another tree says; false = nothing.
func viewOf(src Source) (View, bool) {
	data, _, err := readBounded(src.FS, strings.TrimPrefix(resolvConfFile, "/"))
	if err != nil {
		return View{}, false
	}
	s := parseResolvConf(data, "")
	return View{src.Name, resolvConfFile, s.Nameservers, s.Search}, true
}

// looksLikePod recognises what a kubelet writes for a pod with dnsPolicy
// ClusterFirst: NAMESPACE.svc.DOMAIN and svc.DOMAIN in the search list.
func (s *Settings) looksLikePod() bool {
	for _, d := range s.Search {
		if d != "svc" && !strings.HasPrefix(d, "svc.") {
			continue
		}
		if slices.ContainsFunc(s.Search, func(other string) bool { return strings.HasSuffix(other, "."+d) }) {
			return true
		}
	}
	return false
}
