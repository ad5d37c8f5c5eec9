package pullwalk_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pullwalk/pullwalk"
	"github.com/pullwalk/pullwalk/classify"
	"github.com/pullwalk/pullwalk/endpoints"
)

const (
	schemaFile         = "schema/result.v1.schema.json"
	coverageSchemaFile = "schema/coverage.v1.schema.json"
)

// schema is the part of JSON Schema 2020-12 that is used here.
type schema struct {
	Schema               string             `json:"$schema,omitempty"`
	ID                   string             `json:"$id,omitempty"`
	Title                string             `json:"title,omitempty"`
	Ref                  string             `json:"$ref,omitempty"`
	Description          string             `json:"description,omitempty"`
	Type                 string             `json:"type,omitempty"`
	Format               string             `json:"format,omitempty"`
	Const                string             `json:"const,omitempty"`
	Enum                 []string           `json:"enum,omitempty"`
	Pattern              string             `json:"pattern,omitempty"`
	Minimum              *int64             `json:"minimum,omitempty"`
	AnyOf                []*schema          `json:"anyOf,omitempty"`
	Items                *schema            `json:"items,omitempty"`
	Properties           map[string]*schema `json:"properties,omitempty"`
	Required             []string           `json:"required,omitempty"`
	AdditionalProperties *bool              `json:"additionalProperties,omitempty"`
	Defs                 map[string]*schema `json:"$defs,omitempty"`
}

// TestSchema holds the published schemas against the types. Inside v1 they only
// grow: a diff that takes something away breaks who reads results.
func TestSchema(t *testing.T) {
	t.Parallel()
	for file, s := range map[string]*schema{schemaFile: resultSchema(t), coverageSchemaFile: coverageSchema(t)} {
		var b bytes.Buffer
		enc := json.NewEncoder(&b)
		enc.SetEscapeHTML(false)
		enc.SetIndent("", "  ")
		require.NoError(t, enc.Encode(s))
		if *update {
			require.NoError(t, os.WriteFile(file, b.Bytes(), 0o644))
			continue
		}
		want, err := os.ReadFile(file)
		require.NoError(t, err)
		require.Equal(t, string(want), b.String(), "run with -update, and read the diff: v1 only grows")
	}
}

// enumerations lists the values of the types that have a fixed set.
var enumerations = map[reflect.Type][]string{
	reflect.TypeFor[pullwalk.Status]():        words(pullwalk.StatusOK, pullwalk.StatusDegraded, pullwalk.StatusFailed, pullwalk.StatusBlocked, pullwalk.StatusSkipped, pullwalk.StatusInconclusive),
	reflect.TypeFor[pullwalk.PullMode]():      words(pullwalk.Touch, pullwalk.Complete, pullwalk.Connect),
	reflect.TypeFor[pullwalk.CoverageState](): words(pullwalk.CoverageProved, pullwalk.CoverageFailed, pullwalk.CoverageNotProbed, pullwalk.CoverageOpen, pullwalk.CoverageHandRepaired, pullwalk.CoverageLongLived, pullwalk.CoverageAlreadyStored),
	reflect.TypeFor[classify.Layer]():         words(classify.Order()...),
	reflect.TypeFor[classify.Severity]():      words(classify.SeverityFail, classify.SeverityWarn, classify.SeverityInfo),
	reflect.TypeFor[classify.Certainty]():     words(classify.CertaintyProven, classify.CertaintyLikely, classify.CertaintyPossible),
	reflect.TypeFor[endpoints.Outcome]():      words(endpoints.OutcomeHeld, endpoints.OutcomeRedirect, endpoints.OutcomeNeedsToken, endpoints.OutcomeNeedsGet, endpoints.OutcomeNotNeeded, endpoints.OutcomeFailed, endpoints.OutcomeInconclusive),
	reflect.TypeFor[endpoints.Role]():         words(endpoints.RoleManifest, endpoints.RoleToken, endpoints.RoleBlob, endpoints.RoleMirror, endpoints.RoleProxy, endpoints.RoleResolver, endpoints.RoleExpected, endpoints.RoleSandbox, endpoints.RoleCredential),
}

