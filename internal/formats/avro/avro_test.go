package avro

import (
	"encoding/hex"
	"encoding/json"
	"strings"
	"testing"

	twmb "github.com/twmb/avro"

	"github.com/google/go-cmp/cmp"

	"github.com/flowd-io/flowd/engine"
)

func program(t testing.TB, schema string, o ...Options) *Program {
	t.Helper()
	o = append(o, Options{})
	p, err := Compile(&engine.Schema{Type: Kind, Text: schema}, o[0])
	if err != nil {
		t.Fatalf("%s: %v", schema, err)
	}
	return p
}

func logical(of, name string) string { return `{"type":"` + of + `","logicalType":"` + name + `"}` }

const (
	cents    = `{"type":"bytes","logicalType":"decimal","precision":6,"scale":2}`
	fixedDec = `{"type":"fixed","name":"d","size":10,"logicalType":"decimal","precision":22,"scale":3}`
	idFixed  = `{"type":"fixed","name":"id","size":16,"logicalType":"uuid"}`
	months   = `{"type":"fixed","name":"m","size":12,"logicalType":"duration"}`
	list     = `{"type":"record","name":"L","namespace":"a.b","fields":[{"name":"v","type":"int"},{"name":"next","type":["null","L"]}]}`
	suit     = `{"type":"enum","name":"Suit","symbols":["SPADES","HEARTS"]}`
	shapes   = `["null",{"type":"record","name":"Dot","fields":[{"name":"x","type":"int"}]},{"type":"record","name":"Line",` +
		`"fields":[{"name":"x","type":"int"},{"name":"y","type":"int"}]}]`
)

