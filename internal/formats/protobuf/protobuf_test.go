package protobuf

import (
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/flowd-io/flowd/engine/doc"
	"github.com/flowd-io/flowd/internal/formats/codec"
)

// one is a schema with one message, M, that has these fields.
func one(fields string) string {
	return `syntax = "proto3"; import "google/protobuf/any.proto"; import "google/protobuf/struct.proto";
		import "google/protobuf/timestamp.proto"; import "google/protobuf/duration.proto"; import "google/protobuf/field_mask.proto";
		import "google/protobuf/wrappers.proto"; import "google/protobuf/empty.proto";
		message M {` + fields + `} enum Suit { option allow_alias = true; SPADES = 0; PIQUE = 0; HEARTS = 1; }`
}

func TestValuesAreShownAndWritten(t *testing.T) {
	tests := []struct{ name, fields, json, hex string }{
		{"bool", `bool v = 1;`, `{"v":true}`, `0801`},
		{"int32 below zero", `int32 v = 1;`, `{"v":-1}`, `08ffffffffffffffffff01`},
		{"sint32", `sint32 v = 1;`, `{"v":-2147483648}`, `08ffffffff0f`},
		{"uint32", `uint32 v = 1;`, `{"v":4294967295}`, `08ffffffff0f`},
		{"int64 beyond 2^53", `int64 v = 1;`, `{"v":9007199254740993}`, `088180808080808010`},
		{"the lowest sint64", `sint64 v = 1;`, `{"v":-9223372036854775808}`, `08ffffffffffffffffff01`},
		{"the highest uint64", `uint64 v = 1;`, `{"v":18446744073709551615}`, `08ffffffffffffffffff01`},
		{"fixed32", `fixed32 v = 1;`, `{"v":4294967295}`, `0dffffffff`},
		{"sfixed32", `sfixed32 v = 1;`, `{"v":-1}`, `0dffffffff`},
		{"fixed64", `fixed64 v = 1;`, `{"v":18446744073709551615}`, `09ffffffffffffffff`},
		{"sfixed64", `sfixed64 v = 1;`, `{"v":-1}`, `09ffffffffffffffff`},
		{"float", `float v = 1;`, `{"v":0.1}`, `0dcdcccc3d`},
		{"double", `double v = 1;`, `{"v":0.1}`, `099a9999999999b93f`},
		{"a number that JSON does not have", `double v = 1;`, `{"v":"-Infinity"}`, `09000000000000f0ff`},
		{"zero with a sign", `double v = 1;`, `{"v":-0}`, `090000000000000080`},
		{"string", `string v = 1;`, `{"v":"é\n"}`, `0a03c3a90a`},
		{"a string of one zero", `string v = 1;`, `{"v":"\u0000"}`, `0a0100`},
		{"bytes", `bytes v = 1;`, `{"v":"/w=="}`, `0a01ff`},
		{"enum", `Suit v = 1;`, `{"v":"HEARTS"}`, `0801`},
		{"an enum without a name", `Suit v = 1;`, `{"v":-7}`, `08f9ffffffffffffffff01`},
		{"optional, and zero", `optional int32 v = 1;`, `{"v":0}`, `0800`},
		{"message", `M v = 1; bool b = 2;`, `{"v":{"v":{}},"b":true}`, `0a020a001001`},
		{"packed", `repeated int32 v = 1;`, `{"v":[1,-1,0]}`, `0a0c01ffffffffffffffffff0100`},
		{"not packed", `repeated int32 v = 1 [packed = false];`, `{"v":[1,2]}`, `08010802`},
		{"packed fixed", `repeated fixed32 v = 1;`, `{"v":[1]}`, `0a0401000000`},
		{"texts", `repeated string v = 1;`, `{"v":["","x"]}`, `0a000a0178`},
		{"messages", `repeated M v = 1;`, `{"v":[{},{"v":[{}]}]}`, `0a000a020a00`},
		{"map by text", `map<string, int32> v = 1;`, `{"v":{"a":1,"":0}}`, `0a050a016110010a040a001000`},
		{"map by number", `map<sint32, string> v = 1;`, `{"v":{"-1":"x"}}`, `0a050801120178`},
		{"map by bool", `map<bool, M> v = 1;`, `{"v":{"true":{}}}`, `0a0408011200`},
		{"oneof", `oneof o { string a = 1; int32 b = 2; }`, `{"b":0}`, `1000`},
		{"a field with a high number", `bool v = 536870911;`, `{"v":true}`, `f8ffffff0f01`},
		{"timestamp", `google.protobuf.Timestamp v = 1;`, `{"v":"1970-01-01T00:00:01.120Z"}`, `0a070801` + `10809c9c39`},
		{"duration", `google.protobuf.Duration v = 1;`, `{"v":"-1.000001s"}`, `0a1608ffffffffffffffffff011098f8ffffffffffffff01`},
		{"wrapper", `google.protobuf.Int64Value v = 1;`, `{"v":9007199254740993}`, `0a09088180808080808010`},
		{"wrapper of zero", `google.protobuf.BoolValue v = 1;`, `{"v":false}`, `0a00`},
		{"field mask", `google.protobuf.FieldMask v = 1;`, `{"v":"a.bC,d"}`, `0a0a0a05612e625f630a0164`},
		{"struct", `google.protobuf.Struct v = 1;`, `{"v":{"a":[1,null,"x",true,{}]}}`, ``},
		{"null as a value", `google.protobuf.Value v = 1;`, `{"v":null}`, `0a020800`},
		{"empty", `google.protobuf.Empty v = 1;`, `{"v":{}}`, `0a00`},
		{"any", `google.protobuf.Any v = 1;`, `{"v":{"@type":"x/M","v":{}}}`, `0a090a03782f4d12020a00`},
		{"any of a wrapper", `google.protobuf.Any v = 1;`, `{"v":{"@type":"x/google.protobuf.Duration","value":"1s"}}`, ``},
		{"any of a message that is not in the schema", `google.protobuf.Any v = 1;`, `{"v":{"@type":"x/Y","value":"/w=="}}`,
			`0a080a03782f591201ff`},
		{"any of a message without fields", `google.protobuf.Any v = 1;`, `{"v":{"@type":"x/M"}}`, `0a050a03782f4d`},
		{"any of nothing", `google.protobuf.Any v = 1;`, `{"v":{}}`, `0a00`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := program(t, one(tt.fields), "M", Options{})
			wire, err := p.Encode(nil, []byte(tt.json))
			if err != nil || tt.hex != "" && hex.EncodeToString(wire) != tt.hex {
				t.Errorf("written %x, %v, want %s", wire, err, tt.hex)
			}
			shown, err := p.Decode(nil, wire)
			if string(shown) != tt.json || err != nil {
				t.Errorf("shown %s, %v, want %s", shown, err, tt.json)
			}
		})
	}
}

