package encode_test

import (
	"testing"

	"github.com/flowd-io/flowd/internal/testing/steptest"
	_ "github.com/flowd-io/flowd/processors/encode"
)

// avroStep writes records of a number and a text.
func avroStep(rest string) string {
	return `{"encode": {"avro": {"schema": {"type": "record", "name": "R", "fields": [
		{"name": "id", "type": "long"}, {"name": "note", "type": "string"}]}}` + rest + `}}`
}

func TestEncode(t *testing.T) {
	steptest.Run(t, []steptest.Case{
		{Name: "the document", Step: `{"encode": {"csv": {"columns": ["a", "b"]}}}`, In: []string{` {"b":2,"a":1} `},
			Want: []string{"1,2\n"}},
		{Name: "the payload's bytes", Step: `{"encode": "base64"}`, In: []string{"hi"}, Want: []string{"aGk="}},
		{Name: "a field", Step: `{"encode": {"json": {}, "from": "p"}}`, In: []string{`{"p":{"a":1.0},"q":1}`},
			Want: []string{`{"p":"{\"a\":1.0}","q":1}`}},
		{Name: "a field's text", Step: `{"encode": {"hex": {}, "from": "p", "into": "q"}}`, In: []string{`{"p":"hi"}`},
			Want: []string{`{"p":"hi","q":"6869"}`}},
		{Name: "paths may begin with this", Step: `{"encode": {"hex": {}, "from": "this.p", "into": "this.q"}}`,
			In: []string{`{"p":"hi"}`}, Want: []string{`{"p":"hi","q":"6869"}`}},
		{Name: "a field's text becomes the payload", Step: `{"encode": {"hex": {}, "from": "p", "into": "this"}}`,
			In: []string{`{"p":"hi"}`}, Want: []string{`6869`}},
		{Name: "the document into one of its fields", Step: `{"encode": {"logfmt": {}, "into": "line"}}`,
			In: []string{`{"a":1}`}, Want: []string{`{"a":1,"line":"a=1"}`}},
		{Name: "bytes into a new document", Step: `{"encode": {"base64": {}, "into": "data"}}`, In: []string{"hi"},
			Want: []string{`{"data":"aGk="}`}},
		{Name: "Avro by a schema in the configuration", Step: avroStep(""), In: []string{`{"note":"x","id":7}`},
			Want: []string{"\x0e\x02x"}},
		{Name: "Avro in a field is base64", Step: avroStep(`, "from": "p", "into": "q"`), In: []string{`{"p":{"id":7,"note":"x"}}`},
			Want: []string{`{"p":{"id":7,"note":"x"},"q":"DgJ4"}`}},
		{Name: "what the schema can't say fails alone", Step: avroStep(""), In: []string{`{"id":1.5,"note":""}`, `{"id":7,"note":"x"}`},
			Want: []string{"\x0e\x02x", "failed permanent: avro: id: 1.5 is not a whole number"}},

		{Name: "what the format can't say fails alone", Step: `{"encode": "logfmt"}`, In: []string{`[1]`, `{"a":1}`},
			Want: []string{"a=1", "failed permanent: logfmt: a list is not an object"}},
		{Name: "a field that is missing", Step: `{"encode": {"json": {}, "from": "p"}}`, In: []string{`{}`},
			Want: []string{"failed permanent: field p is missing"}},
		{Name: "a payload that is no document", Step: `{"encode": "yaml"}`, In: []string{`{"a":`},
			Want: []string{"failed decode: "}},
	})
}

func TestEncodeRefuses(t *testing.T) {
	steptest.RunRefused(t, []steptest.Refused{
		{Name: "no format", Step: `{"encode": {}}`, Want: "csv"},
		{Name: "a format that can only be read", Step: `{"encode": {"regex": {}}}`, Want: "regex"},
	})
}

func TestEncodeConforms(t *testing.T) { steptest.Conforms(t, `{"encode": "yaml"}`, `{"a":1}`, `[]`) }
