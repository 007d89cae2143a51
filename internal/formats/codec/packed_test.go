package codec_test

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"math/big"
	"strings"
	"testing"

	"github.com/fxamacker/cbor/v2"
	"github.com/google/go-cmp/cmp"
	"github.com/vmihailenco/msgpack/v5"
	"pgregory.net/rapid"

	"github.com/flowd-io/flowd/engine/doc"
	"github.com/flowd-io/flowd/internal/formats/codec"
)

// unhex is bytes that are written in hexadecimal, with spaces.
func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.ReplaceAll(s, " ", ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

var packedValues = []struct {
	name       string
	codec      codec.Codec
	in         string // hexadecimal
	want       string
	notTheSame bool // as what is encoded
}{
	{"null", &codec.MsgPack{}, "c0", `null`, false},
	{"true in a list", &codec.MsgPack{}, "92 c3 c2", `[true,false]`, false},
	{"the smallest form of an integer", &codec.MsgPack{}, "7f", `127`, false},
	{"a byte", &codec.MsgPack{}, "cc ff", `255`, false},
	{"two bytes", &codec.MsgPack{}, "cd 01 00", `256`, false},
	{"four bytes", &codec.MsgPack{}, "ce 00 01 00 00", `65536`, false},
	{"an integer beyond 2^53", &codec.MsgPack{}, "cf 00 20 00 00 00 00 00 01", `9007199254740993`, false},
	{"the largest integer", &codec.MsgPack{}, "cf ff ff ff ff ff ff ff ff", `18446744073709551615`, false},
	{"a small negative integer", &codec.MsgPack{}, "e0", `-32`, false},
	{"a negative byte", &codec.MsgPack{}, "d0 80", `-128`, false},
	{"two negative bytes", &codec.MsgPack{}, "d1 ff 7f", `-129`, false},
	{"four negative bytes", &codec.MsgPack{}, "d2 ff ff 7f ff", `-32769`, false},
	{"the smallest integer", &codec.MsgPack{}, "d3 80 00 00 00 00 00 00 00", `-9223372036854775808`, false},
	{"an integer with more bytes than it needs", &codec.MsgPack{}, "d3 00 00 00 00 00 00 00 07", `7`, true},
	{"a float", &codec.MsgPack{}, "cb 3f b9 99 99 99 99 99 9a", `0.1`, false},
	{"a negative zero", &codec.MsgPack{}, "cb 80 00 00 00 00 00 00 00", `-0`, false},
	{"a whole float of 32 bits is exact", &codec.MsgPack{}, "ca 4f 80 00 00", `4294967296`, true},
	{"a float of 32 bits with an exponent", &codec.MsgPack{}, "ca 71 49 f2 ca", `1e+30`, true},
	{"a whole float of 64 bits is exact", &codec.MsgPack{}, "cb 43 e0 00 00 00 00 00 00", `9223372036854775808`, true},
	{"a float of 32 bits", &codec.MsgPack{}, "ca 3d cc cc cd", `0.1`, true},
	{"a whole number over 64 bits that a float has", &codec.MsgPack{}, "cb 44 15 af 1d 78 b5 8c 40", `100000000000000000000`, false},
	{"text with a quote", &codec.MsgPack{}, "a2 61 22", `"a\""`, false},
	{"bytes", &codec.MsgPack{}, "c4 02 ff 00", `"/wA="`, true},
	{"an object", &codec.MsgPack{}, "82 a1 61 01 a1 62 90", `{"a":1,"b":[]}`, false},
	{"an object with keys that are numbers", &codec.MsgPack{}, "83 01 02 ff 03 c3 04", `{"1":2,"-1":3,"true":4}`, true},
	{"a timestamp of 32 bits", &codec.MsgPack{}, "d6 ff 00 00 00 01", `"1970-01-01T00:00:01Z"`, true},
	{"a timestamp of 64 bits", &codec.MsgPack{}, "d7 ff 77 35 94 00 00 00 00 01", `"1970-01-01T00:00:01.5Z"`, true},
	{"a timestamp of 96 bits", &codec.MsgPack{}, "c7 0c ff 00 00 00 01 ff ff ff ff ff ff ff ff", `"1969-12-31T23:59:59.000000001Z"`, true},
	{"another extension", &codec.MsgPack{}, "d4 05 01", `{"type":5,"data":"AQ=="}`, true},
	{"an extension with a length", &codec.MsgPack{}, "c7 03 80 01 02 03", `{"type":-128,"data":"AQID"}`, true},
	{"keys that come twice", &codec.MsgPack{}, "82 a1 61 01 a1 61 02", `{"a":1,"a":2}`, true},

	{"an integer", &codec.CBOR{}, "17", `23`, false},
	{"a byte", &codec.CBOR{}, "18 18", `24`, false},
	{"two bytes", &codec.CBOR{}, "19 01 00", `256`, false},
	{"four bytes", &codec.CBOR{}, "1a 00 01 00 00", `65536`, false},
	{"an integer beyond 2^53", &codec.CBOR{}, "1b 00 20 00 00 00 00 00 01", `9007199254740993`, false},
	{"the largest integer", &codec.CBOR{}, "1b ff ff ff ff ff ff ff ff", `18446744073709551615`, false},
	{"a negative integer", &codec.CBOR{}, "38 63", `-100`, false},
	{"an integer below 64 bits", &codec.CBOR{}, "3b 80 00 00 00 00 00 00 00", `-9223372036854775809`, false},
	{"the smallest integer", &codec.CBOR{}, "3b ff ff ff ff ff ff ff ff", `-18446744073709551616`, false},
	{"a large integer", &codec.CBOR{}, "c2 49 01 00 00 00 00 00 00 00 00", `18446744073709551616`, false},
	{"a large negative integer", &codec.CBOR{}, "c3 49 01 00 00 00 00 00 00 00 00", `-18446744073709551617`, false},
	{"a large integer in chunks", &codec.CBOR{}, "c2 5f 41 01 48 00 00 00 00 00 00 00 00 ff", `18446744073709551616`, true},
	{"a negative zero", &codec.CBOR{}, "fb 80 00 00 00 00 00 00 00", `-0`, false},
	{"a float of 16 bits", &codec.CBOR{}, "f9 3e 00", `1.5`, true},
	{"the smallest float of 16 bits", &codec.CBOR{}, "f9 00 01", `5.9604645e-8`, true},
	{"a negative float of 16 bits", &codec.CBOR{}, "f9 c4 00", `-4`, true},
	{"a float of 32 bits", &codec.CBOR{}, "fa 3d cc cc cd", `0.1`, true},
	{"a float", &codec.CBOR{}, "fb 3f b9 99 99 99 99 99 9a", `0.1`, false},
	{"null, undefined and true", &codec.CBOR{}, "83 f6 f7 f5", `[null,null,true]`, true},
	{"false and null", &codec.CBOR{}, "82 f4 f6", `[false,null]`, false},
	{"text", &codec.CBOR{}, "62 c3 bc", `"ü"`, false},
	{"text in chunks, cut within a character", &codec.CBOR{}, "7f 61 c3 61 bc 62 61 62 ff", `"üab"`, true},
	{"bytes in base64", &codec.CBOR{}, "42 ff 00", `"/wA="`, true},
	{"bytes in chunks", &codec.CBOR{}, "5f 41 ff 41 00 ff", `"/wA="`, true},
	{"bytes that are to be base64 for URLs", &codec.CBOR{}, "82 d5 81 42 ff 00 42 ff 00", `[["_wA"],"/wA="]`, true},
	{"bytes that are to be hexadecimal", &codec.CBOR{}, "d7 42 ff 00", `"ff00"`, true},
	{"a list without a length", &codec.CBOR{}, "9f 01 9f ff ff", `[1,[]]`, true},
	{"an object without a length", &codec.CBOR{}, "bf 61 61 01 61 62 02 ff", `{"a":1,"b":2}`, true},
	{"an object", &codec.CBOR{}, "a2 61 61 01 61 62 80", `{"a":1,"b":[]}`, false},
	{"an object with keys that are numbers, and bytes", &codec.CBOR{}, "a4 01 02 20 03 f9 3e 00 04 41 ff 05",
		`{"1":2,"-1":3,"1.5":4,"/w==":5}`, true},
	{"a time as text", &codec.CBOR{}, "c0 74 32 30 31 33 2d 30 33 2d 32 31 54 32 30 3a 30 34 3a 30 30 5a", `"2013-03-21T20:04:00Z"`, true},
	{"a time as a number", &codec.CBOR{}, "c1 1a 51 4b 67 b0", `"2013-03-21T20:04:00Z"`, true},
	{"a time as a float", &codec.CBOR{}, "c1 fb 41 d4 52 d9 ec 20 00 00", `"2013-03-21T20:04:00.5Z"`, true},
	{"a time before 1970", &codec.CBOR{}, "c1 f9 b8 00", `"1969-12-31T23:59:59.5Z"`, true},
	{"a decimal", &codec.CBOR{}, "c4 82 21 19 6a b3", `273.15`, true},
	{"a small negative decimal", &codec.CBOR{}, "c4 82 23 24", `-0.0005`, true},
	{"a decimal with a power", &codec.CBOR{}, "c4 82 02 05", `500`, true},
	{"a large decimal", &codec.CBOR{}, "c4 82 20 c2 49 01 00 00 00 00 00 00 00 00", `1844674407370955161.6`, true},
	{"a tag that says only what it is", &codec.CBOR{}, "d9 d9 f7 01", `1`, true},
	{"an unknown tag", &codec.CBOR{}, "d8 64 01", `1`, true},
}

func TestPackedValues(t *testing.T) {
	for _, tt := range packedValues {
		payload := unhex(t, tt.in)
		got, err := tt.codec.Decode([]byte("kept:"), payload)
		if err != nil {
			t.Errorf("%T, %s: %v", tt.codec, tt.name, err)
			continue
		}
		if string(got) != "kept:"+tt.want {
			t.Errorf("%T, %s: %s, want %s", tt.codec, tt.name, got, tt.want)
		}
		if tt.notTheSame {
			continue
		}
		back, err := tt.codec.Encode([]byte("kept:"), []byte(tt.want))
		if err != nil || string(back) != "kept:"+string(payload) {
			t.Errorf("%T, %s: encoded as %x, %v, want %x", tt.codec, tt.name, back, err, payload)
		}
	}
}

func TestPackedPayloadsThatAreNone(t *testing.T) {
	tests := []struct {
		name  string
		codec codec.Codec
		in    string
		want  string
	}{
		{"nothing", &codec.MsgPack{}, "", "msgpack: the payload ends in the middle of it"},
		{"the byte without a meaning", &codec.MsgPack{}, "c1", "msgpack: byte 0xc1 begins no value"},
		{"a list that claims 4 billion items", &codec.MsgPack{}, "dd ff ff ff ff c0", "msgpack: 1: the payload ends in the middle"},
		{"an object that claims 4 billion members", &codec.MsgPack{}, "df ff ff ff ff", "msgpack: key: the payload ends in the middle"},
		{"text that claims 4 GB", &codec.MsgPack{}, "db ff ff ff ff 61", "the payload ends in the middle"},
		{"bytes that claim 4 GB", &codec.MsgPack{}, "c6 ff ff ff ff 61", "the payload ends in the middle"},
		{"an extension that claims 4 GB", &codec.MsgPack{}, "c9 ff ff ff ff 05 61", "the payload ends in the middle"},
		{"a number that is cut", &codec.MsgPack{}, "81 a1 61 cf 01", "msgpack: a: the payload ends in the middle"},
		{"a value after the value", &codec.MsgPack{}, "c0 c0 c0", "msgpack: 2 bytes are left after the value"},
		{"text that is not UTF-8", &codec.MsgPack{}, "81 a1 61 a2 61 ff", "msgpack: a: text is not valid UTF-8"},
		{"not a number", &codec.MsgPack{}, "81 a1 61 cb 7f f8 00 00 00 00 00 01", "msgpack: a: NaN is not a JSON number"},
		{"an infinite number of 32 bits", &codec.MsgPack{}, "ca ff 80 00 00", "msgpack: -Inf is not a JSON number"},
		{"a list as a key", &codec.MsgPack{}, "81 90 01", "msgpack: key: a key is neither text nor a number"},
		{"an extension as a key", &codec.MsgPack{}, "81 d4 05 01 01", "msgpack: key: a key is neither text nor a number"},
		{"a timestamp of five bytes", &codec.MsgPack{}, "c7 05 ff 00 00 00 00 00", "a timestamp has 5 bytes"},
		{"a timestamp of a billion nanoseconds", &codec.MsgPack{}, "d7 ff ee 6b 28 00 00 00 00 00", "a billion nanoseconds"},
		{"a timestamp beyond the year 9999", &codec.MsgPack{}, "c7 0c ff 00 00 00 00 7f ff ff ff ff ff ff ff", "years 1 to 9999"},
		{"deep lists", &codec.MsgPack{}, strings.Repeat("91", 513) + "c0", "nested deeper than 512"},
		{"deep objects", &codec.MsgPack{}, strings.Repeat("81a161", 100_000) + "c0", "nested deeper than 512"},

		{"nothing", &codec.CBOR{}, "", "cbor: the payload ends in the middle of it"},
		{"a reserved length", &codec.CBOR{}, "1c", "cbor: byte 0x1c begins no item"},
		{"an integer without a length", &codec.CBOR{}, "1f", "cbor: byte 0x1f begins no item"},
		{"a break that ends nothing", &codec.CBOR{}, "82 01 ff", "cbor: 1: byte 0xff begins no item"},
		{"a break for a value", &codec.CBOR{}, "bf 61 61 ff", "cbor: a: byte 0xff begins no item"},
		{"a list that claims 2^64 items", &codec.CBOR{}, "9b ff ff ff ff ff ff ff ff 01", "cbor: 1: the payload ends in the middle"},
		{"text that claims 2^64 bytes", &codec.CBOR{}, "7b ff ff ff ff ff ff ff ff 61", "the payload ends in the middle"},
		{"a list that has no end", &codec.CBOR{}, "9f 01", "cbor: 1: the payload ends in the middle"},
		{"a string that has no end", &codec.CBOR{}, "7f 61 61", "the payload ends in the middle"},
		{"bytes within text", &codec.CBOR{}, "7f 41 61 ff", "strings of its kind"},
		{"chunks within chunks", &codec.CBOR{}, "7f 7f 61 61 ff ff", "strings of its kind"},
		{"a value after the value", &codec.CBOR{}, "01 02", "cbor: 1 bytes are left after the value"},
		{"text that is not UTF-8", &codec.CBOR{}, "a1 61 61 61 ff", "cbor: a: text is not valid UTF-8"},
		{"chunks that are not UTF-8", &codec.CBOR{}, "7f 61 c3 ff", "text is not valid UTF-8"},
		{"not a number", &codec.CBOR{}, "f9 7e 00", "cbor: NaN is not a JSON number"},
		{"an infinite number", &codec.CBOR{}, "81 fb ff f0 00 00 00 00 00 00", "cbor: 0: -Inf is not a JSON number"},
		{"a simple value", &codec.CBOR{}, "f8 ff", "the simple value 255"},
		{"a list as a key", &codec.CBOR{}, "a1 80 01", "a key is neither text nor a number"},
		{"a time that is text", &codec.CBOR{}, "c1 61 61", "a time is not a number"},
		{"a time that is true", &codec.CBOR{}, "c1 f5", "a time is not a number"},
		{"a time that is not a number", &codec.CBOR{}, "c1 f9 7e 00", "years 1 to 9999"},
		{"a time beyond the year 9999", &codec.CBOR{}, "c1 3b ff ff ff ff ff ff ff ff", "years 1 to 9999"},
		{"a large number that is text", &codec.CBOR{}, "c2 61 61", "not written as bytes"},
		{"a number of a million digits", &codec.CBOR{}, "c2 59 10 00 " + strings.Repeat("ff", 4096), "more than 3072 digits"},
		{"a decimal of one number", &codec.CBOR{}, "c4 81 01", "a decimal is not two whole numbers"},
		{"a decimal with a huge power", &codec.CBOR{}, "c4 82 1b 7f ff ff ff ff ff ff ff 01", "a decimal is not two whole numbers"},
		{"a decimal of text", &codec.CBOR{}, "c4 82 01 61 61", "a decimal is not two whole numbers"},
		{"deep lists", &codec.CBOR{}, strings.Repeat("9f", 513), "nested deeper than 512"},
		{"deep tags", &codec.CBOR{}, strings.Repeat("c0", 100_000) + "01", "nested deeper than 512"},
		{"deep mappings", &codec.CBOR{}, strings.Repeat("a16161", 100_000) + "01", "nested deeper than 512"},
	}
	for _, tt := range tests {
		got, err := tt.codec.Decode(nil, unhex(t, tt.in))
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%T, %s: %.80q and %v, want an error with %q", tt.codec, tt.name, got, err, tt.want)
		}
	}
}