func TestValuesAreTheSameInBothForms(t *testing.T) {
	tests := []struct{ name, schema, json, hex string }{
		{"null takes no bytes", `"null"`, `null`, ``},
		{"true", `"boolean"`, `true`, `01`},
		{"the lowest int", `"int"`, `-2147483648`, `ffffffff0f`},
		{"the highest long", `"long"`, `9223372036854775807`, `feffffffffffffffff01`},
		{"a long beyond 2^53", `"long"`, `9007199254740993`, `8280808080808020`},
		{"a float has its shortest spelling", `"float"`, `0.1`, `cdcccc3d`},
		{"a double", `"double"`, `0.1`, `9a9999999999b93f`},
		{"a double that is not a number", `"double"`, `"NaN"`, `010000000000f87f`},
		{"an infinite float", `"float"`, `"-Infinity"`, `000080ff`},
		{"text", `"string"`, `"é\n"`, `06c3a90a`},
		{"bytes are base64", `"bytes"`, `"/wA="`, `04ff00`},
		{"fixed bytes are base64", `{"type":"fixed","name":"f","size":2}`, `"/wA="`, `ff00`},
		{"an enum is its symbol", suit, `"HEARTS"`, `02`},
		{"an array", `{"type":"array","items":"int"}`, `[1,2]`, `04020400`},
		{"an empty array", `{"type":"array","items":"int"}`, `[]`, `00`},
		{"a map", `{"type":"map","values":"int"}`, `{"a":1}`, `0202610200`},
		{"a record in the schema's order", list, `{"v":1,"next":{"v":2,"next":null}}`, `02020400`},

		{"a decimal has the digits of its scale", cents, `12.50`, `0404e2`},
		{"a decimal below one", cents, `-0.05`, `02fb`},
		{"zero as a decimal", cents, `0.00`, `0200`},
		{"a decimal beyond 64 bits", fixedDec, `-1234567890123456789.012`, `ffbd12edc4f427dfc5ec`},
		{"a date", logical("int", "date"), `"2026-02-28"`, `c0c002`},
		{"a date before 1970", logical("int", "date"), `"1969-12-31"`, `01`},
		{"a time of milliseconds", logical("int", "time-millis"), `"23:59:59.999"`, `feefb252`},
		{"a time of microseconds", logical("long", "time-micros"), `"00:00:00.000001"`, `02`},
		{"a timestamp of milliseconds", logical("long", "timestamp-millis"), `"1969-12-31T23:59:59.999Z"`, `01`},
		{"a timestamp of microseconds", logical("long", "timestamp-micros"), `"1970-01-01T00:00:00.000001Z"`, `02`},
		{"a timestamp of nanoseconds", logical("long", "timestamp-nanos"), `"1969-12-31T23:59:59.999999999Z"`, `01`},
		{"a timestamp without a zone", logical("long", "local-timestamp-millis"), `"1970-01-01T00:00:00.001"`, `02`},
		{"the last year of a timestamp", logical("long", "timestamp-millis"), `"9999-12-31T23:59:59.999Z"`, `feeffea1fa9d73`},
		{"a UUID that is text", logical("string", "uuid"), `"00112233-4455-6677-8899-aabbccddeeff"`,
			`48` + hex.EncodeToString([]byte("00112233-4455-6677-8899-aabbccddeeff"))},
		{"a UUID of bytes", idFixed, `"00112233-4455-6677-8899-aabbccddeeff"`, `00112233445566778899aabbccddeeff`},
		{"a duration", months, `{"months":1,"days":2,"milliseconds":4294967295}`, `0100000002000000ffffffff`},
		{"an annotation that nobody knows", logical("int", "furlongs"), `7`, `0e`},
		{"an annotation of another type", logical("string", "date"), `"x"`, `0278`},

		{"a union of null", `["null","string"]`, `null`, `00`},
		{"a union has no wrapper", `["null","string"]`, `"x"`, `020278`},
		{"the branch with room for a number", `["int","long"]`, `2147483648`, `028080808010`},
		{"text goes before bytes", `["bytes","string"]`, `"abcd"`, `020861626364`},
		{"bytes in a union without string", `["null","bytes"]`, `"abcd"`, `020669b71d`},
		{"a fraction is not an int", `["int","double"]`, `0.5`, `02000000000000e03f`},
		{"a timestamp goes before text that is named later", `[` + logical("long", "timestamp-millis") + `,"string"]`,
			`"1970-01-01T00:00:00Z"`, `0000`},
		{"other text does not", `[` + logical("long", "timestamp-millis") + `,"string"]`, `"soon"`, `0208736f6f6e`},
		{"the record whose fields these are", shapes, `{"x":1,"y":2}`, `040204`},
		{"the other one", shapes, `{"x":1}`, `0202`},
		{"a record goes before a map", `[{"type":"map","values":"int"},` + list + `]`, `{"v":1,"next":null}`, `020200`},
		{"a map takes other names", `[{"type":"map","values":"int"},` + list + `]`, `{"w":1}`, `000202770200`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := program(t, tt.schema)
			written, err := p.Encode([]byte("kept:"), []byte(tt.json))
			if err != nil {
				t.Fatalf("Encode(%s): %v", tt.json, err)
			}
			if got := hex.EncodeToString(written[5:]); got != tt.hex {
				t.Errorf("Encode(%s) is %s, want %s", tt.json, got, tt.hex)
			}
			read, err := p.Decode([]byte("kept:"), written[5:])
			if diff := cmp.Diff("kept:"+tt.json, string(read)); diff != "" || err != nil {
				t.Errorf("Decode(%x): %v (-want +got):\n%s", written[5:], err, diff)
			}
			// The library, which knows nothing of our JSON, finds the same value in the bytes.
			var v any
			if rest, err := p.parsed.Decode(written[5:], &v); err != nil || len(rest) > 0 {
				t.Errorf("the library reads %x: %v, and %d bytes are left", written[5:], err, len(rest))
			}
		})
	}
}

