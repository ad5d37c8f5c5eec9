package pullwalk_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"net/http"
	"net/netip"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pullwalk/pullwalk"
	"github.com/pullwalk/pullwalk/classify"
	"github.com/pullwalk/pullwalk/internal/lab"
	"github.com/pullwalk/pullwalk/tlsauth"
)

// neighbours are two images of the scenario's registry: its own, and one of a
// repository that the reader may not read.
func (w *world) neighbours() []string {
	registry, _, ok := strings.Cut(w.image, "/")
	if !ok { // a short name
		registry = lab.RegistryName
	}
	return []string{w.image, registry + "/team/other:v1"}
}

// moment is what differs between two looks at equal worlds: when, how long, from
// which port of the node, which certificates, and which of two ends at the same
// instant came first.
var moment = regexp.MustCompile(`"\w+Ms":\d+|\d{4}-\d\d-\d\dT[\d:.]+Z|\b\d+(\.\d+)? ?(ms|s)\b|"(source|sha256|rootSha256)":"[^"]*"|context (canceled|deadline exceeded)`)

func timeless(t testing.TB, r *pullwalk.Result) string {
	t.Helper()
	text, err := json.Marshal(r)
	require.NoError(t, err)
	return strings.ReplaceAll(moment.ReplaceAllString(string(text)+r.String(), "T"), ",", ",\n")
}

// spent is what a world was asked for.
type spent struct{ questions, dials, handshakes, requests int }

func (w *world) spent() spent {
	s := spent{questions: len(w.net.Questions()), dials: len(w.net.Dials())}
	for _, h := range []*lab.Host{w.lab.Registry, w.lab.Token, w.lab.Blobs} {
		s.handshakes += h.Connections()
		s.requests += len(h.Requests())
	}
	return s
}

func (s spent) since(before spent) spent {
	return spent{s.questions - before.questions, s.dials - before.dials, s.handshakes - before.handshakes, s.requests - before.requests}
}

// look diagnoses some of the neighbours in a world of their own: some faults strike
// once.
func (s scenario) look(t *testing.T, some func(images []string) []string) (all []*pullwalk.Result, cost spent) {
	t.Helper()
	s.inBubble(t, func(t *testing.T, w *world) {
		images := some(w.neighbours())
		steps := map[string]int{}
		opts := w.opts
		opts.OnStep = func(st pullwalk.Step) { steps[st.Image]++ }
		var err error
		all, err = pullwalk.DiagnoseAll(t.Context(), images, &opts)
		require.NoError(t, err)
		require.Len(t, all, len(images))
		cost = w.spent()
		for i, res := range all {
			checkResult(t, res)
			if res.Sandbox == nil || res.Sandbox.Sources == nil { // else its steps are in all results, and told once
				assert.Equal(t, countSteps(res), steps[res.Image.Given], "OnStep is told of every step of %s once", images[i])
			}
		}
		assert.Empty(t, w.lab.Violations())
	})
	return all, cost
}

// In every world each image of many has the result that it has alone, whatever is
// broken, and the hosts are asked as if for one.
func TestTogetherAsAlone(t *testing.T) {
	t.Parallel()
	for _, s := range scenarios(t) {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			first, one := s.look(t, func(images []string) []string { return images[:1] })
			second, other := s.look(t, func(images []string) []string { return images[1:] })
			together, both := s.look(t, func(images []string) []string { return images })
			for i, alone := range []*pullwalk.Result{first[0], second[0]} {
				want, got := timeless(t, alone), timeless(t, together[i])
				if want != got {
					t.Errorf("%s:\n%s", alone.Image.Given, difference(want, got))
				}
			}
			// Whether a request finds a connection free depends on what runs at the same
			// moment: of a few looks the most that it took apart is held against the
			// least that it took together.
			apart, least := one.dials+other.dials, both.dials
			for range 5 {
				if apart == 0 || least <= apart {
					break
				}
				_, one = s.look(t, func(images []string) []string { return images[:1] })
				_, other = s.look(t, func(images []string) []string { return images[1:] })
				_, both = s.look(t, func(images []string) []string { return images })
				apart, least = max(apart, one.dials+other.dials), min(least, both.dials)
			}
			if apart > 0 {
				assert.LessOrEqual(t, least, apart)
			}
		})
	}
}

