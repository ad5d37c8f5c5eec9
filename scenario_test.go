package pullwalk_test

import (
	"context"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pullwalk/pullwalk"
)

var update = flag.Bool("update", false, "rewrite the golden sections and the schema")

// seen is one diagnosis of a scenario, and everything that was told meanwhile.
type seen struct {
	*world
	scenario scenario
	result   *pullwalk.Result
	steps    []pullwalk.Step
	progress []told
	json     []byte // of the result
	trace    *tracing
}

type told struct {
	after time.Duration
	pullwalk.Progress
}

// TestScenarios walks each scenario once and asks everything of it: is what was
// said what the golden sections say, is it true, is it safe to print.
func TestScenarios(t *testing.T) {
	t.Parallel()
	for _, s := range scenarios(t) {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			s.inBubble(t, func(t *testing.T, w *world) {
				got := w.diagnose(t, t.Context(), s)
				got.compare(t)
				got.checkHonesty(t)
				got.checkLeaks(t)
				got.checkEncoding(t)
				got.checkShape(t)
				got.checkBacking(t)
				got.checkSummary(t)
				got.checkLog(t)
			})
		})
	}
}

func scenarios(t testing.TB) []scenario {
	t.Helper()
	files, err := filepath.Glob("testdata/scenarios/*.txtar")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	var all []scenario
	for _, f := range files {
		all = append(all, readScenario(t, f, strings.TrimSuffix(filepath.Base(f), ".txtar")))
	}
	return all
}

func scenarioNamed(t testing.TB, name string) scenario {
	t.Helper()
	return readScenario(t, filepath.Join("testdata/scenarios", name+".txtar"), name)
}

// inBubble builds the world in a bubble of its own. That the bubble ends says
// that no goroutine is left.
func (s scenario) inBubble(t *testing.T, run func(*testing.T, *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		statements, _ := s.section("world")
		node, bodies := map[string]string{}, map[string]string{}
		for _, f := range s.archive.Files { // a body may name those before it
			if path, ok := strings.CutPrefix(f.Name, "node/"); ok {
				node[path] = string(f.Data)
			}
			if name, ok := strings.CutPrefix(f.Name, "body/"); ok {
				bodies[name] = digests(bodies, strings.TrimSuffix(string(f.Data), "\n"))
			}
		}
		w := newWorld(t, digests(bodies, statements), node, bodies)
		defer w.close()
		run(t, w)
	})
}

// diagnose walks the scenario and keeps what is told.
func (w *world) diagnose(t testing.TB, ctx context.Context, s scenario) *seen {
	t.Helper()
	got := &seen{world: w, scenario: s}
	opts := w.opts
	start := time.Now()
	got.trace = newTracing(t, &opts)
	opts.OnStep = func(st pullwalk.Step) { got.steps = append(got.steps, st) }
	opts.OnProgress = func(p pullwalk.Progress) { got.progress = append(got.progress, told{time.Since(start), p}) }
	var err error
	got.result, err = pullwalk.Diagnose(ctx, w.image, &opts)
	require.NoError(t, err)
	synctest.Wait()
	got.json, err = json.Marshal(got.result)
	require.NoError(t, err)
	return got
}

// compare holds the result against the golden sections.
func (g *seen) compare(t *testing.T) {
	t.Helper()
	sections := map[string]string{"result.json": golden(t, g.scenario.name, g.result), "report.txt": g.result.String()}
	if !*update {
		for name, got := range sections {
			want, ok := g.scenario.section(name)
			if !ok {
				t.Errorf("no section %s: run with -update and read what it says", name)
				continue
			}
			if want != got {
				t.Errorf("%s is not what it was; run with -update and read the diff:\n%s", name, difference(want, got))
			}
		}
		return
	}
	updated := *g.scenario.archive
	updated.Files = nil
	for _, f := range g.scenario.archive.Files {
		if _, ok := sections[f.Name]; !ok {
			updated.Files = append(updated.Files, f)
		}
	}
	for _, name := range []string{"result.json", "report.txt"} {
		updated.Files = append(updated.Files, txtarFile(name, sections[name]))
	}
	path := filepath.Join("testdata/scenarios", g.scenario.name+".txtar")
	require.NoError(t, os.WriteFile(path, formatArchive(&updated), 0o644))
}
