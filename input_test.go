package pullwalk_test

import (
	"errors"
	"net/netip"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/stretchr/testify/require"

	"github.com/pullwalk/pullwalk"
	"github.com/pullwalk/pullwalk/classify"
	"github.com/pullwalk/pullwalk/tlsauth"
)

// A senseless question is an error that names what is wrong with it. Nothing is
// sent.
func TestSenselessQuestions(t *testing.T) {
	t.Parallel()
	const good = "registry.corp.test/team/app:v1"
	missing := filepath.Join(t.TempDir(), "no-such-root")
	for name, tt := range map[string]struct {
		image string
		opts  pullwalk.Options
		names string // what the error must name
	}{
		"no image":              {"", pullwalk.Options{}, "empty"},
		"URL":                   {"https://registry.corp.test/team/app", pullwalk.Options{}, "https://registry.corp.test/team/app"},
		"upper case":            {"registry.corp.test/Team/app", pullwalk.Options{}, "Team"},
		"bad tag":               {"registry.corp.test/team/app:-v1", pullwalk.Options{}, "-v1"},
		"bad digest":            {"registry.corp.test/team/app@sha256:123", pullwalk.Options{}, "sha256:123"},
		"bad port":              {"registry.corp.test:port/team/app:v1", pullwalk.Options{}, "registry.corp.test:port"},
		"space":                 {"registry.corp.test/team /app:v1", pullwalk.Options{}, "team /app"},
		"image id":              {strings.Repeat("ab", 32), pullwalk.Options{}, "image id"},
		"port out of range":     {"registry.corp.test:99999/team/app:v1", pullwalk.Options{}, "99999"},
		"port zero":             {"registry.corp.test:0/team/app:v1", pullwalk.Options{}, ":0"},
		"platform":              {good, pullwalk.Options{Platform: "amd64"}, `"amd64"`},
		"platform with spaces":  {good, pullwalk.Options{Platform: "linux/amd 64"}, `"linux/amd 64"`},
		"pull mode":             {good, pullwalk.Options{Pull: "everything"}, `"everything"`},
		"negative budget":       {good, pullwalk.Options{Budget: -time.Second}, "budget -1s"},
		"negative concurrency":  {good, pullwalk.Options{Concurrency: -3}, "concurrency -3"},
		"negative limit":        {good, pullwalk.Options{Limits: pullwalk.Limits{Connect: -time.Second}}, "Limits.Connect -1s"},
		"runtime":               {good, pullwalk.Options{Runtime: pullwalk.RuntimeHint{Name: "podman"}}, `"podman"`},
		"runtime's file":        {good, pullwalk.Options{Runtime: pullwalk.RuntimeHint{ConfigFile: "config.toml"}}, `"config.toml"`},
		"runtime's environment": {good, pullwalk.Options{Runtime: pullwalk.RuntimeHint{Environ: map[string]string{"A=B": "x"}}}, `"A=B"`},
		"node credentials":      {good, pullwalk.Options{NodeCredentials: true, Keychain: authn.DefaultKeychain}, "Kubelet"},
		"plugins of a full one": {good, pullwalk.Options{RunPlugins: true, Keychain: &tlsauth.Kubelet{FS: fstest.MapFS{}}}, "without FS"},
		"host root":             {good, pullwalk.Options{Node: pullwalk.HostNode(missing)}, missing},
		"host root without one": {good, pullwalk.Options{Node: pullwalk.HostNode("")}, "host root"},
		"Also without host":     {good, pullwalk.Options{Also: []string{":443"}}, `":443"`},
		"Also empty":            {good, pullwalk.Options{Also: []string{""}}, `""`},
		"Also with bad port":    {good, pullwalk.Options{Also: []string{"data.corp.test:https"}}, `"data.corp.test:https"`},
		"Also as URL":           {good, pullwalk.Options{Also: []string{"https://data.corp.test"}}, `"https://data.corp.test"`},
		"Also with path":        {good, pullwalk.Options{Also: []string{"data.corp.test/x"}}, `"data.corp.test/x"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tt.opts.OnStep = func(st pullwalk.Step) { t.Errorf("step %v", st) }
			res, err := pullwalk.Diagnose(t.Context(), tt.image, &tt.opts)
			require.Error(t, err)
			require.Nil(t, res)
			require.ErrorContains(t, err, tt.names)
			require.ErrorContains(t, err, "pullwalk: ")
		})
	}
}

// An invalid reference is a finding, too, for those who show it as one.
func TestInvalidReferenceIsAFinding(t *testing.T) {
	t.Parallel()
	_, err := pullwalk.Diagnose(t.Context(), "registry.corp.test/Team/app", nil)
	var f classify.Finding
	require.True(t, errors.As(err, &f))
	require.Equal(t, classify.ImageInvalidReference, f.Cause)
}

// What is odd and has a meaning is no error.
func TestOddQuestionsThatAreFine(t *testing.T) {
	t.Parallel()
	for _, statements := range []string{
		"option also blobs.corp.test",                     // 443 goes without saying
		"option platform plan9/mips",                      // nobody builds for it: image.platform-mismatch
		"option also 10.20.0.6:443",                       // an address has no name
		"option also blobs.corp.test:443\noption connect", // a hint without a walk
	} {
		inWorld(t, statements, func(t *testing.T, w *world) {
			got := w.diagnose(t, t.Context(), scenario{})
			checkResult(t, got.result)
		})
	}
}

// The default refuses where a platform hands out credentials, and lets private
// networks through: they are the use case.
func TestDenyPlatformAddrs(t *testing.T) {
	t.Parallel()
	for _, denied := range []string{
		"169.254.169.254:80", "169.254.170.2:80", "[fe80::1]:443", "[::ffff:169.254.169.254]:80", "[fd00:ec2::254]:80", "100.100.100.200:80", "168.63.129.16:80", "224.0.0.251:443", "[ff02::1]:443",
	} {
		require.Error(t, pullwalk.DenyPlatformAddrs(netip.MustParseAddrPort(denied)), denied)
	}
	for _, allowed := range []string{"10.20.0.4:443", "192.168.1.1:5000", "127.0.0.1:5000", "[fd00::4]:443", "203.0.113.4:443", "168.63.129.16:53", "100.64.0.4:443"} {
		require.NoError(t, pullwalk.DenyPlatformAddrs(netip.MustParseAddrPort(allowed)), allowed)
	}
}

// Text of the registry cannot become markup of an issue or a terminal.
func TestHostileWordsStayWords(t *testing.T) {
	t.Parallel()
	inWorld(t, `break status registry 403 {"errors":[{"code":"DENIED","message":"\u001b[31m<img src=x> [here](http://evil.test) @all `+"`rm`"+` \u202e"}]}`, func(t *testing.T, w *world) {
		got := w.diagnose(t, t.Context(), scenario{})
		got.checkLeaks(t)
		md := got.result.Markdown()
		require.Contains(t, md, "here")
		for line := range strings.SplitSeq(md, "\n") {
			if strings.Contains(line, "here") {
				require.NotRegexp(t, "[^\\\\][<>@`\\[\\]]", line)
			}
		}
	})
}