// variants are n names of the image that works: each is walked for itself.
func (w *world) variants(n int) []string {
	registry, _, _ := strings.Cut(w.image, "/")
	out := []string{w.image}
	for i := 1; i < n; i++ { // a digest makes the tag a comment
		out = append(out, fmt.Sprintf("%s/%s:v%d@%s", registry, lab.Repository, i+1, w.lab.Digest()))
	}
	return out[:n]
}

// What is the same for all images is asked once; what is one image's own is asked
// for each: the token above all.
func TestEachHostIsAskedOnce(t *testing.T) {
	t.Parallel()
	inWorld(t, "", func(t *testing.T, w *world) {
		_, err := pullwalk.Diagnose(t.Context(), w.image, &w.opts)
		require.NoError(t, err)
		one := w.spent()
		manifests, tokens, pings := w.lab.Registry.Count("GET", "/v2/team/app/manifests/", 200), w.lab.Token.Count("", "/token", 200), w.pings()
		const n = 20
		all, err := pullwalk.DiagnoseAll(t.Context(), w.variants(n), &w.opts)
		require.NoError(t, err)
		for _, res := range all {
			require.Equal(t, pullwalk.StatusOK, res.Verdict, res.String())
		}
		many := w.spent().since(one)
		t.Logf("one image: %+v; %d images: %+v", one, n, many)
		assert.Equal(t, one.questions, many.questions, "three names, as for one image")
		assert.LessOrEqual(t, many.dials, one.dials+3*8*3, "no more than what runs at once needs")
		assert.Less(t, many.dials, n*one.dials/2)
		assert.Equal(t, pings, w.pings()-pings, "one ping for all")
		assert.Equal(t, n*tokens, w.lab.Token.Count("", "/token", 200)-tokens, "each image has its own token")
		assert.Equal(t, n*manifests, w.lab.Registry.Count("GET", "/v2/team/app/manifests/", 200)-manifests)
		assert.Empty(t, w.lab.Violations())
	})
}

func (w *world) pings() (n int) {
	for _, r := range w.lab.Registry.Requests() {
		if r.Path == "/v2/" {
			n++
		}
	}
	return n
}

// What only the caller knows may be true of one image and not of another, and so
// each has its own checks; they stand on the ladder that all share.
func TestEachImageHasItsOwnChecks(t *testing.T) {
	t.Parallel()
	inWorld(t, "", func(t *testing.T, w *world) {
		images := w.variants(12)
		var mu sync.Mutex
		asked := map[string]int{}
		w.opts.Checks = []pullwalk.Check{{ID: "corp/mark", Layer: classify.LayerImage, Needs: []pullwalk.StepID{pullwalk.StepTLS}, Run: func(_ context.Context, in pullwalk.Input) ([]classify.Finding, error) {
			mu.Lock()
			defer mu.Unlock()
			asked[in.Image.Given]++
			if in.Image.Given == images[3] {
				return []classify.Finding{{Cause: "x.mark", Severity: classify.SeverityFail, Summary: "this one is marked"}}, nil
			}
			return nil, nil
		}}}
		all, err := pullwalk.DiagnoseAll(t.Context(), images, &w.opts)
		require.NoError(t, err)
		for i, res := range all {
			require.Equal(t, 1, asked[images[i]])
			require.Len(t, steps(res, "corp/mark"), 1)
			if i == 3 {
				require.Equal(t, pullwalk.StatusFailed, res.Verdict)
				require.Equal(t, classify.Cause("x.mark"), res.Primary.Cause)
			} else {
				require.Equal(t, pullwalk.StatusOK, res.Verdict, res.String())
			}
		}
	})
}

