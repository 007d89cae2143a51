package decode_test

import (
	"testing"

	"github.com/flowd-io/flowd/internal/testing/steptest"
	_ "github.com/flowd-io/flowd/processors/decode"
)

const accessLog = `{"decode": {"regex": {"pattern": "^(?P<ip>\\S+) \\S+ (?P<user>\\S+) \\[(?P<time>[^\\]]+)\\] \"(?P<method>\\S+) ` +
	`(?P<path>\\S+) [^\"]*\" (?P<status>\\d{3}) (?P<bytes>\\d+|-)", "numbers": true}}}`

// parquetFile has the columns a and b, and two rows, in base64.
const parquetFile = "" +
	"UEFSMRUGFRQVFBXLrrfEDEwVBBUAFQQVABUEFQASHBgEAgAAABgEAQAAABYAKAQCAAAAGAQBAAAAAAAABAEBAAAAAgAAABUEFQoVChW54Z6mCzwVAhUA" +
	"AAABAAAAeBUGFQwVDBWB/ZOpD0wVBBUCFQQVEBUIFQASHBgBeBgBeBYCKAF4GAF4AAAAAgECAAACGRIAGRgEAQAAABkYBAIAAAAVABkWACkmAAQAGRIA" +
	"GRgBeBkYAXgVABkWAikmAgIAGRwWCBWEARYAAAAZHBa8ARVkFgAAABUEGTxIBWZsb3dkFQQAFQIVQBUCGAFhJSJMrBMgEQAAABUMJQIYAWIlAEwcAAAA" +
	"FgQZHBksJgAcFQIZJQAGGRgBYRUAFgQWhAEWhAEmCDw2ACgEAgAAABgEAQAAAAAZHBUGFQAVAgA8OSYABAAAFoADFRYWoAIVNgAmABwVDBk1AAYQGRgB" +
	"YhUAFgQWlAEWlAEmvAEmjAEcNgIoAXgYAXgAGSwVBBUAFQIAFQYVEBUCADw5JgICAAAWlgMVFhbWAhUqABaYAhYEGQwWCBaYAhQAABkMGBZmbG93ZCB2" +
	"ZXJzaW9uIChidWlsZCApGSwcAAAcAAAA9QAAAFBBUjE="

