package codec_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/flowd-io/flowd/engine/doc"
	"github.com/flowd-io/flowd/internal/formats/codec"
)

func regex(t testing.TB, pattern string) *codec.Regex {
	t.Helper()
	re, err := codec.ParseRegexp(pattern)
	if err != nil {
		t.Fatal(err)
	}
	return &codec.Regex{Pattern: re}
}

func TestDecode(t *testing.T) {
	accessLog := regex(t,
		`^(?P<ip>\S+) \S+ (?P<user>\S+) \[(?P<time>[^\]]+)\] "(?P<method>\S+) (?P<path>\S+) [^"]*" (?P<status>\d{3}) (?P<bytes>\d+|-)`)
	accessLog.Numbers = true
	tests := []struct {
		name  string
		codec codec.Codec
		in    string
		want  string
	}{
		{"json is checked and kept as it is", &codec.JSON{}, " {\"b\": 1.10, \"a\":2}\n", `{"b": 1.10, "a":2}`},

		{"csv takes the names from the header line", &codec.CSV{}, "id,name\n1,Ann\n2,Bob\n",
			`[{"id":"1","name":"Ann"},{"id":"2","name":"Bob"}]`},
		{"csv with columns is one record", &codec.CSV{Columns: []string{"id", "name"}}, "1,Ann",
			`{"id":"1","name":"Ann"}`},
		{"csv keeps quoted delimiters, quotes and line ends", &codec.CSV{Columns: []string{"a", "b"}},
			"\"x,y\",\"say \"\"hi\"\"\nthere\"", `{"a":"x,y","b":"say \"hi\"\nthere"}`},
		{"csv of a header alone is an empty list", &codec.CSV{}, "id,name\n", `[]`},
		{"csv makes numbers only of JSON numbers", &codec.CSV{Columns: []string{"a", "b", "c", "d"}, Numbers: true},
			"12,007,-1.5e3,1e", `{"a":12,"b":"007","c":-1.5e3,"d":"1e"}`},
		{"csv with another delimiter", &codec.CSV{Columns: []string{"a", "b"}, Delimiter: ';'}, "1;2",
			`{"a":"1","b":"2"}`},
		{"csv keeps line ends and quotes inside", &codec.CSV{Columns: []string{"a", "b"}}, "\"x\r\ny\",x\"y\r\n",
			`{"a":"x\r\ny","b":"x\"y"}`},
		{"csv passes over a byte order mark", &codec.CSV{}, "\ufeffid\n7\n", `[{"id":"7"}]`},

		{"kv reads plain and quoted values", &codec.KV{}, `a=b c="d e" f=`, `{"a":"b","c":"d e","f":""}`},
		{"kv makes a list of equal keys, in the first one's place", &codec.KV{Numbers: true}, `a=1 b=2 a="3"`, `{"a":[1,"3"],"b":2}`},
		{"kv with separators of its own", &codec.KV{PairSeparator: ";", KeySeparator: ":"}, `name: Ann Lee; age: 41;`,
			`{"name":"Ann Lee","age":"41"}`},
		{"kv keeps = in a value", &codec.KV{}, `url=http://x/?a=b`, `{"url":"http://x/?a=b"}`},
		{"kv makes no number of quoted text", &codec.KV{Numbers: true}, `a=1 b="1"`, `{"a":1,"b":"1"}`},
		{"kv unescapes quoted text and leaves other backslashes", &codec.KV{}, `a="x\"y\n" b=C:\dir c="C:\dir"`,
			`{"a":"x\"y\n","b":"C:\\dir","c":"C:\\dir"}`},
		{"kv of nothing is an empty object", &codec.KV{}, "  ", `{}`},

		{"logfmt reads a bare key as true", &codec.Logfmt{}, `level=info msg="slow query" retry`,
			`{"level":"info","msg":"slow query","retry":true}`},

		{
			"regex reads an access log", accessLog,
			`203.0.113.9 - - [10/Oct/2026:13:55:36 +0000] "GET /api/orders?id=7 HTTP/1.1" 503 2326 "-" "curl/8"`,
			`{"ip":"203.0.113.9","user":"-","time":"10/Oct/2026:13:55:36 +0000","method":"GET","path":"/api/orders?id=7","status":503,"bytes":2326}`,
		},
		{"regex gives null for a group that took no part", regex(t, `^(?P<a>x)|(?P<b>y)$`), "y", `{"a":null,"b":"y"}`},

		{"base64 gives bytes", &codec.Base64{}, "aGk=", "hi"},
		{"base64 for URLs without padding", &codec.Base64{URL: true, Raw: true}, "_-8", "\xff\xef"},
		{"hex gives bytes", &codec.Hex{}, "6869", "hi"},

		{"yaml keeps key order and number spelling", &codec.YAML{}, "b: 1.50\na: [1, x, null, true]\n",
			`{"b":1.50,"a":[1,"x",null,true]}`},
		{"yaml writes aliases out", &codec.YAML{}, "a: &x {k: 1}\nb: *x\n", `{"a":{"k":1},"b":{"k":1}}`},
		{"yaml keeps dates as text and reads hexadecimal", &codec.YAML{}, "d: 2026-01-02\nh: 0x10\n",
			`{"d":"2026-01-02","h":16}`},

		{"xml has attributes, text and lists", &codec.XML{},
			`<order id="7"><item>a</item><item n="2">b</item><note/></order>`,
			`{"order":{"-id":"7","item":["a",{"-n":"2","#text":"b"}],"note":""}}`},
		{"xml keeps blanks that are more than layout", &codec.XML{},
			"<a>\r\n <b><![CDATA[ x ]]></b><c> y&#32;\n</c><d> <![CDATA[]]> </d><e>\u00a0</e></a>\n",
			`{"a":{"b":" x ","c":"y ","d":"","e":"` + "\u00a0" + `"}}`},
		{"xml of other encodings", &codec.XML{}, "<?xml version='1.0' encoding='ISO-8859-1'?><a b='\xe9'>\xfc</a>",
			`{"a":{"-b":"é","#text":"ü"}}`},
		{"xml of Windows", &codec.XML{}, `<?xml version="1.0" encoding="windows-1252" ?>` + "<a>\x80</a>", `{"a":"€"}`},
		{"xml of UTF-16", &codec.XML{}, "\xff\xfe<\x00a\x00>\x00\xac\x20<\x00/\x00a\x00>\x00", `{"a":"€"}`},
		{"xml that became UTF-8 on its way", (&codec.XML{}).Unicode(), "<?xml version='1.0' encoding='ISO-8859-1'?><a>é</a>", `{"a":"é"}`},
		{"xml leaves prefixes out", &codec.XML{}, "\ufeff<x:a xmlns:x='u' x='1' x:y='2'/>", `{"a":{"-x":"1","-y":"2"}}`},
		{"xml makes numbers where asked", &codec.XML{Numbers: true}, `<a x="1"><b>2</b></a>`, `{"a":{"-x":1,"b":2}}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := tt.codec.Decode([]byte("kept:"), []byte(tt.in))
			if err != nil {
				t.Fatalf("Decode(%q): %v", tt.in, err)
			}
			if diff := cmp.Diff("kept:"+tt.want, string(got)); diff != "" {
				t.Errorf("Decode(%q) (-want +got):\n%s", tt.in, diff)
			}
		})
	}
}

func TestWhatIsNotOfTheFormatSaysWhy(t *testing.T) {
	alias := "a: &a [x, x, x, x, x, x, x, x, x, x]\n"
	for c := 'b'; c <= 'j'; c++ {
		alias += string(c) + ": &" + string(c) + " [" + strings.TrimSuffix(strings.Repeat("*"+string(c-1)+", ", 10),
			", ") + "]\n"
	}
	wide := strings.Repeat("c", 4096)
	tests := []struct {
		name  string
		codec codec.Codec
		in    string
		want  string
	}{
		{"broken json", &codec.JSON{}, `{"a":`, "json: "},
		{"deep json", &codec.JSON{}, strings.Repeat("[", 100_000), "json: "},

		{"empty csv", &codec.CSV{}, "", "csv: the payload is empty"},
		{"a short csv record", &codec.CSV{}, "a,b\n1\n", "csv: line 2: 1 values for 2 columns"},
		{"csv values that do not fit the columns", &codec.CSV{Columns: []string{"a"}}, "1,2",
			"csv: 2 values for 1 columns"},
		{"two csv records where one is meant", &codec.CSV{Columns: []string{"a"}}, "1\n2\n", "split the lines first"},
		{"an open csv quote", &codec.CSV{}, "a\n\"x", "csv: line 2"},
		{"csv whose lines end with a carriage return alone", &codec.CSV{}, "a,b\r1,2\r", "csv: line 1: field 2: a carriage return"},
		{"a csv column twice", &codec.CSV{}, "a,a\n1,2\n", `column "a" appears twice`},
		{"csv that is no UTF-8", &codec.CSV{}, "a\n\xff\n", "UTF-8"},
		{"a wide csv header over many short records", &codec.CSV{},
			wide + "," + wide + "x\n" + strings.Repeat(",\n", 20_000), "more than 64 MiB"},

		{"a kv word without value", &codec.KV{}, "a=1 b", `"b" has no "="`},
		{"a kv value without key", &codec.KV{}, "=1", "no key"},
		{"an open kv quote", &codec.KV{}, `a="x`, "has no end"},
		{"text right behind a kv quote", &codec.KV{}, `a="x"y`, "directly after"},
		{"kv that is no UTF-8", &codec.KV{}, "a=\xff", "UTF-8"},

		{"text that the pattern does not match", regex(t, `(?P<n>\d+)`), "x", "does not match"},
		{"base64 with a foreign character", &codec.Base64{}, "a*==", "base64: "},
		{"hex of odd length", &codec.Hex{}, "abc", "hex: "},

		{"empty yaml", &codec.YAML{}, "", "yaml: the payload is empty"},
		{"broken yaml", &codec.YAML{}, "a: [", "yaml: line 1"},
		{"two yaml documents", &codec.YAML{}, "a: 1\n---\nb: 2\n", "more than one document"},
		{"a yaml alias bomb", &codec.YAML{}, alias, "yaml: decodes to more"},
		{"a yaml alias of itself", &codec.YAML{}, "&a [*a]", "yaml: "},
		{"a yaml key twice", &codec.YAML{}, "a: 1\na: 2\n", "twice"},
		{"a yaml number without end", &codec.YAML{}, ".inf", "not a JSON number"},
		{"deep yaml", &codec.YAML{}, strings.Repeat("[", 5000), "yaml: "},

		{"empty xml", &codec.XML{}, "", "xml: there is no element"},
		{"broken xml", &codec.XML{}, "<a><b></a>", "xml: line 1"},
		{"two xml roots", &codec.XML{}, "<a/><b/>", "more than one root"},
		{"an xml entity of the document's own", &codec.XML{}, `<!DOCTYPE a [<!ENTITY x "y">]><a>&x;</a>`,
			"invalid character entity"},
		{"text after the root of xml", &codec.XML{}, "<a>1</a>\ngarbage", "xml: line 2: there is text outside of the root element"},
		{"text before the root of xml", &codec.XML{}, "junk<r/>", "text outside of the root element"},
		{"an xml attribute twice", &codec.XML{}, "<a x='1' x='2'/>", `two attributes "x"`},
		{"xml attributes that namespaces tell apart", &codec.XML{}, "<a x='1' b:x='2'/>", `two attributes "x", once namespaces are left out`},
		{"xml of an encoding that nobody knows", &codec.XML{}, "<?xml version='1.0' encoding='Shift_JIS'?><a/>", "convert the document to UTF-8"},
		{"xml with bytes that its encoding lacks", &codec.XML{}, "<?xml version='1.0' encoding='windows-1253'?><a>\xaa</a>",
			"it is not valid windows-1253"},
		{"xml that is no ASCII", &codec.XML{}, "<?xml version='1.0' encoding='US-ASCII'?><a>é</a>", "is not valid US-ASCII"},
		{"yaml of a number that would be 0", &codec.YAML{}, "a: .1e-400", ".1e-400 is not a JSON number"},
		{"toml of a number that would be 0", &codec.TOML{}, "a = [{b = 1_0.5e-400}]", "1_0.5e-400 does not fit 64 bits"},
		{"deep xml", &codec.XML{}, strings.Repeat("<a>", 5000), "nested deeper"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := tt.codec.Decode(nil, []byte(tt.in))
			if err == nil {
				t.Fatalf("Decode gives %.80q and no error, want one with %q", got, tt.want)
			}
			if !strings.Contains(err.Error(), tt.want) {
				t.Errorf("Decode: %q, want it to contain %q", err, tt.want)
			}
		})
	}
}

func TestEncode(t *testing.T) {
	tests := []struct {
		name  string
		codec codec.Codec
		in    string
		want  string
	}{
		{"json as it is", &codec.JSON{}, `{"a": 1}`, `{"a": 1}`},
		{"json indented", &codec.JSON{Indent: 2}, `{"a":1}`, "{\n  \"a\": 1\n}"},
		{"csv of one object has the named columns", &codec.CSV{Columns: []string{"b", "a"}}, `{"a":1,"b":"x,y"}`,
			"\"x,y\",1\n"},
		{"csv of a list has a header line", &codec.CSV{}, `[{"a":1,"b":null},{"b":"\"","a":""}]`,
			"a,b\n1,\n,\"\"\"\"\n"},
		{"csv writes lists and objects as JSON", &codec.CSV{Columns: []string{"a"}}, `{"a":[1,2]}`, "\"[1,2]\"\n"},
		{"kv quotes what needs it", &codec.KV{}, `{"a":"b","c":"d e","f":"","n":1,"s":"x\"y"}`,
			`a=b c="d e" f= n=1 s="x\"y"`},
		{"logfmt writes true", &codec.Logfmt{}, `{"ok":true,"msg":"a b"}`, `ok=true msg="a b"`},
		{"base64 of bytes", &codec.Base64{}, "\xff\xef", "/+8="},
		{"hex of bytes", &codec.Hex{}, "hi", "6869"},
		{"yaml keeps order and quotes what would change", &codec.YAML{},
			`{"b":"true","a":[1,"x"],"d":"2026-01-02","e":""}`,
			"b: \"true\"\na:\n  - 1\n  - x\nd: \"2026-01-02\"\ne: \"\"\n"},
		{"xml of text with blanks at its ends", &codec.XML{}, `{"r":{"a":[" x\n",{"-b":" ","#text":" "}]}}`,
			`<r><a>&#32;x&#10;</a><a b=" ">&#32;</a></r>`},
		{"xml of attributes, text and lists", &codec.XML{}, `{"order":{"-id":7,"item":["a",{"-n":"2","#text":"<b>"}]}}`,
			`<order id="7"><item>a</item><item n="2">&lt;b&gt;</item></order>`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := tt.codec.Encode([]byte("kept:"), []byte(tt.in))
			if err != nil {
				t.Fatalf("Encode(%q): %v", tt.in, err)
			}
			if diff := cmp.Diff("kept:"+tt.want, string(got)); diff != "" {
				t.Errorf("Encode(%q) (-want +got):\n%s", tt.in, diff)
			}
		})
	}
}

