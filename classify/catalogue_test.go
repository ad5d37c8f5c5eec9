package classify_test

import (
	"errors"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/pullwalk/pullwalk/classify"
)

var update = flag.Bool("update", false, "add new codes to testdata/codes.golden")

// declared returns the constants of type Cause in causes.go: name -> code.
func declared(t *testing.T) map[string]classify.Cause {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "causes.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	consts := map[string]classify.Cause{}
	for _, decl := range file.Decls {
		gen, ok := decl.(*ast.GenDecl)
		if !ok || gen.Tok != token.CONST {
			continue
		}
		for _, s := range gen.Specs {
			spec := s.(*ast.ValueSpec)
			if typ, ok := spec.Type.(*ast.Ident); !ok || typ.Name != "Cause" {
				t.Fatalf("%v: every constant of causes.go is a Cause, with the type written out", spec.Names)
			}
			for i, name := range spec.Names {
				code, err := strconv.Unquote(spec.Values[i].(*ast.BasicLit).Value)
				if err != nil {
					t.Fatal(err)
				}
				consts[name.Name] = classify.Cause(code)
			}
		}
	}
	if len(consts) < 100 {
		t.Fatalf("only %d constants found in causes.go: the test reads it wrongly", len(consts))
	}
	return consts
}

func TestEveryCauseHasOneEntry(t *testing.T) {
	t.Parallel()
	entries := map[classify.Cause]int{}
	for _, info := range classify.Catalogue() {
		entries[info.Cause]++
	}
	codes := map[classify.Cause]string{}
	for name, code := range declared(t) {
		if other, ok := codes[code]; ok {
			t.Errorf("%s and %s are the same code %q", name, other, code)
		}
		codes[code] = name
		if n := entries[code]; n != 1 {
			t.Errorf("%s (%q) has %d entries, want 1", name, code, n)
		}
		info, ok := classify.Lookup(code)
		if !ok || info.Cause != code {
			t.Errorf("Lookup(%q) = %q, %v", code, info.Cause, ok)
		}
	}
	for code := range entries {
		if _, ok := codes[code]; !ok {
			t.Errorf("entry %q is no constant of causes.go", code)
		}
	}
}

func TestLookupOfAnUnknownCode(t *testing.T) {
	t.Parallel()
	for _, c := range []classify.Cause{"", ".", "dns", "dns.", "dns.nxdomain ", "DNS.nxdomain", "dns.zzz", "x.own-check", "nxdomain", "backoff.backoff-no-cause"} {
		if info, ok := classify.Lookup(c); ok || info != (classify.Info{}) {
			t.Errorf("Lookup(%q) = %+v, %v, want nothing", c, info, ok)
		}
	}
}

// The order is part of the promise of Catalogue, and what Lookup's search needs.
func TestCatalogueIsSortedAndTheCallersOwn(t *testing.T) {
	t.Parallel()
	all := classify.Catalogue()
	sorted := slices.IsSortedFunc(all, func(a, b classify.Info) int {
		if d := a.Layer.Rank() - b.Layer.Rank(); d != 0 {
			return d
		}
		return strings.Compare(string(a.Cause), string(b.Cause))
	})
	if !sorted {
		t.Error("not sorted by layer, then code")
	}
	want := all[0]
	all[0] = classify.Info{}
	if got := classify.Catalogue()[0]; got != want {
		t.Error("a change of the returned slice shows in the next call")
	}
}

func TestEntriesAreComplete(t *testing.T) {
	t.Parallel()
	owners := []classify.Owner{
		classify.OwnerNetwork, classify.OwnerDNS, classify.OwnerPKI, classify.OwnerIdentity,
		classify.OwnerRegistryAdmin, classify.OwnerApp, classify.OwnerNode,
	}
	for _, info := range classify.Catalogue() {
		t.Run(string(info.Cause), func(t *testing.T) {
			t.Parallel()
			if info.Layer != classify.LayerOf(info.Cause) {
				t.Errorf("layer %q", info.Layer)
			}
			if !slices.Contains(owners, info.Owner) {
				t.Errorf("owner %q", info.Owner)
			}
			if u, err := url.Parse(info.Ref); err != nil || u.Scheme != "https" || u.Host == "" || u.Path == "" || u.RawQuery != "" {
				t.Errorf("reference %q is no https URL of a document: %v", info.Ref, err)
			}
			// A title is a clause: it becomes the summary of a finding without one.
			if info.Title == "" || len(info.Title) > 110 || strings.HasSuffix(info.Title, ".") || strings.TrimSpace(info.Title) != info.Title {
				t.Errorf("title %q", info.Title)
			}
			for field, text := range map[string]string{"look": info.Look, "remedy": info.Remedy, "not fixed by": info.NotFixedBy} {
				question := field == "look" && strings.HasSuffix(text, "?")
				if len(text) < 20 || len(text) > 420 || !strings.HasSuffix(text, ".") && !question || strings.TrimSpace(text) != text {
					t.Errorf("%s: one to three sentences wanted (%d bytes): %q", field, len(text), text)
				}
				if strings.Contains(text, "  ") || strings.Contains(text, "\n") || strings.Count(text, "`")%2 != 0 {
					t.Errorf("%s: stray white space or an open quote: %q", field, text)
				}
			}
		})
	}
}