func TestDocumentsMayBeWrittenInOtherWays(t *testing.T) {
	tests := []struct{ name, fields, json, want string }{
		{"numbers as text", `uint64 v = 1; double d = 2;`, `{"v":"18446744073709551615","d":"1e3"}`, `{"v":18446744073709551615,"d":1000}`},
		{"whole numbers with a point", `int32 v = 1;`, `{"v":1.50e1}`, `{"v":15}`},
		{"names in lowerCamelCase", `int32 some_field = 1;`, `{"someField":1}`, `{"some_field":1}`},
		{"json_name", `int32 v = 1 [json_name = "other"];`, `{"other":1}`, `{"v":1}`},
		{"enums by number, and by an alias", `Suit v = 1; Suit w = 2;`, `{"v":1,"w":"PIQUE"}`, `{"v":"HEARTS"}`},
		{"base64 of URLs", `bytes v = 1;`, `{"v":"__8"}`, `{"v":"//8="}`},
		{"null is unset", `int32 v = 1; M m = 2; repeated int32 l = 3; oneof o { int32 a = 4; int32 b = 5; }`,
			`{"v":null,"m":null,"l":null,"a":null,"b":1}`, `{"b":1}`},
		{"of equal keys the last counts", `int32 v = 1;`, `{"v":1,"v":2}`, `{"v":2}`},
		{"times with a zone", `google.protobuf.Timestamp v = 1;`, `{"v":"2026-01-02T15:04:05+01:00"}`, `{"v":"2026-01-02T14:04:05Z"}`},
		{"durations without a fraction", `google.protobuf.Duration v = 1;`, `{"v":"3s"}`, `{"v":"3s"}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := program(t, one(tt.fields), "M", Options{})
			wire, err := p.Encode(nil, []byte(tt.json))
			if err != nil {
				t.Fatal(err)
			}
			if got, err := p.Decode(nil, wire); string(got) != tt.want || err != nil {
				t.Errorf("got %s, %v, want %s", got, err, tt.want)
			}
		})
	}
}

func TestPayloadsMayBeWrittenInOtherWays(t *testing.T) {
	tests := []struct{ name, fields, hex, want string }{
		{"nothing", `int32 v = 1; string s = 2; repeated M l = 3; map<int32, M> m = 4; Suit e = 5; bytes b = 6; M of = 7; optional bool o = 8;`,
			``, `{"v":0,"s":"","l":[],"m":{},"e":"SPADES","b":""}`},
		{"fields in another order", `int32 a = 1; int32 b = 2;`, `10010802`, `{"a":2,"b":1}`},
		{"of a field that comes twice the last counts", `int32 a = 1;`, `08010802`, `{"a":2}`},
		{"of a oneof too", `oneof o { int32 a = 1; int32 b = 2; M m = 3; }`, `0801100208031a00`, `{"m":{}}`},
		{"and its member starts anew", `oneof o { M m = 1; int32 b = 2; } optional int32 x = 3;`, `0a02180110020a00`, `{"m":{}}`},
		{"messages in pieces are one", `M m = 1; optional int32 x = 2; optional int32 y = 3; repeated int32 l = 4;`,
			`0a0410012001` + `1009` + `0a0418022002`, `{"m":{"x":1,"y":2,"l":[1,2]},"x":9,"l":[]}`},
		{"lists packed where they need not be", `repeated int32 l = 1 [packed = false];`, `0a0201020803`, `{"l":[1,2,3]}`},
		{"and not where they are", `repeated int32 l = 1; int32 x = 2;`, `0801` + `1007` + `0a0102`, `{"l":[1,2],"x":7}`},
		{"an entry without its value", `map<string, M> m = 1; map<int32, int32> n = 2;`, `0a030a0161` + `1200`,
			`{"m":{"a":{"m":{},"n":{}}},"n":{"0":0}}`},
		{"of equal keys of a map the last counts", `map<string, int32> m = 1;`,
			`0a050a01611001` + `0a050a01621002` + `0a050a01611003`, `{"m":{"b":2,"a":3}}`},
		{"an integer of more bits than its type", `int32 a = 1; bool b = 2; uint32 c = 3;`, `0881808080f0ffffffff01` + `1002` + `18ffffffffff01`,
			`{"a":1,"b":true,"c":4294967295}`},
		{"a sint32 of more bits", `sint32 a = 1;`, `088080808010`, `{"a":0}`},
		{"fields that the schema has not", `int32 a = 1;`, `1a0178` + `2001` + `2d00000000` + `310000000000000000` + `3b08013c` + `0807`,
			`{"a":7}`},
		{"a field of another wire type is unknown", `int32 a = 1; string s = 2;`, `0a0178` + `1001`, `{"a":0,"s":""}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			payload, err := hex.DecodeString(tt.hex)
			if err != nil {
				t.Fatal(err)
			}
			got, err := program(t, one(tt.fields), "M", Options{Defaults: true}).Decode(nil, payload)
			if string(got) != tt.want || err != nil {
				t.Errorf("got %s, %v, want %s", got, err, tt.want)
			}
		})
	}
}