func TestOtherSpellingsAreWrittenToo(t *testing.T) {
	defaults := `{"type":"record","name":"R","fields":[
		{"name":"a","type":"int","default":7},{"name":"b","type":["null","string"]},
		{"name":"c","type":{"type":"array","items":"string"},"default":["x"]},
		{"name":"d","type":` + cents + `,"default":"\u0001"}]}`
	tests := []struct{ name, schema, in, want string }{
		{"a whole number with a fraction of zeros", `"int"`, `5.00`, `5`},
		{"a whole number with an exponent", `"long"`, `9.007199254740993e15`, `9007199254740993`},
		{"a decimal in text", cents, `"-12.5"`, `-12.50`},
		{"a decimal with an exponent", cents, `1e3`, `1000.00`},
		{"a timestamp with an offset", logical("long", "timestamp-millis"), `"2026-01-01T01:00:00+01:00"`, `"2026-01-01T00:00:00Z"`},
		{"a timestamp finer than its unit is cut off", logical("long", "timestamp-millis"), `"1969-12-31T23:59:59.9995Z"`,
			`"1969-12-31T23:59:59.999Z"`},
		{"a timestamp in numbers", logical("long", "timestamp-millis"), `1`, `"1970-01-01T00:00:00.001Z"`},
		{"a date in numbers", logical("int", "date"), `-1`, `"1969-12-31"`},
		{"a duration in part", months, `{"days":1}`, `{"months":0,"days":1,"milliseconds":0}`},
		{"what is missing gets its default, or null", defaults, `{}`, `{"a":7,"b":null,"c":["x"],"d":0.01}`},
		{"of equal keys the last counts", list, `{"v":1,"v":2,"next":null}`, `{"v":2,"next":null}`},
		{"an integer for a double", `"double"`, `9007199254740992`, `9007199254740992`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := program(t, tt.schema)
			written, err := p.Encode(nil, []byte(tt.in))
			if err != nil {
				t.Fatal(err)
			}
			read, err := p.Decode(nil, written)
			if diff := cmp.Diff(tt.want, string(read)); diff != "" || err != nil {
				t.Errorf("%v (-want +got):\n%s", err, diff)
			}
		})
	}
}

func TestWhatASchemaCantSayIsAnError(t *testing.T) {
	tests := []struct{ name, schema, json, want string }{
		{"a number beyond an int", `"int"`, `2147483648`, "2147483648 does not fit int, which has 32 bits"},
		{"a number beyond a long", `"long"`, `9223372036854775808`, "does not fit 64 bits"},
		{"a fraction", `"long"`, `1.5`, "1.5 is not a whole number"},
		{"a huge exponent", `"long"`, `1e999999999`, "is not a number of up to"},
		{"an integer that a double would round", `"double"`, `9007199254740993`, "does not fit double exactly"},
		{"an integer that a float would round", `"float"`, `16777217`, "does not fit float exactly"},
		{"a number beyond a double", `"double"`, `1e999`, "does not fit double"},
		{"text for a number", `"int"`, `"7"`, "text is not int"},
		{"null for text", `"string"`, `null`, "null is not string"},
		{"an object for a list", `{"type":"array","items":"int"}`, `{}`, "an object is not array"},
		{"a decimal with too many digits after the point", cents, `1.005`, "more than the 2 digits after the point"},
		{"a decimal with too many digits", cents, `12345.67`, "more than the 6 digits"},
		{"text that is not a number", cents, `"12,5"`, `"12,5" is not a number`},
		{"a symbol that there is not", suit, `"CLUBS"`, `"CLUBS" is not a symbol of Suit`},
		{"text that is not base64", `"bytes"`, `"*"`, "base64"},
		{"too few bytes", idFixed, `"0011"`, `"0011" is not a UUID`},
		{"bytes of another size", `{"type":"fixed","name":"f","size":2}`, `"/w=="`, "1 bytes do not fit f, which has 2"},
		{"a date with a time", logical("int", "date"), `"2026-01-01T00:00:00Z"`, "is not a date such as"},
		{"a day that there is not", logical("int", "date"), `"2026-02-30"`, "is not a date such as"},
		{"a zone where none may be", logical("long", "local-timestamp-millis"), `"2026-01-01T00:00:00Z"`, "without a zone"},
		{"a timestamp beyond 64 bits of nanoseconds", logical("long", "timestamp-nanos"), `"9999-01-01T00:00:00Z"`,
			"outside the range of timestamp-nanos"},
		{"a number that is not a time of day", logical("int", "time-millis"), `86400000`, "is not a time of day"},
		{"a negative duration", months, `{"days":-1}`, "days: is not a whole number of 32 bits"},
		{"a duration of years", months, `{"years":1}`, `not "years"`},
		{"a field that is missing", list, `{"next":null}`, "v: is missing, and a.b.L has no default for it"},
		{"a field that the record does not have", list, `{"v":1,"w":2}`, `a.b.L has no field "w" (remove it from the document, or set `},
		{"a place deep inside", list, `{"v":1,"next":{"v":2,"next":{"v":"x","next":null}}}`, "next.next.v: text is not int"},
		{"a place in an array", `{"type":"array","items":"int"}`, `[1,true]`, "1: true or false is not int"},
		{"a value that fits no branch", `["null","int"]`, `"x"`, "text does not fit any branch of the union: null, int"},
		{"a number that fits no branch", `["null","int"]`, `2147483648`, "does not fit any branch"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			out, err := program(t, tt.schema).Encode([]byte("kept"), []byte(tt.json))
			if err == nil || !strings.Contains(err.Error(), tt.want) || string(out) != "kept" {
				t.Errorf("Encode gives %x and %v, want an error with %q", out, err, tt.want)
			}
		})
	}
}

