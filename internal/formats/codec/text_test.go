package codec_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"

	burnt "github.com/BurntSushi/toml"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/flowd-io/flowd/engine/doc"
	"github.com/flowd-io/flowd/internal/formats/codec"
)

var textValues = []struct {
	name    string
	codec   codec.Codec
	in      string
	want    string
	encoded string // "" is in
}{
	{"ltsv", &codec.LTSV{}, "host:10.0.0.1\ttime:[10/Oct/2026:13:55:36 +0000]\tua:",
		`{"host":"10.0.0.1","time":"[10/Oct/2026:13:55:36 +0000]","ua":""}`, ""},
	{"ltsv with empty fields and an end of line", &codec.LTSV{Numbers: true}, "\ta:1\t\tb:x\t\r\n", `{"a":1,"b":"x"}`, "a:1\tb:x"},
	{"ltsv with a label twice", &codec.LTSV{}, "a:1\tb:2\ta:3", `{"a":["1","3"],"b":"2"}`, "a:1\ta:3\tb:2"},

	{"a form", &codec.Form{}, "name=Ada+Lovelace&mail=a%40b.example&note=", `{"name":"Ada Lovelace","mail":"a@b.example","note":""}`, ""},
	{"a form with a repeated field", &codec.Form{Numbers: true}, "a=1&b=x&a=2", `{"a":[1,2],"b":"x"}`, "a=1&a=2&b=x"},
	{"a form with bare and empty fields", &codec.Form{}, "&a&&b==c&\n", `{"a":"","b":"=c"}`, "a=&b=%3Dc"},
	{"names of a form are kept", &codec.Form{}, "a%5Bb%5D=1&a.b=2", `{"a[b]":"1","a.b":"2"}`, ""},

	{"ini", &codec.INI{}, "top = 1\n\n[server]\nhost = a.example\nport = 80\n\n[client \"x\"]\nurl = http://b/?c=d\n",
		`{"top":"1","server":{"host":"a.example","port":"80"},"client \"x\"":{"url":"http://b/?c=d"}}`, ""},
	{"ini with comments, colons and bare keys", &codec.INI{Numbers: true},
		"\ufeff; comment\n# comment\n[a]\r\nb: 7 ; not a comment\nskip\n  c=8  \n",
		`{"a":{"b":"7 ; not a comment","skip":true,"c":8}}`, "[a]\nb = 7 ; not a comment\nskip = true\nc = 8\n"},
	{"ini with quotes", &codec.INI{}, "a = \" x\\n\\\"y\\\" \"\nb = \"x\" y\n", `{"a":" x\n\"y\" ","b":"\"x\" y"}`,
		"a = \" x\\n\\\"y\\\" \"\nb = \"\\\"x\\\" y\"\n"},
	{"ini with a section and a key that come twice", &codec.INI{}, "[a]\nx=1\n[b]\n[a]\nx=2\ny=3\n", `{"a":{"x":["1","2"],"y":"3"},"b":{}}`,
		"[a]\nx = 1\nx = 2\ny = 3\n\n[b]\n"},
	{"ini of nothing", &codec.INI{}, "\n", `{}`, "-"},

	{"toml", &codec.TOML{}, "a = 1\nb = 'x'\n\n[c]\nd = [1.5, 2.0]\n", `{"a":1,"b":"x","c":{"d":[1.5,2]}}`,
		"a = 1\nb = 'x'\n\n[c]\nd = [1.5, 2]\n"},
	{"toml with numbers", &codec.TOML{}, "a = 9007199254740993\nb = 0xff\nc = 1_000\nd = -9223372036854775808\n",
		`{"a":9007199254740993,"b":255,"c":1000,"d":-9223372036854775808}`,
		"a = 9007199254740993\nb = 255\nc = 1000\nd = -9223372036854775808\n"},
	{"toml with dates", &codec.TOML{}, "a = 1979-05-27T07:32:00.5-08:00\nb = 1979-05-27T07:32:00\nc = 1979-05-27\nd = 07:32:00.25\n",
		`{"a":"1979-05-27T07:32:00.5-08:00","b":"1979-05-27T07:32:00","c":"1979-05-27","d":"07:32:00.25"}`,
		"a = '1979-05-27T07:32:00.5-08:00'\nb = '1979-05-27T07:32:00'\nc = '1979-05-27'\nd = '07:32:00.25'\n"},
	{"toml with dotted keys and lists of tables", &codec.TOML{}, "a.b.c = true\n[[x]]\ny = 1\n[[x]]\ny = 2\n",
		`{"a":{"b":{"c":true}},"x":[{"y":1},{"y":2}]}`,
		"[a]\n[a.b]\nc = true\n\n[[x]]\ny = 1\n\n[[x]]\ny = 2\n"},
	{"toml of nothing", &codec.TOML{}, "", `{}`, "-"},

	{"cef", &codec.CEF{}, `CEF:0|Security|threatmanager|1.0|100|worm successfully stopped|10|src=10.0.0.1 dst=2.1.2.2 msg=Detected a ` +
		`threat. No action needed. spt=1232`,
		`{"cefVersion":"0","deviceVendor":"Security","deviceProduct":"threatmanager","deviceVersion":"1.0","deviceEventClassId":"100",` +
			`"name":"worm successfully stopped","severity":"10",` +
			`"extension":{"src":"10.0.0.1","dst":"2.1.2.2","msg":"Detected a threat. No action needed.","spt":"1232"}}`, ""},
	{"cef with escapes", &codec.CEF{}, `CEF:1|a\|b|c\\d|||n=m|High|act=blocked a \= \\ b\nc cs1Label=x y cs1=`,
		`{"cefVersion":"1","deviceVendor":"a|b","deviceProduct":"c\\d","deviceVersion":"","deviceEventClassId":"","name":"n=m",` +
			`"severity":"High",` +
			`"extension":{"act":"blocked a = \\ b\nc","cs1Label":"x y","cs1":""}}`, ""},
	{"cef with = that nobody escaped", &codec.CEF{Numbers: true}, `CEF:0|a|b|1|2|c|3|request=http://x/?q=1&r=2 spt=80`,
		`{"cefVersion":0,"deviceVendor":"a","deviceProduct":"b","deviceVersion":1,"deviceEventClassId":2,"name":"c","severity":3,` +
			`"extension":{"request":"http://x/?q=1&r=2","spt":80}}`,
		`CEF:0|a|b|1|2|c|3|request=http://x/?q\=1&r\=2 spt=80`},
	{"cef with = in a value that looks like a key", &codec.CEF{Numbers: true}, "CEF:0|a|b|1|2|c|3|a=b=c d=e=f=",
		`{"cefVersion":0,"deviceVendor":"a","deviceProduct":"b","deviceVersion":1,"deviceEventClassId":2,"name":"c","severity":3,` +
			`"extension":{"a":"b=c","d":"e=f="}}`,
		`CEF:0|a|b|1|2|c|3|a=b\=c d=e\=f\=`},
	{"cef after a header of syslog", &codec.CEF{}, "<134>Feb 14 19:04:54 fw CEF:0|a|b|1|2|c|3|\n",
		`{"prefix":"<134>Feb 14 19:04:54 fw","cefVersion":"0","deviceVendor":"a","deviceProduct":"b","deviceVersion":"1",` +
			`"deviceEventClassId":"2","name":"c","severity":"3","extension":{}}`,
		"<134>Feb 14 19:04:54 fw CEF:0|a|b|1|2|c|3|"},
	{"cef without a bar at the end", &codec.CEF{}, "CEF:0|a|b|1|2|c|3",
		`{"cefVersion":"0","deviceVendor":"a","deviceProduct":"b","deviceVersion":"1","deviceEventClassId":"2","name":"c","severity":"3",` +
			`"extension":{}}`, "CEF:0|a|b|1|2|c|3|"},
	{"cef with a key that comes twice", &codec.CEF{}, "CEF:0|a|b|1|2|c|3|x=1 y=2 x=3  z=4 ",
		`{"cefVersion":"0","deviceVendor":"a","deviceProduct":"b","deviceVersion":"1","deviceEventClassId":"2","name":"c","severity":"3",` +
			`"extension":{"x":["1","3"],"y":"2","z":"4"}}`,
		"CEF:0|a|b|1|2|c|3|x=1 x=3 y=2 z=4"},
}

