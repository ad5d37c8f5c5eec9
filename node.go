package pullwalk

import (
	"crypto/x509"
	"fmt"
	"io/fs"
	"net/url"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/pullwalk/pullwalk/dnscheck"
	"github.com/pullwalk/pullwalk/internal/noderuntime"
	"github.com/pullwalk/pullwalk/reach"
)

// Node is the view of the machine that pulls: everything that a diagnosis takes
// from it. The zero Node is this machine, in this process's network namespace.
type Node struct {
	// FS is the node's file tree: resolver settings, hosts file, roots, runtime
	// configuration. nil = this machine's.
	FS     fs.FS
	Router reach.Router // nil = the kernel of this machine
	// Dialer opens every TCP connection. nil = from this process. Whether silence is a
	// matter of packet size is asked only of one that has a DialSegment, too,
	// as the default is.
	Dialer reach.Dialer
	DNS    dnscheck.Exchanger // nil = UDP and TCP from this process
	// Roots are the trusted roots. nil = read from FS the way the runtime does, once
	// in a call. A pool given here serves any number of calls without being read
	// again; it is then not known which file a root came from, nor since when.
	Roots *x509.CertPool
	// Proxy chooses the proxy of a URL. nil = by [RuntimeHint].Environ, else by the
	// environment of the runtime's process where it can be read in FS (docker's
	// daemon.json goes before either). Without any of these the zero Node takes the
	// environment of this process; one with an FS, or of [HostNode], takes no proxy.
	// The proxy is spoken to as net/http does, for
	// http, https, socks5 and socks5h; user information in its URL goes to the proxy
	// alone, and in the clear where its scheme has no TLS, as the runtime sends it.
	Proxy func(*url.URL) (*url.URL, error)
	// Now judges certificates; nil = time.Now. Limits run on real time.
	Now func() time.Time
	// Labels (node name, pool, zone) are copied to the Vantage. [LabelNode] is the
	// name by which the cluster knows the node.
	Labels map[string]string

	hosted   bool   // made by HostNode
	hostRoot string // HostNode keeps its question, so that Diagnose can refuse it
}

// HostNode is the view of an agent: the host's file tree is mounted at root, and
// the process runs in the host's network namespace. Absolute symbolic links in
// the tree stay inside it. A root that cannot be read makes Diagnose return an
// error that names it.
func HostNode(root string) Node { return Node{hosted: true, hostRoot: root} }

// RuntimeHint is what the caller knows of the runtime that pulls here. The zero
// RuntimeHint knows nothing: the runtime is then found by its process, which
// needs the node's processes in sight. A hint says how the runtime walks and
// which files it reads; it does not say that this looks from the runtime's
// network, so the Vantage stays as it was seen.
type RuntimeHint struct {
	// Name is "containerd", "crio", "dockerd", "k3s" or "rke2"; "" = found on the
	// node. A process of that name is used where there is one, and no other.
	Name string
	// ConfigFile is the runtime's configuration file, as an absolute path in the
	// node's tree; "" = the one that the process was started with, else the
	// runtime's usual one.
	ConfigFile string
	// Environ is the environment of the runtime's process, which decides about its
	// proxy and its roots; nil = read from the process. It is not printed.
	Environ map[string]string
}

// String tells what is known, and no value of the environment.
func (h RuntimeHint) String() string {
	return fmt.Sprintf("runtime %q, configuration %q, %d variables", h.Name, h.ConfigFile, len(h.Environ))
}

// GoString keeps %#v from printing the environment.
func (h RuntimeHint) GoString() string { return "pullwalk.RuntimeHint{" + h.String() + "}" }

func (h RuntimeHint) validate() error {
	if names := noderuntime.Names(); h.Name != "" && !slices.Contains(names, h.Name) {
		return fmt.Errorf("pullwalk: Runtime.Name %q is none of %s", h.Name, strings.Join(names, ", "))
	}
	if h.ConfigFile != "" && (!path.IsAbs(h.ConfigFile) || strings.ContainsRune(h.ConfigFile, 0)) {
		return fmt.Errorf("pullwalk: Runtime.ConfigFile %q is no absolute path", h.ConfigFile)
	}
	for key := range h.Environ {
		if key == "" || strings.ContainsAny(key, "=\x00") {
			return fmt.Errorf("pullwalk: Runtime.Environ has the name %q, which is none of a variable", key)
		}
	}
	return nil
}
