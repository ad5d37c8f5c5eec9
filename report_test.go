package pullwalk_test

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pullwalk/pullwalk"
	"github.com/pullwalk/pullwalk/classify"
)

// advice are the sections that the catalogue writes: they name other hosts and
// codes as examples.
var advice = []string{"Where to look", "Look", "Remedy", "Will not help", "Other readings"}

// statements are the lines of a report that say what is the case here.
func statements(text string) []string {
	var out []string
	skipping := false
	for line := range strings.Lines(text) {
		title, _, titled := strings.Cut(strings.TrimSpace(line), ":")
		if titled && !strings.HasPrefix(line, "                   ") {
			skipping = slices.Contains(advice, title)
		}
		if !skipping {
			out = append(out, line)
		}
	}
	return out
}

var (
	codeWord = regexp.MustCompile(`\b(?:node|route|dns|endpoint|tls|registry|identity|image|unknown)\.[a-z0-9-]+\b`)
	hostWord = regexp.MustCompile(`\b[a-z0-9-]+(?:\.[a-z0-9-]+)*\.(?:test|com|io|internal)(?::[0-9]+)?\b`)
	addrWord = regexp.MustCompile(`\b[0-9]+\.[0-9]+\.[0-9]+\.[0-9]+\b`)
	stepWord = regexp.MustCompile(`[a-z][a-z/-]*@[^\s,;]+`)
)

// checkBacking wants every cause, host, address and step that the texts name to
// stand in the JSON: causes among the findings of its steps or what the events
// said, the rest in what was asked.
func (g *seen) checkBacking(t *testing.T) {
	t.Helper()
	r := g.result
	causes := map[string]bool{}
	if r.Reported != nil {
		causes[string(r.Reported.Reading.Best.Cause)] = true
	}
	sources := r.Sources
	if r.Sandbox != nil {
		sources = slices.Concat(sources, r.Sandbox.Sources)
		if r.Sandbox.Primary != nil { // a name that is none is no step: nothing was asked
			causes[string(r.Sandbox.Primary.Cause)] = true
		}
	}
	steps := map[string]bool{}
	for _, s := range sources {
		for _, e := range s.Endpoints {
			for _, st := range e.Steps {
				name := string(st.ID) + "@" + e.HostPort()
				steps[name] = true
				if st.Addr.IsValid() {
					steps[name+"["+st.Addr.String()+"]"] = true
				}
				for _, f := range st.Findings {
					causes[string(f.Cause)] = true
				}
			}
		}
	}
	known, err := json.Marshal([]any{r.Sources, r.Sandbox, r.Vantage, r.Image, r.Reported})
	require.NoError(t, err)
	for name, text := range map[string]string{"report": r.String(), "summary": r.Summary()} {
		for _, line := range statements(text) {
			for _, code := range codeWord.FindAllString(line, -1) {
				if _, is := classify.Lookup(classify.Cause(code)); is {
					assert.True(t, causes[code] || strings.Contains(string(known), `"`+code+`"`), "%s: no step found %s: %s", name, code, line)
				}
			}
			for _, word := range slices.Concat(hostWord.FindAllString(line, -1), addrWord.FindAllString(line, -1)) {
				host, _, _ := strings.Cut(word, ":")
				assert.Contains(t, string(known), host, "%s: no step knows %s: %s", name, host, line)
			}
			for _, step := range stepWord.FindAllString(line, -1) {
				step = strings.TrimRight(step, ":.")
				assert.True(t, steps[step] || strings.Contains(step, "@sha256:"), "%s: there is no step %s: %s", name, step, line)
			}
		}
	}
}

// checkSummary wants what fits into a chat, and the answers in their order.
func (g *seen) checkSummary(t *testing.T) {
	t.Helper()
	text := g.result.Summary()
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	assert.LessOrEqual(t, len(lines), 10, text)
	for _, l := range lines {
		assert.LessOrEqual(t, len(l), 330, l)
		assert.True(t, utf8.ValidString(l))
		assert.NotEmpty(t, strings.TrimSpace(l))
	}
	assert.Contains(t, lines[0], g.result.Image.Reference)
	for _, l := range append(lines, strings.Split(g.result.String(), "\n")...) {
		for _, secret := range g.secrets() {
			assert.NotContains(t, l, secret)
		}
	}
	if p := g.result.Primary; p != nil {
		assert.Contains(t, lines[1], string(p.Cause))
		assert.Contains(t, lines[1], "owner "+string(p.Owner))
		assert.Contains(t, lines[1], p.Endpoint)
	}
}

// The whole report answers in one order, whatever there is to say.
func TestReportAnswersInOrder(t *testing.T) {
	t.Parallel()
	inWorld(t, "net silent 10.20.0.4:443\noption also data.corp.test:443\nzone 10.20.0.2 data.corp.test none", func(t *testing.T, w *world) {
		w.opts.Events = []classify.EventRecord{failedPull(asked, saysTimeout)}
		got := w.diagnose(t, t.Context(), scenario{})
		text := got.result.String()
		last := -1
		for _, title := range []string{
			"the pull fails", "Holds for:", "First broken:", "Seen:", "Owner:", "Where to look:", "Remedy:", "Will not help:", "Blocked behind:", "Warnings:", "Reported:", "Proof:", "Hosts:", "Looked from:",
		} {
			at := strings.Index(text, title)
			require.Greater(t, at, last, "%s in\n%s", title, text)
			last = at
		}
		for _, part := range []string{"digest not known", "node node-1", "nameservers 10.20.0.2:53 of /etc/resolv.conf", "identity anonymous", "2000-01-01T00:00:00Z"} {
			require.Contains(t, strings.Split(text, "\n")[1], part)
		}
		require.Contains(t, text, "connect@registry.corp.test:443 holds here, then a complete download")
	})
}

// A node is called as the cluster calls it.
func TestReportNamesTheNode(t *testing.T) {
	t.Parallel()
	inWorld(t, "", func(t *testing.T, w *world) {
		w.opts.Node.Labels = map[string]string{pullwalk.LabelNode: "aks-pool-1"}
		got := w.diagnose(t, t.Context(), scenario{})
		require.Contains(t, got.result.String(), "node aks-pool-1")
		require.Contains(t, got.result.Summary(), "on aks-pool-1 at 2000-01-01T00:00:00Z")
		delete(w.files, "etc/hostname")
		w.opts.Node.Labels = nil
		require.Contains(t, w.diagnose(t, t.Context(), scenario{}).result.String(), "node not known")
	})
}

// Of a download that stopped, the report says how far it came.
func TestReportSaysHowFarADownloadCame(t *testing.T) {
	t.Parallel()
	inWorld(t, "option complete\nbreak body-stall blobs", func(t *testing.T, w *world) {
		got := w.diagnose(t, t.Context(), scenario{})
		require.Contains(t, got.result.String(), "(1 bytes of 365)")
		require.Contains(t, got.result.Summary(), "(1 bytes of 365)")
	})
}
