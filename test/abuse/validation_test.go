package abuse

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/flowd-io/flowd/test/flowdtest"
)

// mostCPU limits the CPU time of flowd in attacks of this group, startup included.
const mostCPU = time.Second

var validations = []attack{
	{"documents that branches of a schema validate exponentially often", func(t *testing.T) {
		for name, schema := range map[string]string{
			"anyOf": `{"$ref":"#/$defs/n","$defs":{"n":{"anyOf":[{"properties":{"a":{"$ref":"#/$defs/n"}},"required":["b"]},
				{"properties":{"a":{"$ref":"#/$defs/n"}},"required":["c"]},{"type":"null"}]}}}`,
			"oneOf": `{"$ref":"#/$defs/n","$defs":{"n":{"oneOf":[
				{"properties":{"kind":{"const":1},"a":{"$ref":"#/$defs/n"}},"required":["kind"]},
				{"properties":{"kind":{"const":2},"a":{"$ref":"#/$defs/n"}},"required":["kind"],"additionalProperties":false}]}}}`,
			"not": `{"$ref":"#/$defs/n","$defs":{"n":{"not":{"dependentSchemas":{"a":{"$ref":"#/$defs/m"},"b":{"$ref":"#/$defs/m"}}}},
				"m":{"properties":{"a":{"$ref":"#/$defs/n"},"b":{"$ref":"#/$defs/n"}}}}}`,
			"$dynamicRef": `{"$id":"https://a.example/x","$dynamicAnchor":"n","allOf":[{"$ref":"tree"},{"$ref":"tree"}],
				"$defs":{"t":{"$id":"tree","$dynamicAnchor":"n","properties":{"a":{"$dynamicRef":"#n"}}}}}`,
		} {
			document := strings.Repeat(`{"kind":2,"b":{},"a":`, 130) + "1" + strings.Repeat("}", 130)
			r := validateLines(t, schema, "5s", strings.NewReader(strings.Repeat(document+"\n", 3)))
			if !strings.Contains(r.Stderr, "3 received: ") {
				t.Errorf("%s: %s", name, r.Stderr)
			}
		}
	}},
	{"a validation that takes longer than the step's timeout", func(t *testing.T) {
		wide := "[" + strings.Repeat(`"a",`, 1<<19) + `"a"]` + "\n"
		schema := `{"items":{"allOf":[` + strings.Repeat(`{"not":{"maxLength":0}},`, 19) + `{}]}}`
		r := validateLines(t, schema, "50ms", strings.NewReader(wide))
		r.Want(t, 1, "1 received: 1 dropped", "deadline")
	}},
	{"schemas from a registry that take exponential time, or much memory", func(t *testing.T) {
		ways := `{"$ref":"#/definitions/0","definitions":{` +
			numberedCopies(30, `"%d":{"allOf":[{"$ref":"#/definitions/%[2]d"},{"$ref":"#/definitions/%[2]d"}]},`) +
			`"30":{"type":"string"}}}`
		for _, a := range []struct{ format, kind, schema, says string }{
			{"json_schema", "JSON", ways, "got number, want string"},
			{"json_schema", "JSON", `{"allOf":[` + strings.Repeat("{},", 1<<18) + `{}]}`, "split it"},
			{"json_schema", "JSON", `{"allOf":[` + strings.Repeat(`{"pattern":"((a{10}){10}){10}"},`, 30_000) + `{}]}`,
				"regular expressions"},
			{"avro", "AVRO", doublingDefaults(30), "its defaults consist of more"},
			{"avro", "AVRO", `{"type":"record","name":"r","fields":[` + numberedCopies(40_000, `{"name":"a%d","type":"int"},`) +
				`{"name":"z","type":"int"}]}`, "split it"},
			{"protobuf", "PROTOBUF", `syntax="proto3"; message A {` + numberedCopies(40_000, `optional int32 a%d=%[2]d;`) + `}`,
				"split it"},
			{"protobuf", "PROTOBUF", `syntax="proto3";` + numberedCopies(100_000, `message A%d{}`), "split it"},
		} {
			decodeWithRegistry(t, a.format, a.kind, a.schema, []byte("1")).Want(t, 1, "1 received: 1 dropped", a.says)
		}
	}},
	{"a message that contains its own schema", func(t *testing.T) {
		schema := doublingDefaults(30)
		file := append([]byte("Obj\x01\x02\x16avro.schema"), binary.AppendVarint(nil, int64(len(schema)))...)
		file = append(append(file, schema...), "\x00"+strings.Repeat("s", 16)...)
		r := runPipeline(t, `
inputs: {in: {stdin: {framing: {length: 4}}}}
processors: [{decode: {avro: {framing: container}}}]
outputs: {out: {drop: {}}}`, repeated(framed(file), 3))
		r.Want(t, 1, "3 received: 3 dropped", "its defaults consist of more")
		withinCPU(t, r)
	}},
	{"a message index with a longer encoding than necessary", func(t *testing.T) {
		decodeWithRegistry(t, "protobuf", "PROTOBUF", `syntax="proto3"; message A {int32 a=1;}`, []byte("\x80\x80\x00\x08\x01")).
			Want(t, 0, "1 delivered")
	}},
}

