package doc_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/flowd-io/flowd/engine/doc"
)

func open(text string) *doc.Doc {
	d := new(doc.Doc)
	d.Reset([]byte(text), new(doc.Arena))
	return d
}

func nested(opening, closing string, n int) string {
	return strings.Repeat(opening, n) + strings.Repeat(closing, n)
}

var accepted = []string{
	`{}`, `[]`, `null`, `true`, `false`, `0`, `-0`, `""`, ` {} `, "\t[\r\n]\n", `{ }`, `[ ]`,
	`1`, `-1`, `10`, `123456789012345678901234567890`, `0.5`, `-0.5`, `1.0`, `1e1`, `1E1`, `1e+1`, `1e-1`, `1.5e3`,
	`0e0`, `0E+9`, `0.0e-0`, `1e999`, `-1e-999`, `0.00000000000000000000000000001`,
	`"a"`, `"\""`, `"\\"`, `"\/"`, `"\b\f\n\r\t"`, `"\u0041"`, `"\u00e9"`, `"\uABCD"`, `"\uabcd"`, `"\u0000"`,
	`"\ud83d\ude00"`, `"\ud83d"`, `"\ude00"`, `"\ud83dx"`, `"\ud83d\ud83d\ude00"`, `"\\u0041"`,
	`"é"`, `"日本"`, `"😀"`, "\"\u007f\"", "\"\u2028\"", `"\uFFFF"`, "\"\uffff\"", "\"\U0010ffff\"",
	`"1234567"`, `"12345678"`, `"123456789"`, `"1234567\""`, `"12345678\\"`, `"1234567é"`, `"12345678é90"`,
	`[1]`, `[1,2]`, `[ 1 , 2 ]`, `[[]]`, `[[],[]]`, `[{}]`, `[null,true,false,"",0]`, `["a",["b",["c"]]]`,
	`{"a":1}`, `{"a":1,"b":2}`, `{ "a" : 1 , "b" : 2 }`, "{\n\t\"a\"\r:\n1\t}\n", `{"":0}`, `{"a":{}}`, `{"a":[]}`,
	`{"a":1,"a":2}`, `{"\u0061":1}`, `{"a b":1}`, `{"é":1}`, `{"a":"b","c":{"d":[1,{"e":null}]}}`,
	`{"a":-0.1e-10,"b":[true,false,null]}`, event, string(pretty()), string(large(2000)),
	nested("[", "]", 512), strings.Repeat(`{"a":`, 511) + `{}` + strings.Repeat("}", 511),
	"[" + strings.Repeat("[],", 2000) + "[]]",
}

