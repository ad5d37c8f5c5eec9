package pullwalk_test

import (
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/tools/txtar"

	"github.com/pullwalk/pullwalk"
	"github.com/pullwalk/pullwalk/classify"
	"github.com/pullwalk/pullwalk/dnscheck"
	"github.com/pullwalk/pullwalk/internal/lab"
	"github.com/pullwalk/pullwalk/internal/simnet"
	"github.com/pullwalk/pullwalk/reach"
	"github.com/pullwalk/pullwalk/tlsauth"
)

// The network of every scenario, where the scenario does not say otherwise. The
// node is 10.10.0.7, everything else is behind 10.10.0.1.
var (
	nameserverAddr = netip.MustParseAddrPort("10.20.0.2:53")
	registryAddr   = netip.MustParseAddrPort("10.20.0.4:443")
	tokenAddr      = netip.MustParseAddrPort("10.20.0.5:443")
	blobsAddr      = netip.MustParseAddrPort("10.20.0.6:443")
)

const (
	defaultRoute = "0.0.0.0/0 via 10.10.0.1 dev eth0 src 10.10.0.7"
	runtimePID   = "812"
	netNamespace = "net:[4026531840]" // as kernels before 6.18 number the machine's own
	pidNamespace = "pid:[4026531836]"

	wrongPassword = "wrong-SECRET-for-tests"
	proxyPassword = "proxy-SECRET-for-tests"
	// expiredPassword is a token that says when it ended, {"exp": 946690000}: an hour
	// and a half into the first day of a bubble, see "option late".
	expiredPassword = "eyJhbGciOiJub25lIn0.eyJleHAiOiA5NDY2OTAwMDB9.SECRET-for-tests"
)

// scenario is one file of testdata/scenarios: a world, and what is said of it.
//
// The section "world" has one statement per line, applied in order to a private
// registry that works (registry.corp.test 10.20.0.4, auth.corp.test 10.20.0.5,
// blobs.corp.test 10.20.0.6, the nameserver 10.20.0.2):
//
//	image REF                       default registry.corp.test/team/app:v1; DIGEST is that of the image
//	option complete|connect|plain   pull mode; a world without TLS
//	option late|audit|clock OFF     a day passes first; ask what more the identity may do; the node's clock is off
//	option layers BYTES...          the sizes of the image's layers
//	option platform P|budget D|also HOST:PORT|expect PREFIX
//	option rounds N
//	moods ADDR:PORT|NAME WORD...    how connects or lookups fare in each tenth of a second, see rounds_test.go
//	check ID LAYER NEED|- ok|warn|fail|panic   a check of the caller's own
//	login KEY USER right|wrong|expired|swapped   one entry of the pull secret; default registry.corp.test reader right
//	login none                      no pull secret
//	secret NAME ..., plugin NAME ...   what a kubelet offers, instead of the pull secret; see kubelet_test.go
//	nameserver ADDR...              /etc/resolv.conf
//	zone SERVER NAME ADDR...        records of a nameserver, instead of those it has; no address: no data
//	zone SERVER NAME rcode CODE     an answer without records
//	zone SERVER NAME none           the name does not exist
//	zone SERVER NAME cname TARGET   an alias
//	zone SERVER NAME says CODE      an extended error (RFC 8914) beside the answer
//	zone SERVER silent|closed|truncates|no-tcp|malformed|mismatched   the nameserver itself
//	route PREFIX via GW dev IF src ADDR [proto NAME], or a kind: unreachable, blackhole, prohibit, none
//	net silent|refuse|reset|mute|unreachable ADDR:PORT
//	net cut|hang|hole-up|hole-down|drop-large ADDR:PORT BYTES
//	serve registry|token|blobs ADDR:PORT   one more listener
//	name registry|token|blobs NAME  another name for it, in the zone and in its certificate, instead of its own
//	basic ADDR:PORT [ADDR:PORT]     a registry that asks for Basic, instead of what listens there;
//	                                it redirects blobs to plain http at the second address
//	banner ADDR:PORT TEXT           a server that says so to whoever connects; a tilde is a space
//	proxy ADDR:PORT works|refuses|login [tls|socks]   a forward proxy; in TLS; of SOCKS 5
//	filter AGENT STATUS PATH        the basic registry answers STATUS to a User-Agent that begins
//	                                with AGENT, for what has PATH in its path
//	proxy ADDR:PORT works|refuses|login    a forward proxy
//	stored                          the node's containerd holds the layers of the image already
//	link PATH TARGET                a symbolic link of the node
//	runtime NAME KEY=VALUE...       a runtime's process with that environment
//	images none                     a database of containerd that has no image
//	event REASON MESSAGE            what the cluster reported
//	event-on NODE REASON MESSAGE    the same of another node
//	break FAULT [HOST] [ARGS]       see faults_test.go
//
// Sections "node/PATH" are files of the node (the line AUTHORITY in one is the
// world's own CA, CLIENT PAIR a client certificate with its key), "body/NAME" what a server says;
// DIGEST(NAME) and SIZE(NAME) in the statements and bodies are those of such a body. "result.json" and "report.txt" are
// what is compared, see golden_test.go.
type scenario struct {
	name    string
	comment string
	archive *txtar.Archive
}

