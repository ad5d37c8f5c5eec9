package classify_test

import (
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/pullwalk/pullwalk/classify"
)

// typical are texts as most events have them.
var typical = []string{
	kubelet + grpc + containerd + head + "dial tcp: lookup registry.corp.test on 10.20.0.2:53: no such host",
	kubelet + transfer + head + "dial tcp 10.20.0.4:443: i/o timeout",
	kubelet + grpc + containerd + anonymous + "unexpected status from GET request to https://auth.corp.test/token?scope=repository%3Ateam%2Fapp%3Apull: 401 Unauthorized",
	kubelet + crio + "reading manifest v1 in registry.corp.test/team/app: manifest unknown",
	kubelet + containerd + head + "tls: failed to verify certificate: x509: certificate signed by unknown authority",
	kubelet + copyBlob + `failed to do request: Get "https://blobs.corp.test/data/x?sig=SECRET&se=2030": read tcp 10.20.0.9:40000->10.20.0.6:443: read: connection reset by peer`,
	`Back-off pulling image "` + ref + `"`,
}

func BenchmarkClassifyText(b *testing.B) {
	b.ReportAllocs()
	n := 0
	classify.Event("Failed", typical[0]) // what is built once
	start := cpuTime()
	for b.Loop() {
		classify.Event("Failed", typical[n%len(typical)])
		n++
	}
	if used := cpuTime() - start; used > 0 {
		b.ReportMetric(float64(n)/used.Seconds(), "texts/cpu-s")
	}
	b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "texts/s")
}

// expressions are what one would write without a parser: the words of the most
// frequent causes, tried in order. They find a cause and nothing else.
func expressions() []*regexp.Regexp {
	var table []*regexp.Regexp
	for _, e := range []string{
		`pull QPS exceeded`, `no space left on device`, `ErrImageNeverPull|pull policy of Never`, `invalid reference format`, `SignatureValidationFailed`,
		`lookup (\S+)( on \S+)?: no such host`, `lookup (\S+) on (\S+): server misbehaving`, `lookup (\S+) on (\S+): read udp .*: i/o timeout`,
		`lookup (\S+) on (\S+): .*connection refused`, `Temporary failure in name resolution`, `proxyconnect tcp: dial tcp`, `Proxy Authentication Required`,
		`dial tcp (\S+): i/o timeout`, `dial tcp (\S+): connect: connection timed out`, `dial tcp (\S+): connect: connection refused`,
		`no route to host`, `network is unreachable`, `connection reset by peer`, `TLS handshake timeout`, `timeout awaiting response headers`,
		`request canceled while waiting for connection`, `x509: certificate signed by unknown authority`, `x509: certificate has expired or is not yet valid`,
		`x509: certificate is valid for .*, not`, `doesn't contain any IP SANs`, `legacy Common Name`, `server gave HTTP response to HTTPS client`,
		`remote error: tls: `, `malformed HTTP response`, `unexpected EOF`, `: EOF`, `toomanyrequests|429 Too Many Requests`, `50[0-9] [A-Z]`,
		`failed to fetch (anonymous|oauth) token: .*40[13]`, `no basic auth credentials`, `insufficient_scope`, `invalid_token`, `client with IP .* is not allowed`,
		`403 Forbidden`, `401 Unauthorized`, `unauthorized: authentication required`, `requested access to the resource is denied|pull access denied`,
		`manifest unknown`, `name unknown`, `no match(ing manifest)? for`, `unexpected commit digest`, `could not fetch content descriptor`, `: not found`,
		`context deadline exceeded`, `context canceled`, `Back-off pulling image`, `Successfully pulled image`, `already present on machine`,
	} {
		table = append(table, regexp.MustCompile(`(?i)`+e))
	}
	return table
}

// How the reader compares with a table of regular expressions, in one run: the
// ratio does not depend on the machine.
func BenchmarkAgainstExpressions(b *testing.B) {
	table := expressions()
	var ours, theirs time.Duration
	for b.Loop() {
		start := time.Now()
		for _, text := range typical {
			classify.Event("Failed", text)
		}
		middle := time.Now()
		for _, text := range typical {
			for _, e := range table {
				if e.FindStringSubmatch(text) != nil {
					break
				}
			}
		}
		ours, theirs = ours+middle.Sub(start), theirs+time.Since(middle)
	}
	b.ReportMetric(float64(theirs)/float64(ours), "times-faster")
}

// hostile texts repeat what a reader looks for, up to size.
func hostile(size int) map[string]string {
	texts := map[string]string{}
	for _, unit := range []string{
		"[", "]\n[", ": [rpc error: , rpc error: ", "(Mirrors also failed: [", "lookup ", "lookup a on b: ", "://", `Get "http://`, `Get "http://x/?y=`, "dial tcp ", "dial tcp 1.2.3.4:5: ",
		"x509: ", "remote error: tls: ", "denied", "unauthorized: ", "\n", "a\n", `\"`, `\\\\\"`, `\n`, `""`, "**", "&amp;", "\u2502\n\u2502 ", "\x1b[31m", "\xff", "\x00",
		"image \"", "pull image ", "unexpected status from GET request to https://a/v2/: 403 x\n", "status code [", "Failed to pull image \"a\": ", "client with ip ", " on ",
		"error: ", "sha256:", "?a=b&sig=", "Authorization: ", "eyJ", "user:pass@", "current time ", "Normal  Pulled  1s\n", "malformed http response ", "curl: (28) ", "<http", "[http://a](http://a)", "Get \"http://a: ", "(Mirrors also failed: [x", "pulling from host ", "\nmake: ", "Private-Token: ", "\u201c", "code = ",
	} {
		texts[unit] = strings.Repeat(unit, size/len(unit))
	}
	return texts
}

func BenchmarkHostileMebibyte(b *testing.B) {
	best := map[string]time.Duration{} // of several runs, the others were disturbed
	texts := hostile(1 << 20)
	for b.Loop() {
		for unit, text := range texts {
			start := time.Now()
			classify.Text(text)
			if d := time.Since(start); best[unit] == 0 || d < best[unit] {
				best[unit] = d
			}
		}
	}
	var worst time.Duration
	name := ""
	for unit, d := range best {
		if d > worst {
			worst, name = d, unit
		}
	}
	b.ReportMetric(float64(worst)/1e6, "worst-ms")
	b.Logf("worst: %q", name)
}

// What a text costs is bounded, counted in allocations and in bytes, which do
// not depend on how busy the machine is.
func TestHostileTextsAreCheap(t *testing.T) {
	for unit, text := range hostile(1 << 20) {
		classify.Text(text) // what is built once
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		r := classify.Text(text)
		runtime.ReadMemStats(&after)
		assert.Less(t, after.Mallocs-before.Mallocs, uint64(20_000), "%q", unit)
		assert.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(16<<20), "%q", unit)
		assert.LessOrEqual(t, len(r.Attempts), 16, "%q", unit)
		for _, f := range r.Attempts {
			assert.Less(t, len(f.Summary), 2048, "%q", unit)
		}
	}
}
