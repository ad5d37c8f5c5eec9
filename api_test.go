package pullwalk_test

import (
	"bytes"
	"flag"
	"go/ast"
	"go/build"
	"go/doc"
	"go/format"
	"go/parser"
	"go/printer"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// publicPackages are those that users may import, by their directory.
var publicPackages = []string{".", "classify", "reach", "dnscheck", "endpoints", "tlsauth"}

// maxExported bounds the package-level names outside of classify, whose causes
// are data: whoever reads the library has to learn these.
const maxExported = 200

var updateAPI = flag.Bool("update-api", false, "rewrite testdata/api from the sources")

// Each change of what users can name shows in a diff of testdata/api. After a wanted
// one: go test . -run ExportedAPI -update-api
func TestExportedAPI(t *testing.T) {
	t.Parallel()
	names := 0
	for _, dir := range publicPackages {
		p := parseAPI(t, dir)
		text, exported := p.text(t)
		if dir != "classify" {
			names += exported
		}
		file := filepath.Join("testdata", "api", p.doc.Name+".txt")
		if *updateAPI {
			require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
			require.NoError(t, os.WriteFile(file, text, 0o644))
			continue
		}
		want, err := os.ReadFile(file)
		require.NoError(t, err)
		assert.Equal(t, string(want), string(text), "the exported API of %s changed: see the comment of this test", dir)
	}
	assert.LessOrEqual(t, names, maxExported, "package-level names outside of classify")
}

// Users cannot name a type of internal, and cannot read its documentation.
func TestNoInternalTypesInExportedAPI(t *testing.T) {
	t.Parallel()
	for _, dir := range publicPackages {
		p := parseAPI(t, dir)
		for _, f := range p.files {
			internal := map[string]bool{} // names under which internal packages are imported
			for _, spec := range f.Imports {
				if path := strings.Trim(spec.Path.Value, `"`); strings.HasPrefix(path, module+"/internal/") {
					name := path[strings.LastIndexByte(path, '/')+1:]
					if spec.Name != nil {
						name = spec.Name.Name
					}
					internal[name] = true
				}
			}
			for _, decl := range f.Decls {
				for _, part := range exportedParts(decl) {
					ast.Inspect(part, func(n ast.Node) bool {
						if sel, ok := n.(*ast.SelectorExpr); ok {
							if x, ok := sel.X.(*ast.Ident); ok && internal[x.Name] && !plainAliases[x.Name+"."+sel.Sel.Name] {
								t.Errorf("%v: users cannot name %s.%s", p.fset.Position(n.Pos()), x.Name, sel.Sel.Name)
							}
						}
						return true
					})
				}
			}
		}
	}
}

// plainAliases are strings with constants, of which a public package has an alias.
var plainAliases = map[string]bool{
	"registry.Role": true, "registry.Outcome": true, "pull.StepID": true, "pull.Status": true,
}

// apiPackage is one package as its users see it.
type apiPackage struct {
	fset  *token.FileSet
	files []*ast.File
	doc   *doc.Package
}

func parseAPI(t *testing.T, dir string) apiPackage {
	t.Helper()
	ctx := build.Default
	ctx.GOOS, ctx.GOARCH = "linux", "amd64" // the same on every machine
	found, err := ctx.ImportDir(dir, 0)
	require.NoError(t, err)
	p := apiPackage{fset: token.NewFileSet()}
	for _, name := range found.GoFiles {
		f, err := parser.ParseFile(p.fset, filepath.Join(dir, name), nil, parser.ParseComments|parser.SkipObjectResolution)
		require.NoError(t, err)
		p.files = append(p.files, f)
	}
	copies := slices.Clone(p.files)
	for i, name := range found.GoFiles { // go/doc takes its files apart
		copies[i], err = parser.ParseFile(p.fset, filepath.Join(dir, name), nil, parser.ParseComments|parser.SkipObjectResolution)
		require.NoError(t, err)
	}
	p.doc, err = doc.NewFromFiles(p.fset, copies, module+"/"+dir)
	require.NoError(t, err)
	return p
}

// text is every exported declaration without comments, and how many package-level
// names they are.
func (p apiPackage) text(t *testing.T) (text []byte, exported int) {
	t.Helper()
	var out bytes.Buffer
	show := func(decl ast.Node) {
		var one bytes.Buffer
		require.NoError(t, (&printer.Config{Mode: printer.UseSpaces, Tabwidth: 4}).Fprint(&one, p.fset, decl))
		src, err := format.Source(stripComments(one.Bytes()))
		require.NoError(t, err)
		out.Write(append(bytes.TrimSpace(src), '\n'))
	}
	values := func(list []*doc.Value) {
		for _, v := range list {
			exported += len(slices.DeleteFunc(slices.Clone(v.Names), func(name string) bool { return !ast.IsExported(name) }))
			show(v.Decl)
		}
	}
	funcs := func(list []*doc.Func) {
		for _, f := range list {
			f.Decl.Doc, f.Decl.Body = nil, nil
			if f.Decl.Recv == nil {
				exported++
			}
			show(f.Decl)
		}
	}
	values(p.doc.Consts)
	values(p.doc.Vars)
	funcs(p.doc.Funcs)
	for _, typ := range p.doc.Types {
		exported++
		show(typ.Decl)
		values(typ.Consts)
		values(typ.Vars)
		funcs(typ.Funcs)
		funcs(typ.Methods)
	}
	return out.Bytes(), exported
}

// stripComments keeps the golden about names and types. Where unexported fields were
// is kept: a struct with some cannot be compared with ==.
func stripComments(src []byte) []byte {
	var out bytes.Buffer
	for line := range strings.Lines(string(src)) {
		code, comment, ok := strings.Cut(line, "//")
		if strings.Contains(comment, "contains filtered or unexported") {
			out.WriteString("// unexported fields\n")
			continue
		}
		if ok && strings.Count(code, `"`)%2 == 0 && strings.Count(code, "`")%2 == 0 {
			if strings.TrimSpace(code) == "" {
				continue
			}
			line = strings.TrimRight(code, " \t") + "\n"
		}
		if strings.TrimSpace(line) != "" {
			out.WriteString(line)
		}
	}
	return out.Bytes()
}