// Advice by pattern is no advice: every fault has its own.
func TestNoTextServesTwoCauses(t *testing.T) {
	t.Parallel()
	seen := map[string]classify.Cause{}
	for _, info := range classify.Catalogue() {
		texts := []string{info.Title, info.Look, info.Remedy, info.NotFixedBy}
		for _, sentence := range strings.Split(info.NotFixedBy, ". ") {
			if strings.TrimSuffix(sentence, ".") != strings.TrimSuffix(info.NotFixedBy, ".") {
				texts = append(texts, strings.TrimSuffix(sentence, "."))
			}
		}
		for _, text := range texts {
			if other, ok := seen[text]; ok {
				t.Errorf("%s and %s share the text %q", info.Cause, other, text)
			}
			seen[text] = info.Cause
		}
	}
}

func TestRefinesEndsAtACoarserCode(t *testing.T) {
	t.Parallel()
	for _, info := range classify.Catalogue() {
		path := []classify.Cause{info.Cause}
		for next := info.Refines; next != ""; {
			if slices.Contains(path, next) {
				t.Errorf("%s: Refines runs in a circle: %v -> %s", info.Cause, path, next)
				break
			}
			path = append(path, next)
			coarser, ok := classify.Lookup(next)
			if !ok {
				t.Errorf("%s: Refines leads to %q, which has no entry", info.Cause, next)
				break
			}
			next = coarser.Refines
		}
	}
}

// What a text shows where only a probe can see more. These pairs are known from
// real texts of the runtimes, so they may not get lost.
func TestRefinesOfKnownTexts(t *testing.T) {
	t.Parallel()
	for fine, coarse := range map[classify.Cause]classify.Cause{
		classify.TLSMissingIntermediate:       classify.TLSUnknownAuthority,         // "certificate signed by unknown authority"
		classify.TLSSelfSigned:                classify.TLSUnknownAuthority,         // the same
		classify.DNSRefused:                   classify.DNSServFail,                 // Go: "server misbehaving"
		classify.DNSNoData:                    classify.DNSNXDOMAIN,                 // Go: "no such host"
		classify.RouteLargeHelloDropped:       classify.EndpointTLSHandshakeTimeout, // "TLS handshake timeout"
		classify.IdentityNoMatchingCredential: classify.IdentityNoBasicAuth,         // "no basic auth credentials"
		classify.EndpointMethodBlocked:        classify.IdentityForbidden,           // "403 Forbidden"
		classify.EndpointBlobHostForbidden:    classify.IdentityForbidden,           // containerd prints the registry's URL
		classify.EndpointDownloadStalled:      classify.UnknownCanceledNoCause,      // "context canceled"
		classify.RegistryMirrorMiss:           classify.ImageNotFound,               // containerd 2.x: "not found"
		classify.DNSNoNameserver:              classify.DNSResolverPortClosed,       // "[::1]:53: connection refused"
	} {
		info, ok := classify.Lookup(fine)
		if !ok || info.Refines != coarse {
			t.Errorf("%s refines %q, want %q", fine, info.Refines, coarse)
		}
	}
}

func TestLookupDoesNotAllocate(t *testing.T) {
	var info classify.Info
	if n := testing.AllocsPerRun(100, func() { info, _ = classify.Lookup(classify.TLSUnknownAuthority) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
	if info.Cause != classify.TLSUnknownAuthority {
		t.Errorf("found %q", info.Cause)
	}
}

// Codes stand in reports, alerts and runbooks of others: none may disappear. A
// new one is added to the file with -update, which never removes a line.
func TestCodesAreNeverRemoved(t *testing.T) {
	var codes []string
	for _, info := range classify.Catalogue() {
		codes = append(codes, string(info.Cause))
	}
	slices.Sort(codes)
	name := filepath.Join("testdata", "codes.golden")
	content, err := os.ReadFile(name)
	if err != nil && (!*update || !errors.Is(err, os.ErrNotExist)) {
		t.Fatal(err)
	}
	golden := strings.Fields(string(content))
	for _, code := range golden {
		if !slices.Contains(codes, code) {
			t.Errorf("code %s was removed or renamed; readers of reports depend on it", code)
		}
	}
	var added []string
	for _, code := range codes {
		if !slices.Contains(golden, code) {
			added = append(added, code)
		}
	}
	if len(added) == 0 || t.Failed() {
		return
	}
	if !*update {
		t.Fatalf("new codes %v: run this test with -update", added)
	}
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(strings.Join(codes, "\n")+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
}

func ExampleLookup() {
	info, ok := classify.Lookup(classify.DNSNoData)
	fmt.Println(ok, info.Layer, info.Owner)
	fmt.Println(info.Title)
	fmt.Println("a text shows:", info.Refines)

	_, ok = classify.Lookup("x.own-check")
	fmt.Println(ok)
	// Output:
	// true dns dns
	// the name exists but has no address record
	// a text shows: dns.nxdomain
	// false
}

func ExampleNew() {
	f := classify.New(classify.RouteConnectTimeout,
		"no answer from 10.20.0.4:443 within 5s, sent from 10.40.1.7",
		classify.Fact{Key: classify.FactAddress, Value: "10.20.0.4:443"},
		classify.Fact{Key: classify.FactSource, Value: "10.40.1.7"},
	)
	f.Endpoint = "registry.corp.test:443"
	f.Operation = classify.OperationResolveManifest

	fmt.Println(f.Error())
	fmt.Println(f.Layer, f.Owner, f.Severity, f.Certainty)
	fmt.Println(f.Fact(classify.FactSource))
	// Output:
	// route.connect-timeout at registry.corp.test:443: no answer from 10.20.0.4:443 within 5s, sent from 10.40.1.7
	// route network fail proven
	// 10.40.1.7
}