// TestManyEntriesWithEqualKeys has more of them than are compared with one another.
func TestManyEntriesWithEqualKeys(t *testing.T) {
	p := program(t, one(`map<int32, int32> m = 1;`), "M", Options{})
	var json, want []string
	for i := range 100 {
		json = append(json, fmt.Sprintf(`"%d":%d`, i%40, i))
		if i >= 60 {
			want = append(want, fmt.Sprintf(`"%d":%d`, i%40, i))
		}
	}
	wire, err := p.Encode(nil, []byte(`{"m":{`+strings.Join(json, ",")+`}}`))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := p.Decode(nil, wire); string(got) != `{"m":{`+strings.Join(want, ",")+`}}` || err != nil {
		t.Errorf("%s, %v", got, err)
	}
}

func TestOlderAndNewerSyntax(t *testing.T) {
	tests := []struct{ name, schema, message, json, hex string }{
		{"groups", old, "t.Old", `{"id":1,"Part":{"n":7},"Parts":[{"s":"x"},{}]}`, `0801` + `1b08071c` + `230a01782423` + `24`},
		{"groups by the names of their fields", old, "t.Old", `{"id":1,"part":{},"parts":[]}`, `0801` + `1b1c`},
		{"extensions", old, "t.Old", `{"id":1,"[t.extra]":9007199254740993,"[t.olds]":[{"id":2}]}`, `0801a006818080808080801` + `0aa06020802`},
		{"packed", old, "t.Old", `{"id":1,"packed":[1],"loose":[1,2]}`, `0801` + `2a0101` + `30013002`},
		{"an enum of old", old, "t.Old", `{"id":0,"suit":"SPADES"}`, `0800` + `3800`},
		{"editions", edition, "t.New", `{"explicit":0,"required":3,"delimited":{"required":1},"packed":[1],"expanded":[2]}`,
			`0800` + `1803` + `23180124` + `2a0101` + `3002`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := program(t, tt.schema, tt.message, Options{})
			wire, err := p.Encode(nil, []byte(tt.json))
			if hex.EncodeToString(wire) != tt.hex || err != nil {
				t.Errorf("written %x, %v, want %s", wire, err, tt.hex)
			}
			shown, err := p.Decode(nil, wire)
			want := strings.NewReplacer(`"part"`, `"Part"`, `,"parts":[]`, ``).Replace(tt.json)
			if string(shown) != want || err != nil {
				t.Errorf("shown %s, %v, want %s", shown, err, want)
			}
		})
	}
}