func TestTheDeepestDocumentIsPackedAndUnpacked(t *testing.T) {
	deepest := strings.Repeat(`[{"a":`, 256) + "1" + strings.Repeat("}]", 256)
	beside := "[" + strings.Repeat(`[],{"a":[]},`, 600) + "1]"
	for _, c := range []codec.Codec{&codec.MsgPack{}, &codec.CBOR{}} {
		for _, want := range []string{deepest, beside} {
			packed, err := c.Encode(nil, []byte(want))
			if err != nil {
				t.Fatal(err)
			}
			got, err := c.Decode(nil, packed)
			if err != nil || string(got) != want {
				t.Errorf("%T: %.80s, %v", c, got, err)
			}
		}
	}
}

func TestWhatIsNotPacked(t *testing.T) {
	tests := []struct {
		codec    codec.Codec
		in, want string
	}{
		{&codec.MsgPack{}, `18446744073709551617`, "msgpack: 18446744073709551617 does not fit 64 bits exactly"},
		{&codec.MsgPack{}, `-9223372036854775809`, "msgpack: -9223372036854775809 does not fit 64 bits exactly"},
		{&codec.MsgPack{}, `[1e-400]`, "msgpack: 1e-400 does not fit 64 bits"},
		{&codec.MsgPack{}, `[1e400]`, "msgpack: 1e400 does not fit 64 bits"},
		{&codec.CBOR{}, `[1e400]`, "cbor: 1e400 does not fit 64 bits"},
		{&codec.CBOR{}, strings.Repeat("9", 4000), "not a number of up to 3072 digits"},
	}
	for _, tt := range tests {
		out, err := tt.codec.Encode([]byte("kept"), []byte(tt.in))
		if err == nil || !strings.Contains(err.Error(), tt.want) || string(out) != "kept" {
			t.Errorf("%T of %.40s: %q and %v, want an error with %q", tt.codec, tt.in, out, err, tt.want)
		}
	}
}

