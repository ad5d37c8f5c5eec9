// Command pull measures the complete download of one image against other
// clients, in one run against one real registry on loopback: seconds and peak
// memory of each process, medians of several rounds. It ends with 1 when a bound
// is missed. See run.sh.
package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"flag"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"
)

const (
	repository   = "bench/app"
	memoryLimit  = 40 << 20
	atLeastTwice = 2.0
	overhead     = 1.25
)

var (
	bin    = flag.String("bin", "", "directory with registry, ours, crane and regctl")
	total  = flag.Int64("mib", 1024, "size of the image in MiB")
	layers = flag.Int("layers", 8, "its layers")
	rounds = flag.Int("rounds", 3, "rounds; the median counts")
	only   = flag.Bool("only-ours", false, "measure this module alone: the memory of a very large image")
)

func main() {
	flag.Parse()
	missed, err := run()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	if len(missed) > 0 {
		fmt.Println("MISSED:", strings.Join(missed, "; "))
		os.Exit(1)
	}
	fmt.Println("all bounds are kept")
}

type contestant struct {
	name string
	keep bool // it checks or keeps every byte
	args []string
	out  string // written to, removed after each round
	took []time.Duration
	cpu  []time.Duration
	peak int64
}

func median(of []time.Duration) time.Duration {
	slices.Sort(of)
	return of[len(of)/2]
}

func (c *contestant) median() time.Duration { return median(c.took) }

func run() (missed []string, err error) {
	dir, err := os.MkdirTemp("", "pullwalk-bench-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	oneCore := hashing()
	fmt.Printf("%d cores, %s, %d MiB in %d layers, %d rounds; sha256 of it on one core: %.2fs\n", runtime.NumCPU(), runtime.Version(), *total, *layers, *rounds, oneCore.Seconds())
	if load, err := os.ReadFile("/proc/loadavg"); err == nil { // on a busy machine seconds say little, and cpu seconds more
		fmt.Printf("load before: %s", load)
	}
	for _, secure := range []bool{false, true} {
		m, err := world(dir, secure, oneCore)
		if err != nil {
			return nil, err
		}
		missed = append(missed, m...)
	}
	return missed, nil
}

// hashing is how long one core takes for as many bytes.
func hashing() time.Duration {
	buf := make([]byte, 1<<20)
	h := sha256.New()
	start := time.Now()
	for range min(*total, 512) {
		h.Write(buf)
	}
	return time.Since(start) * time.Duration(*total) / time.Duration(min(*total, 512))
}

func world(dir string, secure bool, oneCore time.Duration) ([]string, error) {
	name := "http"
	if secure {
		name = "TLS"
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	address := l.Addr().String()
	_ = l.Close()
	ca := ""
	config := fmt.Sprintf("version: 0.1\nlog:\n  level: error\n  accesslog:\n    disabled: true\nstorage:\n  filesystem:\n    rootdirectory: %s\nhttp:\n  addr: %s\n", filepath.Join(dir, "data"), address)
	client := &http.Client{}
	base := "http://" + address
	if secure {
		cert, key, err := certificate(dir)
		if err != nil {
			return nil, err
		}
		ca = cert
		config += fmt.Sprintf("  tls:\n    certificate: %s\n    key: %s\n", cert, key)
		roots := x509.NewCertPool()
		raw, err := os.ReadFile(cert)
		if err != nil {
			return nil, err
		}
		roots.AppendCertsFromPEM(raw)
		client.Transport = &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}
		base = "https://" + address
	}
	file := filepath.Join(dir, "config.yml")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	server := exec.CommandContext(ctx, filepath.Join(*bin, "registry"), "serve", file)
	server.Env = append(os.Environ(), "OTEL_TRACES_EXPORTER=none")
	server.Stderr = os.Stderr
	if err := server.Start(); err != nil {
		cancel()
		return nil, err
	}
	defer func() { cancel(); _ = server.Wait() }()
	if err := await(client, base); err != nil {
		return nil, err
	}
	if _, err := os.Stat(filepath.Join(dir, "pushed")); err != nil { // the data stays for the next world
		if err := push(client, base, repository, *layers, *total<<20/int64(*layers)); err != nil {
			return nil, err
		}
		if err := os.WriteFile(filepath.Join(dir, "pushed"), nil, 0o600); err != nil {
			return nil, err
		}
	}
	image := address + "/" + repository + ":1"
	list := contestants(dir, image, ca, secure)
	for range *rounds {
		for _, c := range list {
			if err := c.once(dir, ca); err != nil {
				return nil, fmt.Errorf("%s: %w", c.name, err)
			}
		}
	}
	fmt.Printf("\nover %s:\n", name)
	for _, c := range list {
		fmt.Printf("  %-34s %6.2fs  cpu %6.2fs  peak %4d MiB\n", c.name, c.median().Seconds(), median(c.cpu).Seconds(), c.peak>>20)
	}
	return judge(name, list, oneCore), nil
}

func await(client *http.Client, base string) error {
	for range 100 {
		if resp, err := client.Get(base + "/v2/"); err == nil {
			_ = resp.Body.Close()
			return nil
		}
		time.Sleep(100 * time.Millisecond)
	}
	return errors.New("the registry does not come up")
}

func contestants(dir, image, ca string, secure bool) []*contestant {
	tool := func(name string, args ...string) []string {
		return append([]string{filepath.Join(*bin, name)}, args...)
	}
	list := []*contestant{
		{name: "ours, every digest checked", keep: true, args: tool("ours", "-image", image, "-ca", ca)},
		{name: "ours without hashing", args: tool("ours", "-image", image, "-ca", ca, "-nohash")},
	}
	if *only {
		return list[:1]
	}
	out := filepath.Join(dir, "out")
	list = append(list,
		&contestant{name: "crane pull to a file", keep: true, args: tool("crane", "pull", image, out), out: out},
		&contestant{name: "regctl image copy to a directory", keep: true, args: tool("regctl", "--host", "reg="+strings.Split(image, "/")[0]+",tls="+map[bool]string{true: "enabled", false: "disabled"}[secure], "image", "copy", image, "ocidir://"+out), out: out})
	if path, err := exec.LookPath("skopeo"); err == nil {
		args := []string{path, "--insecure-policy", "copy", "-q", "docker://" + image, "dir:" + out}
		if !secure {
			args = slices.Insert(args, 3, "--src-tls-verify=false")
		}
		list = append(list, &contestant{name: "skopeo copy to a directory", keep: true, args: args, out: out})
	}
	return list
}

func (c *contestant) once(dir, ca string) error {
	defer os.RemoveAll(c.out)
	cmd := exec.Command(c.args[0], c.args[1:]...)
	cmd.Env = append(os.Environ(), "HOME="+dir)
	if ca != "" {
		cmd.Env = append(cmd.Env, "SSL_CERT_FILE="+ca)
	}
	start := time.Now()
	text, err := cmd.CombinedOutput()
	took := time.Since(start)
	if err != nil {
		return fmt.Errorf("%w: %s", err, text)
	}
	c.took = append(c.took, took)
	c.cpu = append(c.cpu, cmd.ProcessState.UserTime()+cmd.ProcessState.SystemTime())
	if usage, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage); ok {
		c.peak = max(c.peak, usage.Maxrss<<10)
	}
	return nil
}

