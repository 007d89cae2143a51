package jsonschema

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/flowd-io/flowd/engine"
)

// nested is a text that holds itself so many times, with %s for what is in it.
func nested(levels int, around, inside string) string {
	before, after, _ := strings.Cut(around, "%s")
	return strings.Repeat(before, levels) + inside + strings.Repeat(after, levels)
}

// chain is definitions of which each but the last is made with the name of the next.
func chain(levels int, of, last string) string {
	var b strings.Builder
	for i := range levels {
		fmt.Fprintf(&b, `"%d":%s,`, i, strings.ReplaceAll(of, "NEXT", fmt.Sprintf(`{"$ref":"#/$defs/%d"}`, i+1)))
	}
	fmt.Fprintf(&b, `"%d":%s`, levels, last)
	return b.String()
}

const givenUp = "the check was given up after"

// What takes a naive validator exponential or quadratic time is done within the budget, or given up.
func TestNothingTakesForEver(t *testing.T) {
	tree := `{"$ref":"#/$defs/n","$defs":{"n":{"type":"object","%s":[
		{"properties":{"kind":{"const":"a"},"aa":{"$ref":"#/$defs/n"},"next":{"$ref":"#/$defs/n"}},"required":["kind"]},
		{"properties":{"kind":{"const":"b"},"aa":{"$ref":"#/$defs/n"},"next":{"$ref":"#/$defs/n"}},"required":["kind"],"additionalProperties":false}]}}}`
	extended := `{"$id":"https://a.example/x","$dynamicAnchor":"n","$ref":"tree","%s":[{"$ref":"tree"},{"$ref":"tree"}],
		"$defs":{"t":{"$id":"tree","$dynamicAnchor":"n","properties":{"a":{"$dynamicRef":"#n"}}}}}`
	letters := strings.Repeat("a", 1<<20)
	tests := []struct{ name, schema, document, want string }{
		{"branches that say the same of a deep document",
			`{"$ref":"#/$defs/n","$defs":{"n":{"anyOf":[{"properties":{"a":{"$ref":"#/$defs/n"}},"required":["b"]},
				{"properties":{"a":{"$ref":"#/$defs/n"}},"required":["c"]},{"type":"null"}]}}}`,
			nested(24, `{"a":%s}`, `1`),
			"the document: missing property 'b'; the document: missing property 'c'; the document: got object, want null; and"},
		{"a tree whose nodes say which schema is theirs", fmt.Sprintf(tree, "oneOf"), nested(400, `{"kind":"b","next":%s}`, `{"kind":"a"}`), ""},
		{"one whose leaf is wrong", fmt.Sprintf(tree, "oneOf"), nested(130, `{"kind":"b","next":%s}`, `{"kind":"c"}`), "/kind: must be 'a'"},
		{"one in which two schemas are anyone's", fmt.Sprintf(strings.ReplaceAll(tree, `"const"`, `"title"`), "anyOf"),
			nested(300, `{"kind":"b","next":%s}`, `{"kind":"a"}`), ""},
		{"schemas that lead to one by 2³⁰ ways", `{"$ref":"#/$defs/0","$defs":{` + chain(30, `{"allOf":[NEXT,NEXT]}`, `{"type":"string"}`) + `}}`,
			`1`, "the document: got number, want string"},
		{"by those that depend on properties", `{"not":{"$ref":"#/$defs/0"},"$defs":{` + chain(30, `{"dependentSchemas":{"a":NEXT,"b":NEXT}}`,
			`{"type":"string"}`) + `}}`,
			`{"a":1,"b":1}`, ""},
		{"by those that ask what is evaluated", `{"$ref":"#/$defs/0","$defs":{` + chain(30,
			`{"anyOf":[NEXT,NEXT],"unevaluatedProperties":{"type":"null"}}`, `{"required":["a"]}`) + `}}`,
			`{"a":null,"b":1}`, "/b: got number, want null"},
		{"by names of properties", `{"propertyNames":{"$ref":"#/$defs/0"},"$defs":{` + chain(30, `{"allOf":[NEXT,NEXT]}`, `{"maxLength":1}`) +
			`}}`,
			`{"ab":1}`, "the document: invalid propertyName 'ab'"},
		{"by the dynamic scope", fmt.Sprintf(extended, "allOf"), nested(24, `{"a":%s}`, `1`), givenUp},
		{"items that are to differ, at each level", `{"$ref":"#/$defs/n","$defs":{"n":{"uniqueItems":true,"items":{"$ref":"#/$defs/n"}}}}`,
			nested(500, `[1,%s]`, "["+`"1",[],`+strings.TrimSuffix(strings.Repeat(`[2],`, 9000), ",")+"]"), givenUp},
		{"powers of ten", `{"items":{"multipleOf":1e-999}}`, "[" + strings.Repeat("1e999,", 50_000) + "1]", givenUp},
		{"what many properties need", `{"items":{"dependentRequired":{` + strings.TrimSuffix(repeated(2000, `"%d":["a"],`), ",") + `}}}`,
			"[" + strings.Repeat("{},", 20_000) + "1]", givenUp},
		{"a pattern that many repetitions are in", `{"pattern":"^(a?){999}$"}`, `"` + letters + `"`, givenUp},
		{"one for each name of a property", `{"patternProperties":{"^(a?){999}$":{}}}`, `{"` + letters + `":1}`, givenUp},
		{"a regular expression in the document", `{"$schema":"http://json-schema.org/draft-07/schema#","format":"regex"}`, `"((a{100}){9}){1}"`,
			""},
		{"a document that is itself a schema", `{"items":{"$ref":"http://json-schema.org/draft-07/schema#"}}`,
			"[" + nested(200, `{"items":%s}`, `{"pattern":"a"}`) + "]", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			made, err := CompileText(&engine.Schema{Text: tt.schema}, Options{Draft: "2020-12"})
			if err != nil {
				t.Fatal(err)
			}
			err = made.Check(t.Context(), []byte(tt.document))
			if err == nil && tt.want != "" || err != nil && (tt.want == "" || !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
			if errors.Is(err, ErrGivenUp) != (tt.want == givenUp) {
				t.Errorf("%v: is it given up?", err)
			}
		})
	}
}