// Rates are of the path: they are measured once, and stand in every result.
func TestRoundsAreOfTheHost(t *testing.T) {
	t.Parallel()
	inWorld(t, "option rounds 4\nmoods 10.20.0.4:443 ok silent ok ok", func(t *testing.T, w *world) {
		all, err := pullwalk.DiagnoseAll(t.Context(), w.variants(12), &w.opts)
		require.NoError(t, err)
		want := steps(all[0], pullwalk.StepRounds)
		require.NotEmpty(t, want)
		for _, res := range all {
			require.Equal(t, pullwalk.StatusDegraded, res.Verdict)
			require.Equal(t, classify.RouteIntermittent, res.Findings[0].Cause)
			require.Equal(t, "3/4", res.Findings[0].Fact(classify.FactRounds))
			got := steps(res, pullwalk.StepRounds)
			require.Len(t, got, len(want))
			for i := range got {
				require.Equal(t, want[i].Rounds, got[i].Rounds)
			}
		}
	})
}

// Twice the same image is one diagnosis; the order is the caller's.
func TestResultsAreInOrder(t *testing.T) {
	t.Parallel()
	inWorld(t, "", func(t *testing.T, w *world) {
		missing := lab.RegistryName + "/" + lab.Repository + ":none"
		all, err := pullwalk.DiagnoseAll(t.Context(), []string{missing, w.image, missing}, &w.opts)
		require.NoError(t, err)
		require.Len(t, all, 3)
		require.Same(t, all[0], all[2])
		require.Equal(t, classify.ImageManifestUnknown, all[0].Primary.Cause)
		require.Equal(t, pullwalk.StatusOK, all[1].Verdict)
		for i, image := range []string{missing, w.image, missing} {
			require.Equal(t, image, all[i].Image.Given)
		}
	})
}

func TestNoImages(t *testing.T) {
	t.Parallel()
	inWorld(t, "", func(t *testing.T, w *world) {
		all, err := pullwalk.DiagnoseAll(t.Context(), nil, &w.opts)
		require.NoError(t, err)
		require.NotNil(t, all)
		require.Empty(t, all)
		_, err = pullwalk.DiagnoseAll(t.Context(), nil, &pullwalk.Options{Pull: "half"})
		require.Error(t, err, "senseless options are, for whatever images")
	})
}

// One image that makes no sense refuses the call: nothing was sent for the others.
func TestOneSenselessImage(t *testing.T) {
	t.Parallel()
	inWorld(t, "", func(t *testing.T, w *world) {
		all, err := pullwalk.DiagnoseAll(t.Context(), []string{w.image, "Not/An:Image:At:All", w.image}, &w.opts)
		require.ErrorContains(t, err, "Not/An:Image:At:All")
		require.Nil(t, all)
		require.Zero(t, w.spent())
	})
}

// A registry that hangs at every request uses up the budget for its own images and
// for nobody else's.
func TestAHangingRegistryStarvesNobody(t *testing.T) {
	t.Parallel()
	inWorld(t, "", func(t *testing.T, w *world) {
		const hanging = "hanging.corp.test"
		other, err := lab.New(lab.Options{})
		require.NoError(t, err)
		defer other.Close()
		at := netip.MustParseAddrPort("10.20.1.4:443")
		w.net.Zone(nameserverAddr).Add(hanging, at.Addr())
		other.Break(lab.HeaderStall(other.Registry), lab.ServesCertificate(other.Registry, w.lab.Certificate(hanging)))
		other.Registry.Serve(w.net.Listen(at))
		var images []string
		for i := range 40 {
			images = append(images, fmt.Sprintf("%s/team/app%d:v1", hanging, i))
		}
		start := time.Now()
		all, err := pullwalk.DiagnoseAll(t.Context(), append(images, w.image), &w.opts)
		require.NoError(t, err)
		require.LessOrEqual(t, time.Since(start), time.Minute+promised)
		verdicts := map[pullwalk.Status]int{}
		for _, res := range all[:40] {
			checkResult(t, res)
			verdicts[res.Verdict]++
			if res.Verdict == pullwalk.StatusFailed {
				require.Equal(t, hanging+":443", res.Primary.Endpoint)
				require.Equal(t, classify.EndpointResponseHeaderTimeout, res.Primary.Cause)
			} else {
				require.Equal(t, "the budget ended", res.Inconclusive)
			}
		}
		t.Log(verdicts)
		require.GreaterOrEqual(t, verdicts[pullwalk.StatusFailed], 24, "eight at once, 15 s each")
		require.NotZero(t, verdicts[pullwalk.StatusInconclusive], "what the budget did not allow is not blamed on anybody")
		require.Equal(t, pullwalk.StatusOK, all[40].Verdict)
		require.Zero(t, all[40].ElapsedMS)
	})
}

