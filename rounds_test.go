package pullwalk_test

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pullwalk/pullwalk"
	"github.com/pullwalk/pullwalk/classify"
	"github.com/pullwalk/pullwalk/dnscheck"
	"github.com/pullwalk/pullwalk/reach"
)

// moods are how something behaves in each tenth of a second; the last one stays.
type moods struct {
	start time.Time
	all   []string
}

func moodsOf(words string) moods { return moods{time.Now(), strings.Fields(words)} }

func (m moods) now() string {
	return m.all[min(int(time.Since(m.start)/(100*time.Millisecond)), len(m.all)-1)]
}

// moodyDialer is the world's dialer, except at one address.
type moodyDialer struct {
	reach.Dialer
	at netip.AddrPort
	moods
}

func (m moodyDialer) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	if address == m.at.String() {
		switch m.now() {
		case "silent":
			<-ctx.Done()
			return nil, &net.OpError{Op: "dial", Net: network, Addr: net.TCPAddrFromAddrPort(m.at), Err: ctx.Err()}
		case "refused":
			return nil, &net.OpError{Op: "dial", Net: network, Addr: net.TCPAddrFromAddrPort(m.at), Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
		}
	}
	return m.Dialer.DialContext(ctx, network, address)
}

// moodyNameserver answers with what the mood says: addresses, or a code.
type moodyNameserver struct {
	dnscheck.Exchanger
	name string
	moods
}

func (m moodyNameserver) Exchange(ctx context.Context, server netip.AddrPort, network string, q dnscheck.Question) (dnscheck.Answer, error) {
	if strings.TrimSuffix(q.Name, ".") != m.name {
		return m.Exchanger.Exchange(ctx, server, network, q)
	}
	switch mood := m.now(); {
	case mood == "ok":
		return m.Exchanger.Exchange(ctx, server, network, q)
	case mood == "silent":
		<-ctx.Done()
		return dnscheck.Answer{}, ctx.Err()
	case mood == strings.ToUpper(mood) && !strings.Contains(mood, "."):
		return dnscheck.Answer{RCode: mood, RecursionAvailable: true}, nil
	default:
		a := dnscheck.Answer{RCode: "NOERROR", RecursionAvailable: true, TTLSeconds: 60}
		if q.Type == "A" {
			a.Addresses = []netip.Addr{netip.MustParseAddr(mood)}
		}
		return a, nil
	}
}

// roundsOf are the steps rounds of an endpoint and a subject.
func roundsOf(t *testing.T, got *seen, endpoint, subject string) pullwalk.Step {
	t.Helper()
	i := slices.IndexFunc(got.steps, func(s pullwalk.Step) bool {
		return s.ID == pullwalk.StepRounds && s.Endpoint == endpoint && s.Subject == subject
	})
	require.GreaterOrEqual(t, i, 0, "no rounds of %s at %s", subject, endpoint)
	return got.steps[i]
}

// rates writes rounds down: "+" held, "~" held late, "-" failed, "?" not known.
func rates(rounds []pullwalk.Round) string {
	var b strings.Builder
	for _, r := range rounds {
		switch {
		case r.Held && r.Cause == "":
			b.WriteByte('+')
		case r.Held:
			b.WriteByte('~')
		case r.Cause != "":
			b.WriteByte('-')
		default:
			b.WriteByte('?')
		}
	}
	return b.String()
}

func TestSenselessRounds(t *testing.T) {
	t.Parallel()
	for _, n := range []int{-1, 21} {
		_, err := pullwalk.Diagnose(t.Context(), "registry.corp.test/team/app:v1", &pullwalk.Options{Rounds: n})
		require.ErrorContains(t, err, fmt.Sprintf("pullwalk: %d rounds", n))
	}
}