func TestTextFormats(t *testing.T) {
	for _, tt := range textValues {
		t.Run(tt.name, func(t *testing.T) {
			got, err := tt.codec.Decode([]byte("kept:"), []byte(tt.in))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff("kept:"+tt.want, string(got)); diff != "" {
				t.Errorf("Decode (-want +got):\n%s", diff)
			}
			want := tt.in
			if tt.encoded != "" {
				want = strings.TrimPrefix(tt.encoded, "-")
			}
			if got, err = tt.codec.Encode([]byte("kept:"), []byte(tt.want)); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff("kept:"+want, string(got)); diff != "" {
				t.Errorf("Encode (-want +got):\n%s", diff)
			}
		})
	}
}

// TestManyEqualKeysAreLists has as many keys as are looked up in a map.
func TestManyEqualKeysAreLists(t *testing.T) {
	in, want := "", "{"
	for i := range 40 {
		in += fmt.Sprintf("k%d=0 ", i)
		want += fmt.Sprintf(`"k%d":["0",%q],`, i, strconv.Itoa(i))
	}
	for i := range 40 {
		in += fmt.Sprintf("k%d=%d ", i, i)
	}
	got, err := new(codec.KV).Decode(nil, []byte(in))
	if want = strings.TrimSuffix(want, ",") + "}"; err != nil || string(got) != want {
		t.Errorf("%s, %v, want %s", got, err, want)
	}
}