// patterns are of types whose set grows: causes, and steps of the caller's own.
var patterns = map[reflect.Type]string{
	reflect.TypeFor[classify.Cause](): `^([a-z]+(\.[a-z0-9-]+)+)?$`,
}

// retired are the properties that results had before, by definition. v1 keeps them:
// stored results have them.
var retired = map[string]map[string]*schema{
	"Step": {"pull": {Type: "object", Description: "The closing pull, with the step id pull and the cause unknown.steps-disagree. Not produced since the steps carry the runtime's User-Agent."}},
}

func words[T ~string](values ...T) []string {
	out := make([]string, len(values))
	for i, v := range values {
		out[i] = string(v)
	}
	return out
}

// resultSchema generates the schema of a result from the types.
func resultSchema(t testing.TB) *schema {
	t.Helper()
	root, err := generateResultSchema()
	require.NoError(t, err)
	return root
}

// coverageSchema is that of a report on many pools.
func coverageSchema(t testing.TB) *schema {
	t.Helper()
	root, err := generateCoverageSchema()
	require.NoError(t, err)
	return root
}

var (
	generateResultSchema = sync.OnceValues(func() (*schema, error) {
		return generateSchema[pullwalk.Result](pullwalk.Schema, "Result of a pullwalk diagnosis")
	})
	generateCoverageSchema = sync.OnceValues(func() (*schema, error) {
		return generateSchema[pullwalk.CoverageReport](pullwalk.CoverageSchema, "Coverage of pools by pullwalk results")
	})
)

// generateSchema makes the schema of the document T, whose field "schema" is id.
func generateSchema[T any](id, title string) (*schema, error) {
	g := generator{defs: map[string]*schema{}}
	ref, err := g.of(reflect.TypeFor[T]())
	if err != nil {
		return nil, err
	}
	root := *g.defs[strings.TrimPrefix(ref.Ref, "#/$defs/")]
	delete(g.defs, strings.TrimPrefix(ref.Ref, "#/$defs/"))
	root.Properties["schema"] = &schema{Const: id}
	root.Schema, root.ID, root.Title, root.Defs = "https://json-schema.org/draft/2020-12/schema", id, title, g.defs
	return &root, nil
}

type generator struct{ defs map[string]*schema }

func (g generator) of(t reflect.Type) (*schema, error) {
	switch t {
	case reflect.TypeFor[time.Time]():
		return &schema{Type: "string", Format: "date-time"}, nil
	case reflect.TypeFor[netip.Addr](), reflect.TypeFor[netip.AddrPort](), reflect.TypeFor[netip.Prefix]():
		return &schema{Type: "string"}, nil
	}
	if values, ok := enumerations[t]; ok {
		return &schema{Enum: values}, nil
	}
	if p, ok := patterns[t]; ok {
		return &schema{Type: "string", Pattern: p}, nil
	}
	switch t.Kind() {
	case reflect.Pointer:
		return g.of(t.Elem())
	case reflect.String:
		return &schema{Type: "string"}, nil
	case reflect.Bool:
		return &schema{Type: "boolean"}, nil
	case reflect.Int, reflect.Int64:
		return &schema{Type: "integer"}, nil
	case reflect.Uint16:
		return &schema{Type: "integer", Minimum: new(int64)}, nil
	case reflect.Slice:
		items, err := g.of(t.Elem())
		return &schema{Type: "array", Items: items}, err
	case reflect.Struct:
		return g.object(t)
	}
	return nil, fmt.Errorf("no schema for %v", t)
}

