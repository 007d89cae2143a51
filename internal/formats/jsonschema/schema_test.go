package jsonschema

import (
	"fmt"
	"strings"
	"testing"
)

// What random schemas do not have: addresses, anchors, and what they mean in each draft.
func TestReferences(t *testing.T) {
	tests := []struct {
		name, draft, schema string
		match, fail         []string
	}{
		{"an address, and one relative to it", "2020-12", `{"$id": "https://a.example/x/root", "properties": {"a": {"$ref": "item"}},
			"$defs": {"i": {"$id": "item", "type": "integer"}}}`, []string{`{"a": 1}`}, []string{`{"a": "x"}`}},
		{"the address in draft 4", "4", `{"id": "https://a.example/root", "properties": {"a": {"$ref": "item"}},
			"definitions": {"i": {"id": "item", "type": "integer"}}}`, []string{`{"a": 1}`}, []string{`{"a": "x"}`}},
		{"a name without a place", "2020-12", `{"$id": "urn:example:root", "items": {"$ref": "urn:example:root#/$defs/n"},
			"$defs": {"n": {"type": "null"}}}`, []string{`[null]`}, []string{`[1]`}},
		{"an anchor", "2020-12", `{"items": {"$ref": "#n"}, "$defs": {"n": {"$anchor": "n", "type": "null"}}}`,
			[]string{`[null]`}, []string{`[1]`}},
		{"an anchor of draft 7", "7", `{"items": {"$ref": "#n"}, "definitions": {"n": {"$id": "#n", "type": "null"}}}`,
			[]string{`[null]`}, []string{`[1]`}},
		{"no address beside $ref in draft 7", "7",
			`{"$id": "https://a.example/", "items": {"$id": "https://b.example/", "$ref": "#/definitions/n"},
			"definitions": {"n": {"type": "null"}}}`, []string{`[null]`}, []string{`[1]`}},
		{"keywords beside $ref, which count since 2019-09", "2019-09", `{"items": {"$ref": "#/$defs/n", "minimum": 2},
			"$defs": {"n": {"type": "integer"}}}`, []string{`[2]`}, []string{`[1]`, `[2.5]`}},
		{"keywords beside $ref, which do not before", "7", `{"items": {"$ref": "#/definitions/n", "minimum": 2},
			"definitions": {"n": {"type": "integer"}}}`, []string{`[1]`}, []string{`[2.5]`}},
		{"a pointer with what is escaped", "2020-12", `{"$ref": "#/$defs/a~1b%25%20~0", "$defs": {"a/b% ~": {"type": "null"}}}`,
			[]string{`null`}, []string{`1`}},
		{"a pointer to where no keyword has schemas", "2020-12",
			`{"$ref": "#/x-types/0", "x-types": [{"items": {"$ref": "#/x-types/1"}}, {"type": "null"}]}`,
			[]string{`[null]`}, []string{`[1]`}},
		{"what is no schema has no address", "2020-12", `{"enum": [{"$id": "https://a.example/x", "type": "null"}], "$ref": "#/enum/0"}`,
			nil, []string{`1`, `{"$id": "https://a.example/x", "type": "null"}`}},
		{"the schema of schemas", "7", `{"items": {"$ref": "http://json-schema.org/draft-07/schema#"}}`,
			[]string{`[{"type": "null"}, true]`}, []string{`[{"type": "nil"}]`, `[1]`, `[{"properties": {"a": {"minimum": "1"}}}]`}},
		{"a schema of another draft in it", "2020-12",
			`{"items": {"$id": "https://a.example/x", "$schema": "http://json-schema.org/draft-07/schema#",
			"items": [{"type": "null"}]}}`, []string{`[[null]]`}, []string{`[[1]]`}},
		{"a tree that is extended ($dynamicRef)", "2020-12",
			`{"$id": "https://a.example/strict", "$dynamicAnchor": "node", "$ref": "tree", "unevaluatedProperties": false,
			"$defs": {"t": {"$id": "tree", "$dynamicAnchor": "node", "type": "object", "properties": {"data": true, "children": {"items": {"$dynamicRef": "#node"}}}}}}`,
			[]string{`{"children": [{"data": 1}]}`}, []string{`{"children": [{"daat": 1}]}`}},
		{"a tree that is extended ($recursiveRef)", "2019-09",
			`{"$id": "https://a.example/strict", "$recursiveAnchor": true, "$ref": "tree", "unevaluatedProperties": false,
			"$defs": {"t": {"$id": "tree", "$recursiveAnchor": true, "type": "object", "properties": {"data": true, "children": {"items": {"$recursiveRef": "#"}}}}}}`,
			[]string{`{"children": [{"data": 1}]}`}, []string{`{"children": [{"daat": 1}]}`}},
		{"what branches have evaluated", "2020-12",
			`{"anyOf": [{"properties": {"a": {"type": "null"}}, "required": ["a"]}, {"properties": {"b": true}, "required": ["b"]}],
			"unevaluatedProperties": false}`, []string{`{"a": null}`, `{"b": 1}`, `{"a": null, "b": 1}`}, []string{`{"a": 1, "b": 1}`,
				`{"b": 1, "c": 1}`}},
		{"items that contains has evaluated", "2020-12",
			`{"prefixItems": [true], "contains": {"type": "null"}, "unevaluatedItems": {"type": "string"}}`,
			[]string{`[1, null, "a"]`}, []string{`[1, null, 2]`}},
		{"which it has not in 2019-09", "2019-09", `{"items": [true], "contains": {"type": "null"}, "unevaluatedItems": {"type": "string"}}`,
			[]string{`[null, "a"]`}, []string{`[1, null, "a"]`}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			n, ok := agree(t, tt.draft, tt.schema, append(tt.match, tt.fail...))
			if !ok || n != len(tt.match) {
				t.Errorf("%d of the documents match, want %d", n, len(tt.match))
			}
		})
	}
}

