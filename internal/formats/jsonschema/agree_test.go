package jsonschema

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	santhosh "github.com/santhosh-tekuri/jsonschema/v6"
)

// theirs are the drafts of another validator, with which ours has to agree.
var theirs = map[string]*santhosh.Draft{
	"4": santhosh.Draft4, "6": santhosh.Draft6, "7": santhosh.Draft7, "2019-09": santhosh.Draft2019,
	"2020-12": santhosh.Draft2020,
}

type nothing struct{}

func (nothing) Load(address string) (any, error) {
	return nil, fmt.Errorf("%s is not fetched", address)
}

// agree compares what both say of a schema and of documents, and says how many documents match.
func agree(t *testing.T, draft, schema string, documents []string) (matching int, compiled bool) {
	t.Helper()
	v, err := read([]byte(schema))
	if err != nil {
		t.Fatal(err)
	}
	made, err := Compile(v, Options{Draft: draft})
	c := santhosh.NewCompiler()
	c.DefaultDraft(theirs[draft])
	c.UseLoader(nothing{})
	if err := c.AddResource(inline, v); err != nil {
		t.Fatal(err)
	}
	want, wantErr := c.Compile(inline)
	if isEndless(err) {
		return 0, false // theirs finds that out when it checks
	}
	if (err == nil) != (wantErr == nil) {
		t.Errorf("draft %s, schema %s: got error %v, want %v", draft, schema, err, wantErr)
	}
	if err != nil || wantErr != nil {
		return 0, false
	}
	for _, text := range documents {
		document, err := read([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		err, wantErr := made.Check(t.Context(), []byte(text)), want.Validate(document)
		if (err == nil) != (wantErr == nil) && !isEndless(err) { // which is not a match below "not" there
			t.Errorf("draft %s, schema %s, document %s: got %v, want %v", draft, schema, text, err, wantErr)
		}
		if err == nil {
			matching++
		}
	}
	return matching, true
}

func isEndless(err error) bool { return err != nil && strings.Contains(err.Error(), "without end") }

// schemas makes schemas and documents that have much to do with each other.
type schemas struct {
	*rand.Rand
	draft draft
}

func (r schemas) key() string { return string(rune('a' + r.IntN(4))) }

func (r schemas) value(depth int) any {
	switch n := r.IntN(9); {
	case n == 0:
		return nil
	case n == 1:
		return r.IntN(2) == 0
	case n == 2:
		return json.Number([]string{"0", "1", "2", "3", "1.0", "1.5", "-1", "1e1", "123456789012345678.5"}[r.IntN(9)])
	case n == 3:
		return []string{"", "a", "b", "ab", "bb", "é"}[r.IntN(6)]
	case n <= 5 && depth > 0:
		list := make([]any, r.IntN(4))
		for i := range list {
			list[i] = r.value(depth - 1)
		}
		return list
	case depth > 0:
		m := map[string]any{}
		for range r.IntN(4) {
			m[r.key()] = r.value(depth - 1)
		}
		return m
	}
	return r.IntN(3) == 0
}

func (r schemas) list(make func() any) []any {
	all := []any{make()}
	for range r.IntN(2) {
		all = append(all, make())
	}
	return all
}

func (r schemas) members(make func() any) map[string]any {
	m := map[string]any{r.key(): make()}
	for range r.IntN(2) {
		m[r.key()] = make()
	}
	return m
}

// schema makes a schema. One in fifty keywords has a value that may be wrong.
func (r schemas) schema(depth int) any {
	if depth == 0 || r.IntN(12) == 0 {
		if r.draft > draft4 {
			return r.IntN(4) > 0
		}
		return map[string]any{}
	}
	m := map[string]any{}
	for range 1 + r.IntN(3) {
		k := keywords[r.IntN(len(keywords))]
		if k.from > r.draft || k.to < r.draft {
			continue
		}
		switch k.name {
		case "$anchor", "$dynamicAnchor", "$id", "id", "$schema", "$vocabulary", "format", "pattern", "type", "const",
			"contentEncoding", "contentMediaType", "$recursiveAnchor":
			continue
		case "$ref", "$dynamicRef":
			m[k.name] = []string{"#", "#/definitions/a", "#/definitions/b", "#b"}[r.IntN(20)/6]
			continue
		case "$recursiveRef":
			m[k.name] = "#"
			continue
		}
		m[k.name] = r.of(k.shape, depth)
		if r.IntN(50) == 0 {
			m[k.name] = r.value(1)
		}
	}
	if r.IntN(2) == 0 {
		m["type"] = r.typeName()
	}
	if r.IntN(8) == 0 {
		m["pattern"] = []string{"^a", "b$", "^.$"}[r.IntN(3)]
	}
	if _, refers := m["$ref"]; r.IntN(8) == 0 && r.draft > draft4 && !refers { // beside which theirs does not ignore it
		m["const"] = r.value(1)
	}
	return m
}

func (r schemas) typeName() any {
	name := func() any { return typeNames[r.IntN(len(typeNames))] }
	if r.IntN(3) == 0 {
		return r.list(name)
	}
	return name()
}

func (r schemas) of(want shape, depth int) any {
	schema := func() any { return r.schema(depth - 1) }
	some := func() any { return r.list(func() any { return r.key() }) }
	switch want {
	case aSchema:
		return schema()
	case schemaOrBool:
		if r.IntN(2) == 0 {
			return false
		}
		return schema()
	case schemaList:
		return r.list(schema)
	case schemaOrList:
		if r.IntN(2) == 0 {
			return r.list(schema)
		}
		return schema()
	case schemaMap:
		return r.members(schema)
	case patternMap:
		return map[string]any{[]string{"^a", "[bc]", "."}[r.IntN(3)]: schema()}
	case dependMap:
		if r.IntN(2) == 0 {
			return r.members(schema)
		}
		return r.members(some)
	case namesMap:
		return r.members(some)
	case names:
		return some()
	case text:
		return "x"
	case boolean:
		return r.IntN(2) == 0
	case list, choices:
		return r.list(func() any { return r.value(1) })
	case number, count, positive:
		return json.Number([]string{"1", "2", "3", "1.0", "0"}[r.IntN(5)])
	case limit:
		if r.draft == draft4 {
			return true
		}
		return json.Number("2")
	}
	return "x"
}

// Another validator, which passes the test suite of JSON Schema, says the same of schemas and documents at random.
func TestAgreesWithAnotherValidator(t *testing.T) {
	const schemasOf, documentsOf = 400, 12
	for name := range theirs {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := schemas{rand.New(rand.NewPCG(1, uint64(len(name)))), draftOf(name)}
			compiled, matching := 0, 0
			for range schemasOf {
				root, _ := r.schema(3).(map[string]any)
				if root == nil {
					continue
				}
				root["definitions"] = map[string]any{"a": r.schema(2), "b": r.schema(2)}
				schema, err := json.Marshal(root)
				if err != nil {
					t.Fatal(err)
				}
				var documents []string
				for range documentsOf {
					text, err := json.Marshal(r.value(3))
					if err != nil {
						t.Fatal(err)
					}
					documents = append(documents, string(text))
				}
				n, ok := agree(t, name, string(schema), documents)
				if matching += n; ok {
					compiled++
				}
				if t.Failed() {
					return
				}
			}
			t.Logf("%d schemas, %d of %d documents match", compiled, matching, compiled*documentsOf)
			if compiled < schemasOf/2 || matching < compiled || matching > compiled*(documentsOf-1) {
				t.Errorf("%d schemas of %d, %d documents match: want a mix", compiled, schemasOf, matching)
			}
		})
	}
}