func TestPayloadsThatAreNot(t *testing.T) {
	tests := []struct{ name, fields, hex, want string }{
		{"a tag that ends", `int32 v = 1;`, `88`, "protobuf: the payload ends in the middle of it"},
		{"a number that ends", `int32 v = 1;`, `0880`, "protobuf: v: the payload ends in the middle of it"},
		{"a text that claims gigabytes", `string v = 1;`, `0affffffff0f78`, "v: the payload ends in the middle of it"},
		{"a text that claims all there is", `string v = 1;`, `0affffffffffffffffff01`, "v: the payload ends in the middle of it"},
		{"an unknown field that claims gigabytes", `string v = 1;`, `12ffffffff0f78`, "field number 2: the payload ends"},
		{"a number that never ends", `int32 v = 1;`, `08ffffffffffffffffffff01`, "v: variable length integer overflow"},
		{"field number 0", `int32 v = 1;`, `0001`, "invalid field number"},
		{"a wire type that there is not", `int32 v = 1;`, `0f`, "v: cannot parse reserved wire type"},
		{"an end without a group", `int32 v = 1;`, `0c`, "end group"},
		{"packed fixed numbers of odd length", `repeated fixed32 v = 1;`, `0a03000000`, "v.0: the payload ends"},
		{"a packed number that ends", `repeated int32 v = 1;`, `0801` + `0a020180`, "v.2: the payload ends"},
		{"text that is not UTF-8", `repeated string v = 1;`, `0a01ff`, "v.0: is not valid UTF-8"},
		{"a key that is not UTF-8", `map<string, int32> v = 1;`, `0a030a01ff`, "v.key: is not valid UTF-8"},
		{"a value of a map", `map<string, M> v = 1;`, `0a060a016b12010a`, "v.k.v: the payload ends"},
		{"a time in the year 10000", `google.protobuf.Timestamp v = 1;`, `0a0808ffffffffffff7f`, "v: 562949953421311 seconds"},
		{"a duration of two signs", `google.protobuf.Duration v = 1;`, `0a0d080110ffffffffffffffffff01`, "v: 1 seconds and -1 nanoseconds"},
		{"a duration that is too long", `google.protobuf.Duration v = 1;`, `0a090880bcaece97091001`, "v: 315576000000 seconds and 1"},
		{"a value that is not a number", `google.protobuf.Value v = 1;`, `0a0911000000000000f87f`, "can't be NaN"},
		{"a path without a way back", `google.protobuf.FieldMask v = 1;`, `0a030a0141`, `path "A" can't be written`},
		{"any without a type", `google.protobuf.Any v = 1;`, `0a03120178`, "v: has a value without @type"},
		{"any with a value that is wrong", `google.protobuf.Any v = 1;`, `0a080a03782f4d12010a`, "v.x/M.v: the payload ends"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			payload, err := hex.DecodeString(tt.hex)
			if err != nil {
				t.Fatal(err)
			}
			_, err = program(t, one(tt.fields), "M", Options{}).Decode(nil, payload)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %s", err, tt.want)
			}
		})
	}
	t.Run("a required field that is missing", func(t *testing.T) {
		_, err := program(t, old, "t.Old", Options{}).Decode(nil, nil)
		if err == nil || !strings.Contains(err.Error(), "id: is missing, and t.Old requires it") {
			t.Error(err)
		}
	})
}

