package avro

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/linkedin/goavro/v2"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/doc"
)

// random makes schemas, and documents as they are shown.
type random struct {
	*rand.Rand
	names int
}

// of is a schema, and what makes documents of it.
func (r *random) of(depth int) (schema string, document func() string) {
	kinds := 16
	if depth == 0 {
		kinds = 12
	}
	switch r.IntN(kinds) {
	case 0:
		return `"boolean"`, func() string { return fmt.Sprint(r.IntN(2) == 1) }
	case 1:
		return `"int"`, func() string { return fmt.Sprint(int32(r.Uint32() >> r.IntN(32))) }
	case 2, 3:
		return `"long"`, func() string { return fmt.Sprint(int64(r.Uint64() >> r.IntN(64))) }
	case 4:
		return `"double"`, func() string { return string(doc.AppendFloat(nil, r.NormFloat64())) }
	case 5, 6:
		return `"string"`, func() string { return string(doc.AppendString(nil, r.text())) }
	case 7:
		return `"bytes"`, func() string { b, _ := json.Marshal([]byte(r.text())); return string(b) }
	case 8:
		return logical("long", "timestamp-millis"), func() string {
			return fmt.Sprintf(`"%04d-0%d-2%dT00:5%d:07Z"`, 1+r.IntN(9999), 1+r.IntN(9), r.IntN(9), r.IntN(10))
		}
	case 9:
		return cents, func() string { return fmt.Sprintf("-%d.%02d", 1+r.IntN(9999), r.IntN(100)) }
	case 10:
		return logical("int", "date"), func() string { return fmt.Sprintf(`"%04d-12-3%d"`, 1+r.IntN(9999), r.IntN(2)) }
	case 11:
		return `"null"`, func() string { return "null" }
	case 12:
		item, make := r.of(depth - 1)
		return `{"type":"array","items":` + item + `}`, func() string { return "[" + r.some(make) + "]" }
	case 13:
		item, make := r.of(depth - 1)
		i := 0
		return `{"type":"map","values":` + item + `}`, func() string {
			return "{" + r.some(func() string { i++; return fmt.Sprintf(`"%d":%s`, i, make()) }) + "}"
		}
	case 14:
		item, make := r.of(0)
		if item == `"null"` {
			return item, make
		}
		return `["null",` + item + `]`, func() string {
			if r.IntN(3) == 0 {
				return "null"
			}
			return make()
		}
	}
	r.names++
	name, fields, makes := fmt.Sprintf("R%d", r.names), []string{}, []func() string{}
	for i := range 1 + r.IntN(4) {
		of, make := r.of(depth - 1)
		fields = append(fields, fmt.Sprintf(`{"name":"f%d","type":%s}`, i, of))
		makes = append(makes, func() string { return fmt.Sprintf(`"f%d":%s`, i, make()) })
	}
	return fmt.Sprintf(`{"type":"record","name":"%s","fields":[%s]}`, name, strings.Join(fields, ",")), func() string {
		var parts []string
		for _, make := range makes {
			parts = append(parts, make())
		}
		return "{" + strings.Join(parts, ",") + "}"
	}
}

func (r *random) text() string { return strings.Repeat("é\"\x00x", r.IntN(5)) }

func (r *random) some(make func() string) string {
	var parts []string
	for range r.IntN(4) {
		parts = append(parts, make())
	}
	return strings.Join(parts, ",")
}

// What is encoded reads the same, here and in another implementation, which writes it again
// byte for byte.
func TestRandomDocumentsComeBackAsTheyWere(t *testing.T) {
	for seed := range uint64(2000) {
		r := &random{Rand: rand.New(rand.NewPCG(seed, 1))}
		schema, document := r.of(4)
		p, want := program(t, schema), document()
		payload, err := p.Encode(nil, []byte(want))
		if err != nil {
			t.Fatalf("seed %d: %s by %s: %v", seed, want, schema, err)
		}
		got, err := p.Decode(nil, payload)
		if string(got) != want || err != nil {
			t.Fatalf("seed %d: %s by %s: %s, %v", seed, want, schema, got, err)
		}
		if strings.Contains(schema, `"map"`) || strings.Contains(schema, "logicalType") {
			continue // goavro gives maps an order of its own, and takes a union's branch by names of logical types
		}
		other, err := goavro.NewCodec(schema)
		if err != nil {
			t.Fatal(err)
		}
		native, rest, err := other.NativeFromBinary(payload)
		if err != nil || len(rest) > 0 {
			t.Fatalf("seed %d: %s by %s is %x: goavro says %v, %d bytes are left", seed, want, schema, payload, err, len(rest))
		}
		if again, err := other.BinaryFromNative(nil, native); err != nil || !bytes.Equal(again, payload) {
			t.Fatalf("seed %d: %s by %s is %x, goavro writes %x, %v", seed, want, schema, payload, again, err)
		}
	}
}

