package protobuf

import (
	"context"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/formats/registry"
)

// files writes some, and is their folder.
func files(t *testing.T, all map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range all {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestFilesOfSchemas(t *testing.T) {
	const header = `syntax = "proto3"; `
	dir := files(t, map[string]string{
		"order.proto":         header + `package shop; import "money.proto"; message Order { Money total = 1; }`,
		"money.proto":         header + `package shop; import public "lib/cents.proto"; message Money { lib.Cents cents = 1; }`,
		"lib/cents.proto":     header + `package lib; message Cents { int64 n = 1; }`,
		"two.proto":           header + `package shop; message Order { int32 a = 1; message Item {} } message Invoice {}`,
		"missing.proto":       header + "\n" + `import "nowhere.proto"; message M {}`,
		"outside.proto":       header + `import "../x.proto"; message M {}`,
		"circle.proto":        header + `import "circle2.proto"; message M {}`,
		"circle2.proto":       header + `import "circle.proto";`,
		"typo.proto":          header + "\nmessage M {\n  int23 a = 1;\n}",
		"syntax.proto":        header + "\nmessage M {\n  int32 a 1;\n}",
		"bad-import.proto":    header + `import "typo.proto"; message N {}`,
		"sub/elsewhere.proto": header + `import "money.proto"; message M { shop.Money m = 1; }`,
		"set.proto":           `syntax = "proto2"; message M { option message_set_wire_format = true; extensions 4 to max; }`,
		"deep.proto":          header + `message M { ` + strings.Repeat("message A {", 300) + strings.Repeat("}", 301),
		"comments.proto": header + `/* {{ */ message M { // {` + "\n" + `string s = 1 [json_name = "\"` + strings.Repeat("{", 300) +
			`"]; map<string, int32> by = 2; }`,
		"options.proto": `syntax = "proto2"; import "google/protobuf/descriptor.proto"; extend google.protobuf.FieldOptions {
			optional string label = 50000; } message M { optional int32 a = 1 [(label) = "x"]; }`,
	})
	if err := os.Symlink("/etc/hostname", filepath.Join(dir, "link.proto")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "linked.proto"), []byte(header+`import "link.proto"; message M {}`), 0o600); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name string
		from Schema
		want string // the message, or what the error says
	}{
		{"imports beside it, and theirs", Schema{Schema: "order.proto"}, "shop.Order"},
		{"imports of other folders", Schema{Schema: "sub/elsewhere.proto", ImportPaths: []string{"sub", "."}}, "M"},
		{"a schema in the configuration", Schema{Schema: header + `message M {}`}, "M"},
		{"and its imports", Schema{Schema: header + `import "money.proto"; message M {}`, ImportPaths: []string{"."}}, "M"},
		{"options of one's own", Schema{Schema: "options.proto"}, "M"},
		{"brackets in comments and texts", Schema{Schema: "comments.proto"}, "M"},
		{"a message of several", Schema{Schema: "two.proto", Message: "shop.Order.Item"}, "shop.Order.Item"},
		{"a message of an import", Schema{Schema: "order.proto", Message: ".lib.Cents"}, "lib.Cents"},

		{"no message of several", Schema{Schema: "two.proto"},
			"two.proto: the schema has several messages, or none (set `message`: write \"shop.Invoice\", \"shop.Order\" or \"shop.Order.Item\""},
		{"a message that is not there", Schema{Schema: "two.proto", Message: "shop.Ordre"},
			`two.proto: there is no message "shop.Ordre" (did you mean "shop.Order"?)`},
		{"an entry of a mapping", Schema{Schema: "comments.proto", Message: "M.ByEntry"}, `comments.proto: there is no message "M.ByEntry"`},
		{"a file that is not there", Schema{Schema: "no.proto"}, "no.proto: no such file"},
		{"an import that is not there", Schema{Schema: "missing.proto"},
			`missing.proto:2:8: import "nowhere.proto": not found in . (set ` + "`import_paths`)"},
		{"an import in a schema in the configuration", Schema{Schema: "\n" + header + `import "x.proto";`},
			`the schema:2:27: import "x.proto": there is no folder to look in (set ` + "`import_paths`)"},
		{"an import outside of the folders", Schema{Schema: "outside.proto"},
			`outside.proto:1:27: import "../x.proto": ../x.proto: path escapes from parent`},
		{"an import that is a link out of the folder", Schema{Schema: "linked.proto"},
			`linked.proto:1:27: import "link.proto": link.proto: path escapes from parent`},
		{"files that import each other", Schema{Schema: "circle.proto"}, "circle2.proto:1:27: "},
		{"a type that there is not", Schema{Schema: "typo.proto"}, "typo.proto:3:3: field M.a: unknown type int23"},
		{"a slip", Schema{Schema: "syntax.proto"}, "syntax.proto:3:11: syntax error"},
		{"a slip in an import", Schema{Schema: "bad-import.proto"}, "typo.proto:3:3: "},
		{"a message set", Schema{Schema: "set.proto"}, "message_set_wire_format"},
		{"nesting", Schema{Schema: "deep.proto"}, "deep.proto: nested deeper than 200"},
		{"a set that is none", Schema{Descriptors: "two.proto", Message: "M"}, "two.proto: not a descriptor set"},
	}
	t.Chdir(dir)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, p, err := tt.from.compileSchema(Options{})
			if err != nil {
				if !strings.Contains(err.Error(), tt.want) {
					t.Errorf("got %v, want %s", err, tt.want)
				}
				return
			}
			if p.Message() != tt.want {
				t.Errorf("got %s, want %s", p.Message(), tt.want)
			}
		})
	}
}

