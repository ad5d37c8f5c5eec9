//go:build linux

// Command far measures a healthy Touch against a real containerd's pull of the
// same image into an empty store, over a path on which a round trip takes 50 ms.
// It runs as the first process of its own namespaces, see run.sh.
//
// Touch is measured from the call to its return: reading the node and every
// check. The daemon is new each time, so both read the trusted roots within what is
// measured.
//
// The wall time of the pull begins with the start of crictl and ends with the last
// layer unpacked. Two columns are kinder to containerd: from its first packet to
// its end, and from its first packet to the first byte of the last layer, which is
// as far as Touch goes. The program ends with 1 when in any line the whole of Touch
// takes longer than the first of these.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/pullwalk/pullwalk"
	"github.com/pullwalk/pullwalk/internal/lab"
	"github.com/pullwalk/pullwalk/tlsauth"
)

var (
	containerd = flag.String("containerd", "", "the program, 2.0 or later")
	crictl     = flag.String("crictl", "", "the program that asks it as a kubelet does")
	roundTrip  = flag.Duration("rtt", 50*time.Millisecond, "round trip of the path")
	rounds     = flag.Int("rounds", 5, "rounds; the median counts")
	steps      = flag.Bool("steps", false, "print the steps of each first round")
)

func main() {
	flag.Parse()
	slower, err := run(context.Background())
	if err != nil {
		fmt.Fprintln(os.Stderr, "far:", err)
		os.Exit(2)
	}
	if slower > 0 {
		fmt.Printf("MISSED: in %d of the lines Touch took longer than the pull\n", slower)
		os.Exit(1)
	}
	fmt.Println("no Touch took longer than the pull")
}

func run(ctx context.Context) (slower int, err error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if os.Getpid() != 1 {
		return 0, errors.New("this changes the network and the mounts of the namespaces it runs in: start it with run.sh")
	}
	dir, err := os.MkdirTemp("", "pullwalk-far-")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		return 0, err
	}
	if err := netlink.LinkSetUp(lo); err != nil {
		return 0, err
	}
	// The kernel would let a later connection profit of what it learned from an
	// earlier one to the same address.
	if err := os.WriteFile("/proc/sys/net/ipv4/tcp_no_metrics_save", []byte("1"), 0); err != nil {
		return 0, err
	}
	p, err := newPath(nodeAddr, []netip.Addr{registryAddr, tokenAddr, blobsAddr, dnsAddr}, *roundTrip)
	if err != nil {
		return 0, err
	}
	if err := startNameserver(nearDNSAddr); err != nil {
		return 0, err
	}
	p.atServers(func() { err = startNameserver(dnsAddr) })
	if err != nil {
		return 0, err
	}
	resolver := filepath.Join(dir, "resolv.conf")
	if err := os.WriteFile(resolver, nil, 0o644); err != nil {
		return 0, err
	}
	if err := unix.Mount(resolver, "/etc/resolv.conf", "", unix.MS_BIND, ""); err != nil {
		return 0, fmt.Errorf("a resolver file of its own: %w", err)
	}

	version, _ := exec.Command(*containerd, "--version").Output()
	load, _ := os.ReadFile("/proc/loadavg")
	fmt.Printf("%s%d cores, load %sround trip %v, %d rounds, medians in ms\n\n", version, runtime.NumCPU(), load, *roundTrip, *rounds)
	fmt.Println("                           wall  from the first packet to     connections  answers    DNS")
	fmt.Println("nameserver  layers                its end  the last layer   registry+token+blobs     queries")
	for _, ns := range []struct {
		name string
		addr netip.Addr
	}{{"near", nearDNSAddr}, {"far", dnsAddr}} {
		if err := os.WriteFile(resolver, []byte("nameserver "+ns.addr.String()+"\n"), 0o644); err != nil {
			return 0, err
		}
		for _, layers := range []int{1, 4, 8} {
			touch, pull, err := measure(ctx, p, dir, layers)
			if err != nil {
				return 0, err
			}
			fmt.Printf("%-10s  %6d  Touch %s\n", ns.name, layers, touch)
			fmt.Printf("%-10s  %6s  pull  %s\n", "", "", pull)
			if touch.wall() > pull.onPath() {
				slower++
			}
		}
	}
	return slower, nil
}