func TestWhatAFormatCantSayIsAnError(t *testing.T) {
	tests := []struct {
		name  string
		codec codec.Codec
		in    string
		want  string
	}{
		{"csv of a number", &codec.CSV{}, `1`, "csv: a number is neither"},
		{"csv of one object without columns", &codec.CSV{}, `{"a":1}`, "`columns`"},
		{"csv of an empty list", &codec.CSV{}, `[]`, "no columns"},
		{"csv of a field without column", &codec.CSV{Columns: []string{"a"}}, `{"a":1,"b":2}`,
			`field "b" has no column`},
		{"csv of a list of numbers", &codec.CSV{}, `[1]`, "a number is not an object"},
		{"kv of a list", &codec.KV{}, `[1]`, "a list is not an object"},
		{"a kv key with a space", &codec.KV{}, `{"a b":1}`, "ambiguity"},
		{"a pattern", regex(t, "(?P<a>x)"), `{}`, "can't be encoded"},
		{"xml of a character that it can't have", &codec.XML{}, `{"a":"x\u0001"}`, "U+0001 is not a character of XML"},
		{"xml of an attribute with such a character", &codec.XML{}, `{"a":{"-b":"\ufffe"}}`, "U+FFFE is not a character of XML"},
		{"an xml attribute twice", &codec.XML{}, `{"a":{"-x":1,"-x":2}}`, `the attribute "x" twice`},
		{"xml of two roots", &codec.XML{}, `{"a":1,"b":2}`, "one root"},
		{"an xml name with markup", &codec.XML{}, `{"a><b":1}`, "not a valid element name"},
		{"an xml attribute with markup", &codec.XML{}, `{"a":{"-x y":1}}`, "not a valid attribute name"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := tt.codec.Encode(nil, []byte(tt.in))
			if err == nil {
				t.Fatalf("Encode gives %.80q and no error, want one with %q", got, tt.want)
			}
			if !strings.Contains(err.Error(), tt.want) {
				t.Errorf("Encode: %q, want it to contain %q", err, tt.want)
			}
		})
	}
}