// numberedCopies repeats a format n times. %d counts from 0, %[2]d from 1.
func numberedCopies(n int, format string) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(strings.NewReplacer("%d", strconv.Itoa(i), "%[2]d", strconv.Itoa(i+1)).Replace(format))
	}
	return b.String()
}

// doublingDefaults is an Avro schema with nested records. Each record has two fields whose default is the next record, so
// that defaults double in size at each level.
func doublingDefaults(levels int) string {
	schema := `{"type":"record","name":"r` + strconv.Itoa(levels) + `","fields":[{"name":"x","type":"int","default":1}]}`
	for i := levels - 1; i >= 0; i-- {
		schema = fmt.Sprintf(`{"type":"record","name":"r%d","fields":[{"name":"a","type":%s,"default":{}},
			{"name":"b","type":"r%d","default":{}}]}`, i, schema, i+1)
	}
	return schema
}

// validateLines runs lines through the step validate, within mostCPU.
func validateLines(t *testing.T, schema, timeout string, in io.Reader) flowdtest.Result {
	t.Helper()
	r := runPipeline(t, `
inputs: {in: {stdin: {framing: lines, max_record: 4MiB}}}
processors: [{validate: {schema: `+strings.Join(strings.Fields(schema), " ")+`}, timeout: `+timeout+`}]
outputs: {out: {drop: {}}}
engine: {on_failure: {retry: {max_attempts: 1}}}`, in)
	withinCPU(t, r)
	return r
}

// decodeWithRegistry decodes a payload with a schema from a registry, within mostCPU. The payload has no schema id.
func decodeWithRegistry(t *testing.T, format, kind, schema string, payload []byte) flowdtest.Result {
	t.Helper()
	answer, err := json.Marshal(map[string]string{"schemaType": kind, "schema": schema})
	if err != nil {
		t.Fatal(err)
	}
	registry := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(answer) }))
	defer registry.Close()
	r := runPipeline(t, `
inputs: {in: {stdin: {framing: {length: 4}}}}
processors: [{decode: {`+format+`: {registry: main}}}]
outputs: {out: {drop: {}}}
resources: {registries: {main: {url: "`+registry.URL+`"}}}`, bytes.NewReader(framed(append([]byte("\x00\x00\x00\x00\x01"), payload...))))
	withinCPU(t, r)
	return r
}

func withinCPU(t *testing.T, r flowdtest.Result) {
	t.Helper()
	t.Logf("%v of CPU time", r.CPU)
	if r.CPU > mostCPU {
		t.Errorf("used %v of CPU time, want at most %v\n%s", r.CPU, mostCPU, r.Stderr)
	}
}