// object makes a definition of a struct. Nothing is said of further properties:
// later versions add some.
func (g generator) object(t reflect.Type) (*schema, error) {
	name := strings.ReplaceAll(strings.TrimPrefix(t.String(), "pullwalk."), ".", "-")
	ref := &schema{Ref: "#/$defs/" + name}
	if g.defs[name] != nil {
		return ref, nil
	}
	s := &schema{Type: "object", Properties: map[string]*schema{}}
	g.defs[name] = s
	for f := range fields(t) {
		tag, opts, _ := strings.Cut(f.Tag.Get("json"), ",")
		if tag == "-" {
			continue
		}
		if tag == "" || !regexp.MustCompile(`^[a-z][a-zA-Z0-9]*$`).MatchString(tag) {
			return nil, fmt.Errorf("%v.%s has no lowerCamelCase name in JSON", t, f.Name)
		}
		p, err := g.of(f.Type)
		if err != nil {
			return nil, fmt.Errorf("%v.%s: %w", t, f.Name, err)
		}
		optional := strings.Contains(opts, "omit")
		if k := f.Type.Kind(); !optional && (k == reflect.Slice || k == reflect.Pointer) {
			p = &schema{AnyOf: []*schema{p, {Type: "null"}}}
		}
		s.Properties[tag] = p
		if !optional {
			s.Required = append(s.Required, tag)
		}
	}
	maps.Copy(s.Properties, retired[name])
	return ref, nil
}

func fields(t reflect.Type) func(func(reflect.StructField) bool) {
	return func(yield func(reflect.StructField) bool) {
		for _, f := range reflect.VisibleFields(t) {
			if f.IsExported() && !f.Anonymous && !yield(f) {
				return
			}
		}
	}
}

// validate says where a document is not what the schema says.
func (s *schema) validate(doc []byte) []string {
	dec := json.NewDecoder(bytes.NewReader(doc))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		return []string{err.Error()}
	}
	return s.check(s, v, "$")
}

func (s *schema) check(root *schema, v any, at string) []string {
	if s.Ref != "" {
		return root.Defs[strings.TrimPrefix(s.Ref, "#/$defs/")].check(root, v, at)
	}
	wrong := func(format string, args ...any) []string {
		return []string{at + ": " + fmt.Sprintf(format, args...)}
	}
	if len(s.AnyOf) > 0 {
		var all []string
		for _, alternative := range s.AnyOf {
			problems := alternative.check(root, v, at)
			if len(problems) == 0 {
				return nil
			}
			all = append(all, problems...)
		}
		return all
	}
	text, isText := v.(string)
	switch {
	case s.Const != "" && text != s.Const:
		return wrong("%v is not %q", v, s.Const)
	case s.Enum != nil && (!isText || !slices.Contains(s.Enum, text)):
		return wrong("%v is none of %v", v, s.Enum)
	case s.Type == "null" && v != nil, s.Type == "string" && !isText:
		return wrong("%v is no %s", v, s.Type)
	case s.Pattern != "" && !regexp.MustCompile(s.Pattern).MatchString(text):
		return wrong("%q does not match %s", text, s.Pattern)
	case s.Format == "date-time":
		if _, err := time.Parse(time.RFC3339Nano, text); err != nil {
			return wrong("%v", err)
		}
	}
	switch s.Type {
	case "boolean":
		if _, ok := v.(bool); !ok {
			return wrong("%v is no boolean", v)
		}
	case "integer":
		n, ok := v.(json.Number)
		i, err := n.Int64()
		if !ok || err != nil || s.Minimum != nil && i < *s.Minimum {
			return wrong("%v is no such integer", v)
		}
	case "array":
		list, ok := v.([]any)
		if !ok {
			return wrong("%v is no array", v)
		}
		var all []string
		for i, item := range list {
			all = append(all, s.Items.check(root, item, fmt.Sprintf("%s[%d]", at, i))...)
		}
		return all
	case "object":
		return s.checkObject(root, v, at)
	}
	return nil
}

// checkObject also refuses properties that the schema does not name: here both
// come from the same version.
func (s *schema) checkObject(root *schema, v any, at string) []string {
	object, ok := v.(map[string]any)
	if !ok {
		return []string{fmt.Sprintf("%s: %v is no object", at, v)}
	}
	var all []string
	for _, name := range s.Required {
		if _, ok := object[name]; !ok {
			all = append(all, fmt.Sprintf("%s: %q is missing", at, name))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(object)) {
		p := s.Properties[name]
		if p == nil {
			all = append(all, fmt.Sprintf("%s: %q is not in the schema", at, name))
			continue
		}
		all = append(all, p.check(root, object[name], at+"."+name)...)
	}
	return all
}