func repeated(n int, format string) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, format, i)
	}
	return b.String()
}

// A check that takes long ends with the call that it is for.
func TestACheckEndsWithItsContext(t *testing.T) {
	made, err := CompileText(&engine.Schema{Text: `{"items":{"items":{"not":{"type":"null"}}}}`}, Options{Draft: "2020-12"})
	if err != nil {
		t.Fatal(err)
	}
	document := []byte("[[" + strings.Repeat("1,", 10_000) + "1]]")
	if err := made.Check(t.Context(), document); err != nil {
		t.Error(err)
	}
	late := errors.New("it is late")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(late)
	if err := made.Check(ctx, document); !errors.Is(err, late) {
		t.Errorf("got %v, want the cause of the context", err)
	}
}

// A registry's schema takes bounded memory and time, and little of the stack.
func TestSchemasOfARegistryAreBounded(t *testing.T) {
	tests := []struct{ name, schema, want string }{
		{"very many schemas", `{"allOf":[` + strings.Repeat(`{},`, 60_000) + `{}]}`, "more than 50000 schemas"},
		{"very many values", `{"enum":[` + strings.Repeat(`1,`, 500_000) + `1]}`, "more than 400000 (split it)"},
		{"a long chain of references", `{"$ref":"#/definitions/0","definitions":{` +
			strings.ReplaceAll(chain(20_000, `{"allOf":[NEXT]}`, `{}`), "$defs", "definitions") + `}}`,
			"more than 10000 schemas lead to each other"},
		{"patterns that are short and repeat much", `{"allOf":[` + strings.Repeat(`{"pattern":"^(a{30}){30}$"},`, 1000) + `{}]}`,
			"its regular expressions are larger"},
		{"one reference by many addresses", `{"allOf":[` + repeated(9, `{"$ref":"x%d/a.json"},`) + `{}]}`, "more than 4 addresses"},
		{"a very long pattern", `{"pattern":"` + strings.Repeat("a?", 1<<19) + `"}`, "/pattern: is longer than"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := CompileText(&engine.Schema{Text: tt.schema, Needs: []engine.NamedSchema{{Name: "a.json", Text: `{}`}}},
				ofRegistries); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}