func TestDocumentsThatDoNotFit(t *testing.T) {
	tests := []struct{ name, fields, json, want string }{
		{"another kind", `int32 v = 1;`, `{"v":true}`, "v: true or false is not int32"},
		{"a document that is not an object", `int32 v = 1;`, `[1]`, "protobuf: a list is not M"},
		{"a number for a text", `string v = 1;`, `{"v":1}`, "v: a number is not string"},
		{"a fraction", `int32 v = 1;`, `{"v":1.5}`, "v: 1.5 is not a whole number"},
		{"too large for int32", `int32 v = 1;`, `{"v":2147483648}`, "v: 2147483648 does not fit 32 bits"},
		{"too large for int64", `int64 v = 1;`, `{"v":9223372036854775808}`, "does not fit 64 bits"},
		{"too large for uint32", `fixed32 v = 1;`, `{"v":4294967296}`, "4294967296 does not fit fixed32"},
		{"too large for uint64", `uint64 v = 1;`, `{"v":18446744073709551616}`, "does not fit 64 bits"},
		{"below zero", `uint64 v = 1;`, `{"v":-1}`, "-1 does not fit 64 bits without a sign"},
		{"too large for a double", `double v = 1;`, `{"v":1e999}`, "1e999 does not fit double"},
		{"an integer that a double would round", `double v = 1;`, `{"v":9007199254740993}`, "does not fit double exactly"},
		{"an integer that a value would round", `google.protobuf.Value v = 1;`, `{"v":9007199254740993}`,
			"does not fit google.protobuf.Value exactly"},
		{"text that is not a number", `double v = 1;`, `{"v":"0x10"}`, `"0x10" is not a number`},
		{"no text at all", `int32 v = 1;`, `{"v":""}`, `"" is not a number`},
		{"an enum's name that there is not", `Suit v = 1;`, `{"v":"HERTS"}`, `"HERTS" is not a name of Suit`},
		{"an enum's number that does not fit", `Suit v = 1;`, `{"v":2147483648}`, "does not fit 32 bits"},
		{"bytes that are not base64", `bytes v = 1;`, `{"v":"*"}`, "base64"},
		{"a field that there is not", `int32 v = 1;`, `{"w":1}`, `M has no field "w" (remove it from the document, or set`},
		{"deep inside", `repeated M v = 1; map<string, M> m = 2;`, `{"v":[{},{"m":{"a":{"x":1}}}]}`, `v.1.m.a: M has no field "x"`},
		{"two of a oneof", `oneof o { int32 a = 1; int32 b = 2; }`, `{"a":0,"b":1}`, "a: and b can't both be set"},
		{"null in a list", `repeated int32 v = 1;`, `{"v":[1,null]}`, "v.1: a list can't contain null"},
		{"null in a map", `map<string, M> v = 1;`, `{"v":{"a":null}}`, "v.a: a mapping can't contain null"},
		{"an object for a list", `repeated int32 v = 1;`, `{"v":{}}`, "v: an object is not a list"},
		{"a list for a map", `map<string, M> v = 1;`, `{"v":[]}`, "v: a list is not a mapping"},
		{"a key that is not a number", `map<int32, M> v = 1;`, `{"v":{"x":{}}}`, `v.x: "x" is not a number`},
		{"a key that is not true or false", `map<bool, M> v = 1;`, `{"v":{"1":{}}}`, "v.1: the key is not true or false"},
		{"a time that is none", `google.protobuf.Timestamp v = 1;`, `{"v":"yesterday"}`, `"yesterday" is not a timestamp`},
		{"a time in the year 0", `google.protobuf.Timestamp v = 1;`, `{"v":"0000-12-31T23:59:59Z"}`, "is not a timestamp"},
		{"a duration that is none", `google.protobuf.Duration v = 1;`, `{"v":"1h"}`, `"1h" is not a duration`},
		{"a duration of too many digits", `google.protobuf.Duration v = 1;`, `{"v":"1.0000000001s"}`, "is not a duration"},
		{"a duration that is too long", `google.protobuf.Duration v = 1;`, `{"v":"315576000001s"}`, "is not a duration"},
		{"a duration that is a little too long", `google.protobuf.Duration v = 1;`, `{"v":"315576000000.1s"}`, "is not a duration"},
		{"a path that is none", `google.protobuf.FieldMask v = 1;`, `{"v":"a_b"}`, `"a_b" is not a path`},
		{"any without a type", `google.protobuf.Any v = 1;`, `{"v":{"a":1}}`, "v: @type is missing"},
		{"any of what is not in the schema", `google.protobuf.Any v = 1;`, `{"v":{"@type":"x/Y","a":1}}`, `"x/Y" is not in the schema`},
		{"any of a wrapper without a value", `google.protobuf.Any v = 1;`, `{"v":{"@type":"x/google.protobuf.Duration"}}`,
			"is written as a member `value`"},
		{"a wrapper of another kind", `google.protobuf.Int32Value v = 1;`, `{"v":"x"}`, `v: "x" is not a number`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := program(t, one(tt.fields), "M", Options{}).Encode(nil, []byte(tt.json))
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %x, %v, want %s", got, err, tt.want)
			}
		})
	}
	t.Run("a required field that is missing", func(t *testing.T) {
		_, err := program(t, old, "t.Old", Options{}).Encode(nil, []byte(`{}`))
		if err == nil || !strings.Contains(err.Error(), "id: is missing, and t.Old requires it") {
			t.Error(err)
		}
	})
	t.Run("unless it is to be dropped", func(t *testing.T) {
		got, err := program(t, one(`int32 v = 1;`), "M", Options{DropUnknown: true}).Encode(nil, []byte(`{"w":1,"v":1}`))
		if string(got) != "\x08\x01" || err != nil {
			t.Errorf("%x, %v", got, err)
		}
	})
}