// refused has invalid texts, with the offset and the text of the error.
var refused = []struct {
	text   string
	offset int
	msg    string
}{
	{``, 0, "the payload is empty"},
	{` `, 1, "unexpected end of document"},
	{"\ufeff{}", 0, "there is a byte order mark before the document"},
	{`{`, 1, "unexpected end of document"},
	{`[`, 1, "unexpected end of document"},
	{`{"a"`, 4, "unexpected end of document"},
	{`{"a":`, 5, "unexpected end of document"},
	{`{"a":1`, 6, "unexpected end of document"},
	{`{"a":1,`, 7, "unexpected end of document"},
	{`[1,`, 3, "unexpected end of document"},
	{`"a`, 2, "unexpected end of document"},
	{`"\`, 2, "unexpected end of document"},
	{`"\u12`, 5, "unexpected end of document"},
	{`-`, 1, "unexpected end of document"},
	{`1.`, 2, "unexpected end of document"},
	{`1e`, 2, "unexpected end of document"},
	{`1e+`, 3, "unexpected end of document"},
	{`tru`, 3, "unexpected end of document"},
	{`nul]`, 0, "expected null"},
	{`True`, 0, "expected a value"},
	{`[falsy]`, 1, "expected false"},
	{`nullx`, 4, "text after the document"},
	{`{}{}`, 2, "text after the document"},
	{`{} x`, 3, "text after the document"},
	{`[1]]`, 3, "text after the document"},
	{"{}\x00", 2, "text after the document"},
	{`1 2`, 2, "text after the document"},
	{`""""`, 2, "text after the document"},
	{`{a:1}`, 1, "expected a key in double quotes"},
	{`{'a':1}`, 1, "expected a key in double quotes"},
	{`{1:1}`, 1, "expected a key in double quotes"},
	{`{,}`, 1, "expected a key in double quotes"},
	{`{"a":1,}`, 7, "there is a comma before '}'"},
	{`{"a":1 , }`, 9, "there is a comma before '}'"},
	{`{"a":1,,"b":2}`, 7, "expected a key in double quotes"},
	{`{"a" 1}`, 5, "expected ':' after a key"},
	{`{"a";1}`, 4, "expected ':' after a key"},
	{`{"a"}`, 4, "expected ':' after a key"},
	{`{"a":}`, 5, "expected a value"},
	{`{"a"::1}`, 5, "expected a value"},
	{`{"a":1 "b":2}`, 7, "expected ',' or '}' after a value"},
	{`{"a":1]`, 6, "expected ',' or '}' after a value"},
	{`{"a":tru}`, 5, "expected true"},
	{`[1}`, 2, "expected ',' or ']' after a value"},
	{`[1 2]`, 3, "expected ',' or ']' after a value"},
	{`["a" "b"]`, 5, "expected ',' or ']' after a value"},
	{`[1:2]`, 2, "expected ',' or ']' after a value"},
	{`[1,]`, 3, "there is a comma before ']'"},
	{`[1 , ]`, 5, "there is a comma before ']'"},
	{`[,1]`, 1, "expected a value"},
	{`[1,,2]`, 3, "expected a value"},
	{`[{"a":]`, 6, "expected a value"},
	{`]`, 0, "expected a value"},
	{`}`, 0, "expected a value"},
	{`:`, 0, "expected a value"},
	{`'a'`, 0, "a string needs double quotes"},
	{`// c`, 0, "comments are not allowed"},
	{`[1, # c`, 4, "comments are not allowed"},
	{`NaN`, 0, "NaN and Infinity are not values"},
	{`[Infinity]`, 1, "NaN and Infinity are not values"},
	{`+1`, 0, "a number must begin with a digit or '-'"},
	{`.5`, 0, "a number must begin with a digit or '-'"},
	{`01`, 0, "a number has a leading zero"},
	{`-01`, 1, "a number has a leading zero"},
	{`00`, 0, "a number has a leading zero"},
	{`{"a":007}`, 5, "a number has a leading zero"},
	{`-a`, 1, "expected a digit after '-'"},
	{`--1`, 1, "expected a digit after '-'"},
	{`-Infinity`, 1, "expected a digit after '-'"},
	{`[1.]`, 3, "expected a digit after '.'"},
	{`[1.e5]`, 3, "expected a digit after '.'"},
	{`[1e]`, 3, "expected a digit in the exponent"},
	{`[1e+]`, 4, "expected a digit in the exponent"},
	{`1.2.3`, 3, "text after the document"},
	{`0x10`, 1, "text after the document"},
	{`1_000`, 1, "text after the document"},
	{`"\x41"`, 2, "unknown escape in a string"},
	{`"\'"`, 2, "unknown escape in a string"},
	{`"1234567\a"`, 9, "unknown escape in a string"},
	{`"\u00g0"`, 5, `\u needs four hexadecimal digits`},
	{`"\u12"`, 5, `\u needs four hexadecimal digits`},
	{"\"\t\"", 1, "a control character in a string must be escaped"},
	{"\"a\nb\"", 2, "a control character in a string must be escaped"},
	{"\"12345678\x00\"", 9, "a control character in a string must be escaped"},
	{"\"12345678\x1f12345678\"", 9, "a control character in a string must be escaped"},
	{"\"\xff\"", 1, "invalid UTF-8"},
	{"\"a\xc3\"", 2, "invalid UTF-8"},
	{"\"é\xe6\x97\"", 3, "invalid UTF-8"},
	{"\"\xed\xa0\x80\"", 1, "invalid UTF-8"},           // a surrogate
	{"\"\xc0\xaf\"", 1, "invalid UTF-8"},               // an overlong encoding
	{"\"\xf4\x90\x80\x80\"", 1, "invalid UTF-8"},       // beyond Unicode
	{"\"12345678\x80345678\"", 9, "invalid UTF-8"},     // a continuation byte without a first byte
	{"{\"\xff\":1}", 2, "invalid UTF-8"},               // in a key
	{"[1,\xff]", 3, "expected a value"},                // outside strings
	{"{\"a\"\u00a0:1}", 4, "expected ':' after a key"}, // white space that JSON does not allow
	{"[1\v]", 2, "expected ',' or ']' after a value"},
	{"\f1", 0, "expected a value"},
	{nested("[", "]", 513), 512, "nested deeper than 512"},
	{strings.Repeat(`{"a":`, 512) + `{}`, 5 * 512, "nested deeper than 512"},
	{strings.Repeat("[", 1e6), 512, "nested deeper than 512"},
	{strings.Repeat(`{"a":[`, 1e5), 6 * 256, "nested deeper than 512"},
}

func TestDocumentsAreAccepted(t *testing.T) {
	for _, text := range accepted {
		if err := open(text).Valid(); err != nil {
			t.Errorf("%.60q: %v", text, err)
		}
		if !json.Valid([]byte(text)) {
			t.Errorf("%.60q: encoding/json refuses it", text)
		}
	}
}

func TestOtherTextIsRefusedWithPlaceAndReason(t *testing.T) {
	for _, tt := range refused {
		err := open(tt.text).Valid()
		var e *doc.SyntaxError
		if !errors.As(err, &e) {
			t.Errorf("%.60q: got %v, want a SyntaxError", tt.text, err)
			continue
		}
		if e.Offset != tt.offset || e.Msg != tt.msg {
			t.Errorf("%.60q: got %q at byte %d, want %q at byte %d", tt.text, e.Msg, e.Offset, tt.msg, tt.offset)
		}
		if len(tt.text) < 1000 && utf8.ValidString(tt.text) && json.Valid([]byte(tt.text)) &&
			!strings.Contains(tt.msg, "512") {
			t.Errorf("%.60q: encoding/json accepts it", tt.text)
		}
	}
}

func TestAnErrorReadsAsASentence(t *testing.T) {
	for text, want := range map[string]string{
		``:          "not a JSON document: the payload is empty",
		`{"a" 1}`:   "not a JSON document: expected ':' after a key at byte 5",
		`{"a":[1,2`: "not a JSON document: unexpected end of document at byte 9",
	} {
		if got := open(text).Valid(); got == nil || got.Error() != want {
			t.Errorf("%q: got %v, want %s", text, got, want)
		}
	}
}

func TestATruncatedDocumentIsRefusedAtItsEnd(t *testing.T) {
	texts := []string{event, string(pretty()),
		`{"a":"\u00e9\n","é":[1.5e-3,-0,true,false,null,{"b":[]}],"日本":"12345678"}`, `[[[]]]`}
	for _, text := range texts {
		for n := 1; n < len(text); n++ {
			err := open(text[:n]).Valid()
			var e *doc.SyntaxError
			if !errors.As(err, &e) {
				t.Fatalf("the first %d bytes of %.40q are accepted", n, text)
			}
			if cut := !utf8.ValidString(text[:n]); e.Offset != n && !cut {
				t.Errorf("the first %d bytes of %.40q: wrong at %d", n, text, e.Offset)
			}
		}
	}
}

func TestEveryByteOfADocumentIsChecked(t *testing.T) {
	for _, c := range []byte{0, '"', '\\', '{', ']', 'x', ' ', 0x80, 0xff} {
		for i := range len(event) {
			data := []byte(event)
			data[i] = c
			if got, want := open(string(data)).Valid() == nil, json.Valid(data) && utf8.Valid(data); got != want {
				t.Errorf("byte %d is %q: got valid %v, want %v", i, c, got, want)
			}
		}
	}
}

func TestAnInvalidDocumentGivesTheSameErrorEverywhere(t *testing.T) {
	p := doc.MustParsePath("a")
	calls := map[string]func(*doc.Doc) error{
		"Get":    func(d *doc.Doc) error { _, err := d.Get(p); return err },
		"Raw":    func(d *doc.Doc) error { _, _, err := d.Raw(p); return err },
		"Value":  func(d *doc.Doc) error { _, err := d.Value(); return err },
		"Set":    func(d *doc.Doc) error { return d.Set(p, 1) },
		"Unset":  func(d *doc.Doc) error { return d.Unset(p) },
		"Rename": func(d *doc.Doc) error { return d.Rename(p, doc.MustParsePath("b")) },
		"Keep":   func(d *doc.Doc) error { return d.Keep([]doc.Path{p}) },
		"Each": func(d *doc.Doc) error {
			for _, err := range d.Each(p) {
				return err
			}
			return nil
		},
	}
	for name, call := range calls {
		d := open(`{"a":[1`)
		var e *doc.SyntaxError
		if err := call(d); !errors.As(err, &e) || e.Offset != 7 {
			t.Errorf("%s: got %v, want a SyntaxError at byte 7", name, err)
		}
		if string(d.Bytes()) != `{"a":[1` {
			t.Errorf("%s changed the payload to %s", name, d.Bytes())
		}
	}
	d := open(`nonsense`)
	if err := d.SetValue(map[string]any{"a": 1}); err != nil || string(d.Bytes()) != `{"a":1}` {
		t.Errorf("SetValue: got %s and %v, want the new document", d.Bytes(), err)
	}
}
