package classify

import (
	"strings"
	"testing"
)

// What joins attempts is split, and nothing is made up: each attempt is a part of
// the record.
func FuzzAttempts(f *testing.F) {
	for _, s := range []string{
		"Failed to pull image \"a\": [rpc error: code = X desc = b, rpc error: code = Y desc = c]", "x: [failed to pull and unpack image \"a\": b",
		"(Mirrors also failed: [a: b]\n[c: d]): e: f", "(Mirrors also failed: [a: b] [c: d]):", "(Fallback sources also failed: [a]): b",
		"unable to pull image or OCI artifact: pull image err: a; artifact err: b", "pull image err: ", ": [", "(Mirrors also failed: [", "]): ",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, record string) {
		attempts := splitAttempts(record)
		if len(attempts) == 0 || len(attempts) > maxAttempts+1 {
			t.Fatalf("%d attempts", len(attempts))
		}
		for _, a := range attempts {
			if !strings.Contains(record, a.text) || !strings.Contains(record, a.context) {
				t.Fatalf("%+v is no part of %q", a, record)
			}
		}
	})
}