// Rounds begin a tenth of a second apart, beside the walk, at every endpoint, and are
// told when all hold; without them nothing is.
func TestRoundsOfAHealthyPull(t *testing.T) {
	t.Parallel()
	for _, n := range []int{0, 1, 2, 20} {
		inWorld(t, "", func(t *testing.T, w *world) {
			w.opts.Rounds = n
			start := time.Now()
			got := w.diagnoseWith(t)
			require.Equal(t, pullwalk.StatusOK, got.result.Verdict, "%s", got.result)
			require.EqualValues(t, max(n-1, 0)*100, got.result.ElapsedMS)
			all := steps(got.result, pullwalk.StepRounds)
			if n < 2 {
				require.Empty(t, all)
				return
			}
			require.Len(t, all, 6, "of the name and of the address, at three hosts")
			for _, st := range all {
				require.Equal(t, pullwalk.StatusOK, st.Status)
				require.Equal(t, strings.Repeat("+", n), rates(st.Rounds))
				require.Equal(t, st.Subject == "connect", st.Addr.IsValid())
			}
			again := 0
			for _, d := range w.net.Dials() {
				if d.Start.After(start) {
					again++
				}
			}
			require.Equal(t, 3*(n-1), again, "one connect more for each round and address")
		})
	}
}

// What fails now and then is a warning with its counts, and the walk goes on with
// what held; what fails each time is the failure that it was.
func TestConnectsThatFailNowAndThen(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		moods   string
		rounds  string
		verdict pullwalk.Status
		cause   classify.Cause // of the step rounds
		says    string
		elapsed int64
	}{
		"two of five are silent": {"ok silent ok silent ok", "+-+-+", pullwalk.StatusDegraded, classify.RouteIntermittent, "3 of 5 connects to registry.corp.test:443 at 10.20.0.4 held, the others did not (route.connect-timeout)", 5300},
		"the last is refused":    {"ok ok ok ok refused", "++++-", pullwalk.StatusDegraded, classify.RouteIntermittent, "4 of 5 connects to registry.corp.test:443 at 10.20.0.4 held, the others did not (endpoint.connection-refused)", 400},
		"the first is refused":   {"refused ok ok ok ok", "-++++", pullwalk.StatusDegraded, classify.RouteIntermittent, "4 of 5 connects", 800},
		"the first is silent":    {"silent silent ok refused ok", "--+-+", pullwalk.StatusDegraded, classify.RouteIntermittent, "(route.connect-timeout, endpoint.connection-refused)", 5500},
		"all are refused":        {"refused", "-----", pullwalk.StatusFailed, classify.EndpointConnectionRefused, "none of 5 connects", 400},
		"all are silent":         {"silent", "-----", pullwalk.StatusFailed, classify.RouteConnectTimeout, "none of 5 connects", 5400},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inWorld(t, "", func(t *testing.T, w *world) {
				w.opts.Rounds = 5
				w.opts.Node.Dialer = moodyDialer{w.net.Dialer(), registryAddr, moodsOf(tt.moods)}
				got := w.diagnoseWith(t)
				st := roundsOf(t, got, "registry.corp.test:443", "connect")
				require.Equal(t, tt.rounds, rates(st.Rounds))
				require.Equal(t, registryAddr.Addr(), st.Addr)
				require.Equal(t, tt.verdict, got.result.Verdict, "%s", got.result)
				require.Equal(t, tt.elapsed, got.result.ElapsedMS)
				require.Len(t, st.Findings, 1)
				f := st.Findings[0]
				require.Equal(t, tt.cause, f.Cause)
				require.Equal(t, classify.SeverityWarn, f.Severity)
				require.Contains(t, f.Summary, tt.says)
				require.Equal(t, fmt.Sprintf("%d/5", strings.Count(tt.rounds, "+")), f.Fact(classify.FactRounds))
				if tt.verdict == pullwalk.StatusFailed {
					require.Equal(t, tt.cause, got.result.Primary.Cause)
					require.Equal(t, pullwalk.StatusFailed, st.Status)
					return
				}
				require.Equal(t, pullwalk.StatusDegraded, st.Status)
				require.Len(t, got.result.Findings, 1, "told once")
				require.Contains(t, got.result.String(), "Warnings:        [route] route.intermittent at registry.corp.test:443: ")
			})
		})
	}
}

