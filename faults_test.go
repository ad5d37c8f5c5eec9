package pullwalk_test

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
	"maps"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pullwalk/pullwalk/internal/lab"
)

// hostFaults are the faults of a scenario that name a host.
var hostFaults = map[string]func(*lab.Host) lab.Fault{
	"refused":               lab.Refused,
	"silent":                lab.Silent,
	"reset":                 lab.ResetAfterAccept,
	"tls-stall":             lab.TLSStall,
	"not-tls":               lab.NotTLS,
	"tls-unknown-authority": lab.UntrustedCA,
	"tls-wrong-name":        lab.WrongName,
	"tls-expired":           lab.ExpiredCert,
	"header-stall":          lab.HeaderStall,
	"body-stall":            lab.BodyStall,
	"endless-headers":       lab.EndlessHeaders,
	"endless-body":          lab.EndlessBody,
	"redirect-loop":         lab.RedirectLoop,
}

// plainFaults are those without a word more.
var plainFaults = map[string]func() lab.Fault{
	"no-challenge":        lab.NoChallenge,
	"access-denied":       lab.AccessDenied,
	"missing-tag":         lab.MissingTag,
	"wrong-manifest":      lab.WrongDigestManifest,
	"huge-manifest":       lab.HugeManifest,
	"token-without-right": lab.TokenWithoutRight,
	"token-empty":         lab.TokenEmpty,
	"token-with-more":     lab.TokenWithMore,
	"anonymous-refused":   lab.AnonymousRefused,
}

// numberFaults have a status or the number of a layer.
var numberFaults = map[string]func(int) lab.Fault{
	"head-blocked":    lab.HeadBlocked,
	"no-token-post":   lab.NoTokenPost,
	"missing-blob":    lab.MissingBlob,
	"blob-gone":       lab.BlobGone,
	"corrupt-layer":   lab.CorruptLayer,
	"truncated-layer": lab.TruncatedLayer,
}

// labFault reads "break" of a scenario: realm URL, redirect-to URL, token-moved HOST
// CODE URL, status HOST CODE BODY, html HOST CODE, say (see there), certificate KIND
// HOST, tls KIND HOST, or one of the tables.
func (w *world) labFault(t testing.TB, args []string) lab.Fault {
	t.Helper()
	number := func(s string) int {
		n, err := strconv.Atoi(s)
		require.NoError(t, err)
		return n
	}
	name := args[0]
	if f, ok := hostFaults[name]; ok {
		return f(w.host(t, args[1]))
	}
	if f, ok := plainFaults[name]; ok {
		return f()
	}
	if f, ok := numberFaults[name]; ok {
		return f(number(args[1]))
	}
	switch name {
	case "realm":
		return lab.RealmTo(args[1])
	case "redirect-to":
		return lab.RedirectTo(args[1])
	case "say":
		return w.say(t, args[1:])
	case "certificate":
		build, ok := certificateFaults[args[1]]
		require.True(t, ok, "certificate %q", args[1])
		h := w.host(t, args[2])
		return lab.ServesCertificate(h, build(t, w, h.Name))
	case "tls":
		change, ok := serverFaults[args[1]]
		require.True(t, ok, "tls %q", args[1])
		return lab.ServesTLS(w.host(t, args[2]), change)
	case "token-moved":
		return lab.TokenMoved(w.host(t, args[1]), number(args[2]), args[3])
	case "html":
		return lab.HTMLPage(w.host(t, args[1]), number(args[2]))
	case "status":
		return lab.Status(w.host(t, args[1]), number(args[2]), strings.Join(args[3:], " "))
	}
	t.Fatalf("unknown fault %q", name)
	return nil
}

// say reads "HOST METHOD PATH STATUS [HEADER:VALUE]... [@BODY]": one answer to all
// requests of that method whose path begins so (a path that ends in $ is meant
// whole), with METHOD+auth only to those with an Authorization, with METHOD+range
// to those with a Range, with METHOD+once to the first of them alone. A tilde stands for a
// space.
func (w *world) say(t testing.TB, args []string) lab.Fault {
	t.Helper()
	host, method, path := w.host(t, args[0]), args[1], args[2]
	method, only, _ := strings.Cut(method, "+")
	authorized, ranged, once := strings.Contains(only, "auth"), strings.Contains(only, "range"), strings.Contains(only, "once")
	var before atomic.Bool
	path, whole := strings.CutSuffix(path, "$")
	status, err := strconv.Atoi(args[3])
	require.NoError(t, err)
	header, body := http.Header{}, ""
	for _, word := range args[4:] {
		if name, ok := strings.CutPrefix(word, "@"); ok {
			require.Contains(t, w.bodies, name)
			body = w.bodies[name]
			continue
		}
		key, value, ok := strings.Cut(word, ":")
		require.True(t, ok, "a header without a colon: %q", word)
		header.Set(key, strings.ReplaceAll(value, "~", " "))
	}
	return lab.Answers(host, func(rw http.ResponseWriter, r *http.Request) bool {
		if r.Method != method || !strings.HasPrefix(r.URL.Path, path) || whole && r.URL.Path != path || authorized && r.Header.Get("Authorization") == "" || ranged && r.Header.Get("Range") == "" {
			return false
		}
		if once && before.Swap(true) {
			return false
		}
		maps.Copy(rw.Header(), header)
		if body != "" && r.Method != http.MethodHead {
			rw.Header().Set("Content-Length", strconv.Itoa(len(body)))
		}
		rw.WriteHeader(status)
		if r.Method != http.MethodHead {
			_, _ = io.WriteString(rw, body)
		}
		return true
	})
}

// digests replaces DIGEST(NAME) and SIZE(NAME) by those of the bodies.
func digests(bodies map[string]string, text string) string {
	for name, body := range bodies {
		sum := sha256.Sum256([]byte(body))
		text = strings.ReplaceAll(text, "DIGEST("+name+")", "sha256:"+hex.EncodeToString(sum[:]))
		text = strings.ReplaceAll(text, "SIZE("+name+")", strconv.Itoa(len(body)))
	}
	return text
}