// A host that never answers a SYN is waited for once, however many need it.
func TestASilentHostIsWaitedForOnce(t *testing.T) {
	t.Parallel()
	inWorld(t, "net silent 10.20.0.4:443", func(t *testing.T, w *world) {
		start := time.Now()
		all, err := pullwalk.DiagnoseAll(t.Context(), w.variants(50), &w.opts)
		require.NoError(t, err)
		require.LessOrEqual(t, time.Since(start), 6*time.Second)
		for _, res := range all {
			require.Equal(t, pullwalk.StatusFailed, res.Verdict)
			require.Equal(t, classify.LayerRoute, res.Primary.Layer)
		}
		require.LessOrEqual(t, len(w.net.Dials()), 2)
	})
}

// No more images of one registry are asked for at once than is said.
func TestImagesAtOnce(t *testing.T) {
	t.Parallel()
	inWorld(t, "", func(t *testing.T, w *world) {
		most := &turnstile{near: w.opts.Keychain.(interface {
			authn.Keychain
			tlsauth.CredentialLister
		})}
		w.opts.Keychain = most
		_, err := pullwalk.DiagnoseAll(t.Context(), w.variants(30), &w.opts)
		require.NoError(t, err)
		require.Equal(t, 8, most.most)
	})
}

// turnstile is a slow keychain that counts who asks it at once.
type turnstile struct {
	near interface {
		authn.Keychain
		tlsauth.CredentialLister
	}
	mu        sync.Mutex
	now, most int
}

func (c *turnstile) Resolve(r authn.Resource) (authn.Authenticator, error) { return c.near.Resolve(r) }

func (c *turnstile) Credentials(ctx context.Context, image string) ([]tlsauth.Credential, error) {
	c.mu.Lock()
	c.now++
	c.most = max(c.most, c.now)
	c.mu.Unlock()
	time.Sleep(time.Second)
	c.mu.Lock()
	c.now--
	c.mu.Unlock()
	return c.near.Credentials(ctx, image)
}

// Two images of one registry whose credentials differ have nothing of each other's:
// what one may read does not help the other.
func TestCredentialsStayApart(t *testing.T) {
	t.Parallel()
	inWorld(t, "login registry.corp.test/team/app reader right\nlogin registry.corp.test/team/other reader wrong", func(t *testing.T, w *world) {
		other := lab.RegistryName + "/team/other:v1"
		all, err := pullwalk.DiagnoseAll(t.Context(), []string{other, w.image, lab.RegistryName + "/team/third:v1"}, &w.opts)
		require.NoError(t, err)
		require.Equal(t, pullwalk.StatusFailed, all[0].Verdict)
		require.Equal(t, classify.LayerIdentity, all[0].Primary.Layer)
		require.Equal(t, pullwalk.StatusOK, all[1].Verdict)
		require.Equal(t, "anonymous", all[2].Vantage.Identity)
		require.Equal(t, pullwalk.StatusFailed, all[2].Verdict)
		require.Empty(t, w.lab.Violations())
	})
}

// Where a question and its answer are the same for all images, all say so.
func TestARefusedPingStandsInEveryResult(t *testing.T) {
	t.Parallel()
	inWorld(t, "", func(t *testing.T, w *world) {
		w.lab.Break(lab.PingBlocked(503))
		all, err := pullwalk.DiagnoseAll(t.Context(), w.variants(9), &w.opts)
		require.NoError(t, err)
		for _, res := range all {
			require.Equal(t, pullwalk.StatusDegraded, res.Verdict)
			pings := steps(res, pullwalk.StepPing)
			require.Len(t, pings, 1)
			require.Equal(t, 503, pings[0].Request.Status)
		}
		require.Equal(t, 1, w.pings())
	})
}