// One address that is dead for good beside one that works is what it was without
// rounds; one that only wavers is told with its rate.
func TestRoundsOfSeveralAddresses(t *testing.T) {
	t.Parallel()
	inWorld(t, "zone 10.20.0.2 registry.corp.test 10.20.0.4 10.20.0.14\nserve registry 10.20.0.14:443\nnet refuse 10.20.0.14:443", func(t *testing.T, w *world) {
		w.opts.Rounds = 3
		w.opts.Node.Dialer = moodyDialer{w.net.Dialer(), registryAddr, moodsOf("ok refused ok")}
		got := w.diagnoseWith(t)
		require.Equal(t, pullwalk.StatusDegraded, got.result.Verdict, "%s", got.result)
		var told []string
		for _, f := range got.result.Findings {
			told = append(told, string(f.Cause)+" "+f.Fact(classify.FactRounds))
		}
		require.Equal(t, []string{"route.intermittent 2/3", "endpoint.connection-refused "}, told)
	})
}

// The same lookup, again and again.
func TestLookupsThatChange(t *testing.T) {
	t.Parallel()
	const name = "registry.corp.test"
	for what, tt := range map[string]struct {
		moods   string
		rounds  string
		verdict pullwalk.Status
		cause   classify.Cause
		says    []string
	}{
		"denied now and then":         {"ok NXDOMAIN ok ok NXDOMAIN", "+-++-", pullwalk.StatusDegraded, classify.DNSIntermittent, []string{"3 of 5 lookups of registry.corp.test held, the others did not (dns.nxdomain)", "the nameserver 10.20.0.2:53 gave addresses 3 times of 5"}},
		"denied at first":             {"NXDOMAIN ok ok ok ok", "-++++", pullwalk.StatusDegraded, classify.DNSIntermittent, []string{"4 of 5 lookups"}},
		"fails in two ways":           {"SERVFAIL ok NXDOMAIN ok ok", "-+-++", pullwalk.StatusDegraded, classify.DNSIntermittent, []string{"(dns.servfail, dns.nxdomain)"}},
		"always denied":               {"NXDOMAIN", "-----", pullwalk.StatusFailed, classify.DNSNXDOMAIN, []string{"none of 5 lookups of registry.corp.test held"}},
		"private now and then public": {"10.20.0.4 10.20.0.4 203.0.113.9 10.20.0.4 10.20.0.4", "+++++", pullwalk.StatusDegraded, classify.DNSIntermittent, []string{"5 lookups of registry.corp.test gave [10.20.0.4] and [203.0.113.9] in turn"}},
		"private addresses in turn":   {"10.20.0.4 10.20.0.14 10.20.0.4 10.20.0.14 10.20.0.4", "+++++", pullwalk.StatusOK, "", nil},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			inWorld(t, "serve registry 10.20.0.14:443", func(t *testing.T, w *world) {
				w.opts.Rounds = 5
				w.opts.Node.DNS = moodyNameserver{w.net.Exchanger(), name, moodsOf(tt.moods)}
				got := w.diagnoseWith(t)
				st := roundsOf(t, got, name+":443", "dns")
				require.Equal(t, tt.rounds, rates(st.Rounds))
				require.Equal(t, tt.verdict, got.result.Verdict, "%s", got.result)
				if tt.cause == "" {
					require.Empty(t, st.Findings)
					return
				}
				require.Len(t, st.Findings, 1)
				require.Equal(t, tt.cause, st.Findings[0].Cause)
				require.Equal(t, name, st.Findings[0].Endpoint)
				for _, text := range tt.says {
					require.Contains(t, st.Findings[0].Summary, text)
				}
				if tt.verdict == pullwalk.StatusFailed {
					require.Equal(t, tt.cause, got.result.Primary.Cause)
				}
			})
		})
	}
}