func TestKeysThatComeTwiceArePackedOnce(t *testing.T) {
	many := "{"
	for i := range 40 {
		many += `"key` + strings.Repeat("x", i) + `":0,`
	}
	for in, members := range map[string]int{
		`{"a":1,"\u0061":{"b":2,"b":3}}`: 2,
		many + `"key":1}`:                40,
		strings.Repeat(`{"a":0,"a":`, 500) + "1" + strings.Repeat("}", 500): 500,
	} {
		var want any
		if err := json.Unmarshal([]byte(in), &want); err != nil {
			t.Fatal(err)
		}
		for _, c := range []codec.Codec{&codec.MsgPack{}, &codec.CBOR{}} {
			packed, err := c.Encode(nil, []byte(in))
			if err != nil {
				t.Fatal(err)
			}
			text, err := c.Decode(nil, packed)
			if err != nil {
				t.Fatal(err)
			}
			var got any
			if err := json.Unmarshal(text, &got); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%T of %.40s (-want +got):\n%s", c, in, diff)
			}
			if n := strings.Count(string(text), ":"); n != members {
				t.Errorf("%T of %.40s has %d members, want %d", c, in, n, members)
			}
		}
	}
}

func TestUnpackingStopsAtALimit(t *testing.T) {
	decimal := "c4 82 19 0c 00 01" // six bytes that are three thousand digits
	tests := []struct {
		codec   codec.Expanding
		payload string
	}{
		{&codec.MsgPack{}, "dc 03 e8" + strings.Repeat("c2", 1000)},
		{&codec.MsgPack{}, "c5 03 e8" + strings.Repeat("00", 1000)},
		{&codec.MsgPack{}, "da 03 e8" + strings.Repeat("01", 1000)},
		{&codec.CBOR{}, "99 03 e8" + strings.Repeat(decimal, 1000)},
		{&codec.CBOR{}, "5f" + strings.Repeat("41 00", 1000) + "ff"},
		{&codec.CBOR{}, decimal},
	}
	for _, tt := range tests {
		payload := unhex(t, tt.payload)
		if out, err := tt.codec.DecodeWithin(nil, payload, 700); !errors.Is(err, codec.ErrLimit) || len(out) > 0 {
			t.Errorf("%T of %.20s: %d bytes and %v", tt.codec, tt.payload, len(out), err)
		}
		if out, err := tt.codec.DecodeWithin(nil, payload, 4<<20); err != nil || !json.Valid(out) {
			t.Errorf("%T of %.20s: %.20q and %v", tt.codec, tt.payload, out, err)
		}
	}
	bomb := unhex(t, "9a 00 00 55 f0"+strings.Repeat(decimal, 22_000))
	if _, err := new(codec.CBOR).Decode(nil, bomb); err == nil || !strings.Contains(err.Error(), "more than 64 MiB") {
		t.Errorf("132 KB that would be 67 MB: %v", err)
	}
}