// TestHostilePayloadsAreBounded: what nests deep, or is much of little, is refused.
func TestHostilePayloadsAreBounded(t *testing.T) {
	p := program(t, one(`M v = 1; google.protobuf.Value of = 2; repeated M l = 3; google.protobuf.Any any = 4;
		int32 a_field_with_a`+strings.Repeat("_very", 80)+`_long_name = 5; repeated Unknown g = 6; } message Unknown {`), "M",
		Options{Defaults: true})
	deep := func(tag byte, depth int) (payload []byte) {
		for range depth { // from its end to its beginning
			head := protowire.AppendVarint([]byte{tag}, uint64(len(payload)))
			slices.Reverse(head)
			payload = append(payload, head...)
		}
		slices.Reverse(payload)
		return payload
	}
	for _, tag := range []byte{0x0a, 0x1a} {
		if _, err := p.Decode(nil, deep(tag, 10_000)); err == nil || !strings.Contains(err.Error(), "nested deeper than 512") ||
			len(err.Error()) > 500 {
			t.Errorf("%v", err)
		}
	}
	for n := range 600 { // the deepest that is read is a document
		out, err := p.Decode(nil, deep(0x0a, n))
		var d doc.Doc
		if d.Reset(out, nil); err == nil && d.Valid() != nil {
			t.Fatalf("at depth %d: %v", n, d.Valid())
		}
	}
	groups := []byte(strings.Repeat("\x3b", 100_000))
	if _, err := p.Decode(nil, groups); err == nil {
		t.Error("groups that do not end are read")
	}
	small := []byte(strings.Repeat("\x1a\x00", 1<<18)) // two bytes each make hundreds
	if _, err := p.DecodeWithin(nil, small, 1<<20); err != codec.ErrLimit {
		t.Errorf("%v", err)
	}
	if _, err := p.Decode(nil, small); err == nil || !strings.Contains(err.Error(), "decodes to more than 64 MiB") {
		t.Errorf("%v", err)
	}
	apart := []byte(strings.Repeat("\x1a\x00\x28\x00", 1<<18)) // each is a run of its own
	if _, err := p.DecodeWithin(nil, apart, 1<<20); err != codec.ErrLimit {
		t.Errorf("%v", err)
	}
}

// TestWhatIsKeptIsLittle: a list in one piece is kept as one, and a high number takes no room.
func TestWhatIsKeptIsLittle(t *testing.T) {
	p := program(t, one(`repeated string l = 1; int32 high = 536870911;`), "M", Options{})
	payload := []byte(strings.Repeat("\x0a\x00", 1000))
	if out, err := p.DecodeWithin(nil, payload, 4000); err != nil {
		t.Errorf("%d bytes, %v", len(out), err)
	}
	if n := len(p.root.low); n > lowest {
		t.Errorf("%d places for fields", n)
	}
}