// everything is a schema with each kind of type.
const everything = `{"type":"record","name":"E","fields":[
	{"name":"a","type":["null","boolean","int","long","float","double","bytes","string","E"]},
	{"name":"b","type":{"type":"array","items":` + list + `}},{"name":"c","type":{"type":"map","values":` + suit + `}},
	{"name":"d","type":` + cents + `},{"name":"e","type":` + fixedDec + `},{"name":"f","type":` + idFixed + `},
	{"name":"g","type":` + months + `},{"name":"h","type":{"type":"long","logicalType":"timestamp-nanos"}},
	{"name":"i","type":{"type":"int","logicalType":"time-millis"}},{"name":"j","type":{"type":"int","logicalType":"date"}},
	{"name":"k","type":{"type":"array","items":"null"}}]}`

// FuzzDecode: what any bytes say is a document within the limit, which can be written again
// and then says the same.
func FuzzDecode(f *testing.F) {
	p := program(f, everything)
	seed, err := p.Encode(nil, []byte(`{"a":{"a":7,"b":[],"c":{},"d":0,"e":1.5,"f":"00112233-4455-6677-8899-aabbccddeeff","g":{},"h":0,"i":1,
		"j":1,"k":[]},"b":[{"v":1,"next":null}],"c":{"x":"HEARTS"},"d":0,"e":-1.5,"f":"00112233-4455-6677-8899-aabbccddeeff",
		"g":{"days":1},"h":7,"i":1,"j":1,"k":[null]}`))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(seed)
	f.Add([]byte{2, 1, 3})
	f.Fuzz(func(t *testing.T, payload []byte) {
		const limit = 1 << 20
		out, err := p.DecodeWithin(nil, payload, limit)
		if err != nil {
			return
		}
		var d doc.Doc
		if d.Reset(out, nil); d.Valid() != nil || len(out) > limit+4*len(payload)+100 {
			t.Fatalf("%x gives %d bytes: %.200s", payload, len(out), out)
		}
		again, err := p.Encode(nil, out)
		if err != nil {
			return // a decimal of more digits than its precision, which other writers do not count
		}
		if back, err := p.Decode(nil, again); err != nil || !bytes.Equal(stripped(back), stripped(out)) {
			t.Fatalf("%x is %s, and %s, %v when it is written again", payload, out, back, err)
		}
	})
}

// FuzzEncode: any document is written or refused, and what is written can be read, and says the same when it is written
// again.
func FuzzEncode(f *testing.F) {
	p, r := program(f, everything), &random{Rand: rand.New(rand.NewPCG(1, 1))}
	f.Add([]byte(`{"a":null,"b":[],"c":{},"d":12.5,"e":1,"f":"00112233-4455-6677-8899-aabbccddeeff","g":{},"h":0,` +
		`"i":"00:00:01","j":"2026-01-02","k":[]}`))
	for range 20 {
		_, document := r.of(4)
		f.Add([]byte(document()))
	}
	f.Fuzz(func(t *testing.T, document []byte) {
		var d doc.Doc
		if d.Reset(document, nil); d.Valid() != nil {
			return
		}
		payload, err := p.Encode(nil, document)
		if err != nil {
			return
		}
		out, err := p.Decode(nil, payload)
		if err != nil {
			t.Fatalf("%s is %x, which can't be read: %v", document, payload, err)
		}
		again, err := p.Encode(nil, out)
		if err != nil {
			t.Fatalf("%s is %x, which is %s, which can't be written: %v", document, payload, out, err)
		}
		if back, err := p.Decode(nil, again); err != nil || !bytes.Equal(stripped(back), stripped(out)) {
			t.Fatalf("%s is %s, and %s, %v when it is written again", document, out, back, err)
		}
	})
}

// stripped leaves out how the branches of a union differ that JSON does not tell apart.
func stripped(b []byte) []byte { return bytes.ReplaceAll(b, []byte("-0"), []byte("0")) }

// FuzzCompile: any text is a schema or is refused.
func FuzzCompile(f *testing.F) {
	for _, s := range []string{everything, order, suit, list, `"int"`, `{"type":"R"}`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		p, err := Compile(&engine.Schema{Text: text}, Options{})
		if err == nil {
			_, _ = p.DecodeWithin(nil, []byte(text), 1<<16)
			_, _ = p.Encode(nil, []byte(`{}`))
		}
	})
}