func TestTextThatIsNotOfTheFormat(t *testing.T) {
	tests := []struct {
		name  string
		codec codec.Codec
		in    string
		want  string
	}{
		{"ltsv without a label", &codec.LTSV{}, "a:1\tb", `ltsv: "b" has no label`},
		{"ltsv with an empty label", &codec.LTSV{}, ":1", `ltsv: ":1" has no label`},
		{"two lines of ltsv", &codec.LTSV{}, "a:1\nb:2", "split the lines first"},
		{"ltsv that is not UTF-8", &codec.LTSV{}, "a:\xff", `ltsv: field "a" is not valid UTF-8`},
		{"a form with half an escape", &codec.Form{}, "a=1&b=%4", `form: "b=%4": invalid URL escape "%4"`},
		{"a form that is not UTF-8", &codec.Form{}, "a=%ff", `form: field "a" is not valid UTF-8`},
		{"a list of a form that is not UTF-8", &codec.Form{}, "a=1&a=%ff", `form: field "a" is not valid UTF-8`},
		{"an ini section without an end", &codec.INI{}, "a = 1\n[b\n", `ini: line 2: "[b" is not a section`},
		{"an ini section without a name", &codec.INI{}, "[ ]", "ini: line 1: "},
		{"an ini value without a key", &codec.INI{}, "\n= 1", `ini: line 2: there is no key before "="`},
		{"an ini section with the name of a key", &codec.INI{}, "a = 1\n[a]\n", `ini: line 2: section "a" has the name of a key`},
		{"ini that is not UTF-8", &codec.INI{}, "a = \xff", `ini: field "a" is not valid UTF-8`},
		{"broken toml", &codec.TOML{}, "a = 1\nb = [1,\n", "toml: line 2, column "},
		{"a toml key twice", &codec.TOML{}, "a = 1\na = 2\n", "toml: line 2"},
		{"a toml number without an end", &codec.TOML{}, "[a]\nb = inf\n", "toml: a.b: +Inf is not a JSON number"},
		{"a toml integer beyond 64 bits", &codec.TOML{}, "a = 9223372036854775808", "toml: line 1"},
		{"a toml list that is deep", &codec.TOML{}, "a = " + strings.Repeat("[", 600) + strings.Repeat("]", 600), "nested deeper than 512"},
		{"a toml list that is very deep", &codec.TOML{}, "a = " + strings.Repeat("[", 1_000_000), "toml: line 1"},
		{"a toml key of many parts", &codec.TOML{}, strings.Repeat("a.", 500_000) + "a = 1", "toml: nested deeper than 512"},
		{"a toml key of many parts in a table", &codec.TOML{}, "x = {" + strings.Repeat("a.", 500_000) + "a = 1}",
			"toml: nested deeper than 512"},
		{"a toml table of many parts", &codec.TOML{}, "x = 1\n  [" + strings.Repeat("a.", 500_000) + "a]", "toml: nested deeper than 512"},
		{"toml with very many keys", &codec.TOML{}, "x = [" + strings.Repeat("{a = 1},", 20_000) + "]", "toml: has more than 10000 keys"},
		{"toml with very many tables", &codec.TOML{}, strings.Repeat("[[a]]\n", 20_000), "toml: has more than 10000 keys"},
		{"no cef", &codec.CEF{}, "hello", `cef: the event lacks "CEF:"`},
		{"cef with a short header", &codec.CEF{}, "CEF:0|a|b|1|2|c", "cef: there is no | after name"},
		{"cef without an extension", &codec.CEF{}, "CEF:0|a|b|1|2|c|3|hello", `cef: "hello" is not an extension`},
		{"cef with text before the extension", &codec.CEF{}, "CEF:0|a|b|1|2|c|3|hello a=b", `cef: "hello a=b" is not an extension`},
		{"cef that is not UTF-8", &codec.CEF{}, "CEF:0|a|b|1|2|c|3|a=\xff", `cef: field "a" is not valid UTF-8`},
	}
	for _, tt := range tests {
		got, err := tt.codec.Decode(nil, []byte(tt.in))
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %.80q and %v, want an error with %q", tt.name, got, err, tt.want)
		}
	}
	dots := "a = \"" + strings.Repeat(".", 600) + "\"\nb = [\n [" + strings.Repeat("1.5, ", 600) + "1.5]\n]\n"
	if _, err := new(codec.TOML).Decode(nil, []byte(dots)); err != nil {
		t.Errorf("dots outside of keys are refused: %v", err)
	}
}