// avroStep reads or writes records with a number and a text.
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
			In: []string{`10.0.0.1 - ann [10/Oct/2026:13:55:36 +0000] "GET /x HTTP/1.1" 404 -`},
			Want: []string{`{"ip":"10.0.0.1","user":"ann","time":"10/Oct/2026:13:55:36 +0000","method":"GET","path":"/x",` +
				`"status":404,"bytes":"-"}`}},
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
		{Name: "a form in a field", Step: `{"decode": {"form": {}, "from": "q"}}`, In: []string{`{"q":"a=1&b=x+y&a=2"}`},
			Want: []string{`{"q":{"a":["1","2"],"b":"x y"}}`}},
		{Name: "LTSV with numbers", Step: `{"decode": {"ltsv": {"numbers": true}}}`, In: []string{"a:1\tb:x", "a"},
			Want: []string{`{"a":1,"b":"x"}`, `failed decode: ltsv: "a" has no label`}},
		{Name: "INI", Step: `{"decode": "ini"}`, In: []string{"[a]\nb = c\n"}, Want: []string{`{"a":{"b":"c"}}`}},
		{Name: "TOML", Step: `{"decode": "toml"}`, In: []string{"a.b = 1", "a"}, Want: []string{`{"a":{"b":1}}`,
			"failed decode: toml: line 1, column "}},
		{Name: "CEF", Step: `{"decode": {"cef": {}, "into": "e"}}`, In: []string{"CEF:0|a|b|1|2|c|3|x=y z"},
			Want: []string{`{"e":{"cefVersion":"0","deviceVendor":"a","deviceProduct":"b","deviceVersion":"1","deviceEventClassId":"2",` +
				`"name":"c","severity":"3","extension":{"x":"y z"}}}`}},
		{Name: "syslog", Step: `{"decode": {"syslog": {"year": 2026, "names": true, "zone": "Europe/Zurich"}}}`,
			In: []string{"<30>Oct  9 22:33:20 h a[1]: x", "hello"},
			Want: []string{`{"priority":30,"facility":"daemon","severity":"info","timestamp":"2026-10-09T22:33:20+02:00","hostname":"h",` +
				`"appname":"a","procid":"1","message":"x"}`,
				"failed decode: syslog: there is no timestamp"}},
		{Name: "grok", Step: `{"decode": {"grok": {"pattern": "^%{IP:client.ip} %{TOOK}$", "patterns": {"TOOK": "%{NUMBER:ms:float} ?ms"}}}}`,
			In:   []string{"::1 1.50 ms", "x"},
			Want: []string{`{"client":{"ip":"::1"},"ms":1.5}`, "failed decode: grok: the payload does not match the pattern"}},
		{Name: "MessagePack", Step: `{"decode": "msgpack"}`, In: []string{"\x81\xa1a\xcf\x00\x20\x00\x00\x00\x00\x00\x01", "\xc1"},
			Want: []string{`{"a":9007199254740993}`, "failed decode: msgpack: byte 0xc1 begins no value"}},
		{Name: "CBOR in a field is base64", Step: `{"decode": {"cbor": {}, "from": "p", "into": "q"}}`, In: []string{`{"p":"oWFhAQ=="}`,
			`{"p":"*"}`},
			Want: []string{`{"p":"oWFhAQ==","q":{"a":1}}`, "failed decode: field p is not base64: "}},
		{Name: "Parquet, of which a field has base64", Step: `{"decode": {"parquet": {"columns": ["b"]}, "from": "p", "into": "q"}}`,
			In:   []string{`{"p":"` + parquetFile + `"}`, `{"p":"UEFSMQ=="}`},
			Want: []string{`{"p":"` + parquetFile + `","q":[{"b":"x"},{"b":null}]}`, "failed decode: parquet: the payload is not a Parquet file"}},
		{Name: "Avro by a schema in the configuration", Step: avroStep("decode", ""), In: []string{"\x0e\x02x"},
			Want: []string{`{"id":7,"note":"x"}`}},
		{Name: "Avro in a field is base64", Step: avroStep("decode", `, "from": "p", "into": "q"`), In: []string{`{"p":"DgJ4"}`},
			Want: []string{`{"p":"DgJ4","q":{"id":7,"note":"x"}}`}},
		{Name: "Avro in a field that is not base64", Step: avroStep("decode", `, "from": "p"`), In: []string{`{"p":"*"}`},
			Want: []string{"failed decode: field p is not base64: "}},
		{Name: "a container file of Avro", Step: `{"decode": {"avro": {"framing": "container"}}}`, Want: []string{`[7]`,
			"failed decode: avro: the payload is not a container file"},
			In: []string{"Obj\x01\x02\x16avro.schema\x0a\"int\"\x00ssssssssssssssss\x02\x02\x0essssssssssssssss", "[7]"}},
		{Name: "Protobuf by a schema in the configuration", Step: protobufStep("decode", ""), In: []string{"\x08\x07", ""},
			Want: []string{`{"id":7,"note":""}`, `{"id":0,"note":""}`}},
		{Name: "without fields that are zero", Step: protobufStep("decode", `, "defaults": false`), In: []string{"\x08\x07"},
			Want: []string{`{"id":7}`}},
		{Name: "names of fields in lowerCamelCase", In: []string{"\x08\x07"}, Want: []string{`{"orderId":7}`},
			Step: `{"decode": {"protobuf": {"schema": "syntax = \"proto3\"; message M { int64 order_id = 1; }", "names": "json"}}}`},
		{Name: "bytes that are not Protobuf fail alone", Step: protobufStep("decode", ""), In: []string{"\x08\x07", "\x08"},
			Want: []string{`{"id":7,"note":""}`, "failed decode: protobuf: id: the payload ends in the middle of it"}},
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