func TestWhatIsNotOfTheSchemaSaysWhere(t *testing.T) {
	// Items take no bytes, and few of them make 64 MiB: such a name is long.
	nulls := `{"type":"array","items":{"type":"record","name":"R","fields":[{"name":"` + strings.Repeat("n", 1<<12) + `","type":"null"}]}}`
	tests := []struct{ name, schema, hex, want string }{
		{"nothing", `"int"`, ``, "ends in the middle"},
		{"a number that is cut short", `"long"`, `ff`, "ends in the middle"},
		{"a number without end", `"long"`, `ffffffffffffffffffffff`, "is too long"},
		{"a long for an int", `"int"`, `8080808010`, "2147483648 does not fit an int"},
		{"text that is cut short", list, `0202`, "next.v: the payload ends in the middle"},
		{"text that claims gigabytes", `"string"`, `fcffffff1f61`, "claims to be 4294967294 bytes long, there are 1"},
		{"text of negative length", `"string"`, `01`, "claims to be -1 bytes"},
		{"text that is not UTF-8", `"string"`, `02ff`, "not valid UTF-8"},
		{"a key that is not UTF-8", `{"type":"map","values":"int"}`, `0202ff0200`, "0: the key is not valid UTF-8"},
		{"an array that claims a billion items", `{"type":"array","items":"int"}`, `feffffffffffffffff0102`, "1: the payload ends"},
		{"items that take no bytes", nulls, `feffffffffffffffff01`, "decodes to more than 64 MiB"},
		{"a block of negative length", nulls, `ffffffffffffffffff0102`, "decodes to more than 64 MiB"},
		{"a branch that there is not", `["null","int"]`, `04`, "branch 2 is not one of the 2 of the union"},
		{"a negative branch", `["null","int"]`, `01`, "branch -1"},
		{"a symbol that there is not", suit, `04`, "symbol 2 is not one of the 2 of Suit"},
		{"a boolean of another byte", `"boolean"`, `02`, "byte 0x02 is neither true nor false"},
		{"bytes after the value", `"int"`, `0202`, "1 bytes are left after the value"},
		{"a list that is too deep", list, strings.Repeat("0202", 600), "nested deeper than 512"},
		{"a record that holds itself", `{"type":"record","name":"R","fields":[{"name":"r","type":"R"}]}`, ``, "nested deeper than 512"},
		{"a timestamp out of range", logical("long", "timestamp-millis"), `feffffffffffffffff01`,
			"9223372036854775807 is a timestamp-millis outside of the years 1 to 9999 (set `raw: true` for the number)"},
		{"a date out of range", logical("int", "date"), `feffffff0f`, "outside of the years"},
		{"not a time of day", logical("int", "time-millis"), `01`, "-1 is not a time of day"},
		{"a decimal that takes long to spell", cents, `808002` + strings.Repeat("7f", 1<<14), "is too long"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			payload, err := hex.DecodeString(tt.hex)
			if err != nil {
				t.Fatal(err)
			}
			out, err := program(t, tt.schema).Decode([]byte("kept"), payload)
			if err == nil || !strings.Contains(err.Error(), tt.want) || string(out) != "kept" {
				t.Errorf("Decode gives %.100q and %v, want an error with %q", out, err, tt.want)
			}
			if err != nil && len(err.Error()) > 500 {
				t.Errorf("the error has %d bytes", len(err.Error()))
			}
		})
	}
}