// document draws JSON text of values that both formats have, each number in its shortest form.
func document(t *rapid.T, depth int) string {
	n := 6
	if depth > 4 {
		n = 4
	}
	switch rapid.IntRange(0, n).Draw(t, "kind") {
	case 0:
		return rapid.SampledFrom([]string{"null", "true", "false"}).Draw(t, "word")
	case 1:
		return rapid.SampledFrom([]string{"0", "23", "24", "-24", "-25", "127", "128", "-32", "-33", "-128", "-129", "255", "256", "65535",
			"65536", "-32768", "-32769", "4294967295", "4294967296", "-2147483649", "9007199254740993", "9223372036854775807",
			"-9223372036854775808", "18446744073709551615", "0.1", "-1.5e-7", "1.7976931348623157e+308"}).Draw(t, "number")
	case 2:
		out, _ := doc.Append(nil, rapid.Int64().Draw(t, "integer"))
		return string(out)
	case 3, 4:
		size := rapid.SampledFrom([]int{0, 3, 23, 24, 31, 32, 255, 256, 70_000}).Draw(t, "size")
		if size > 300 && depth > 0 {
			size = 30
		}
		s := rapid.StringN(0, 10, -1).Draw(t, "text")
		return string(doc.AppendString(nil, s+strings.Repeat("x", size)))
	}
	open, end, comma := "[", "]", ""
	keyed := rapid.Bool().Draw(t, "keyed")
	if keyed {
		open, end = "{", "}"
	}
	for i := range rapid.SampledFrom([]int{0, 1, 2, 15, 16, 24, 40}).Draw(t, "items") >> depth {
		open += comma
		if keyed {
			open += `"` + strings.Repeat("k", i%5) + string(rune('a'+i)) + `":`
		}
		open += document(t, depth+1)
		comma = ","
	}
	return open + end
}