// protobufStep reads or writes messages with a number and a text.
func protobufStep(step, rest string) string {
	return `{"` + step + `": {"protobuf": {"schema": "syntax = \"proto3\"; message M { int64 id = 1; string note = 2; }"` + rest + `}}}`
}

func TestDecodeRefuses(t *testing.T) {
	steptest.RunRefused(t, []steptest.Refused{
		{Name: "no format", Step: `{"decode": {}}`, Want: "csv"},
		{Name: "an unknown format", Step: `{"decode": "jsn"}`, Want: "json"},
		{Name: "two formats", Step: `{"decode": {"json": {}, "csv": {}}}`, Want: "csv"},
		{Name: "a grok pattern that is not known", Step: `{"decode": {"grok": "%{IPP:a}"}}`,
			Want: "decode.grok.pattern: there is no pattern IPP"},
		{Name: "one of its own that is not valid", Step: `{"decode": {"grok": {"pattern": "%{A:a}", "patterns": {"A": "("}}}}`,
			Want: "decode.grok.patterns.A: in pattern A: not a valid regular expression"},
		{Name: "a grok pattern that looks around", Step: `{"decode": {"grok": "%{WORD:a}(?!x)"}}`, Want: "use RE2 syntax"},
		{Name: "a time zone that is not known", Step: `{"decode": {"syslog": {"zone": "Europe/Bern"}}}`,
			Want: `"Europe/Bern" is not a known time zone (write one such as Europe/Zurich, UTC or Local)`},
		{Name: "an RFC that is not syslog's", Step: `{"decode": {"syslog": {"rfc": "822"}}}`, Want: "3164"},
		{Name: "a pattern that is none", Step: `{"decode": {"regex": "("}}`,
			Want: `"(" is not a valid regular expression: missing closing ) (use RE2 syntax)`},
		{Name: "regex without pattern", Step: `{"decode": "regex"}`, Want: "pattern"},
		{Name: "a pattern without named group", Step: `{"decode": {"regex": {"pattern": "x"}}}`,
			Want: "no named group"},
		{Name: "a delimiter of two characters", Step: `{"decode": {"csv": {"delimiter": "ab"}}}`,
			Want: "one character"},
		{Name: "a registry outside of a pipeline", Step: `{"decode": {"avro": {"registry": "main"}}}`,
			Want: `there is no registry "main"`},
		{Name: "a container file with another schema", Step: `{"decode": {"avro": {"framing": "container", "schema": {"type": "int"}}}}`,
			Want: "a container file has its own schema"},
		{Name: "Protobuf without a schema", Step: `{"decode": {"protobuf": {}}}`, Want: "there is no schema"},
		{Name: "two sources of a schema", Step: `{"decode": {"protobuf": {"registry": "main", "schema": "a.proto"}}}`,
			Want: "payloads name their schema in the registry"},
		{Name: "a descriptor set without a message", Step: `{"decode": {"protobuf": {"descriptors": "a.binpb"}}}`,
			Want: "a descriptor set has many"},
		{Name: "a JSON Schema without a registry", Step: `{"decode": {"json_schema": {}}}`, Want: "the step `validate` checks them"},
		{Name: "a .proto file that is not there", Step: `{"decode": {"protobuf": "nowhere.proto"}}`, Want: "nowhere.proto: no such file"},
		{Name: "a reader that can't read", Step: `{"decode": {"avro": {"schema": {"type": "int"}, "reader": {"type": "string"}}}}`,
			Want: "the schema in `reader` can't read"},
		{Name: "a path that is none", Step: `{"decode": {"json": {}, "from": "a["}}`, Want: "a["},
	})
}

func TestDecodeConforms(t *testing.T) { steptest.Conforms(t, `{"decode": "logfmt"}`, `a=1`, `b`) }
