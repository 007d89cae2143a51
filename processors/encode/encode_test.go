package encode_test

import (
	"testing"

	"github.com/flowd-io/flowd/internal/testing/steptest"
	_ "github.com/flowd-io/flowd/processors/encode"
)

// avroStep writes records with a number and a text.
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
		{Name: "a form", Step: `{"encode": "form"}`, In: []string{`{"a":[1,2],"b":"x y"}`}, Want: []string{"a=1&a=2&b=x+y"}},
		{Name: "LTSV", Step: `{"encode": "ltsv"}`, In: []string{`{"a":1,"b":null}`}, Want: []string{"a:1\tb:"}},
		{Name: "INI", Step: `{"encode": {"ini": {}, "from": "p"}}`, In: []string{`{"p":{"a":{"b":1}}}`}, Want: []string{`{"p":"[a]\nb = 1\n"}`}},
		{Name: "TOML", Step: `{"encode": "toml"}`, In: []string{`{"a":{"b":1}}`, `{"a":null}`},
			Want: []string{"[a]\nb = 1\n", "failed permanent: toml: a: null has no place in TOML"}},
		{Name: "CEF", Step: `{"encode": "cef"}`, In: []string{`{"name":"a|b","extension":{"x":"y=z"}}`},
			Want: []string{`CEF:0|||||a\|b||x=y\=z`}},
		{Name: "syslog", Step: `{"encode": "syslog"}`, In: []string{`{"severity":"err","appname":"a","message":"x"}`, `{"a":1}`},
			Want: []string{"<11>1 - - a - - - x", "failed permanent: syslog: a: is not a field of syslog"}},
		{Name: "MessagePack", Step: `{"encode": "msgpack"}`, In: []string{` {"a": 1} `}, Want: []string{"\x81\xa1a\x01"}},
		{Name: "CBOR in a field is base64", Step: `{"encode": {"cbor": {}, "from": "p", "into": "q"}}`, In: []string{`{"p":{"a":1}}`},
			Want: []string{`{"p":{"a":1},"q":"oWFhAQ=="}`}},
		{Name: "a number that MessagePack can't say", Step: `{"encode": "msgpack"}`, In: []string{`{"a":18446744073709551617}`},
			Want: []string{"failed permanent: msgpack: 18446744073709551617 does not fit 64 bits exactly"}},
		{Name: "Avro by a schema in the configuration", Step: avroStep(""), In: []string{`{"note":"x","id":7}`},
			Want: []string{"\x0e\x02x"}},
		{Name: "Avro in a field is base64", Step: avroStep(`, "from": "p", "into": "q"`), In: []string{`{"p":{"id":7,"note":"x"}}`},
			Want: []string{`{"p":{"id":7,"note":"x"},"q":"DgJ4"}`}},
		{Name: "Protobuf by a schema in the configuration", Step: protobufStep(""), In: []string{`{"note":"x","id":7}`},
			Want: []string{"\x08\x07\x12\x01x"}},
		{Name: "what a message has no field for fails alone", Step: protobufStep(""), In: []string{`{"total":1}`, `{"id":7}`},
			Want: []string{"\x08\x07", `failed permanent: protobuf: M has no field "total"`}},
		{Name: "or is dropped", Step: protobufStep(`, "drop_unknown": true`), In: []string{`{"total":1,"id":7}`}, Want: []string{"\x08\x07"}},
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

// protobufStep writes messages with a number and a text.
func protobufStep(rest string) string {
	return `{"encode": {"protobuf": {"schema": "syntax = \"proto3\"; message M { int64 id = 1; string note = 2; }"` + rest + `}}}`
}

func TestEncodeRefuses(t *testing.T) {
	steptest.RunRefused(t, []steptest.Refused{
		{Name: "no format", Step: `{"encode": {}}`, Want: "csv"},
		{Name: "Protobuf for a subject without a registry", Step: protobufStep(`, "subject": "s"`), Want: "a subject needs a registry"},
		{Name: "a descriptor set for a registry",
			Step: `{"encode": {"protobuf": {"registry": "main", "descriptors": "a.binpb", "message": "M"}}}`,
			Want: "a registry has texts of schemas"},
		{Name: "a message that is not there", Step: protobufStep(`, "message": "N"`), Want: `there is no message "N"`},
		{Name: "a format that can only be read", Step: `{"encode": {"regex": {}}}`, Want: "regex"},
	})
}

func TestEncodeConforms(t *testing.T) {
	steptest.Conforms(t, protobufStep(`, "message": "M"`), `{"id":1}`)
	for format, fields := range map[string]string{"yaml": "", "json": "", "msgpack": "", "cbor": "", "kv": "", "ltsv": "",
		"form": "", "ini": "", "toml": "", "xml": "", "csv": `"columns": ["a"]`,
		"avro": `"schema": {"type":"record","name":"r","fields":[{"name":"a","type":["null","int"],"default":null}]}`,
	} {
		t.Run(format, func(t *testing.T) {
			steptest.Conforms(t, `{"encode": {"`+format+`": {`+fields+`}}}`, `{"a":1}`)
		})
	}
}