func TestWhatTextFormatsCantSay(t *testing.T) {
	tests := []struct {
		codec    codec.Codec
		in, want string
	}{
		{&codec.LTSV{}, `[1]`, "ltsv: a list is not an object"},
		{&codec.LTSV{}, `{"a:b":1}`, `ltsv: "a:b" can't be a label`},
		{&codec.LTSV{}, `{"a":1,"b":"x\ty"}`, `ltsv: the value of "b" has a tab`},
		{&codec.Form{}, `1`, "form: a number is not an object"},
		{&codec.INI{}, `"a"`, "ini: text is not an object"},
		{&codec.INI{}, `{"a":{"b":[1]}}`, "ini: a.b: a list has no place in INI"},
		{&codec.INI{}, `{"a":{"b":{}}}`, "ini: a.b: an object has no place in INI"},
		{&codec.INI{}, `{"a=b":1}`, "ini: a=b: can't be a key of INI"},
		{&codec.INI{}, `{"#a":1}`, "ini: #a: can't be a key of INI"},
		{&codec.INI{}, `{" a":{}}`, `ini: " a" can't be the name of a section`},
		{&codec.TOML{}, `[1]`, "toml: a list is not an object"},
		{&codec.TOML{}, `{"a":{"b":[1,null]}}`, "toml: a.b.1: null has no place in TOML"},
		{&codec.TOML{}, `{"a":9223372036854775808}`, "toml: a: 9223372036854775808 does not fit 64 bits"},
		{&codec.TOML{}, `{"a":1e400}`, "toml: a: 1e400 does not fit 64 bits"},
		{&codec.CEF{}, `[]`, "cef: a list is not an object"},
		{&codec.CEF{}, `{"src":"x"}`, `cef: "src" is not a field of the header (move it into extension)`},
		{&codec.CEF{}, `{"extension":1}`, "cef: extension is a number and not an object"},
		{&codec.CEF{}, `{"extension":{"a b":1}}`, `cef: extension: "a b" can't be a key`},
		{&codec.CEF{}, `{"extension":{"":1}}`, `cef: extension: "" can't be a key`},
		{&codec.CEF{}, `{"name":"a\nb"}`, "cef: name has a line break"},
		{&codec.CEF{}, `{"prefix":"a CEF:0"}`, "cef: prefix contains another event"},
	}
	for _, tt := range tests {
		got, err := tt.codec.Encode([]byte("kept"), []byte(tt.in))
		if err == nil || !strings.Contains(err.Error(), tt.want) || string(got) != "kept" {
			t.Errorf("%T of %s: %q and %v, want an error with %q", tt.codec, tt.in, got, err, tt.want)
		}
	}
}

func TestNullInTextFormats(t *testing.T) {
	for want, c := range map[string]codec.Codec{"a:\tb:1": &codec.LTSV{}, "a=&b=1": &codec.Form{}, "a = \nb = 1\n": &codec.INI{}} {
		if got, err := c.Encode(nil, []byte(`{"a":null,"b":1}`)); err != nil || string(got) != want {
			t.Errorf("%T: %q, %v, want %q", c, got, err, want)
		}
	}
	if got, err := new(codec.CEF).Encode(nil, []byte(`{"severity":null,"extension":{"a":null,"b":1,"c":[2]}}`)); err != nil ||
		string(got) != "CEF:0|||||||b=1 c=[2]" {
		t.Errorf("cef: %q, %v", got, err)
	}
}