func TestDescriptorSets(t *testing.T) {
	set := &descriptorpb.FileDescriptorSet{}
	all := mustFiles(t, everything)
	for i := range all {
		set.File = append(set.File, protodesc.ToFileDescriptorProto(all[len(all)-1-i]))
	}
	whole, err := proto.Marshal(set)
	if err != nil {
		t.Fatal(err)
	}
	set.File = set.File[len(set.File)-1:]
	part, err := proto.Marshal(set)
	if err != nil {
		t.Fatal(err)
	}
	dir := files(t, map[string]string{"whole.binpb": string(whole), "part.binpb": string(part)})
	_, p, err := (&Schema{Descriptors: filepath.Join(dir, "whole.binpb"), Message: "t.All"}).compileSchema(Options{})
	if err != nil {
		t.Fatal(err)
	}
	const document = `{"a_suit":"CLUBS","any":{"@type":"x/t.All","a_bool":true},"at":"2026-01-02T15:04:05Z","value":[1]}`
	wire, err := p.Encode(nil, []byte(document))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := p.Decode(nil, wire); string(got) != document || err != nil {
		t.Errorf("%s, %v", got, err)
	}
	_, _, err = (&Schema{Descriptors: filepath.Join(dir, "part.binpb"), Message: "t.All"}).compileSchema(Options{})
	if err == nil || !strings.Contains(err.Error(), "--include_imports") {
		t.Errorf("a set without its imports: %v", err)
	}
}

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

