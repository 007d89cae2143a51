package decode_test

import (
	"testing"

	"github.com/flowd-io/flowd/internal/testing/steptest"
	_ "github.com/flowd-io/flowd/processors/decode"
)

const accessLog = `{"decode": {"regex": {"pattern": "^(?P<ip>\\S+) \\S+ (?P<user>\\S+) \\[(?P<time>[^\\]]+)\\] \"(?P<method>\\S+) (?P<path>\\S+) [^\"]*\" (?P<status>\\d{3}) (?P<bytes>\\d+|-)", "numbers": true}}}`

// avroStep reads or writes records of a number and a text.
func avroStep(verb, rest string) string {
	return `{"` + verb + `": {"avro": {"schema": {"type": "record", "name": "R", "fields": [
		{"name": "id", "type": "long"}, {"name": "note", "type": "string"}]}}` + rest + `}}`
}

func TestDecode(t *testing.T) {
	steptest.Run(t, []steptest.Case{
		{Name: "a format by its name", Step: `{"decode": "logfmt"}`, In: []string{`a=1 b="x y"`},
			Want: []string{`{"a":"1","b":"x y"}`}},
		{Name: "a format with options", Step: `{"decode": {"csv": {"columns": ["a", "b"], "delimiter": ";"}}}`,
			In: []string{"1;2"}, Want: []string{`{"a":"1","b":"2"}`}},
		{Name: "an access log", Step: accessLog,
			In:   []string{`10.0.0.1 - ann [10/Oct/2026:13:55:36 +0000] "GET /x HTTP/1.1" 404 -`},
			Want: []string{`{"ip":"10.0.0.1","user":"ann","time":"10/Oct/2026:13:55:36 +0000","method":"GET","path":"/x","status":404,"bytes":"-"}`}},
		{Name: "a field is replaced by what it holds", Step: `{"decode": {"json": {}, "from": "p"}}`,
			In: []string{`{"p":"{\"a\":1.0}","q":1}`}, Want: []string{`{"p":{"a":1.0},"q":1}`}},
		{Name: "paths may begin with this", Step: `{"decode": {"json": {}, "from": "this.p", "into": "this.r"}}`,
			In: []string{`{"p":"{\"a\":1}"}`}, Want: []string{`{"p":"{\"a\":1}","r":{"a":1}}`}},
		{Name: "a field becomes the document", Step: `{"decode": {"json": {}, "from": "p", "into": "this"}}`,
			In: []string{`{"p":"{\"a\":1.0}","q":1}`}, Want: []string{`{"a":1.0}`}},
		{Name: "a field becomes the payload", Step: `{"decode": {"base64": {}, "from": "p", "into": "this"}}`,
			In: []string{`{"p":"/wBoaQ=="}`}, Want: []string{"\xff\x00hi"}},
		{Name: "from this is from the payload", Step: `{"decode": {"logfmt": {}, "from": "this"}}`, In: []string{`a=1`},
			Want: []string{`{"a":"1"}`}},
		{Name: "a field is decoded into another", Step: `{"decode": {"base64": {}, "from": "p", "into": "q.r"}}`,
			In: []string{`{"p":"aGk="}`}, Want: []string{`{"p":"aGk=","q":{"r":"hi"}}`}},
		{Name: "the payload is decoded into a field of a new document", Step: `{"decode": {"kv": {}, "into": "log"}}`,
			In: []string{`a=1`}, Want: []string{`{"log":{"a":"1"}}`}},
		{Name: "base64 gives the payload's bytes", Step: `{"decode": "base64"}`, In: []string{"eyJhIjoxfQ=="},
			Want: []string{`{"a":1}`}},
		{Name: "Avro by a schema in the configuration", Step: avroStep("decode", ""), In: []string{"\x0e\x02x"},
			Want: []string{`{"id":7,"note":"x"}`}},
		{Name: "Avro in a field is base64", Step: avroStep("decode", `, "from": "p", "into": "q"`), In: []string{`{"p":"DgJ4"}`},
			Want: []string{`{"p":"DgJ4","q":{"id":7,"note":"x"}}`}},
		{Name: "Avro in a field that is not base64", Step: avroStep("decode", `, "from": "p"`), In: []string{`{"p":"*"}`},
			Want: []string{"failed decode: field p is not bytes: "}},
		{Name: "bytes of another schema fail alone", Step: avroStep("decode", ""), In: []string{"\x0e", "\x0e\x02x"},
			Want: []string{`{"id":7,"note":"x"}`, "failed decode: avro: note: the payload ends in the middle of it"}},

		{Name: "a payload that is not of the format fails alone", Step: `{"decode": "json"}`,
			In: []string{`{"a":`, `{"a":1}`}, Want: []string{`{"a":1}`, "failed decode: json: "}},
		{Name: "a pattern in short", Step: `{"decode": {"regex": "id=(?P<id>\\d+)"}}`, In: []string{"id=7"},
			Want: []string{`{"id":"7"}`}},
		{Name: "a line that the pattern does not match", Step: accessLog, In: []string{"hello"},
			Want: []string{"failed decode: regex: the payload does not match"}},
		{Name: "a field that is missing", Step: `{"decode": {"json": {}, "from": "p"}}`, In: []string{`{}`},
			Want: []string{"failed decode: field p is missing"}},
		{Name: "a field that is no text", Step: `{"decode": {"json": {}, "from": "p"}}`, In: []string{`{"p":{"a":1}}`},
			Want: []string{`failed decode: field p is not text but {"a":1}`}},
		{Name: "bytes that are no text can't be a field", Step: `{"decode": {"hex": {}, "from": "p"}}`,
			In: []string{`{"p":"ff"}`}, Want: []string{"failed decode: the decoded p is not valid UTF-8"}},
		{Name: "a document that is none", Step: `{"decode": {"json": {}, "from": "p"}}`, In: []string{`nope`},
			Want: []string{"failed decode: "}},
	})
}

func TestDecodeRefuses(t *testing.T) {
	steptest.RunRefused(t, []steptest.Refused{
		{Name: "no format", Step: `{"decode": {}}`, Want: "csv"},
		{Name: "an unknown format", Step: `{"decode": "jsn"}`, Want: "json"},
		{Name: "two formats", Step: `{"decode": {"json": {}, "csv": {}}}`, Want: "csv"},
		{Name: "a pattern that is none", Step: `{"decode": {"regex": "("}}`,
			Want: `"(" is not a valid regular expression: missing closing ) (use RE2 syntax)`},
		{Name: "regex without pattern", Step: `{"decode": "regex"}`, Want: "pattern"},
		{Name: "a pattern without named group", Step: `{"decode": {"regex": {"pattern": "x"}}}`,
			Want: "no named group"},
		{Name: "a delimiter of two characters", Step: `{"decode": {"csv": {"delimiter": "ab"}}}`,
			Want: "one character"},
		{Name: "a registry outside of a pipeline", Step: `{"decode": {"avro": {"registry": "main"}}}`,
			Want: `there is no registry "main"`},
		{Name: "a reader that can't read", Step: `{"decode": {"avro": {"schema": {"type": "int"}, "reader": {"type": "string"}}}}`,
			Want: "can't be read by that of `reader`"},
		{Name: "a path that is none", Step: `{"decode": {"json": {}, "from": "a["}}`, Want: "a["},
	})
}

func TestDecodeConforms(t *testing.T) { steptest.Conforms(t, `{"decode": "logfmt"}`, `a=1`, `b`) }