func readScenario(t testing.TB, path, name string) scenario {
	t.Helper()
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	a := txtar.Parse(data)
	return scenario{name: name, comment: strings.TrimSpace(string(a.Comment)), archive: a}
}

func (s scenario) section(name string) (string, bool) {
	for _, f := range s.archive.Files {
		if f.Name == name {
			return string(f.Data), true
		}
	}
	return "", false
}

// world is a scenario that runs: the servers, the network, and how a diagnosis
// looks at them.
type world struct {
	lab   *lab.World
	net   *simnet.Net
	files fstest.MapFS
	zones map[netip.AddrPort]bool

	image       string
	opts        pullwalk.Options
	logins      []login
	noLogin     bool
	closers     []func()
	basic       *basicRegistry
	proxies     []*proxy
	names       map[string]*lab.Host
	breaking    []lab.Fault
	moody       [][]string
	bodies      map[string]string
	clock       func() time.Time // nil = right
	runtimeName string           // "" = none

	kubeletOf *tlsauth.Kubelet // nil = the logins
}

type login struct{ key, user, password string }

// newWorld builds the world of the statements. It must be called in the bubble
// in which the world is used, and closed there.
func newWorld(t testing.TB, statements string, node, bodies map[string]string) *world {
	t.Helper()
	w := &world{net: simnet.New(), zones: map[netip.AddrPort]bool{}, image: "registry.corp.test/team/app:v1", bodies: bodies}
	w.opts.Platform = "linux/amd64"
	var err error
	w.lab, err = lab.New(lab.Options{Plain: strings.Contains(statements, "option plain"), LayerSizes: layerSizes(t, statements)})
	require.NoError(t, err)
	w.files = fstest.MapFS{}
	w.file("etc/resolv.conf", "nameserver 10.20.0.2\n")
	w.file("etc/hosts", "127.0.0.1 localhost\n::1 localhost\n")
	w.file("etc/nsswitch.conf", "hosts: files dns\n")
	w.file("etc/hostname", "node-1\n")
	w.file("etc/ssl/certs/ca-certificates.crt", string(w.lab.AuthorityPEM()))
	pair := clientPair(t)
	for path, content := range node {
		w.file(path, strings.NewReplacer("AUTHORITY\n", string(w.lab.AuthorityPEM()), "CLIENT PAIR\n", pair).Replace(content))
	}
	w.net.Zone(nameserverAddr).
		Add(lab.RegistryName, registryAddr.Addr()).Add(lab.TokenName, tokenAddr.Addr()).Add(lab.BlobsName, blobsAddr.Addr())

	port := map[bool]uint16{false: 443, true: 80}[strings.Contains(statements, "option plain")]
	lines := strings.Split(statements, "\n")
	if !strings.Contains(statements, "basic 10.20.0.4") && !strings.Contains(statements, "banner 10.20.0.4") {
		w.lab.Registry.Serve(w.net.Listen(netip.AddrPortFrom(registryAddr.Addr(), port)))
	}
	w.lab.Token.Serve(w.net.Listen(netip.AddrPortFrom(tokenAddr.Addr(), port)))
	w.lab.Blobs.Serve(w.net.Listen(netip.AddrPortFrom(blobsAddr.Addr(), port)))
	w.route(t, strings.Fields(defaultRoute))
	for _, line := range lines {
		line, _, _ = strings.Cut(line, " #")
		words := strings.Fields(line)
		if len(words) == 0 || strings.HasPrefix(words[0], "#") {
			continue
		}
		w.statement(t, words[0], words[1:])
	}
	if len(w.breaking) > 0 {
		w.lab.Break(w.breaking...)
	}
	w.finish(t)
	return w
}