type shelves map[string]string

func (s shelves) Load(address string) (any, error) {
	text, ok := s[address]
	if !ok {
		return nil, fmt.Errorf("%s is not fetched", address)
	}
	return read([]byte(text))
}

// A schema of schemas of one's own says which keywords count, and what else a schema must have.
func TestASchemaOfSchemas(t *testing.T) {
	from := shelves{"https://a.example/meta": `{"$schema": "https://json-schema.org/draft/2020-12/schema", "$id": "https://a.example/meta", "required": ["title"],
		"$vocabulary": {"https://json-schema.org/draft/2020-12/vocab/core": true, "https://json-schema.org/draft/2020-12/vocab/applicator": true}}`}
	tests := []struct{ name, schema, document, want string }{
		{"what counts", `{"title": "x", "properties": {"a": false}}`, `{"a": 1}`, "/a: nothing is allowed here"},
		{"what does not", `{"title": "x", "minimum": 3}`, `1`, ""},
		{"what a schema must have", `{}`, `1`, "not a valid JSON Schema: the document: missing property 'title'"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			v, err := read([]byte(strings.Replace(tt.schema, "{", `{"$schema": "https://a.example/meta",`, 1)))
			if tt.schema == "{}" {
				v, err = read([]byte(`{"$schema": "https://a.example/meta"}`))
			}
			if err != nil {
				t.Fatal(err)
			}
			made, err := compile(v, inline, from, Options{})
			if err == nil {
				err = made.Check(t.Context(), []byte(tt.document))
			}
			if err == nil && tt.want != "" || err != nil && err.Error() != tt.want {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}

func TestFormats(t *testing.T) {
	tests := []struct {
		format      string
		match, fail []string
	}{
		{"uuid", []string{"2EB8AA08-aa98-11ea-b4aa-73b441d16380"}, []string{"2eb8aa08-aa98-11ea-b4aa73b441d16380",
			"2eb8aa08-aa98-11ea-b4aa-73b441d1638g"}},
		{"ipv4", []string{"192.0.2.1"}, []string{"192.0.2", "192.0.2.256", "192.0.2.01", "::1"}},
		{"ipv6", []string{"::1", "::ffff:192.0.2.1"}, []string{"192.0.2.1", "1::2::3", "fe80::1%eth0"}},
		{"hostname", []string{"a", "a-1.example"}, []string{"", "-a", "a-", "a..b", "a_b", strings.Repeat("a", 64)}},
		{"email", []string{"a@example.com", `"a b"@example.com`, "a@[192.0.2.1]", "a@[IPv6:::1]", "a+b!@x"}, []string{"a", "a@", "@x", "a..b@x",
			".a@x", "a@[192.0.2]", "a@-x"}},
		{"date", []string{"2024-02-29"}, []string{"2023-02-29", "2024-2-1", "24-02-01", "2024-02-01T"}},
		{"time", []string{"12:00:00Z", "12:00:00.5+01:00", "23:59:60Z", "00:29:60+00:30"}, []string{"12:00:00", "24:00:00Z", "12:60:00Z",
			"12:00:60Z", "12:00:00.Z", "12:00:00+1:00", "12:00:00+24:00"}},
		{"date-time", []string{"2024-02-29T12:00:00Z", "2024-02-29t12:00:00z"}, []string{"2024-02-29", "2024-02-29 12:00:00Z",
			"2024-02-29T12:00:00"}},
		{"duration", []string{"P1Y2M3DT4H5M6S", "PT1M", "P4W", "P1D"}, []string{"", "P", "PT", "P1", "1D", "P1D2Y", "PT1D", "P1YT", "P1W2D",
			"P1Y2D"}},
		{"period", []string{"2024-02-29T12:00:00Z/2024-03-01T12:00:00Z", "2024-02-29T12:00:00Z/P1D", "P1D/2024-02-29T12:00:00Z"},
			[]string{"P1D/P1D", "2024-02-29T12:00:00Z"}},
		{"json-pointer", []string{"", "/a~1b/~0", "/"}, []string{"a", "/~2", "/~"}},
		{"relative-json-pointer", []string{"0", "1/a", "12#"}, []string{"", "01", "/a", "1a", "1##"}},
		{"uri", []string{"https://a.example/?q=%20#f", "urn:a:b", "http://[::1]:80/"}, []string{"/a", "https://a b", "https://a.example/%zz",
			"http://[::g]/", "http://a/é", `http:\\a`}},
		{"uri-reference", []string{"/a", "#f", "", "a?b"}, []string{"a b", "#a\\b", "/é"}},
		{"iri", []string{"http://a/é"}, []string{"/é", "http://a b"}},
		{"iri-reference", []string{"/é"}, []string{"a b"}},
		{"uri-template", []string{"/a/{b}{?c,d*,e:3}", "/{+x}", ""}, []string{"/{a", "/a}", "/{a b}", "/{}", "/{a:0}"}},
		{"semver", []string{"1.2.3", "1.0.0-a.1+b.01"}, []string{"1.2", "01.2.3", "1.2.3-", "1.2.3-01", "1.2.3+"}},
		{"regex", []string{"^a+$"}, []string{"("}},
		{"of one's own", []string{"anything"}, nil},
	}
	for _, tt := range tests {
		schema := map[string]any{"format": tt.format}
		made, err := Compile(schema, Options{Draft: "2020-12", Format: true})
		if err != nil {
			t.Fatal(err)
		}
		for i, text := range append(tt.match, tt.fail...) {
			err := made.library.check(t.Context(), made.root, text, len(text))
			if (err == nil) != (i < len(tt.match)) {
				t.Errorf("%s: %q: got error %v", tt.format, text, err)
			}
		}
	}
}