// Registries that share nothing but a token server: its ladder is climbed once, and
// what each shows explains nothing at the other.
func TestTwoRegistriesWithOneTokenServer(t *testing.T) {
	t.Parallel()
	inWorld(t, "", func(t *testing.T, w *world) {
		const second = "second.corp.test"
		other, err := lab.New(lab.Options{})
		require.NoError(t, err)
		defer other.Close()
		at := netip.MustParseAddrPort("10.20.1.4:443")
		w.net.Zone(nameserverAddr).Add(second, at.Addr())
		other.Break(lab.ServesCertificate(other.Registry, w.lab.Certificate(second)))
		other.Registry.Serve(w.net.Listen(at))
		images := []string{w.image, second + "/" + lab.Repository + ":" + lab.Tag}
		var alone []string
		for _, image := range images {
			res, err := pullwalk.Diagnose(t.Context(), image, &w.opts)
			require.NoError(t, err)
			alone = append(alone, timeless(t, res))
		}
		connections := w.lab.Token.Connections()
		all, err := pullwalk.DiagnoseAll(t.Context(), images, &w.opts)
		require.NoError(t, err)
		for i, res := range all {
			if got := timeless(t, res); got != alone[i] {
				t.Error(difference(alone[i], got))
			}
		}
		require.Len(t, steps(all[1], pullwalk.StepToken), 1)
		require.Less(t, w.lab.Token.Connections()-connections, connections)
	})
}

// Canceled after the n-th step, for every n: each image has a valid result.
func TestCancelAllAfterEveryStep(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"healthy-complete", "mirror-refused", "proxy-works", "header-stall-blobs", "loopback-plain"} {
		s := scenarioNamed(t, name)
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			look := func(t *testing.T, w *world, n int) (told int) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				canceled := time.Time{}
				opts := w.opts
				opts.OnStep = func(pullwalk.Step) {
					if told++; told == n {
						canceled = time.Now()
						cancel()
					}
				}
				all, err := pullwalk.DiagnoseAll(ctx, w.neighbours(), &opts)
				require.NoError(t, err)
				if n > 0 {
					assert.LessOrEqual(t, time.Since(canceled), promised, "after step %d", n)
				}
				for _, res := range all {
					requireSafe(t, w, res)
				}
				return told
			}
			total := 0
			s.inBubble(t, func(t *testing.T, w *world) { total = look(t, w, 0) })
			require.NotZero(t, total)
			for n := 1; n <= total; n++ {
				s.inBubble(t, func(t *testing.T, w *world) { look(t, w, n) })
			}
		})
	}
}

// Many images, canceled at once: nobody waits for a turn, nor for the caller's code
// that ignores its context.
func TestCancelMany(t *testing.T) {
	t.Parallel()
	for _, deafness := range []string{"none", "dialer", "keychain"} {
		for _, after := range []time.Duration{0, time.Millisecond, 7 * time.Second} {
			inWorld(t, "break header-stall registry", func(t *testing.T, w *world) {
				d := deaf{make(chan struct{})}
				defer close(d.release)
				switch deafness {
				case "dialer":
					w.opts.Node.Dialer = d
				case "keychain":
					w.opts.Keychain = d
				}
				ctx, cancel := context.WithTimeout(t.Context(), after)
				defer cancel()
				start := time.Now()
				all, err := pullwalk.DiagnoseAll(ctx, w.variants(200), &w.opts)
				require.NoError(t, err)
				require.LessOrEqual(t, time.Since(start), after+promised, "%s %v", deafness, after)
				for _, res := range all {
					require.Equal(t, pullwalk.StatusInconclusive, res.Verdict)
					require.Equal(t, "the caller's deadline passed", res.Inconclusive)
					requireSafe(t, w, res)
				}
			})
		}
	}
}