func (w *world) file(path, content string) {
	w.files[path] = &fstest.MapFile{Data: []byte(content), Mode: 0o644, ModTime: time.Now()}
}

func (w *world) link(path, target string) {
	w.files[path] = &fstest.MapFile{Data: []byte(target), Mode: fs.ModeSymlink | 0o777}
}

// finish puts the options together.
func (w *world) finish(t testing.TB) {
	w.opts.Node = pullwalk.Node{FS: w.files, Router: w.net.Router(), Dialer: w.net.Dialer(), DNS: w.net.Exchanger(), Now: w.clock}
	for _, m := range w.moody {
		words := strings.Join(m[1:], " ")
		if at, err := netip.ParseAddrPort(m[0]); err == nil {
			w.opts.Node.Dialer = moodyDialer{w.opts.Node.Dialer, at, moodsOf(words)}
		} else {
			w.opts.Node.DNS = moodyNameserver{w.opts.Node.DNS, m[0], moodsOf(words)}
		}
	}
	if w.noLogin || w.kubeletOf != nil {
		return
	}
	if len(w.logins) == 0 {
		w.logins = []login{{lab.RegistryName, lab.Username, lab.Password}}
	}
	auths := map[string]map[string]string{}
	for _, l := range w.logins {
		auths[l.key] = map[string]string{"username": l.user, "password": l.password}
	}
	secret, err := json.Marshal(map[string]any{"auths": auths})
	require.NoError(t, err)
	w.opts.Keychain, err = tlsauth.DockerConfig(secret)
	require.NoError(t, err)
}

// close ends the servers and then the network; afterwards no goroutine of the
// world is left, which the bubble checks.
func (w *world) close() {
	for _, c := range w.closers {
		c()
	}
	w.net.Close()
	w.lab.Close()
}

// secrets are the strings that no output may hold.
func (w *world) secrets() []string {
	return append(w.lab.Secrets(), wrongPassword, proxyPassword, expiredPassword)
}

func (w *world) statement(t testing.TB, verb string, args []string) {
	t.Helper()
	defer func() {
		if r := recover(); r != nil {
			panic(fmt.Sprintf("%s %s: %v", verb, strings.Join(args, " "), r))
		}
	}()
	switch verb {
	case "image":
		w.image = strings.ReplaceAll(args[0], "DIGEST", w.lab.Digest().String())
	case "option":
		w.option(t, args)
	case "login":
		if args[0] == "none" {
			w.noLogin = true
			return
		}
		if args[2] == "swapped" { // the password stands where the user name belongs
			w.logins = append(w.logins, login{args[0], lab.Password, args[1]})
			return
		}
		password := map[string]string{"right": lab.Password, "wrong": wrongPassword, "expired": expiredPassword}[args[2]]
		w.logins = append(w.logins, login{args[0], args[1], password})
	case "secret", "plugin":
		w.kubelet(t, verb, args)
	case "nameserver":
		w.file("etc/resolv.conf", "nameserver "+strings.Join(args, "\nnameserver ")+"\n")
	case "zone":
		w.zone(t, args)
	case "route":
		w.route(t, args)
	case "net":
		w.fault(t, args)
	case "serve":
		w.host(t, args[0]).Serve(w.net.Listen(netip.MustParseAddrPort(args[1])))
	case "name":
		w.rename(t, args[0], args[1])
	case "basic":
		var store netip.AddrPort
		if len(args) > 1 {
			store = netip.MustParseAddrPort(args[1])
		}
		w.basic = serveBasic(w, netip.MustParseAddrPort(args[0]), store)
	case "filter":
		status, err := strconv.Atoi(args[1])
		require.NoError(t, err)
		w.basic.refuses = func(r *http.Request) int {
			if strings.HasPrefix(r.UserAgent(), args[0]) && strings.Contains(r.URL.Path, args[2]) {
				return status
			}
			return 0
		}
	case "proxy":
		w.proxies = append(w.proxies, serveProxy(w, netip.MustParseAddrPort(args[0]), args[1], strings.Join(args[2:], "")))
	case "runtime":
		w.runtime(args[0], args[1:])
	case "stored":
		w.stored()
	case "banner":
		w.banner(netip.MustParseAddrPort(args[0]), strings.ReplaceAll(args[1], "~", " "))
	case "link":
		w.link(args[0], args[1])
	case "images":
		w.file("var/lib/containerd/io.containerd.metadata.v1.bolt/meta.db", "a database with no image: \xed\xda\x0c\xed")
	case "moods":
		w.moody = append(w.moody, args)
	case "check":
		w.opts.Checks = append(w.opts.Checks, checkOf(args))
	case "event":
		w.opts.Events = append(w.opts.Events, classify.EventRecord{Reason: args[0], Message: strings.Join(args[1:], " "), Node: "node-1"})
	case "event-on":
		w.opts.Events = append(w.opts.Events, classify.EventRecord{Reason: args[1], Message: strings.Join(args[2:], " "), Node: args[0]})
	case "break":
		w.breaking = append(w.breaking, w.labFault(t, args))
	default:
		t.Fatalf("unknown statement %q", verb)
	}
}

