package avro

import (
	"context"
	"encoding/hex"
	"strings"
	"testing"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/expr"
	"github.com/flowd-io/flowd/internal/formats/codec"
	"github.com/flowd-io/flowd/internal/formats/registry"
)

// shelf is a registry of schemas by id, which takes the subjects down that it is asked for.
type shelf struct {
	schemas  map[int]*engine.Schema
	subjects []string
}

func (s *shelf) Schema(_ context.Context, id int) (*engine.Schema, error) {
	if known := s.schemas[id]; known != nil {
		return known, nil
	}
	return nil, engine.Errorf(engine.Decode, "does not know schema id %d", id)
}

func (s *shelf) Newest(_ context.Context, subject string) (*engine.Schema, error) {
	s.subjects = append(s.subjects, "newest of "+subject)
	return s.schemas[1], nil
}

func (s *shelf) Find(_ context.Context, subject string, own engine.Schema) (*engine.Schema, error) {
	s.subjects = append(s.subjects, "one of "+subject)
	own.ID = 1
	return &own, nil
}

func (s *shelf) Register(_ context.Context, subject string, own engine.Schema) (*engine.Schema, error) {
	s.subjects = append(s.subjects, "new in "+subject)
	own.ID = 1
	return &own, nil
}

func TestPayloadsNameTheirSchema(t *testing.T) {
	shop := &shelf{schemas: map[int]*engine.Schema{
		1: {ID: 1, Type: "AVRO", Text: `"int"`}, 2: {ID: 2, Type: "PROTOBUF", Text: `syntax = "proto3";`},
		3: {ID: 3, Type: "AVRO", Text: `"Foo"`}, 4: {ID: 4, Type: "AVRO", Text: `{"type":"array","items":"Money"}`,
			Needs: []engine.NamedSchema{{Name: "Money", Text: `{"type":"fixed","name":"Money","size":1}`}}},
	}}
	compile := func(s *engine.Schema) (codec.Codec, error) { return Compile(s, Options{}) }
	d := &Decoder{compiled: registry.NewCompiled(shop, Kind, compile)}
	tests := []struct{ name, hex, want string }{
		{"a value", `00000000010e`, `7 of 1`},
		{"a schema that needs another", `000000000402ff00`, `["/w=="] of 4`},
		{"an id that there is not", `00000000090e`, "does not know schema id 9"},
		{"a schema of another kind", `00000000020e`, "schema id 2 is of type PROTOBUF, not AVRO"},
		{"a schema that is not valid", `00000000030e`, `schema id 3: not an Avro schema: `},
		{"another first byte", `01000000010e`, "begins with byte 0x01, not with 0x00 and a schema id"},
		{"JSON", hex.EncodeToString([]byte(`{"a":1}`)), "begins with byte 0x7b"},
		{"nothing", ``, "the payload is empty"},
		{"half an id", `000000`, "ends within its schema id, after 3 bytes"},
		{"an id beyond 31 bits", `00ffffffff0e`, "does not know schema id 4294967295"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			payload, _ := hex.DecodeString(tt.hex)
			for range 2 {
				if got := decoded(t, d, payload); !strings.Contains(got, tt.want) {
					t.Errorf("got %s, want %s", got, tt.want)
				}
			}
		})
	}
}

// decoded is what a payload says, or what is wrong with it, which is class decode.
func decoded(t *testing.T, d *Decoder, payload []byte) string {
	t.Helper()
	c, body, id, err := d.Reader(t.Context(), payload)
	if err == nil {
		var out []byte
		if out, err = c.Decode(nil, body); err == nil {
			return string(out) + " of " + strings.TrimSpace(string(rune('0'+id.(int))))
		}
	}
	if e := engine.ErrorOf(err, engine.Decode); e.Class != engine.Decode {
		t.Errorf("class %s: %v", e.Class, err)
	}
	return err.Error()
}

func TestSubjectsAreNamedByStrategies(t *testing.T) {
	template := func(s string) expr.Template { return expr.MustTemplate(s) }
	own := &engine.Schema{Type: Kind, Text: list}
	tests := []struct {
		name string
		cfg  registry.Writes
		own  *engine.Schema
		want string
	}{
		{"the message's topic", registry.Writes{Naming: "topic"}, own, "one of orders-value"},
		{"another topic", registry.Writes{Naming: "topic", Topic: template("out")}, own, "one of out-value"},
		{"the record", registry.Writes{Naming: "record", Register: true}, own, "new in a.b.L"},
		{"both", registry.Writes{Naming: "topic_record"}, own, "one of orders-a.b.L"},
		{"a subject of one's own", registry.Writes{Naming: "topic", Subject: template(`$(meta("topic"))-key`)}, own, "one of orders-key"},
		{"the newest of a subject", registry.Writes{Naming: "topic", Subject: template("s")}, nil, "newest of s"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			shop := &shelf{schemas: map[int]*engine.Schema{1: {ID: 1, Type: Kind, Text: list}}}
			compile := func(s *engine.Schema) (*Program, error) { return Compile(s, Options{}) }
			compiled := registry.NewCompiled(shop, Kind, compile)
			w, err := registry.NewWriter(&tt.cfg, compiled, tt.own, "a.b.L")
			if err != nil {
				t.Fatal(err)
			}
			m := engine.NewBatch(1).Add(nil)
			m.Meta = m.Meta.With("topic", "orders")
			c, prefix, err := (&Encoder{writer: w}).Writer(t.Context(), m)
			if err != nil {
				t.Fatal(err)
			}
			out, err := c.Encode(prefix, []byte(`{"v":1,"next":null}`))
			if hex.EncodeToString(out) != "00000000010200" || err != nil || strings.Join(shop.subjects, "") != tt.want {
				t.Errorf("%x, %v, asked for %q, want %q", out, err, shop.subjects, tt.want)
			}
		})
	}
}

func TestSingleObjectsBeginWithAFingerprint(t *testing.T) {
	p := program(t, `"int"`)
	// The fingerprint that the specification gives for "int".
	if got := hex.EncodeToString(p.fingerprint()); got != "c3018f5c393f1ad57572" {
		t.Errorf("%s", got)
	}
	d := &Decoder{own: p, prefix: p.fingerprint()}
	if _, _, _, err := d.Reader(t.Context(), []byte{2}); err == nil || !strings.Contains(err.Error(), "fingerprint") {
		t.Errorf("%v", err)
	}
}