// Records of records that take no bytes double with each level. Their names are long, so that few of them make 64 MiB.
func TestRecordsWithoutBytesAreBounded(t *testing.T) {
	schema, long := `{"type":"record","name":"R0","fields":[]}`, strings.Repeat("b", 1<<12)
	for i := range 40 {
		name, inner := string(rune('A'+i)), schema
		if i >= 26 {
			name = "Z" + string(rune('A'+i-26))
		}
		schema = `{"type":"record","name":"` + name + `","fields":[{"name":"a","type":` + inner + `},{"name":"` + long + `","type":"` +
			nameOf(inner) + `"}]}`
	}
	_, err := program(t, schema).Decode(nil, nil)
	if err == nil || !strings.Contains(err.Error(), "decodes to more than 64 MiB") {
		t.Errorf("Decode: %v", err)
	}
}

func nameOf(schema string) string {
	var named struct{ Name string }
	_ = json.Unmarshal([]byte(schema), &named)
	return named.Name
}

func TestRawShowsWhatIsWritten(t *testing.T) {
	for schema, want := range map[string]string{
		logical("long", "timestamp-millis"): `1`, logical("int", "date"): `1`, logical("int", "time-millis"): `1`,
	} {
		got, err := program(t, schema, Options{Raw: true}).Decode(nil, []byte{2})
		if string(got) != want || err != nil {
			t.Errorf("%s: %s, %v, want %s", schema, got, err, want)
		}
	}
	if got, err := program(t, cents, Options{Raw: true}).Decode(nil, []byte{2, 1}); string(got) != `"AQ=="` || err != nil {
		t.Errorf("a raw decimal is %s, %v", got, err)
	}
}

func TestUnknownFieldsAreDroppedWhereAsked(t *testing.T) {
	p := program(t, list, Options{DropUnknown: true})
	if got, err := p.Encode(nil, []byte(`{"w":1,"v":1,"next":null}`)); hex.EncodeToString(got) != "0200" || err != nil {
		t.Errorf("%x, %v", got, err)
	}
}

func TestSchemasThatAreNone(t *testing.T) {
	tests := []struct{ name, schema, want string }{
		{"not JSON", `{"type":`, "not an Avro schema: "},
		{"a missing type", `{"items":"int"}`, "type"},
		{"an unknown type", `"Foo"`, "Foo"},
		{"a record without fields", `{"type":"record","name":"R"}`, "fields"},
		{"a default that does not fit", `{"type":"record","name":"R","fields":[{"name":"a","type":"int","default":"x"}]}`, "default"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := Compile(&engine.Schema{Text: tt.schema}, Options{})
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v, want %q", err, tt.want)
			}
		})
	}
}

