package pullwalk_test

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pullwalk/pullwalk/internal/noderuntime"
)

const module = "github.com/pullwalk/pullwalk"

var probes = []string{"reach", "dnscheck", "endpoints", "tlsauth"}

// importRule says who may import what, and why. Tests may import anything.
type importRule struct {
	what    string   // an import path, or with /... everything below it, too
	allowed []string // directories, or single files; examples/... means all below
	why     string
}

var importRules = []importRule{
	{module + "/reach", []string{".", "internal/engine", "internal/probe", "internal/node", "internal/simnet", "examples/..."}, "what one probe learns reaches the next as plain values, through the engine"},
	{module + "/dnscheck", []string{".", "internal/engine", "internal/probe", "internal/node", "internal/judge", "internal/simnet", "internal/lab", "examples/..."}, "what one probe learns reaches the next as plain values, through the engine"},
	{module + "/tlsauth", []string{".", "internal/engine", "internal/probe", "internal/node", "examples/..."}, "what one probe learns reaches the next as plain values, through the engine"},
	{module + "/endpoints", []string{".", "examples/..."}, "a pull by itself, for callers; the same walk is in internal/pull"},
	{module, []string{"examples/..."}, "no package knows the one that puts it together"},
	{module + "/internal/engine", []string{"."}, "what looks knows nothing of results"},
	{module + "/internal/probe", []string{".", "internal/engine"}, "endpoints only dials"},
	{module + "/internal/node", []string{".", "internal/engine", "internal/probe"}, "who reads the node is told which"},
	{module + "/internal/judge", []string{".", "internal/engine", "internal/probe", "endpoints", "tlsauth"}, "it is asked by who walks, and never the other way round"},
	{module + "/internal/pull", []string{".", "internal/engine", "internal/probe", "internal/notify", "internal/node", "internal/judge", "endpoints", "tlsauth"}, "the order of a pull is known by who begins one and who judges it"},
	{module + "/internal/registry", []string{".", "endpoints", "tlsauth", "internal/pull", "internal/judge", "internal/engine", "internal/probe", "internal/noderuntime"}, "one way to speak to a registry, for the walk and for the identity check; a runtime's profile says how it does"},
	{module + "/internal/simnet", nil, "a network for tests"},
	{module + "/internal/lab", []string{"examples/..."}, "a registry for tests and examples"},
	{"github.com/google/go-containerregistry/...", []string{".", "endpoints", "tlsauth", "internal/engine", "internal/node", "internal/registry", "internal/noderuntime", "internal/lab", "examples/..."}, "a name parser and a keychain; no client of it walks for us"},
	{"github.com/miekg/dns/...", []string{"dnscheck/exchange.go", "internal/lab"}, "its first version will be archived one day: one file has to change then"},
	{"github.com/vishvananda/netlink/...", []string{"reach"}, "the kernel's routes"},
	{"golang.org/x/sys/...", []string{"reach", "internal/simnet"}, "error numbers and routes"},
	{"github.com/pelletier/go-toml/v2/...", []string{"internal/noderuntime"}, "the runtimes' configuration"},
	{"sigs.k8s.io/yaml/...", []string{"internal/noderuntime", "tlsauth"}, "Kubernetes' files"},
	{"golang.org/x/net/...", []string{"reach", "internal/noderuntime", "examples/agent"}, "the routing tables of BSD, proxies as the runtimes choose them, and a bound on connections"},
	{"golang.org/x/tools/...", nil, "tests only"},
	{"github.com/stretchr/testify/...", nil, "tests only"},
	{"testing", nil, "tests only: it registers flags"},
	{"testing/fstest", []string{"internal/lab"}, "tests only"},
	{"net/http/httptest", nil, "tests only: it registers flags"},
	{"log/...", []string{"internal/lab", "examples/..."}, "a library prints nothing; lab silences net/http"},
	{"os/exec", []string{"internal/pluginrun"}, "no subprocesses but the kubelet's plugins, where the caller asks for them"},
	{module + "/internal/pluginrun", []string{"internal/node"}, "what starts processes is not to be had by accident"},
	{"plugin", nil, "no code from elsewhere"},
	{"unsafe", nil, "no need"},
}

// source is one Go file that is not a test.
type sourceFile struct {
	path string // from the module's root, with slashes
	ast  *ast.File
	fset *token.FileSet
}

// librarySources parses every file whatever system it is for: go list would
// only show those of this one.
func librarySources(t *testing.T) []sourceFile {
	t.Helper()
	var all []sourceFile
	err := filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && name != ".":
			_, own := os.Stat(filepath.Join(name, "go.mod"))
			if own == nil || strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata" || name == "test" {
				return filepath.SkipDir
			}
			return nil
		case !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go"):
			return nil
		}
		fset := token.NewFileSet()
		f, err := parser.ParseFile(fset, name, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		all = append(all, sourceFile{filepath.ToSlash(name), f, fset})
		return nil
	})
	require.NoError(t, err)
	require.NotEmpty(t, all)
	return all
}