// A nameserver that loses questions hides behind the next one; its rate shows it.
func TestANameserverThatWavers(t *testing.T) {
	t.Parallel()
	inWorld(t, "nameserver 10.20.0.2 10.20.0.3\nzone 10.20.0.3 registry.corp.test 10.20.0.4\nzone 10.20.0.3 auth.corp.test 10.20.0.5\nzone 10.20.0.3 blobs.corp.test 10.20.0.6", func(t *testing.T, w *world) {
		start := time.Now()
		inner := w.net.Exchanger()
		w.opts.Rounds = 4
		w.opts.Node.DNS = dnscheck.ExchangerFunc(func(ctx context.Context, server netip.AddrPort, network string, q dnscheck.Question) (dnscheck.Answer, error) {
			if at := time.Since(start); server == nameserverAddr && at >= 200*time.Millisecond && at < 300*time.Millisecond {
				return dnscheck.Answer{RCode: "SERVFAIL", RecursionAvailable: true}, nil
			}
			return inner.Exchange(ctx, server, network, q)
		})
		got := w.diagnoseWith(t)
		require.Equal(t, pullwalk.StatusDegraded, got.result.Verdict, "%s", got.result)
		st := roundsOf(t, got, "registry.corp.test:443", "dns")
		require.Equal(t, "++++", rates(st.Rounds))
		require.Equal(t, "the nameserver 10.20.0.2:53 gave addresses 3 times of 4", st.Findings[0].Summary)
		require.Equal(t, "10.20.0.2:53", st.Findings[0].Fact(classify.FactResolver))
	})
}

// Ended in the middle, rounds say how far they came and change no verdict.
func TestRoundsEndWithTheCaller(t *testing.T) {
	t.Parallel()
	for _, after := range []time.Duration{50 * time.Millisecond, 250 * time.Millisecond, 6 * time.Second} {
		inWorld(t, "", func(t *testing.T, w *world) {
			w.opts.Rounds = 20
			w.opts.Node.Dialer = moodyDialer{w.net.Dialer(), blobsAddr, moodsOf("ok ok ok ok silent")}
			ctx, cancel := context.WithTimeout(t.Context(), after)
			defer cancel()
			start := time.Now()
			res, err := pullwalk.Diagnose(ctx, w.image, &w.opts)
			require.NoError(t, err)
			require.LessOrEqual(t, time.Since(start), after+promised)
			requireSafe(t, w, res)
			want := pullwalk.StatusOK // all of the pull was seen
			if after == 6*time.Second {
				want = pullwalk.StatusDegraded
			}
			require.Equal(t, want, res.Verdict, "%s", res)
			for _, st := range steps(res, pullwalk.StepRounds) {
				if st.Status == pullwalk.StatusInconclusive {
					require.Equal(t, "the caller's deadline passed", st.Reason)
				}
			}
		})
	}
}

// Code of the caller that ignores its context holds the rounds up no more than the
// steps.
func TestRoundsWithADeafDialer(t *testing.T) {
	t.Parallel()
	inWorld(t, "", func(t *testing.T, w *world) {
		d := deaf{make(chan struct{})}
		defer close(d.release)
		w.opts.Rounds, w.opts.Node.Dialer = 3, d
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start := time.Now()
		res, err := pullwalk.Diagnose(ctx, w.image, &w.opts)
		require.NoError(t, err)
		require.LessOrEqual(t, time.Since(start), time.Second+promised)
		requireSafe(t, w, res)
		all := steps(res, pullwalk.StepRounds)
		require.Contains(t, all[len(all)-1].Reason, "did not return")
	})
}

// openConns counts the connections that are open.
type openConns struct {
	reach.Dialer
	open *atomic.Int32
}