func TestElementsAndMembersKeepTheirText(t *testing.T) {
	var got []string
	for e := range doc.Elements([]byte(`[ 1.0 ,"a]\"," , {"x":[1, {}]}, [] , null]`)) {
		got = append(got, string(e))
	}
	for k, v := range doc.Members([]byte(`{ "a" : 1 , "b\n":{"c":"}"} ,"":true}`)) {
		got = append(got, k+"="+string(v))
	}
	want := []string{"1.0", `"a]\","`, `{"x":[1, {}]}`, "[]", "null", "a=1", "b\n={\"c\":\"}\"}", "=true"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestPatternsWithoutNamesOrEndAreRefused(t *testing.T) {
	for _, pattern := range []string{`\d+`, `(?P<a>`, `(?P<a>x)|(y)(?P<a>z)`, strings.Repeat("(?P<a>x)", 4096)} {
		if _, err := codec.ParseRegexp(pattern); err == nil {
			t.Errorf("ParseRegexp(%.20q) is accepted, want an error", pattern)
		}
	}
}

// decodedIsJSON checks what every codec promises: JSON text or an error, and
// bytes that the format can say again read back as they were.
func decodedIsJSON(t *testing.T, c codec.Codec, payload []byte) {
	before := bytes.Clone(payload)
	out, err := c.Decode(nil, payload)
	if !bytes.Equal(before, payload) {
		t.Fatal("Decode changes the payload")
	}
	if err != nil {
		return
	}
	if !json.Valid(out) {
		t.Fatalf("Decode(%q) gives %q, which is no JSON", payload, out)
	}
	text, err := c.Encode(nil, out)
	if err != nil || len(text) == 0 {
		return
	}
	again, err := c.Decode(nil, text)
	if err != nil {
		t.Fatalf("Decode(%q) gives %q, which encodes to %q and does not read back: %v", payload, out, text, err)
	}
	if !json.Valid(again) {
		t.Fatalf("read back: %q is no JSON", again)
	}
}

func FuzzCSV(f *testing.F) {
	for _, s := range []string{"a,b\n1,2\n", "a\n\"x\"\"y\"\n", "", "a,a\n", "\ufeffa\n\"\n\"", "a;b\r\n1;2"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, payload []byte) {
		decodedIsJSON(t, &codec.CSV{}, payload)
		decodedIsJSON(t, &codec.CSV{Columns: []string{"x", "y"}, Delimiter: ';', Numbers: true}, payload)
	})
}

func FuzzKV(f *testing.F) {
	for _, s := range []string{"a=b", `a="b c" d`, "=", `a="\`, "a==b", "a = b", "x:1;y:\"2\""} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, payload []byte) {
		decodedIsJSON(t, &codec.KV{Numbers: true}, payload)
		decodedIsJSON(t, &codec.KV{PairSeparator: ";", KeySeparator: ":"}, payload)
		decodedIsJSON(t, &codec.Logfmt{}, payload)
	})
}

func FuzzYAML(f *testing.F) {
	for _, s := range []string{"a: 1", "- x\n- &y [*y]", "a: &b {c: 1}\nd: *b", "? [x]\n: y", "!!binary x", "\"\\xff\"",
		"0o17", "1_000", "~",
		"a: &a [x, x]\nb: &b [*a, *a]\nc: &c [*b, *b]\nd: [*c, *c]", strings.Repeat("[", 600),
		strings.Repeat("- ", 600), "&a {a: *a}", "{" + strings.Repeat("a,", 600) + "}"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, payload []byte) { decodedIsJSON(t, &codec.YAML{}, payload) })
}

func FuzzXML(f *testing.F) {
	for _, s := range []string{"<a/>", `<a b="c">d<e/>f</a>`, "<a><a><a/></a></a>",
		"<?xml version='1.0'?><!-- x --><a>&lt;</a>", "<a:b xmlns:a='x'/>",
		"<!DOCTYPE a [<!ENTITY b 'bb'><!ENTITY c '&b;&b;'>]><a>&c;</a>", strings.Repeat("<a>", 600),
		"<a " + strings.Repeat("b='' ", 600) + "/>"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, payload []byte) { decodedIsJSON(t, &codec.XML{Numbers: true}, payload) })
}

func FuzzBinaryAndPatterns(f *testing.F) {
	re := regex(f, `^(?P<a>\w+)\s(?P<b>.*)$`)
	for _, s := range []string{"aGk=", "6869", "a b", "\xff"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, payload []byte) {
		decodedIsJSON(t, re, payload)
		decodedIsJSON(t, &codec.JSON{}, payload)
		for _, c := range []codec.Codec{&codec.Base64{}, &codec.Hex{}} {
			text, err := c.Encode(nil, payload)
			if err != nil {
				t.Fatal(err)
			}
			if back, err := c.Decode(nil, text); err != nil || !bytes.Equal(back, payload) {
				t.Fatalf("%q encodes to %q and reads back as %q, %v", payload, text, back, err)
			}
		}
		_, _ = (&codec.Base64{}).Decode(nil, payload)
		_, _ = (&codec.Hex{}).Decode(nil, payload)
	})
}
