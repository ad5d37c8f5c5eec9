package pullwalk

import (
	"cmp"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/url"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/pullwalk/pullwalk/dnscheck"
	"github.com/pullwalk/pullwalk/internal/nodefs"
	"github.com/pullwalk/pullwalk/internal/noderuntime"
	"github.com/pullwalk/pullwalk/reach"
	"github.com/pullwalk/pullwalk/tlsauth"
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

// view is a Node with every default filled in.
type view struct {
	Node
	files      []dnscheck.Source // where resolver files are read, the runtime's first
	roots      *tlsauth.Roots
	rootsErr   error
	runtime    noderuntime.Runtime
	hasRuntime bool // its process was found
	guard      *guard
	ownRoot    bool // FS is the root of this process
	// givenEnviron and givenConfig say that the runtime's environment, and its file,
	// are the caller's word.
	givenEnviron, givenConfig bool
	hostName                  string
	netns                     string
	proxySource               string
	proxyEnv                  map[string]string
}

// resolve fills in the defaults. It fails only for a node view that cannot be
// looked at at all.
func (n Node) resolve(hint RuntimeHint) (*view, error) {
	g := &guard{}
	n = g.node(n)
	v := &view{Node: n, guard: g, netns: "unknown"}
	own := n.FS == nil && !n.hosted
	root := n.hostRoot
	if n.FS == nil {
		switch {
		case n.hosted && root == "":
			return nil, errors.New("pullwalk: the host root is empty")
		case own && runtime.GOOS != "windows":
			root = "/"
		}
		if root != "" {
			tree, err := nodefs.New(root)
			if err != nil {
				return nil, fmt.Errorf("pullwalk: %w", err)
			}
			v.FS, v.ownRoot = tree, root == "/"
		}
	}
	v.findRuntime(hint)
	switch {
	case n.FS == nil && v.FS != nil:
		v.files = v.resolverTrees(root, hint)
	case v.FS != nil:
		v.files = []dnscheck.Source{{FS: v.FS}}
	}
	if v.Now == nil {
		v.Now = time.Now
	}
	if v.FS != nil {
		v.netns = noderuntime.NetworkNamespace(v.FS)
		v.hostName = readHostName(v.FS)
	}
	if own {
		if name, err := os.Hostname(); err == nil {
			v.hostName = name
		}
	}
	v.chooseProxy(own)
	if v.Roots == nil {
		env := v.runtime.Environ
		v.roots, v.rootsErr = tlsauth.ReadRoots(v.FS, env["SSL_CERT_FILE"], env["SSL_CERT_DIR"])
	}
	return v, nil
}

// trusted is a copy of the node's roots, and beside them those of ca (PEM). nil would
// mean those of this process, which are another machine's in an agent.
func (v *view) trusted(ca []byte) *x509.CertPool {
	pool := v.Node.Roots
	if pool == nil && v.roots != nil {
		pool = v.roots.Pool
	}
	if pool == nil {
		pool = x509.NewCertPool()
	} else {
		pool = pool.Clone()
	}
	pool.AppendCertsFromPEM(ca)
	return pool
}

// chooseProxy takes the environment of the process that pulls: a proxy set in a
// shell is not the runtime's.
func (v *view) chooseProxy(own bool) {
	var env map[string]string
	switch {
	case v.Proxy != nil:
		v.proxySource = "the caller"
		return
	case v.givenEnviron:
		env, v.proxySource = v.runtime.Environ, "environment of the runtime that the caller gave"
	case v.hasRuntime && v.runtime.Environ != nil:
		env, v.proxySource = v.runtime.Environ, fmt.Sprintf("environment of %s (pid %d)", v.runtime.Name, v.runtime.PID)
	case own:
		env, v.proxySource = noderuntime.OwnEnviron(), "environment of this process"
	}
	if v.hasRuntime {
		// What daemon.json says takes the place of the variable of the same name. That
		// it cannot be read is told with the sources.
		if own, _ := v.config().Proxy(); own != nil {
			env, v.proxySource = maps.Clone(env), v.config().Product+" configuration "+v.config().Config+", over the "+cmp.Or(v.proxySource, "environment of "+v.runtime.Name)
			if env == nil {
				env = map[string]string{}
			}
			maps.Copy(env, own)
		}
	}
	v.proxyEnv = env
	if !namesProxy(env) {
		v.proxySource = ""
	}
	v.Proxy = noderuntime.ProxyFor(env)
}

func namesProxy(env map[string]string) bool {
	for _, key := range []string{"HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy"} {
		if env[key] != "" {
			return true
		}
	}
	return false
}

func readHostName(tree fs.FS) string {
	f, err := tree.Open("etc/hostname")
	if err != nil {
		return ""
	}
	defer f.Close()
	buf := make([]byte, 256)
	n, err := f.Read(buf)
	if err != nil && n == 0 {
		return ""
	}
	name, _, _ := strings.Cut(string(buf[:n]), "\n")
	return strings.TrimSpace(name)
}

// dialer is the node's, this machine's where it has none.
func (v *view) dialer() reach.Dialer {
	if v.Dialer != nil {
		return v.Dialer
	}
	return reach.System{}
}

// vantage says who looks, before anything was asked.
func (v *view) vantage(settings dnscheck.Settings) Vantage {
	out := Vantage{
		HostName: v.hostName, NetworkNamespace: v.netns,
		ResolverFile: settings.File, Proxy: v.proxySource, Identity: "anonymous",
	}
	for _, ns := range settings.Nameservers {
		out.Nameservers = append(out.Nameservers, ns.String())
	}
	switch {
	case v.roots != nil:
		out.Roots = v.roots.Files
	case v.Node.Roots != nil:
		out.Roots = []string{"the caller's pool"}
	}
	if v.knowsRuntime() {
		out.Runtime, out.RuntimePID = v.runtime.Name, v.runtime.PID
		out.RuntimeVersion, out.RuntimeGo = v.runtime.Version, v.runtime.GoVersion
	}
	for key, value := range v.Labels {
		out.Labels = append(out.Labels, Label{key, value})
	}
	slices.SortFunc(out.Labels, func(a, b Label) int { return strings.Compare(a.Key, b.Key) })
	return out
}