func TestPackingRoundTrips(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := document(t, 0)
		for _, c := range []codec.Codec{&codec.MsgPack{}, &codec.CBOR{}} {
			packed, err := c.Encode(nil, []byte(want))
			if err != nil {
				t.Fatalf("%T of %s: %v", c, want, err)
			}
			got, err := c.Decode(nil, packed)
			if err != nil || string(got) != want {
				t.Fatalf("%T of %s: read back as %s, %v", c, want, got, err)
			}
		}
	})
}

// TestOthersReadWhatIsPacked compares with other implementations, in both directions.
func TestOthersReadWhatIsPacked(t *testing.T) {
	tests := []struct {
		codec     codec.Codec
		marshal   func(any) ([]byte, error)
		unmarshal func([]byte, any) error
	}{
		{&codec.MsgPack{}, msgpack.Marshal, msgpack.Unmarshal},
		{&codec.CBOR{}, cbor.Marshal, cbor.Unmarshal},
	}
	rapid.Check(t, func(t *rapid.T) {
		text := document(t, 0)
		for _, tt := range tests {
			packed, err := tt.codec.Encode(nil, []byte(text))
			if err != nil {
				t.Fatal(err)
			}
			var theirs any
			if err := tt.unmarshal(packed, &theirs); err != nil {
				t.Fatalf("%T of %s: the other says %v", tt.codec, text, err)
			}
			if got, err := asJSON(theirs); err != nil || got != canonical(t, text) {
				t.Fatalf("%T: the other reads %s, %v, want %s", tt.codec, got, err, text)
			}
			if packed, err = tt.marshal(theirs); err != nil {
				t.Fatal(err)
			}
			got, err := tt.codec.Decode(nil, packed)
			if err != nil || canonical(t, string(got)) != canonical(t, text) {
				t.Fatalf("%T: reads %s, %v of the other, want %s", tt.codec, got, err, text)
			}
		}
	})
}

