package classify_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pullwalk/pullwalk/classify"
)

// labelled is one line of testdata/texts.jsonl: a text composed from a template
// of a runtime, and what it says. An empty operation is not checked.
type labelled struct {
	Template  string             `json:"template"`
	Reason    string             `json:"reason"`
	Text      string             `json:"text"`
	Kind      string             `json:"kind"` // "" = failure; "cached" = ok without a transfer
	Cause     classify.Cause     `json:"cause"`
	Operation classify.Operation `json:"operation"`
	Endpoint  string             `json:"endpoint"`
}

func labelledTexts(tb testing.TB) []labelled {
	tb.Helper()
	f, err := os.Open("testdata/texts.jsonl")
	require.NoError(tb, err)
	defer f.Close()
	var texts []labelled
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var l labelled
		require.NoError(tb, json.Unmarshal(lines.Bytes(), &l), lines.Text())
		texts = append(texts, l)
	}
	return texts
}

// said is what a reading says in the words of the labels.
func said(r classify.Reading) (kind string, cause classify.Cause) {
	switch {
	case r.Kind == classify.KindOK && r.Cached:
		return "cached", ""
	case r.Kind != classify.KindFailure:
		return string(r.Kind), ""
	}
	return "", r.Best.Cause
}

// Every template of the runtimes, with the confusion table that shows where the
// reader is weak.
func TestTextsOfEveryTemplate(t *testing.T) {
	t.Parallel()
	confused := map[string]int{}
	texts := labelledTexts(t)
	for _, l := range texts {
		r := classify.Event(l.Reason, l.Text)
		kind, cause := said(r)
		if !assert.Equal(t, l.Kind+string(l.Cause), kind+string(cause), "%s: %s", l.Template, l.Text) {
			confused[fmt.Sprintf("%s%s read as %s%s", l.Kind, l.Cause, kind, cause)]++
			continue
		}
		if l.Cause == "" {
			assert.Equal(t, classify.Finding{}, r.Best, l.Text)
			continue
		}
		if l.Operation != "" {
			assert.Equal(t, l.Operation, r.Best.Operation, "%s: %s", l.Template, l.Text)
		}
		assert.Equal(t, l.Endpoint, r.Best.Endpoint, "%s: %s", l.Template, l.Text)
		assert.Equal(t, classify.CertaintyPossible, r.Best.Certainty, l.Text)
	}
	t.Logf("%d texts, %d confused", len(texts), len(confused))
	for _, pair := range slices.Sorted(maps.Keys(confused)) {
		t.Logf("%4d  %s", confused[pair], pair)
	}
}

// The runtimes wrap; a reader must not depend on how much.
func TestTextsWrapped(t *testing.T) {
	t.Parallel()
	for _, l := range labelledTexts(t) {
		if l.Template == "form" || l.Cause == "" || strings.HasPrefix(l.Template, "K") || strings.Contains(l.Text, "\n") || strings.Contains(l.Text, `\`) {
			continue
		}
		escaped := strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(l.Text)
		twice := strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(escaped)
		for _, text := range []string{
			"  " + l.Text + "\n",
			`time="2026-03-04T05:06:07Z" level=error msg="PullImage \"x\" failed" error="` + escaped + `"`,
			`E0304 05:06:07.000000 77 pod_workers.go:1300] "Error syncing pod, skipping" err="failed to \"StartContainer\" for \"a\" with ErrImagePull: \"` + twice + `\""`,
			"> " + l.Text,
			"| " + l.Text + " |",
			"  Warning  Failed  3m (x4 over 9m)  kubelet, node-1  " + l.Text,
		} {
			r := classify.Text(text)
			_, cause := said(r)
			assert.Equal(t, l.Cause, cause, "%s: %s", l.Template, text)
		}
	}
}
