package pullwalk_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pullwalk/pullwalk/classify"
)

// notInScenarios are the causes that no scenario can have, each with the file whose
// test has it instead, and why.
var notInScenarios = map[classify.Cause][2]string{
	// Found in documents that a caller gives to a probe, not in a pull.
	classify.DNSForwarderMissing:    {"dnscheck", "zones and links as a caller gives them"},
	classify.DNSSettingsNotRenewed:  {"dnscheck", "zones and links as a caller gives them"},
	classify.DNSZoneNotLinked:       {"dnscheck", "zones and links as a caller gives them"},
	classify.RouteAsymmetric:        {"reach", "route tables as a caller gives them"},
	classify.RouteInternetNextHop:   {"reach", "route tables as a caller gives them"},
	classify.RouteNextHopNone:       {"reach", "route tables as a caller gives them"},
	classify.RouteRuleDenies:        {"reach", "security rules as a caller gives them"},
	classify.RouteUnintendedNextHop: {"reach", "route tables as a caller gives them"},
	classify.RouteNoReturnRoute:     {"reach", "route tables as a caller gives them"},
	classify.RouteServiceAddress:    {"reach", "ranges as a caller gives them, or an interface of the machine"},
	// Only a real kernel answers so.
	classify.RouteHostAbsent:          {"reach", "ICMP of a router"},
	classify.RouteRejected:            {"reach", "ICMP of a router"},
	classify.RouteReturnPathSuspected: {"reach", "a trace through real routers"},
	classify.RouteLocalAddress:        {"reach", "an interface of the machine"},
	classify.RoutePressure:            {"reach", "counters of the kernel"},
	classify.NodeLocalLimit:           {"reach", "errno of a socket"},
	// Where a scenario would be no more than a large file, or depend on an order.
	classify.EndpointDownloadSlow:          {"internal/registry", "layers larger than a scenario has"},
	classify.EndpointTooManyHosts:          {"internal/judge", "which of the hosts are left out depends on who is first"},
	classify.IdentityProviderConfigInvalid: {"tlsauth", "a configuration that the kubelet does not start with"},
	classify.NodeViewFailed:                {".", "code of the caller that panics"},
	// Nothing is walked.
	classify.UnknownPullInProgress: {"classify", "a state between two events"},
	classify.UnknownUnclassified:   {"classify", "an error that nobody has seen before"},
}

// notProduced are the causes that only results stored by earlier versions have.
var notProduced = []classify.Cause{classify.UnknownStepsDisagree, classify.NodeCachedTagDiffers}

// Every cause stands in a scenario: found by a probe, or told by an event. What can
// not is listed with its reason, and asked for elsewhere.
func TestEveryCauseHasAScenario(t *testing.T) {
	t.Parallel()
	code := regexp.MustCompile(`\b(?:node|route|dns|endpoint|tls|registry|identity|image|unknown)\.[a-z0-9][a-z0-9-]+\b`)
	seen := map[classify.Cause]bool{}
	for _, s := range scenarios(t) {
		for _, name := range []string{"result.json", "report.txt"} {
			text, _ := s.section(name)
			for _, c := range code.FindAllString(text, -1) {
				seen[classify.Cause(c)] = true
			}
		}
	}
	var missing, needless []classify.Cause
	for _, info := range classify.Catalogue() {
		where, excused := notInScenarios[info.Cause]
		switch {
		case excused && seen[info.Cause]:
			needless = append(needless, info.Cause)
		case excused:
			assert.True(t, testsName(t, where[0], info.Cause), "%s (%s): no test in %s asks for it", info.Cause, where[1], where[0])
		case !seen[info.Cause] && !slices.Contains(notProduced, info.Cause):
			missing = append(missing, info.Cause)
		}
	}
	slices.Sort(missing)
	assert.Empty(t, missing, "no scenario has them")
	assert.Empty(t, needless, "a scenario has them: the excuse can go")
}

var identifier = regexp.MustCompile(`(?m)^\t(\w+) +(?:Cause +)?= "([a-z0-9.-]+)"`)

// testsName reports whether the tests of a package, or its test data, ask for a
// cause by its constant or by its code.
func testsName(t *testing.T, dir string, cause classify.Cause) bool {
	t.Helper()
	source, err := os.ReadFile("classify/causes.go")
	require.NoError(t, err)
	constant := "\x00"
	for _, m := range identifier.FindAllStringSubmatch(string(source), -1) {
		if m[2] == string(cause) {
			constant = m[1]
		}
	}
	var files []string
	for _, pattern := range []string{"*_test.go", "testdata/*.jsonl"} {
		more, err := filepath.Glob(filepath.Join(dir, pattern))
		require.NoError(t, err)
		files = append(files, more...)
	}
	return slices.ContainsFunc(files, func(path string) bool {
		if path == "causes_test.go" {
			return false
		}
		data, err := os.ReadFile(path)
		require.NoError(t, err)
		return strings.Contains(string(data), constant) || strings.Contains(string(data), string(cause))
	})
}
