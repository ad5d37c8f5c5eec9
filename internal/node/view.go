package node

import (
	"cmp"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"net/url"
	"os"
	"runtime"
	"strings"
	"time"

	"github.com/pullwalk/pullwalk/dnscheck"
	"github.com/pullwalk/pullwalk/internal/nodefs"
	"github.com/pullwalk/pullwalk/internal/noderuntime"
	"github.com/pullwalk/pullwalk/reach"
	"github.com/pullwalk/pullwalk/tlsauth"
)

// Node is what a caller says of the machine, as of pullwalk.Node.
type Node struct {
	FS       fs.FS
	Router   reach.Router
	Dialer   reach.Dialer
	DNS      dnscheck.Exchanger
	Roots    *x509.CertPool
	Proxy    func(*url.URL) (*url.URL, error)
	Now      func() time.Time
	Hosted   bool // the host's tree is mounted at HostRoot
	HostRoot string
}

// Hint is what a caller says of the runtime, as of pullwalk.Hint.
type Hint struct {
	Name, ConfigFile string
	Environ          map[string]string
}

// View is a Node with every default filled in.
type View struct {
	Node
	ResolverFiles []dnscheck.Source // where resolver files are read, the runtime's first
	RootFiles     *tlsauth.Roots
	RootsErr      error
	Runtime       noderuntime.Runtime
	HasRuntime    bool // its process was found
	guard         *guard
	ownRoot       bool // FS is the root of this process
	// givenEnviron and givenConfig say that the runtime's environment, and its file,
	// are the caller's word.
	givenEnviron, givenConfig bool
	HostName                  string
	NetNS                     string // "host", "other" or "unknown"
	ProxySource               string // where the proxy settings come from; "" = none is set
	ProxyEnv                  map[string]string
}