func TestPayloadsNameTheirSchemaAndMessage(t *testing.T) {
	shop := shelf{schemas: map[int]*engine.Schema{
		1: {ID: 1, Type: Kind, Text: `syntax = "proto3"; package p; import "money.proto"; message A { Money m = 1;
			map<string, B> by = 2; message B { int32 b = 1; message C {} } } message D { int32 d = 1; }`, Needs: []engine.NamedSchema{
			{Name: "cents.proto", Text: `syntax = "proto3"; package p; message Cents { int64 n = 1; }`},
			{Name: "money.proto", Text: `syntax = "proto3"; package p; import "cents.proto"; message Money { Cents c = 1; }`}}},
		2: {ID: 2, Type: "AVRO", Text: `"int"`}, 3: {ID: 3, Type: Kind, Text: "syntax = \"proto3\";\nmessage {"},
		4: {ID: 4, Type: Kind, Text: `syntax = "proto3"; import "gone.proto"; message A {}`},
		5: {ID: 5, Type: Kind, Text: `syntax = "proto3"; enum E { Z = 0; }`},
		6: {ID: 6, Type: Kind,
			Text: `syntax = "proto3"; import "confluent/meta.proto"; import "confluent/type/decimal.proto"; import "google/type/date.proto";
			message A { confluent.type.Decimal d = 1 [(confluent.field_meta) = {tags: ["PII"]}]; google.type.Date on = 2; }`},
		7: {ID: 7, Type: Kind, Text: strings.Repeat("message M {}", 20_001)},
		8: {ID: 8, Type: Kind, Text: "message M {" + strings.Repeat("optional int32 a = 1;", 2501) + "}"},
	}}
	d := &Decoder{compiled: newCompiled(shop, Options{})}
	tests := []struct{ name, hex, want string }{
		{"the first message", `000000000100` + `0a040a020807`, `{"m":{"c":{"n":7}}}`},
		{"the first message, in full", `00000000010200` + `0a040a020807`, `{"m":{"c":{"n":7}}}`},
		{"the first message, spelled with three bytes", `0000000001808000` + `0a040a020807`, `{"m":{"c":{"n":7}}}`},
		{"a schema of very many messages", `000000000700`, "schema id 7: the schema: the schema has more than 20000 fields and other parts"},
		{"a message of very many fields", `000000000800`, "schema id 8: the schema: one message or enum has more than 2500 parts"},
		{"another message", `00000000010202` + `0807`, `{"d":7}`},
		{"a message in a message", `0000000001040000` + `0807`, `{"b":7}`},
		{"and in that", `000000000106000000`, `{}`},
		{"a message that there is not", `00000000010204`, "schema id 1: there is no message 2 at depth 0 of the schema, which has 2 there"},
		{"a message that there is not in another", `000000000104020000`, "there is no message 0 at depth 1"},
		{"more depth than there is", `0000000001c09a0c`, "the payload ends within the place"},
		{"more depth than any schema has", `0000000001feffffff0f`, "2147483647 can't be a part of the place"},
		{"a place below zero", `00000000010201`, "-1 can't be a part of the place"},
		{"places below zero", `000000000101`, "-1 can't be a part of the place"},
		{"a place beyond all", `000000000102fefffffffffffffffe01`, "can't be a part of the place"},
		{"a place that ends", `000000000104`, "the payload ends within the place of its message"},
		{"no place", `0000000001`, "the payload ends within the place of its message"},
		{"files that every client has", `000000000600` + `0a030a0107` + `120308ea0f`, `{"d":{"value":"Bw=="},"on":{"year":2026}}`},
		{"a schema of Avro", `0000000002020e`, "schema id 2 is of type AVRO, not PROTOBUF"},
		{"a schema that is wrong", `000000000300`, "schema id 3: the schema:2:9: syntax error"},
		{"a schema without its reference", `000000000400`,
			`schema id 4: the schema:1:27: import "gone.proto": it is not one of the schema's references`},
		{"a schema without messages", `000000000500`, "there is no message 0 at depth 0"},
		{"an id that there is not", `000000000900`, "does not know schema id 9"},
		{"another first byte", `0a000000010e`, "the payload begins with byte 0x0a, not with 0x00 and a schema id"},
		{"nothing", ``, "the payload is empty, but"},
		{"half an id", `000000`, "ends within its schema id, after 3 bytes"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			payload, err := hex.DecodeString(tt.hex)
			if err != nil {
				t.Fatal(err)
			}
			for range 2 {
				var got string
				c, body, _, err := d.Reader(t.Context(), payload)
				if err == nil {
					var out []byte
					out, err = c.Decode(nil, body)
					got = string(out)
				}
				if err != nil {
					got = err.Error()
					if e := engine.ErrorOf(err, engine.Decode); e.Class != engine.Decode {
						t.Errorf("class %s: %v", e.Class, err)
					}
				}
				if !strings.Contains(got, tt.want) {
					t.Errorf("got %s, want %s", got, tt.want)
				}
			}
		})
	}

	for message, want := range map[string]string{"p.A": "000000000100", "p.D": "00000000010202", "p.A.B": "0000000001040000",
		"p.A.B.C": "000000000106000000", "p.Money": "message p.Money is not in the schema itself"} {
		t.Run("written: "+message, func(t *testing.T) {
			w := Writes{Writes: registry.Writes{Naming: "topic", Registry: "main"}, Schema: Schema{Message: message}}
			e, err := w.encoder(shop, nil, "", Options{})
			if err != nil {
				t.Fatal(err)
			}
			m := engine.NewBatch(1).Add(nil)
			m.Meta = m.Meta.With("topic", "x")
			_, prefix, err := e.Writer(t.Context(), m)
			got := hex.EncodeToString(prefix)
			if err != nil {
				if got = err.Error(); engine.ErrorOf(err, engine.Decode).Class != engine.Permanent {
					t.Errorf("%v", err)
				}
			}
			if !strings.Contains(got, want) {
				t.Errorf("got %s, want %s", got, want)
			}
		})
	}
}

// TestLanesShareADecoder has them read different messages of a schema, and of Any, for the first time.
func TestLanesShareADecoder(t *testing.T) {
	shop := shelf{schemas: map[int]*engine.Schema{1: {ID: 1, Type: Kind, Text: everything +
		`message Other { All of = 1; } message Third { int32 a = 1; } message Fourth { google.protobuf.Any any = 1; }`}}}
	d := &Decoder{compiled: newCompiled(shop, Options{Defaults: true})}
	payloads := map[string]string{
		"\x00\x00\x00\x00\x01\x02\x02":                                         `{}`,
		"\x00\x00\x00\x00\x01\x02\x06\x0a\x0e\x0a\x08/t.Third\x12\x02\x08\x07": `{"any":{"@type":"/t.Third","a":7}}`,
		"\x00\x00\x00\x00\x01\x02\x04\x08\x07":                                 `{"a":7}`,
	}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for payload, want := range payloads {
				c, body, _, err := d.Reader(context.Background(), []byte(payload))
				if err != nil {
					t.Error(err)
					return
				}
				if got, err := c.Decode(nil, body); string(got) != want || err != nil {
					t.Errorf("got %s, %v, want %s", got, err, want)
				}
			}
		})
	}
	wg.Wait()
}

// FuzzCompile: any text is a schema or is refused.
func FuzzCompile(f *testing.F) {
	for _, s := range []string{everything, old, edition, order, `message {`, `syntax = "proto3"; import "x";`,
		`syntax = "proto2"; message M { optional M m = 1 [default = {m: <m {}>}]; }`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		types, err := Compile(&engine.Schema{Text: text}, Options{})
		if err != nil {
			return
		}
		for _, name := range types.names() {
			if p, err := types.Program(name); err == nil {
				_, _ = p.DecodeWithin(nil, []byte(text), 1<<16)
				_, _ = p.Encode(nil, []byte(`{}`))
			}
		}
	})
}
