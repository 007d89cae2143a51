package jsonschema

import (
	"context"
	"encoding/hex"
	"strings"
	"testing"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/formats/registry"
)

// shelf is a registry of schemas by id.
type shelf struct {
	engine.SchemaRegistry
	schemas map[int]*engine.Schema
}

func (s shelf) Schema(_ context.Context, id int) (*engine.Schema, error) {
	if known := s.schemas[id]; known != nil {
		return known, nil
	}
	return nil, engine.Errorf(engine.Decode, "does not know schema id %d", id)
}

func (s shelf) Newest(context.Context, string) (*engine.Schema, error) { return s.schemas[1], nil }

var shop = shelf{schemas: map[int]*engine.Schema{
	1: {ID: 1, Type: Kind, Text: `{"type":"object","required":["id"],"properties":{"id":{"type":"integer"},"of":{"$ref":"customer.json"}},
		"additionalProperties":false}`, Needs: []engine.NamedSchema{
		{Name: "address.json", Text: `{"type":"object","properties":{"zip":{"type":"string","pattern":"^[0-9]+$"}}}`},
		{Name: "customer.json", Text: `{"properties":{"home":{"$ref":"address.json"}}}`}}},
	2: {ID: 2, Type: "AVRO", Text: `"int"`}, 3: {ID: 3, Type: Kind, Text: `{"type":`}, 4: {ID: 4, Type: Kind, Text: `{"type":"objekt"}`},
	5: {ID: 5, Type: Kind, Text: `{"$id":"https://example.com/schemas/order.json","properties":{"of":{"$ref":"customer.json"}}}`,
		Needs: []engine.NamedSchema{
			{Name: "customer.json", Text: `{"type":"string"}`}}},
	6: {ID: 6, Type: Kind, Text: `{"$ref":"gone.json"}`}, 7: {ID: 7, Type: Kind, Text: `{"$ref":"https://example.com/x.json"}`},
	11: {ID: 11, Type: Kind, Text: `{"$ref":"https://example.com/x.json"}`, Needs: []engine.NamedSchema{
		{Name: "https://example.com/x.json", Text: `{"type":"null"}`}}},
	8: {ID: 8, Type: Kind, Text: `{"definitions":{"a":{"format":"email"}},"items":[{"$ref":"#/definitions/a"}],"additionalItems":false}`},
	9: {ID: 9, Type: Kind, Text: `{"$ref":"#"}`}, 10: {ID: 10, Type: Kind, Text: strings.Repeat(`{"not":`, 10_000) + "{}" + strings.Repeat("}",
		10_000)},
}}

func TestPayloadsAreCheckedByTheirSchema(t *testing.T) {
	d := &Decoder{newCompiled(shop)}
	tests := []struct{ name, id, json, want string }{
		{"what matches is left as it is", "01", ` {"id": 9007199254740993, "of": {"home": {"zip": "1"}}} `,
			`{"id": 9007199254740993, "of": {"home": {"zip": "1"}}}`},
		{"what is missing", "01", `{}`, "json_schema: does not match the schema: the document: missing property 'id'"},
		{"references, and theirs", "01", `{"id":1,"of":{"home":{"zip":"secret"}}}`,
			"json_schema: does not match the schema: /of/home/zip: does not match the pattern ^[0-9]+$"},
		{"references by a full address", "05", `{"of":1}`, "/of: got number, want string"},
		{"references whose name is an address", "0b", `1`, "the document: got number, want null"},
		{"the draft of a schema that does not say", "08", `["a@b",1]`, "the document: last 1 additionalItem(s) not allowed"},
		{"formats before 2019-09 are checked", "08", `["a"]`, "/0: is not a valid email"},
		{"a number that takes long", "01", `{"id":1e999999}`, "/id: a number beyond 1000 digits can't be checked"},
		{"a payload that is not JSON", "01", `{"id":`, "json_schema: "},
		{"text that is not UTF-8", "01", "{\"id\":\"\xff\"}", "json_schema: "},
		{"no payload", "01", ``, "json_schema: "},
		{"a document of 10,000 levels", "01", strings.Repeat("[", 10_000) + strings.Repeat("]", 10_000), "json_schema: "},
		{"a schema of another kind", "02", `{}`, "schema id 2 is of type AVRO, not JSON"},
		{"a schema that is not JSON", "03", `{}`, "schema id 3: not a valid JSON Schema: "},
		{"a schema that is not one", "04", `{}`, "schema id 4: not a valid JSON Schema: /type: "},
		{"a schema without its reference", "06", `{}`, "schema id 6: not a valid JSON Schema: gone.json is not one of the schema's references"},
		{"nothing is fetched", "07", `{}`, "https://example.com/x.json is not one of the schema's references"},
		{"a schema that is itself", "09", `{}`, "schema id 9: not a valid JSON Schema: the schema at \"#\" refers to itself without end"},
		{"a schema of 10,000 levels", "0a", `{}`, "schema id 10: not a valid JSON Schema: "},
		{"an id that there is not", "ff", `{}`, "does not know schema id 255"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			header, err := hex.DecodeString("00000000" + tt.id)
			if err != nil {
				t.Fatal(err)
			}
			var got []byte
			c, body, _, err := d.Reader(t.Context(), append(header, tt.json...))
			if err == nil {
				got, err = c.Decode(nil, body)
			}
			if err != nil {
				got = []byte(err.Error())
			}
			if !strings.Contains(string(got), tt.want) || err == nil && string(got) != tt.want || strings.Contains(string(got), "secret") {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
	_, _, _, err := d.Reader(t.Context(), []byte(`{"id":1}`))
	if err == nil || !strings.Contains(err.Error(), "the payload begins with byte 0x7b") || engine.ErrorOf(err, "").Class != engine.Decode {
		t.Errorf("%v", err)
	}
}

func TestWhatMakesNoEncoder(t *testing.T) {
	source := func(text string) registry.Source { return registry.Source{Text: text} }
	tests := []struct {
		name string
		w    Writes
		want string
	}{
		{"a schema that is wrong", Writes{Schema: source(`{"type":"objekt"}`)}, "the schema: not a valid JSON Schema: /type: "},
		{"a schema that refers to others", Writes{Schema: source(`{"$ref":"x.json"}`)}, "x.json is not one of the schema's references"},
		{"a file that is not there", Writes{Schema: registry.Source{File: "nowhere.json"}}, "nowhere.json: no such file"},
		{"a subject of a title that there is not", Writes{Writes: registry.Writes{Naming: "record"}, Schema: source(`{}`)},
			"the schema has no title"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := tt.w.Encoder(engine.Env{}); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %s", err, tt.want)
			}
		})
	}
}

// FuzzCheck: any text is a schema or is refused, and any document matches or does not.
func FuzzCheck(f *testing.F) {
	for _, s := range shop.schemas {
		f.Add(s.Text, `{"id":1,"of":{"home":{"zip":"1"}}}`)
	}
	f.Fuzz(func(t *testing.T, schema, document string) {
		made, err := CompileText(&engine.Schema{Text: schema}, ofRegistries)
		if err != nil {
			return
		}
		out, err := checked{made, t.Context()}.Decode(nil, []byte(document))
		if err == nil && string(out) != strings.TrimSpace(document) {
			t.Errorf("%s is %s", document, out)
		}
	})
}