func (w *world) option(t testing.TB, args []string) {
	t.Helper()
	switch args[0] {
	case "complete":
		w.opts.Pull = pullwalk.Complete
	case "connect":
		w.opts.Pull = pullwalk.Connect
	case "plain", "layers":
	case "platform":
		w.opts.Platform = args[1]
	case "late":
		time.Sleep(24 * time.Hour) // of the bubble
	case "audit":
		w.opts.AuditRights = true
	case "clock":
		off, err := time.ParseDuration(args[1])
		require.NoError(t, err)
		w.clock = func() time.Time { return time.Now().Add(off) }
	case "also":
		w.opts.Also = append(w.opts.Also, args[1])
	case "expect":
		w.opts.Expect = append(w.opts.Expect, netip.MustParsePrefix(args[1]))
	case "rounds":
		n, err := strconv.Atoi(args[1])
		require.NoError(t, err)
		w.opts.Rounds = n
	case "budget":
		d, err := time.ParseDuration(args[1])
		require.NoError(t, err)
		w.opts.Budget = d
	default:
		t.Fatalf("unknown option %q", args[0])
	}
}

// layerSizes reads "option layers"; nil without.
func layerSizes(t testing.TB, statements string) (sizes []int) {
	for line := range strings.Lines(statements) {
		words, ok := strings.CutPrefix(line, "option layers ")
		if !ok {
			continue
		}
		for _, word := range strings.Fields(words) {
			n, err := strconv.Atoi(word)
			require.NoError(t, err)
			sizes = append(sizes, n)
		}
	}
	return sizes
}

func (w *world) rename(t testing.TB, host, name string) {
	h := w.host(t, host)
	addr := map[*lab.Host]netip.AddrPort{w.lab.Registry: registryAddr, w.lab.Token: tokenAddr, w.lab.Blobs: blobsAddr}[h].Addr()
	w.net.Zone(nameserverAddr).Add(name, addr)
	h.SetCertificate(w.lab.Certificate(name))
	if w.names == nil {
		w.names = map[string]*lab.Host{}
	}
	w.names[name] = h
}

func (w *world) zone(t testing.TB, args []string) {
	t.Helper()
	z := w.net.Zone(netip.AddrPortFrom(netip.MustParseAddr(args[0]), 53))
	switch {
	case args[1] == "silent":
		z.Silent()
	case args[1] == "closed":
		z.Closed()
	case args[1] == "truncates":
		z.Truncate()
	case args[1] == "no-tcp":
		z.NoTCP()
	case args[1] == "malformed":
		z.Garbage(dnscheck.ErrMalformed)
	case args[1] == "mismatched":
		u := dnscheck.Unmatched{Count: 2, Why: "another ID than the question's", From: netip.MustParseAddr("10.20.0.99")}
		z.Garbage(&dnscheck.UnmatchedError{Unmatched: u, Err: os.ErrDeadlineExceeded})
	case len(args) > 2 && args[2] == "cname":
		z.Remove(args[1]).CNAME(args[1], args[3])
	case len(args) > 2 && args[2] == "says":
		code, err := strconv.Atoi(args[3])
		require.NoError(t, err)
		z.Extend(args[1], code)
	case len(args) > 2 && args[2] == "none":
		z.Remove(args[1])
	case len(args) > 2 && args[2] == "rcode":
		z.RCode(args[1], args[3])
	default:
		z.Remove(args[1]).Add(args[1])
		for _, a := range args[2:] {
			z.Add(args[1], netip.MustParseAddr(a))
		}
	}
}