func (f sourceFile) imports() []string {
	var out []string
	for _, i := range f.ast.Imports {
		p, _ := strconv.Unquote(i.Path.Value)
		out = append(out, p)
	}
	return out
}

func TestImportRules(t *testing.T) {
	t.Parallel()
	for _, f := range librarySources(t) {
		for _, imported := range f.imports() {
			for _, rule := range importRules {
				if matches(rule.what, imported) && path.Dir(f.path) != ownDir(imported) && !slices.ContainsFunc(rule.allowed, f.isIn) {
					t.Errorf("%s imports %s: %s", f.path, imported, rule.why)
				}
			}
		}
	}
}

// isIn says whether the file is one that a rule allows.
func (f sourceFile) isIn(where string) bool {
	if dir, ok := strings.CutSuffix(where, "/..."); ok {
		return strings.HasPrefix(f.path, dir+"/")
	}
	return f.path == where || path.Dir(f.path) == where
}

func matches(rule, imported string) bool {
	if below, ok := strings.CutSuffix(rule, "/..."); ok {
		return imported == below || strings.HasPrefix(imported, below+"/")
	}
	return imported == rule
}

func ownDir(imported string) string { return strings.TrimPrefix(imported, module+"/") }

// The rules of whole dependency trees, which no single import shows.
func TestDependencies(t *testing.T) {
	t.Parallel()
	require.Equal(t, []string{module + "/classify"}, goList(t, "-deps", "-f", "{{if not .Standard}}{{.ImportPath}}{{end}}", "./classify"),
		"classify needs the standard library and nothing else: everybody imports it")
	for _, probe := range probes {
		deps := goList(t, "-deps", "-f", "{{.ImportPath}}", "./"+probe)
		assert.NotContains(t, deps, module, "%s does not know root", probe)
		for _, other := range probes {
			if other != probe {
				assert.NotContains(t, deps, module+"/"+other, "the probes know nothing of each other")
			}
		}
	}
	all := goList(t, "-deps", "-f", "{{.ImportPath}}", ".")
	for _, bad := range []string{"testing", "flag", "net/http/httptest", "github.com/stretchr/testify/require", module + "/internal/lab", module + "/internal/simnet", "golang.org/x/tools/txtar"} {
		assert.NotContains(t, all, bad, "a program that uses this library does not want it")
	}
}

func goList(t *testing.T, args ...string) []string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", append([]string{"list"}, args...)...).CombinedOutput()
	require.NoError(t, err, "%s", out)
	return strings.Fields(string(out))
}

// What go.mod requires is what users of the library get: each of these is
// wanted.
func TestDirectDependencies(t *testing.T) {
	t.Parallel()
	out, err := exec.CommandContext(t.Context(), "go", "mod", "edit", "-json").Output()
	require.NoError(t, err)
	var mod struct {
		Require []struct {
			Path     string
			Indirect bool
		}
		Replace []struct{ Old struct{ Path string } }
	}
	require.NoError(t, json.Unmarshal(out, &mod))
	var direct []string
	for _, r := range mod.Require {
		if !r.Indirect {
			direct = append(direct, r.Path)
		}
	}
	require.Equal(t, []string{
		"github.com/google/go-containerregistry", "github.com/miekg/dns", "github.com/pelletier/go-toml/v2", "github.com/stretchr/testify",
		"github.com/vishvananda/netlink", "golang.org/x/net", "golang.org/x/sys", "golang.org/x/tools", "sigs.k8s.io/yaml",
	}, direct)
	require.Empty(t, mod.Replace, "a replacement does not reach those who import this module")
}

// The environment is read in one place, and nothing is written or printed.
func TestForbiddenCalls(t *testing.T) {
	t.Parallel()
	forbidden := map[string]string{
		"os.Getenv": "the environment is read in internal/noderuntime alone", "os.LookupEnv": "the environment is read in internal/noderuntime alone", "os.Environ": "the environment is read in internal/noderuntime alone",
		"fmt.Print": "a library prints nothing", "fmt.Println": "a library prints nothing", "fmt.Printf": "a library prints nothing",
		"os.WriteFile": "nothing is written", "os.Create": "nothing is written", "os.Mkdir": "nothing is written", "os.MkdirAll": "nothing is written", "os.Remove": "nothing is written", "os.Rename": "nothing is written",
		"time.Sleep": "what waits must hear its context", "os.Exit": "a library does not end programs",
		"http.DefaultClient": "follows redirects with credentials", "http.Get": "follows redirects with credentials", "http.DefaultTransport": "reads the environment",
		"context.Background": "work ends with the caller's context", "context.TODO": "work ends with the caller's context",
	}
	allowed := map[string][]string{
		"internal/noderuntime": {"os.Environ"},
		"internal/lab":         {"context.Background"}, // a server lives until it is closed
	}
	for _, f := range librarySources(t) {
		if f.isIn("examples/...") {
			continue
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			if sel, ok := n.(*ast.SelectorExpr); ok {
				if x, ok := sel.X.(*ast.Ident); ok {
					name := x.Name + "." + sel.Sel.Name
					if why := forbidden[name]; why != "" && !slices.Contains(allowed[path.Dir(f.path)], name) {
						t.Errorf("%v uses %s: %s", f.fset.Position(n.Pos()), name, why)
					}
				}
			}
			return true
		})
	}
}