// TestMessagesThatHaveOnlyTheName of one of Protobuf's own are shown by their fields.
func TestMessagesThatHaveOnlyTheName(t *testing.T) {
	const schema = `syntax = "proto3"; package google.protobuf; message Duration { int64 n = 1; int32 nanos = 3; }`
	p := program(t, schema, "google.protobuf.Duration", Options{})
	if got, err := p.Decode(nil, []byte{8, 1, 24, 2}); string(got) != `{"n":1,"nanos":2}` || err != nil {
		t.Errorf("%s, %v", got, err)
	}
}

func TestDecodingAllocatesNothing(t *testing.T) {
	p := program(t, one(`int64 id = 1; string s = 2; repeated M l = 3; google.protobuf.Timestamp at = 4; double d = 5;`), "M",
		Options{Defaults: true})
	payload, err := p.Encode(nil, []byte(`{"id":7,"s":"x","l":[{},{"id":1}],"at":"2026-01-02T15:04:05.123Z","d":1.5}`))
	if err != nil {
		t.Fatal(err)
	}
	dst := make([]byte, 0, 1<<10)
	var r reader
	if n := testing.AllocsPerRun(200, func() { _, err = r.read(p, dst, payload, 1<<20) }); n > 0 || err != nil {
		t.Errorf("%v allocations, %v", n, err)
	}
}

// FuzzDecode: what any bytes say is a document within the limit, which can be written again
// and then says the same.
func FuzzDecode(f *testing.F) {
	var programs []*Program
	for _, s := range []struct{ schema, message, json string }{
		{everything, "t.All",
			`{"a_bool":true,"an_int32":1,"inner":{"packed":[1,2]},"by_text":{"a":1,"b":2},"message":{},"at":"2026-01-02T15:04:05Z",
			"any":{"@type":"x/t.All","a_string":"x"},"object":{"a":[1,null,{"b":true}]},"mask":"a.b","took":"1.5s","long":1}`},
		{old, "t.Old", `{"id":1,"Part":{"n":7},"Parts":[{"s":"x"}],"[t.olds]":[{"id":2}]}`},
		{edition, "t.New", `{"required":1,"delimited":{"required":2}}`},
	} {
		p := program(f, s.schema, s.message, Options{Defaults: true})
		seed, err := p.Encode(nil, []byte(s.json))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(byte(len(programs)), seed)
		programs = append(programs, p)
	}
	f.Fuzz(func(t *testing.T, which byte, payload []byte) {
		p := programs[int(which)%len(programs)]
		const limit = 1 << 20
		out, err := p.DecodeWithin(nil, payload, limit)
		if err != nil {
			return
		}
		var d doc.Doc
		if d.Reset(out, nil); d.Valid() != nil || len(out) > limit+4*len(payload)+1000 {
			t.Fatalf("%x gives %d bytes: %.200s", payload, len(out), out)
		}
		again, err := p.Encode(nil, out)
		if err != nil {
			t.Fatalf("%x is %s, which can't be written: %v", payload, out, err)
		}
		if back, err := p.Decode(nil, again); err != nil || string(back) != string(out) {
			t.Fatalf("%x is %s, and %s, %v when it is written again", payload, out, back, err)
		}
	})
}

// FuzzEncode: any document is written or refused, and what is written can be read, and says the same when it is written
// again.
func FuzzEncode(f *testing.F) {
	p := program(f, everything, "t.All", Options{Defaults: true})
	for _, document := range []string{`{}`, `{"a_bool":true,"an_int32":1,"inner":{"packed":[1,2]},"by_text":{"a":1,"b":2},
		"message":{},"at":"2026-01-02T15:04:05Z","any":{"@type":"x/t.All","a_string":"x"},"object":{"a":[1,null,{"b":true}]},
		"mask":"a.b","took":"1.5s","long":1}`, `{"aBool":null,"an_int32":"7","a_string":""}`} {
		f.Add([]byte(document))
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
		if back, err := p.Decode(nil, again); err != nil || string(back) != string(out) {
			t.Fatalf("%s is %s, and %s, %v when it is written again", document, out, back, err)
		}
	})
}