func TestAReadersSchemaShapesDocuments(t *testing.T) {
	writer := program(t, `{"type":"record","name":"U","fields":[{"name":"old","type":"int"},{"name":"gone","type":"string"},
		{"name":"u","type":["null","int","string"]}]}`)
	reader := program(t, `{"type":"record","name":"U","fields":[{"name":"added","type":"string","default":"x"},
		{"name":"new","aliases":["old"],"type":"long"},{"name":"u","type":["null","int","string"]}]}`)
	payload, err := writer.Encode(nil, []byte(`{"old":7,"gone":"y","u":"7"}`))
	if err != nil {
		t.Fatal(err)
	}
	c, err := writer.readBy(reader)
	if err != nil {
		t.Fatal(err)
	}
	got, err := c.Decode(nil, payload)
	if want := `{"added":"x","new":7,"u":"7"}`; string(got) != want || err != nil {
		t.Errorf("%s, %v, want %s", got, err, want)
	}
	if _, err := writer.readBy(program(t, `"string"`)); err == nil || !strings.Contains(err.Error(), "can't read what") {
		t.Errorf("schemas that do not go together: %v", err)
	}
}

const order = `{"type":"record","name":"Order","namespace":"shop","fields":[
	{"name":"id","type":"long"},{"name":"customer","type":"string"},{"name":"total","type":"double"},
	{"name":"paid","type":"boolean"},{"name":"note","type":["null","string"]},
	{"name":"at","type":{"type":"long","logicalType":"timestamp-millis"}},
	{"name":"items","type":{"type":"array","items":{"type":"record","name":"Item","fields":[
		{"name":"sku","type":"string"},{"name":"qty","type":"int"},{"name":"price","type":"double"}]}}},
	{"name":"tags","type":{"type":"map","values":"string"}}]}`

const orderText = `{"id":123456789012,"customer":"Ada Lovelace","total":99.95,"paid":true,"note":null,"at":"2026-11-23T09:30:00.123Z",` +
	`"items":[{"sku":"a-1","qty":3,"price":9.99},{"sku":"b-2","qty":1,"price":69.98}],"tags":{"country":"SG","channel":"web"}}`

func BenchmarkDecode(b *testing.B) {
	p := program(b, order)
	payload, err := p.Encode(nil, []byte(orderText))
	if err != nil {
		b.Fatal(err)
	}
	b.Run("flowd", func(b *testing.B) {
		var dst []byte
		b.ReportAllocs()
		for b.Loop() {
			dst, _ = p.Decode(dst[:0], payload)
		}
	})
	b.Run("library, any, its JSON", func(b *testing.B) {
		var dst []byte
		b.ReportAllocs()
		for b.Loop() {
			var v any
			_, _ = p.parsed.Decode(payload, &v)
			dst, _ = p.parsed.AppendEncodeJSON(dst[:0], v)
		}
	})
	b.Run("library, struct, encoding/json", func(b *testing.B) {
		type item struct {
			Sku   string  `avro:"sku" json:"sku"`
			Qty   int32   `avro:"qty" json:"qty"`
			Price float64 `avro:"price" json:"price"`
		}
		type order struct {
			ID       int64             `avro:"id" json:"id"`
			Customer string            `avro:"customer" json:"customer"`
			Total    float64           `avro:"total" json:"total"`
			Paid     bool              `avro:"paid" json:"paid"`
			Note     *string           `avro:"note" json:"note"`
			At       int64             `avro:"at" json:"at"`
			Items    []item            `avro:"items" json:"items"`
			Tags     map[string]string `avro:"tags" json:"tags"`
		}
		b.ReportAllocs()
		for b.Loop() {
			var o order
			if _, err := p.parsed.Decode(payload, &o, twmb.AliasInput()); err != nil {
				b.Fatal(err)
			}
			_, _ = json.Marshal(&o)
		}
	})
}

func BenchmarkEncode(b *testing.B) {
	p := program(b, order)
	b.Run("flowd", func(b *testing.B) {
		var dst []byte
		b.ReportAllocs()
		for b.Loop() {
			var err error
			if dst, err = p.Encode(dst[:0], []byte(orderText)); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("library, any", func(b *testing.B) {
		var dst []byte
		b.ReportAllocs()
		for b.Loop() {
			var v any
			_ = json.Unmarshal([]byte(orderText), &v)
			dst, _ = p.parsed.AppendEncode(dst[:0], v)
		}
	})
}