// TestTextFormatsRoundTrip writes objects of text, and reads them back.
func TestTextFormatsRoundTrip(t *testing.T) {
	text := rapid.OneOf(rapid.String(), rapid.StringMatching(`[ a=:;#&%+|\\"'\[\]\n\r.]{0,12}`))
	key := rapid.StringMatching(`[a-zA-Z][a-zA-Z0-9_.-]{0,8}`)
	plain := rapid.StringMatching(`[^\t\r\n]{0,20}`)
	rapid.Check(t, func(t *rapid.T) {
		object := func(values *rapid.Generator[string]) map[string]any {
			m := map[string]any{}
			for k, v := range rapid.MapOfN(key, values, 1, 20).Draw(t, "object") {
				m[k] = v
			}
			return m
		}
		tests := []struct {
			codec codec.Codec
			value map[string]any
		}{
			{&codec.LTSV{}, object(plain)},
			{&codec.Form{}, object(text)},
			{&codec.INI{}, map[string]any{"A": object(text), "A b]": object(text), "c": text.Draw(t, "value")}},
			{&codec.TOML{}, map[string]any{"a": object(text), "b": []any{object(text)}, text.Draw(t, "key"): 1}},
			{&codec.CEF{}, map[string]any{"cefVersion": "0", "deviceVendor": strings.NewReplacer("\n", "", "\r", "").Replace(text.Draw(t, "vendor")),
				"deviceProduct": "",
				"deviceVersion": `\`, "deviceEventClassId": "|", "name": "n", "severity": "", "extension": trimmed(object(text))}},
		}
		for _, tt := range tests {
			want, err := doc.Append(nil, tt.value)
			if err != nil {
				t.Fatal(err)
			}
			payload, err := tt.codec.Encode(nil, want)
			if err != nil {
				t.Fatalf("%T of %s: %v", tt.codec, want, err)
			}
			got, err := tt.codec.Decode(nil, payload)
			if err != nil || canonical(t, string(got)) != string(want) {
				t.Fatalf("%T of %s is %q, which reads back as %s, %v", tt.codec, want, payload, got, err)
			}
		}
	})
}

// trimmed has values without spaces at the end, where CEF has none.
func trimmed(m map[string]any) map[string]any {
	for k, v := range m {
		m[k] = strings.TrimRight(v.(string), " ")
	}
	return m
}

// sameAgain checks that what is decoded is encoded to something that decodes to the same.
func sameAgain(t *testing.T, c codec.Codec, payload []byte) {
	before := bytes.Clone(payload)
	first, err := c.Decode(nil, payload)
	if !bytes.Equal(before, payload) {
		t.Fatal("Decode changes the payload")
	}
	if err != nil {
		return
	}
	if !json.Valid(first) {
		t.Fatalf("%q is decoded to %q, which is not JSON", payload, first)
	}
	text, err := c.Encode(nil, first)
	if err != nil || bytes.Contains(first, []byte(":true")) { // a bare key is written with its value
		return
	}
	again, err := c.Decode(nil, text)
	if err != nil || !bytes.Equal(again, first) {
		t.Fatalf("%q is %s, which is encoded to %q, which is %s, %v", payload, first, text, again, err)
	}
}

func fuzzText(f *testing.F, codecs ...codec.Codec) {
	for _, tt := range textValues {
		f.Add([]byte(tt.in))
	}
	f.Fuzz(func(t *testing.T, payload []byte) {
		for _, c := range codecs {
			sameAgain(t, c, payload)
		}
	})
}

func FuzzLTSV(f *testing.F) { fuzzText(f, &codec.LTSV{}) }
func FuzzForm(f *testing.F) { fuzzText(f, &codec.Form{}) }
func FuzzINI(f *testing.F)  { fuzzText(f, &codec.INI{}) }
func FuzzCEF(f *testing.F)  { fuzzText(f, &codec.CEF{}) }

// FuzzTOML has another implementation for comparison.
func FuzzTOML(f *testing.F) {
	for _, tt := range textValues {
		f.Add([]byte(tt.in))
	}
	f.Fuzz(func(t *testing.T, payload []byte) {
		sameAgain(t, &codec.TOML{}, payload)
		got, err := new(codec.TOML).Decode(nil, payload)
		if err != nil {
			return
		}
		var theirs map[string]any
		if err := burnt.Unmarshal(payload, &theirs); err != nil {
			t.Fatalf("%q is %s, but the other says %v", payload, got, err)
		}
	})
}

func TestTOMLIsReadAsOthersReadIt(t *testing.T) {
	const text = `
title = "TOML"
"quoted key" = 'literal \'
multi = """
a\
   b
c"""
[owner]
dob = 1979-05-27T07:32:00Z
[database]
ports = [8000, 8001, 8002]
data = [["delta", "phi"], [3.14]]
temp = {cpu = 79.5, case = 72}
[[products]]
sku = 738594937
[[products.colours]]
name = "red"
[servers.alpha]
ip = "10.0.0.1"
`
	var theirs map[string]any
	if err := burnt.Unmarshal([]byte(text), &theirs); err != nil {
		t.Fatal(err)
	}
	want, err := doc.Append(nil, theirs)
	if err != nil {
		t.Fatal(err)
	}
	got, err := new(codec.TOML).Decode(nil, []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("(-other +got):\n%s", diff)
	}
}