func (w *world) route(t testing.TB, args []string) {
	t.Helper()
	var r reach.Route
	for i := 1; i < len(args); i++ {
		switch args[i] {
		case "via":
			r.Gateway = netip.MustParseAddr(args[i+1])
			i++
		case "dev":
			r.Interface = args[i+1]
			i++
		case "src":
			r.Source = netip.MustParseAddr(args[i+1])
			i++
		case "proto":
			r.Protocol, r.Prefix = args[i+1], netip.MustParsePrefix(args[0])
			i++
		case "none", "unreachable", "blackhole", "prohibit":
			r.Kind = reach.RouteKind(args[i])
		default:
			t.Fatalf("unknown word %q of a route", args[i])
		}
	}
	r.OnLink = r.Interface != "" && !r.Gateway.IsValid()
	w.net.Route(netip.MustParsePrefix(args[0]), r)
}

func (w *world) fault(t testing.TB, args []string) {
	t.Helper()
	at := netip.MustParseAddrPort(args[1])
	n := 0
	if len(args) > 2 {
		var err error
		n, err = strconv.Atoi(args[2])
		require.NoError(t, err)
	}
	switch args[0] {
	case "silent":
		w.net.Silent(at)
	case "refuse":
		w.net.Refuse(at)
	case "reset":
		w.net.Reset(at)
	case "mute":
		w.net.Mute(at)
	case "unreachable":
		w.net.Unreachable(at)
	case "cut":
		w.net.CutAfter(at, n)
	case "hang":
		w.net.HangAfter(at, n)
	case "drop-large":
		w.net.DropLarge(at, n)
	case "hole-up":
		w.net.HoleUp(at, n)
	case "hole-down":
		w.net.HoleDown(at, n)
	default:
		t.Fatalf("unknown fault %q of the network", args[0])
	}
}

// processOfRoot makes a process one of root, whose program nobody else can change.
func processOfRoot(files fstest.MapFS, pid, program string) {
	files["proc/"+pid+"/status"] = &fstest.MapFile{Data: []byte("Uid:\t0\t0\t0\t0\n")}
	if files["proc/"+pid+"/stat"] == nil { // a world may say when it began
		files["proc/"+pid+"/stat"] = &fstest.MapFile{Data: []byte(pid + " (x) S 1 1 1 0 -1 0 1 0 0 0 1 2 0 0 20 0 9 0 9050 1 1 1\n")}
	}
	files["proc/"+pid+"/exe"] = link(program)
	files[strings.TrimPrefix(program, "/")] = &fstest.MapFile{Mode: 0o755}
}

// runtime puts a runtime's process on the node, in the node's own namespace.
func (w *world) runtime(name string, env []string) {
	w.runtimeName = name
	for _, process := range []string{"self", "1", runtimePID} {
		w.link("proc/"+process+"/ns/net", netNamespace)
		w.link("proc/"+process+"/ns/pid", pidNamespace)
	}
	w.file("proc/"+runtimePID+"/comm", name+"\n")
	processOfRoot(w.files, runtimePID, "/usr/bin/"+name)
	for i, e := range env {
		env[i] = strings.ReplaceAll(e, "PROXY-PASSWORD", proxyPassword)
	}
	w.file("proc/"+runtimePID+"/environ", strings.Join(env, "\x00")+"\x00")
}

// banner serves what is no HTTP and no TLS.
func (w *world) banner(at netip.AddrPort, text string) {
	l := w.net.Listen(at)
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() {
				defer c.Close()
				_, _ = c.Read(make([]byte, 4096))
				_, _ = io.WriteString(c, text+"\r\n\r\n")
			})
		}
	})
	w.closers = append(w.closers, func() { l.Close(); w.net.Close(); wg.Wait() })
}

// stored puts the layers of the image where containerd keeps its content.
func (w *world) stored() {
	for _, l := range w.lab.Manifest("linux/amd64").Layers {
		w.file("var/lib/containerd/io.containerd.content.v1.content/blobs/sha256/"+l.Digest.Hex, strings.Repeat(" ", int(l.Size)))
	}
}

func (w *world) host(t testing.TB, name string) *lab.Host {
	t.Helper()
	h := map[string]*lab.Host{"registry": w.lab.Registry, "token": w.lab.Token, "blobs": w.lab.Blobs}[name]
	require.NotNil(t, h, "host %q", name)
	return h
}