func (o openConns) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := o.Dialer.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	o.open.Add(1)
	return &counted{Conn: conn, open: o.open}, nil
}

type counted struct {
	net.Conn
	once sync.Once
	open *atomic.Int32
}

func (c *counted) Close() error {
	c.once.Do(func() { c.open.Add(-1) })
	return c.Conn.Close()
}

// Every connection of a round is closed, also those that made up for the first.
func TestRoundsCloseTheirConnections(t *testing.T) {
	t.Parallel()
	for _, words := range []string{"ok", "refused ok ok ok ok"} {
		inWorld(t, "", func(t *testing.T, w *world) {
			var open atomic.Int32
			w.opts.Rounds = 5
			w.opts.Node.Dialer = openConns{moodyDialer{w.net.Dialer(), registryAddr, moodsOf(words)}, &open}
			got := w.diagnoseWith(t)
			require.NotEqual(t, pullwalk.StatusFailed, got.result.Verdict)
			require.Zero(t, open.Load())
		})
	}
}

// A first connect that the caller's end cut short is not known, whatever other rounds
// saw before.
func TestAFirstRoundThatIsCutShort(t *testing.T) {
	t.Parallel()
	inWorld(t, "", func(t *testing.T, w *world) {
		w.opts.Rounds = 3
		w.opts.Node.Dialer = moodyDialer{w.net.Dialer(), registryAddr, moodsOf("silent ok")}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		res, err := pullwalk.Diagnose(ctx, w.image, &w.opts)
		require.NoError(t, err)
		requireSafe(t, w, res)
		require.Equal(t, pullwalk.StatusInconclusive, res.Verdict)
		for _, st := range steps(res, pullwalk.StepConnect) {
			require.Equal(t, pullwalk.StatusInconclusive, st.Status)
		}
	})
}

// What stands in the way is the step, not its repetition.
func TestRoundsBlockNothing(t *testing.T) {
	t.Parallel()
	inWorld(t, "zone 10.20.0.2 auth.corp.test none", func(t *testing.T, w *world) {
		w.opts.Rounds = 3
		got := w.diagnoseWith(t)
		require.Equal(t, "---", rates(roundsOf(t, got, "auth.corp.test:443", "dns").Rounds))
		require.Equal(t, classify.DNSNXDOMAIN, got.result.Primary.Cause)
		for _, st := range steps(got.result, pullwalk.StepManifest) {
			require.Equal(t, "dns@auth.corp.test:443", st.BlockedBy)
		}
	})
}

// The same of a lookup.
func TestAFirstLookupThatIsCutShort(t *testing.T) {
	t.Parallel()
	inWorld(t, "", func(t *testing.T, w *world) {
		w.opts.Rounds = 3
		w.opts.Node.DNS = moodyNameserver{w.net.Exchanger(), "registry.corp.test", moodsOf("silent ok")}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		res, err := pullwalk.Diagnose(ctx, w.image, &w.opts)
		require.NoError(t, err)
		requireSafe(t, w, res)
		require.Equal(t, pullwalk.StatusInconclusive, res.Verdict)
		require.Equal(t, pullwalk.StatusInconclusive, onlyStep(t, res, pullwalk.StepDNS).Status)
	})
}

// checkRounds wants as many connects, or answers with addresses, as rounds that held.
func (g *seen) checkRounds(t *testing.T, what string, e pullwalk.Endpoint, st pullwalk.Step) {
	t.Helper()
	held, served := strings.Count(rates(st.Rounds), "+"), 0
	for _, d := range g.net.Dials() {
		if d.Connected && d.Address == netip.AddrPortFrom(st.Addr, e.Port) {
			served++
		}
	}
	for _, q := range g.net.Questions() {
		if st.Subject == "dns" && q.Type == "A" && q.RCode == "NOERROR" && strings.TrimSuffix(q.Name, ".") == e.Host {
			served++
		}
	}
	require.GreaterOrEqual(t, served, held, what)
}