// Files of the node that concern every image are read once.
func TestRootsAreReadOnce(t *testing.T) {
	t.Parallel()
	inWorld(t, "", func(t *testing.T, w *world) {
		const bundle = "etc/ssl/certs/ca-certificates.crt"
		counting := &countingFS{FS: w.files}
		w.opts.Node.FS = counting
		_, err := pullwalk.Diagnose(t.Context(), w.image, &w.opts)
		require.NoError(t, err)
		one := counting.opened(bundle)
		require.NotZero(t, one)
		_, err = pullwalk.DiagnoseAll(t.Context(), w.variants(20), &w.opts)
		require.NoError(t, err)
		require.Equal(t, 2*one, counting.opened(bundle), "twenty as one")

		w.opts.Node.Roots = w.lab.TrustedPool()
		res, err := pullwalk.Diagnose(t.Context(), w.image, &w.opts)
		require.NoError(t, err)
		require.Equal(t, pullwalk.StatusOK, res.Verdict)
		require.Equal(t, 2*one, counting.opened(bundle), "the caller's pool needs no file")
	})
}

type countingFS struct {
	fs.FS
	mu    sync.Mutex
	opens map[string]int
}

func (c *countingFS) Open(name string) (fs.File, error) {
	c.mu.Lock()
	if c.opens == nil {
		c.opens = map[string]int{}
	}
	c.opens[name]++
	c.mu.Unlock()
	return c.FS.Open(name)
}

func (c *countingFS) opened(name string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.opens[name]
}

// Steps and progress of many images come one at a time, too, and each step says
// whose it is.
func TestCallbacksOfManyAreNotConcurrent(t *testing.T) {
	t.Parallel()
	inWorld(t, "break body-stall blobs\noption also silent.corp.test:443\nzone 10.20.0.2 silent.corp.test 10.20.1.9\nnet silent 10.20.1.9:443", func(t *testing.T, w *world) {
		inside, told, silences := false, map[string]int{}, 0
		enter := func(tell func()) {
			require.False(t, inside)
			inside = true
			time.Sleep(time.Millisecond)
			tell()
			inside = false
		}
		w.opts.OnStep = func(s pullwalk.Step) { enter(func() { told[s.Image]++ }) }
		w.opts.OnProgress = func(pullwalk.Progress) { enter(func() { silences++ }) }
		images := w.variants(6)
		all, err := pullwalk.DiagnoseAll(t.Context(), images, &w.opts)
		require.NoError(t, err)
		for i, res := range all {
			require.Equal(t, countSteps(res), told[images[i]])
		}
		require.NotZero(t, silences)
	})
}

// Two registries may lie behind one host, and their files may add other header
// fields: what is asked there for one is no answer for the other.
func TestHeaderFieldsStayApart(t *testing.T) {
	t.Parallel()
	inWorld(t, "", func(t *testing.T, w *world) {
		var mu sync.Mutex
		teams := map[string]int{}
		w.lab.Break(lab.Answers(w.lab.Registry, func(_ http.ResponseWriter, r *http.Request) bool {
			mu.Lock()
			defer mu.Unlock()
			if r.URL.Path == "/v2/" {
				teams[r.Header.Get("X-Team")]++
			}
			return false
		}))
		w.file("etc/containerd/config.toml", "version = 3\n[plugins.'io.containerd.cri.v1.images'.registry]\nconfig_path = '/etc/containerd/certs.d'\n")
		var images []string
		for _, name := range []string{"one", "two"} {
			w.file("etc/containerd/certs.d/"+name+".corp.test/hosts.toml", "server = 'https://registry.corp.test'\n[header]\nx-team = '"+name+"'\n")
			images = append(images, name+".corp.test/"+lab.Repository+"@"+w.lab.Digest().String())
		}
		_, err := pullwalk.DiagnoseAll(t.Context(), images, &w.opts)
		require.NoError(t, err)
		require.Equal(t, map[string]int{"one": 1, "two": 1}, teams)
	})
}
