package doc_test

import (
	"errors"
	"math"
	"reflect"
	"testing"
	"unicode/utf8"

	"github.com/flowd-io/flowd/engine/doc"
)

func TestGet(t *testing.T) {
	tests := []struct {
		name, text, path string
		want             any
	}{
		{"a field", `{"a":1,"b":2}`, "b", 2},
		{"a missing field is nil", `{"a":1}`, "b", nil},
		{"null is nil", `{"a":null}`, "a", nil},
		{"true", `{"a":true}`, "a", true},
		{"false", `{"a":false}`, "a", false},
		{"a nested field", `{"a":{"b":{"c":"x"}}}`, "a.b.c", "x"},
		{"a missing parent is nil", `{"a":1}`, "x.y.z", nil},
		{"a scalar has no fields", `{"a":"s"}`, "a.b", nil},
		{"an element", `{"a":[10,20,30]}`, "a[1]", 20},
		{"an element of an element", `{"a":[[1],[2,3]]}`, "a[1][1]", 3},
		{"a field of an element", `{"items":[{"qty":5}]}`, "items[0].qty", 5},
		{"an index past the end is nil", `{"a":[1]}`, "a[99]", nil},
		{"an index of an object is nil", `{"a":{"0":1}}`, "a[0]", nil},
		{"a key of an array is nil", `{"a":[1]}`, "a.b", nil},
		{"an element of an empty array", `{"a":[ ]}`, "a[0]", nil},
		{"a field of an empty object", `{"a":{ }}`, "a.b", nil},
		{"the root is an array", `[1,{"a":2}]`, "[1].a", 2},
		{"the root is an array, which has no fields", `[1]`, "a", nil},
		{"the root is an object, which has no elements", `{"a":1}`, "[0]", nil},
		{"the root is a scalar", `5`, "a", nil},
		{"the whole document", ` {"a":[1]} `, "", map[string]any{"a": []any{1}}},
		{"the whole scalar", ` "x" `, "", "x"},
		{"white space everywhere", "{ \"a\" :\n { \"b\" : [ 1 , 2 ] } }", "a.b[1]", 2},

		{"the last of equal keys counts", `{"a":1,"a":2}`, "a", 2},
		{"the last of nested equal keys counts", `{"o":{"a":1,"a":2}}`, "o.a", 2},
		{"the last parent counts, with all below it", `{"a":{"b":1},"a":{"c":2}}`, "a.b", nil},
		{"a null that comes last hides what is before", `{"a":{"b":1},"a":null}`, "a.b", nil},
		{"equal keys in a decoded value", `{"o":{"a":1,"a":2}}`, "o", map[string]any{"a": 2}},
		{"keys compare unescaped", `{"\u0061b":1}`, "ab", 1},
		{"an escaped key is equal to a plain one", `{"a":1,"\u0061":2}`, "a", 2},
		{"a plain key is equal to an escaped one", `{"\u0061":2,"a":1}`, "a", 1},
		{"nested keys compare unescaped", `{"o":{"\u0061":1}}`, "o.a", 1},
		{"a backslash in a name", `{"a\\b":1}`, `["a\\b"]`, 1},
		{"source text is no name", `{"a\\b":1}`, `["a\\\\b"]`, nil},
		{"an odd name", `{"odd name":1}`, `["odd name"]`, 1},
		{"an empty name", `{"":1}`, `[""]`, 1},
		{"a name in another script", `{"größe":1}`, `größe`, 1},
		{"a quote in a name", `{"a\"b":1}`, `["a\"b"]`, 1},

		{"zero", `0`, "", 0},
		{"minus zero is the integer 0", `-0`, "", 0},
		{"minus zero with a point is a float", `-0.0`, "", math.Copysign(0, -1)},
		{"a negative integer", `-17`, "", -17},
		{"the largest int", `9223372036854775807`, "", math.MaxInt64},
		{"the smallest int", `-9223372036854775808`, "", math.MinInt64},
		{"one beyond the largest int", `9223372036854775808`, "", doc.Number("9223372036854775808")},
		{"one beyond the smallest int", `-9223372036854775809`, "", doc.Number("-9223372036854775809")},
		{"beyond uint64", `18446744073709551616`, "", doc.Number("18446744073709551616")},
		{"a very long integer", `123456789012345678901234567890`, "", doc.Number("123456789012345678901234567890")},
		{"an exponent makes a float", `1e3`, "", 1000.0},
		{"a point makes a float", `1.0`, "", 1.0},
		{"a fraction", `-12.75`, "", -12.75},
		{"the largest float", `1.7976931348623157e308`, "", math.MaxFloat64},
		{"the smallest float", `5e-324`, "", 5e-324},
		{"zero with an exponent", `0.0e-999`, "", 0.0},

		{"an empty string", `""`, "", ""},
		{"short escapes", `"\"\\\/\b\f\n\r\t"`, "", "\"\\/\b\f\n\r\t"},
		{"a code point", `"\u00e9\u65E5"`, "", "é日"},
		{"a surrogate pair", `"x\ud83d\ude00y"`, "", "x😀y"},
		{"beside a lone surrogate", `{"a":"\ud83d","b":1}`, "b", 1},
		{"an escaped backslash before u", `"\\u0041"`, "", `\u0041`},
		{"brackets and quotes in strings", `{"a":"}],{[\"","b":["]",{"c":"}"}]}`, "b[1].c", "}"},
		{"a list", `[1,"a",null,true,1.5,[],{}]`, "", []any{1, "a", nil, true, 1.5, []any{}, map[string]any{}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := open(tt.text).Get(doc.MustParsePath(tt.path))
			if err != nil || !reflect.DeepEqual(got, tt.want) {
				t.Errorf("got %#v and %v, want %#v", got, err, tt.want)
			}
			if f, ok := got.(float64); ok && math.Signbit(f) != math.Signbit(tt.want.(float64)) {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
}

// A lone surrogate is half of a character. No text can contain it, so reading it is an error.
func TestALoneSurrogatePassesButCannotBeRead(t *testing.T) {
	const says = "the text has half of a character, the surrogate "
	tests := []struct{ text, path, want string }{
		{`{"a":"\ud83d!"}`, "a", "a: " + says + `\ud83d`},
		{`{"a":"\uDE00"}`, "a", "a: " + says + `\uDE00`},
		{`{"a":"\ud83d\ud83d\ude00"}`, "", says + `\ud83d`},
		{`{"a":["\\","\ud83d\u0041"]}`, "a", "a: " + says + `\ud83d`},
		{`{"\ud83d":1}`, "", says + `\ud83d`},
		{`{"a":"x\ud83d"}`, "a[0]", "a[0]: " + says + `\ud83d`},
	}
	for _, tt := range tests {
		d := open(tt.text)
		_, err := d.Get(doc.MustParsePath(tt.path))
		if _, ok := errors.AsType[*doc.ValueError](err); !ok || err.Error() != tt.want+" (correct it at its source)" {
			t.Errorf("%s of %s: got %v, want %s", tt.path, tt.text, err, tt.want)
		}
		if string(d.Bytes()) != tt.text {
			t.Errorf("%s became %s", tt.text, d.Bytes())
		}
	}
	if a, b := doc.Unquote([]byte(`"\ud800"`)), doc.Unquote([]byte(`"\ud801"`)); a == b || utf8.ValidString(a) {
		t.Errorf("%q and %q are taken for text", a, b)
	}
}

func TestANumberOutOfRangePassesButCannotBeRead(t *testing.T) {
	tests := []struct{ text, path, want string }{
		{`{"a":1e999}`, "a", "a: the number 1e999 is out of range"},
		{`{"a":-1e999,"b":1}`, "", "the number -1e999 is out of range"},
		{`{"a":{"b":[1,-0.1e-400]}}`, "a.b[1]", "a.b[1]: the number -0.1e-400 is out of range"},
		{`{"a":{"b":[1,1e400]}}`, "a.b[1]", "a.b[1]: the number 1e400 is out of range"},
	}
	for _, tt := range tests {
		d := open(tt.text)
		_, err := d.Get(doc.MustParsePath(tt.path))
		var e *doc.ValueError
		if !errors.As(err, &e) || err.Error() != tt.want {
			t.Errorf("%s: got %v, want %s", tt.text, err, tt.want)
		}
		if err := d.Set(doc.MustParsePath("c"), 1); err != nil {
			t.Error(err)
		}
		if got, want := string(d.Bytes()), tt.text[:len(tt.text)-1]+`,"c":1}`; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

func TestRawIsTheSourceText(t *testing.T) {
	d := open(` {"a": 1.50 , "b":{"c" : [ 1e3,"\u0041" ]}, "n":null} `)
	tests := []struct {
		path, want string
		kind       doc.ValueKind
	}{
		{"a", "1.50", doc.Numeric},
		{"b", `{"c" : [ 1e3,"\u0041" ]}`, doc.Object},
		{"b.c", `[ 1e3,"\u0041" ]`, doc.Array},
		{"b.c[0]", "1e3", doc.Numeric},
		{"b.c[1]", `"\u0041"`, doc.String},
		{"n", "null", doc.Null},
		{"", `{"a": 1.50 , "b":{"c" : [ 1e3,"\u0041" ]}, "n":null}`, doc.Object},
		{"x", "", doc.Missing},
	}
	for _, tt := range tests {
		raw, ok, err := d.Raw(doc.MustParsePath(tt.path))
		if string(raw) != tt.want || ok != (tt.want != "") || err != nil {
			t.Errorf("%q: got %s, %v, %v, want %s", tt.path, raw, ok, err, tt.want)
		}
		if k := doc.Kind(raw); k != tt.kind {
			t.Errorf("%q: got %v, want %v", tt.path, k, tt.kind)
		}
	}
}

func TestEachYieldsTheElementsOfAnArray(t *testing.T) {
	tests := []struct {
		name, text, path string
		want             []string
		err              string
	}{
		{"elements keep their spelling", `{"a":[ 1.0, "x,]" ,{"b":[2]},[ ] ]}`, "a",
			[]string{"1.0", `"x,]"`, `{"b":[2]}`, "[ ]"}, ""},
		{"an empty array has none", `{"a":[]}`, "a", nil, ""},
		{"a missing array has none", `{}`, "a", nil, ""},
		{"null has none", `{"a":null}`, "a", nil, ""},
		{"the document itself", ` [1,2] `, "", []string{"1", "2"}, ""},
		{"an object is none", `{"a":{}}`, "a", nil, "a: it is an object, not an array"},
		{"a string is none", `"x"`, "", nil, "it is a string, not an array"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var got []string
			var text string
			for raw, err := range open(tt.text).Each(doc.MustParsePath(tt.path)) {
				if err != nil {
					text = err.Error()
					continue
				}
				got = append(got, string(raw))
			}
			if !reflect.DeepEqual(got, tt.want) || text != tt.err {
				t.Errorf("got %q and %q, want %q and %q", got, text, tt.want, tt.err)
			}
		})
	}
	for range open(`[1,2]`).Each(doc.Path{}) {
		break // stopping early is allowed
	}
}

func TestTheEmptyPathReadsEdits(t *testing.T) {
	d := open(`{"a":1}`)
	if err := d.Set(doc.MustParsePath("b"), 2); err != nil {
		t.Fatal(err)
	}
	if raw, _, _ := d.Raw(doc.Path{}); string(raw) != `{"a":1,"b":2}` {
		t.Errorf("got %s", raw)
	}
	if v, _ := d.Value(); !reflect.DeepEqual(v, map[string]any{"a": 1, "b": 2}) {
		t.Errorf("got %v", v)
	}
}

func TestPeekFindsWhatRawFinds(t *testing.T) {
	tests := []struct{ name, text, path, want string }{
		{"a field", `{"a":1,"b":2}`, "b", "2"},
		{"with space around it", " { \"a\" : \"x\" , \"b\" : 2 } ", "a", `"x"`},
		{"a field of a field", `{"x":1,"a":{"b":"c","a":2}}`, "a.b", `"c"`},
		{"an element", `{"a":[1,2]}`, "a[1]", "2"},
		{"the last of several", `{"a":1,"a":2}`, "a", "2"},
		{"the last of several, with escapes", `{"a":1,"\u0061":2}`, "a", "2"},
		{"behind a text that looks like it", `{"b":"\"a\":3,","a":2}`, "a", "2"},
		{"behind a text of its name", `{"b":"a","a":2}`, "a", "2"},
		{"not one that lies deeper", `{"b":{"a":1},"a":2}`, "a", "2"},
		{"not one that lies deeper, behind it", `{"a":2,"b":{"a":1}}`, "a", "2"},
		{"behind braces in a text", `{"b":"}{","a":2}`, "a", "2"},
		{"a name within another", `{"ba":1,"ab":2,"a":3}`, "a", "3"},
		{"a name of signs", `{"b":":","a":1,":":2}`, `[":"]`, "2"},
		{"a name that is not ASCII", `{"é":2}`, "é", "2"},
		{"only a deeper one", `{"b":{"a":1}}`, "a", ""},
		{"a text of its name only", `{"b":"a"}`, "a", ""},
		{"an index of an object", `{"":1}`, "[0]", ""},
		{"an array", `[{"a":1}]`, "[0]", ""},
		{"nothing", ``, "a", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			raw, ok := open(tt.text).Peek(doc.MustParsePath(tt.path))
			if string(raw) != tt.want || ok != (tt.want != "") {
				t.Errorf("got %s, %v, want %s", raw, ok, tt.want)
			}
		})
	}
}