// How runtimes differ stands in their profiles: a file that compares the name of one
// is a place that a new runtime would be forgotten in.
func TestOnlyProfilesKnowRuntimes(t *testing.T) {
	t.Parallel()
	names := append(noderuntime.Names(), "cri-o", "CRI-O", "docker", "k3s-server", "k3s-agent", "podman")
	for _, f := range librarySources(t) {
		if f.isIn("internal/noderuntime") || f.isIn("internal/lab") || f.isIn("examples/...") {
			continue
		}
		compared := func(where ast.Node) {
			ast.Inspect(where, func(n ast.Node) bool {
				if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
					if text, _ := strconv.Unquote(lit.Value); slices.Contains(names, text) {
						t.Errorf("%v compares the name of a runtime, %s: a field of internal/noderuntime's Profile has the difference", f.fset.Position(n.Pos()), lit.Value)
					}
				}
				return true
			})
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.BinaryExpr:
				if n.Op == token.EQL || n.Op == token.NEQ {
					compared(n)
				}
			case *ast.CaseClause:
				for _, e := range n.List {
					compared(e)
				}
			case *ast.CallExpr: // strings.HasPrefix, slices.Contains and the like
				if sel, ok := n.Fun.(*ast.SelectorExpr); ok {
					if pkg, ok := sel.X.(*ast.Ident); ok && (pkg.Name == "strings" || pkg.Name == "slices") {
						for _, arg := range n.Args {
							compared(arg)
						}
					}
				}
			case *ast.KeyValueExpr: // a map by name
				if _, field := n.Key.(*ast.Ident); !field {
					compared(n.Key)
				}
			case *ast.IndexExpr:
				compared(n.Index)
			case *ast.GenDecl:
				if n.Tok == token.CONST {
					compared(n)
				}
			}
			return true
		})
	}
}

// Foreign types in exported signatures tie our versions to theirs. Of ggcr only
// the keychain's interface stands there, with what it takes to be one; of the
// DNS library nothing. Nobody can name a type of an internal package: of these only
// plain strings stand there, under a name of the public package.
func TestForeignTypesInSignatures(t *testing.T) {
	t.Parallel()
	foreign := map[string][]string{ // package name -> types that may stand
		"authn":                       {"Keychain", "AuthConfig", "Authenticator", "Resource"},
		module + "/internal/registry": {"Role", "Outcome"}, module + "/internal/pull": {"Status", "StepID"},
		"name": nil, "v1": nil, "types": nil, "remote": nil, "registry": nil, "dns": nil, "toml": nil, "netlink": nil, "yaml": nil,
	}
	for _, f := range librarySources(t) {
		if f.isIn("internal/...") || f.isIn("examples/...") {
			continue
		}
		for _, decl := range f.ast.Decls {
			for _, part := range exportedParts(decl) {
				ast.Inspect(part, func(n ast.Node) bool {
					sel, ok := n.(*ast.SelectorExpr)
					if !ok {
						return true
					}
					if x, ok := sel.X.(*ast.Ident); ok {
						name := x.Name
						if own := module + "/internal/" + name; slices.Contains(f.imports(), own) {
							name = own
						}
						if may, known := foreign[name]; (known || strings.HasPrefix(name, module)) && !slices.Contains(may, sel.Sel.Name) {
							t.Errorf("%v: %s.%s in an exported signature", f.fset.Position(n.Pos()), x.Name, sel.Sel.Name)
						}
					}
					return true
				})
			}
		}
	}
}

// exportedParts are the types that users see of a declaration.
func exportedParts(decl ast.Decl) []ast.Node {
	var out []ast.Node
	switch d := decl.(type) {
	case *ast.FuncDecl:
		if d.Name.IsExported() && (d.Recv == nil || exportedReceiver(d)) {
			out = append(out, d.Type)
		}
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			ts, ok := spec.(*ast.TypeSpec)
			if !ok || !ts.Name.IsExported() {
				continue
			}
			st, isStruct := ts.Type.(*ast.StructType)
			if !isStruct {
				out = append(out, ts.Type)
				continue
			}
			for _, field := range st.Fields.List {
				if len(field.Names) == 0 || slices.ContainsFunc(field.Names, (*ast.Ident).IsExported) {
					out = append(out, field.Type)
				}
			}
		}
	}
	return out
}

func exportedReceiver(d *ast.FuncDecl) bool {
	t := d.Recv.List[0].Type
	if star, ok := t.(*ast.StarExpr); ok {
		t = star.X
	}
	id, ok := t.(*ast.Ident)
	return ok && id.IsExported()
}