func canonical(t *rapid.T, text string) string {
	v, err := doc.DecodeRaw([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	out, err := doc.Append(nil, v)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// asJSON is what another implementation has read, with sorted keys.
func asJSON(v any) (string, error) {
	out, err := doc.Append(nil, plain(v))
	return string(out), err
}

func plain(v any) any {
	switch v := v.(type) {
	case map[any]any:
		m := map[string]any{}
		for k, v := range v {
			m[k.(string)] = plain(v)
		}
		return m
	case map[string]any:
		for k := range v {
			v[k] = plain(v[k])
		}
	case []any:
		for i := range v {
			v[i] = plain(v[i])
		}
	case big.Int:
		return json.Number(v.String())
	}
	return v
}

func FuzzMsgPack(f *testing.F) {
	for _, tt := range packedValues {
		f.Add(unhex(f, tt.in))
	}
	f.Fuzz(func(t *testing.T, payload []byte) {
		decodedIsJSON(t, &codec.MsgPack{}, payload)
		if _, err := new(codec.MsgPack).Decode(nil, payload); err == nil {
			r := bytes.NewReader(payload)
			if theirs := msgpack.NewDecoder(r).Skip(); theirs != nil || r.Len() > 0 {
				t.Fatalf("%x is accepted, but the other says %v, with %d bytes left", payload, theirs, r.Len())
			}
		}
	})
}

func FuzzCBOR(f *testing.F) {
	for _, tt := range packedValues {
		f.Add(unhex(f, tt.in))
	}
	f.Fuzz(func(t *testing.T, payload []byte) {
		decodedIsJSON(t, &codec.CBOR{}, payload)
		if _, err := new(codec.CBOR).Decode(nil, payload); err == nil {
			if theirs := cbor.Wellformed(payload); theirs != nil && !strings.Contains(theirs.Error(), "nested") &&
				!strings.Contains(theirs.Error(), "exceeded max") {
				t.Fatalf("%x is accepted, but the other says %v", payload, theirs)
			}
		}
	})
}

// event is a payload as logs and events are: short fields of all kinds.
const event = `{"id":"0190a3e2-5f3c-7b1a-9c55-2f1d7d2f9a11","at":"2026-01-02T15:04:05.123Z","user":{"id":48213,"name":"Ada Lovelace",` +
	`"plan":"pro",` +
	`"tags":["a","b","c"]},"items":[{"sku":"a-1","qty":3,"price":12.5},{"sku":"b-2","qty":1,"price":99.95}],"total":137.45,"paid":true,` +
	`"note":null}`

func BenchmarkUnpack(b *testing.B) {
	for _, bb := range []struct {
		name      string
		codec     codec.Codec
		unmarshal func([]byte, any) error
	}{{"msgpack", &codec.MsgPack{}, msgpack.Unmarshal}, {"cbor", &codec.CBOR{}, cbor.Unmarshal}} {
		packed, err := bb.codec.Encode(nil, []byte(event))
		if err != nil {
			b.Fatal(err)
		}
		b.Run(bb.name, func(b *testing.B) {
			b.SetBytes(int64(len(packed)))
			b.ReportAllocs()
			dst := make([]byte, 0, 4096)
			for b.Loop() {
				if _, err := bb.codec.Decode(dst, packed); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(bb.name+", a library", func(b *testing.B) {
			b.SetBytes(int64(len(packed)))
			b.ReportAllocs()
			for b.Loop() {
				var v any
				if err := bb.unmarshal(packed, &v); err != nil {
					b.Fatal(err)
				}
				if _, err := doc.Append(nil, plain(v)); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkPack(b *testing.B) {
	for _, bb := range []struct {
		name    string
		codec   codec.Codec
		marshal func(any) ([]byte, error)
	}{{"msgpack", &codec.MsgPack{}, msgpack.Marshal}, {"cbor", &codec.CBOR{}, cbor.Marshal}} {
		b.Run(bb.name, func(b *testing.B) {
			b.SetBytes(int64(len(event)))
			b.ReportAllocs()
			dst := make([]byte, 0, 4096)
			for b.Loop() {
				if _, err := bb.codec.Encode(dst, []byte(event)); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(bb.name+", a library", func(b *testing.B) {
			b.SetBytes(int64(len(event)))
			b.ReportAllocs()
			for b.Loop() {
				v, err := doc.DecodeRaw([]byte(event))
				if err != nil {
					b.Fatal(err)
				}
				if _, err := bb.marshal(v); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func TestPackingAllocatesNothing(t *testing.T) {
	dst, text := make([]byte, 0, 4096), []byte(event)
	for _, c := range []codec.Codec{&codec.MsgPack{}, &codec.CBOR{}} {
		packed, err := c.Encode(nil, []byte(event))
		if err != nil {
			t.Fatal(err)
		}
		if n := testing.AllocsPerRun(100, func() { _, _ = c.Decode(dst, packed) }); n > 0 {
			t.Errorf("%T: decoding allocates %v times", c, n)
		}
		if n := testing.AllocsPerRun(100, func() { _, _ = c.Encode(dst, text) }); n > 1 { // with -race, pools forget
			t.Errorf("%T: encoding allocates %v times", c, n)
		}
	}
}