// measure makes both, in turns, each with a containerd that has just been started.
func measure(ctx context.Context, p *path, dir string, layers int) (touch, pull samples, err error) {
	w, err := startRegistry(p, layers)
	if err != nil {
		return nil, nil, err
	}
	defer w.Close()
	roots := filepath.Join(dir, "roots.pem")
	if err := os.WriteFile(roots, w.AuthorityPEM(), 0o644); err != nil {
		return nil, nil, err
	}
	for i := range *rounds {
		for _, one := range []struct {
			into *samples
			do   func(context.Context, *daemon, *lab.World) error
		}{{&touch, func(ctx context.Context, _ *daemon, w *lab.World) error { return diagnose(ctx, w, i == 0) }}, {&pull, runtimePull}} {
			s, err := sampled(ctx, p, w, roots, one.do)
			if err != nil {
				return nil, nil, err
			}
			*one.into = append(*one.into, s)
		}
	}
	if v := w.Violations(); len(v) > 0 {
		return nil, nil, fmt.Errorf("credentials went astray: %q", v)
	}
	return touch, pull, nil
}

func sampled(ctx context.Context, p *path, w *lab.World, roots string, do func(context.Context, *daemon, *lab.World) error) (sample, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	d, err := startDaemon(ctx, roots)
	if err != nil {
		return sample{}, err
	}
	p.recorded()
	start := time.Now()
	err = do(ctx, d, w)
	end := time.Now()
	return sample{start, end, p.recorded()}, errors.Join(err, d.stop())
}

func runtimePull(ctx context.Context, d *daemon, w *lab.World) error { return d.pull(ctx, w.Image()) }

// diagnose looks at this machine as an agent on it would: the resolver file, the
// runtime that runs, its roots and its store.
func diagnose(ctx context.Context, w *lab.World, first bool) error {
	keychain, err := tlsauth.DockerConfig(w.DockerConfig())
	if err != nil {
		return err
	}
	res, err := pullwalk.Diagnose(ctx, w.Image(), &pullwalk.Options{Keychain: keychain})
	if err != nil {
		return err
	}
	if first && *steps {
		for _, source := range res.Sources {
			for _, e := range source.Endpoints {
				for _, s := range e.Steps {
					fmt.Printf("    %-30s %-12s %-12s %5d ms\n", e.HostPort(), s.ID, s.Status, s.ElapsedMS)
				}
			}
		}
	}
	if res.Verdict != pullwalk.StatusOK {
		return fmt.Errorf("the verdict is not ok:\n%s", res)
	}
	return nil
}

type sample struct {
	start, end time.Time
	*record
}

type samples []sample

func (all samples) median(of func(sample) int64) int64 {
	var values []int64
	for _, s := range all {
		values = append(values, of(s))
	}
	slices.Sort(values)
	return values[len(values)/2]
}

func (all samples) wall() int64 {
	return all.median(func(s sample) int64 { return s.end.Sub(s.start).Milliseconds() })
}

// onPath is from the first packet to the end.
func (all samples) onPath() int64 {
	return all.median(func(s sample) int64 { return s.end.Sub(s.first).Milliseconds() })
}

func (all samples) String() string {
	hosts := func(of func(*record) map[netip.Addr]int) string {
		var parts []string
		for _, h := range []netip.Addr{registryAddr, tokenAddr, blobsAddr} {
			parts = append(parts, fmt.Sprint(all.median(func(s sample) int64 { return int64(of(s.record)[h]) })))
		}
		return strings.Join(parts, "+")
	}
	return fmt.Sprintf("%8d  %7d  %14d   %11s  %8s  %7d", all.wall(), all.onPath(),
		all.median(func(s sample) int64 { return s.answer[blobsAddr].Sub(s.first).Milliseconds() }),
		hosts(func(r *record) map[netip.Addr]int { return r.opened }), hosts(func(r *record) map[netip.Addr]int { return r.turns }),
		all.median(func(s sample) int64 { return int64(s.queries) }))
}