func judge(world string, list []*contestant, oneCore time.Duration) (missed []string) {
	ours := list[0]
	if ours.peak > memoryLimit {
		missed = append(missed, fmt.Sprintf("%s: peak memory %d MiB, the bound is %d", world, ours.peak>>20, memoryLimit>>20))
	}
	if *only {
		return missed
	}
	var fastest *contestant
	for _, c := range list[2:] {
		if c.keep && (fastest == nil || c.median() < fastest.median()) {
			fastest = c
		}
	}
	times := fastest.median().Seconds() / ours.median().Seconds()
	bound := time.Duration(overhead * float64(list[1].median()+oneCore/time.Duration(runtime.NumCPU())))
	fmt.Printf("  %.2f times as fast as the fastest peer that checks or keeps the bytes (%s); bound by what is needed: %.2fs\n", times, fastest.name, bound.Seconds())
	if times < atLeastTwice {
		missed = append(missed, fmt.Sprintf("%s: %.2f times as fast as %s, the bound is 2", world, times, fastest.name))
	}
	if ours.median() > bound {
		missed = append(missed, fmt.Sprintf("%s: %.2fs, the bound is %.2fs", world, ours.median().Seconds(), bound.Seconds()))
	}
	return missed
}

// certificate writes a root that is its own server certificate for 127.0.0.1.
func certificate(dir string) (cert, key string, err error) {
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return "", "", err
	}
	tmpl := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "bench"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, &k.PublicKey, k)
	if err != nil {
		return "", "", err
	}
	raw, err := x509.MarshalPKCS8PrivateKey(k)
	if err != nil {
		return "", "", err
	}
	cert, key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	if err := os.WriteFile(cert, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600); err != nil {
		return "", "", err
	}
	return cert, key, os.WriteFile(key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: raw}), 0o600)
}