// Look fills in the defaults. It fails only for a node View that cannot be
// looked at at all.
func (n Node) Look(hint Hint) (*View, error) {
	g := &guard{}
	n = g.node(n)
	v := &View{Node: n, guard: g, NetNS: "unknown"}
	own := n.FS == nil && !n.Hosted
	root := n.HostRoot
	if n.FS == nil {
		switch {
		case n.Hosted && root == "":
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
		v.ResolverFiles = v.resolverTrees(root, hint)
	case v.FS != nil:
		v.ResolverFiles = []dnscheck.Source{{FS: v.FS}}
	}
	if v.Now == nil {
		v.Now = time.Now
	}
	if v.FS != nil {
		v.NetNS = noderuntime.NetworkNamespace(v.FS)
		v.HostName = readHostName(v.FS)
	}
	if own {
		if name, err := os.Hostname(); err == nil {
			v.HostName = name
		}
	}
	v.chooseProxy(own)
	if v.Roots == nil {
		env := v.Runtime.Environ
		v.RootFiles, v.RootsErr = tlsauth.ReadRoots(v.FS, env["SSL_CERT_FILE"], env["SSL_CERT_DIR"])
	}
	return v, nil
}

// Trusted is a copy of the node's roots, and beside them those of ca (PEM). nil would
// mean those of this process, which are another machine's in an agent.
func (v *View) Trusted(ca []byte) *x509.CertPool {
	pool := v.Node.Roots
	if pool == nil && v.RootFiles != nil {
		pool = v.RootFiles.Pool
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
func (v *View) chooseProxy(own bool) {
	var env map[string]string
	switch {
	case v.Proxy != nil:
		v.ProxySource = "the caller"
		return
	case v.givenEnviron:
		env, v.ProxySource = v.Runtime.Environ, "environment of the runtime that the caller gave"
	case v.HasRuntime && v.Runtime.Environ != nil:
		env, v.ProxySource = v.Runtime.Environ, fmt.Sprintf("environment of %s (pid %d)", v.Runtime.Name, v.Runtime.PID)
	case own:
		env, v.ProxySource = noderuntime.OwnEnviron(), "environment of this process"
	}
	if v.HasRuntime {
		// What daemon.json says takes the place of the variable of the same name. That
		// it cannot be read is told with the sources.
		if own, _ := v.Config().Proxy(); own != nil {
			env, v.ProxySource = maps.Clone(env), v.Config().Product+" configuration "+v.Config().Config+", over the "+cmp.Or(v.ProxySource, "environment of "+v.Runtime.Name)
			if env == nil {
				env = map[string]string{}
			}
			maps.Copy(env, own)
		}
	}
	v.ProxyEnv = env
	if !namesProxy(env) {
		v.ProxySource = ""
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

// Dial is the node's dialer, this machine's where it has none.
func (v *View) Dial() reach.Dialer {
	if v.Dialer != nil {
		return v.Dialer
	}
	return reach.System{}
}

// findRuntime looks for the process of the runtime, and lets the hint say the
// rest.
func (v *View) findRuntime(h Hint) {
	if v.FS != nil {
		v.Runtime, v.HasRuntime = noderuntime.FindNamed(v.FS, h.Name)
	}
	if !v.HasRuntime {
		v.Runtime.Name = h.Name
	}
	if h.ConfigFile != "" {
		v.Runtime.ConfigFile, v.givenConfig = h.ConfigFile, true
	}
	if h.Environ != nil {
		v.Runtime.Environ, v.givenEnviron = maps.Clone(h.Environ), true
	}
}

// KnowsRuntime reports whether a process was found, or that the caller says which
// runtime it is.
func (v *View) KnowsRuntime() bool { return v.Runtime.Name != "" }

// Rivals says that it is not known which process pulls; "" = it is, or the caller
// says all that a process would.
func (v *View) Rivals() string {
	if v == nil || len(v.Runtime.Rivals) == 0 || v.givenEnviron && v.givenConfig {
		return ""
	}
	return fmt.Sprintf("several processes could be the runtime that pulls, and were started in other ways: %v, %s; Options.Runtime can say which", v.Runtime, strings.Join(v.Runtime.Rivals, ", "))
}

// resolverTrees are where resolver files are read, the nearest to the runtime
// first. The mount namespace of another runtime than the one that the caller names
// says nothing of it.
func (v *View) resolverTrees(root string, h Hint) []dnscheck.Source {
	if h.Name == "" {
		return dnscheck.SourcesAt(root)
	}
	host := []dnscheck.Source{{Name: "host root " + root, FS: v.FS}}
	if !v.HasRuntime {
		return host
	}
	own, err := v.Runtime.Root(v.FS, root)
	if err != nil {
		return host
	}
	return append([]dnscheck.Source{{Name: fmt.Sprintf("runtime %s (process %d)", v.Runtime.Name, v.Runtime.PID), FS: own}}, host...)
}

// Config is what the runtime's files say, read as it does.
func (v *View) Config() noderuntime.Files {
	return noderuntime.Open(v.FS, v.Runtime.Name, v.Runtime.ConfigFile)
}

// UserAgent is what the runtime calls itself, since something on the path may let one
// name through and not another; "" = no process of a known one was found.
func (v *View) UserAgent() string {
	if !v.HasRuntime {
		return ""
	}
	return v.Runtime.Agent()
}

// DialSegment dials with clamped segments where the sockets are the system's own, or the
// caller's dialer can; nil = neither.
func (v *View) DialSegment() func(ctx context.Context, network, address string, mss int) (net.Conn, error) {
	switch d := v.Node.Dialer.(type) {
	case nil:
		return reach.System{}.DialSegment
	case segmentDialer:
		return d.DialSegment
	}
	return nil
}

// Hellos are both that a runtime may send, the one that this node's sends first.
func (v *View) Hellos() []tlsauth.Hello {
	rt := v.Runtime
	if tlsauth.HelloOf(rt.GoVersion, rt.GODEBUG, rt.Environ["GODEBUG"]) == tlsauth.HelloClassical {
		return []tlsauth.Hello{tlsauth.HelloClassical, tlsauth.HelloLarge}
	}
	return []tlsauth.Hello{tlsauth.HelloLarge, tlsauth.HelloClassical}
}
