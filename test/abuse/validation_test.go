package abuse

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/flowd-io/flowd/test/flowdtest"
)

// mostCPU is what a row of this group may take, the start of flowd included.
const mostCPU = time.Second

var validations = []attack{
	{"documents that branches of a schema look at again and again", func(t *testing.T) {
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
			r := validated(t, schema, "5s", strings.NewReader(strings.Repeat(document+"\n", 3)))
			if !strings.Contains(r.Stderr, "3 received: ") {
				t.Errorf("%s: %s", name, r.Stderr)
			}
		}
	}},
	{"a check that takes longer than its step may", func(t *testing.T) {
		wide := "[" + strings.Repeat(`"a",`, 1<<19) + `"a"]` + "\n"
		schema := `{"items":{"allOf":[` + strings.Repeat(`{"not":{"maxLength":0}},`, 19) + `{}]}}`
		r := validated(t, schema, "50ms", strings.NewReader(wide))
		r.Want(t, 1, "1 received: 1 dropped", "deadline")
	}},
	{"a registry's schemas that take exponential time, or much memory", func(t *testing.T) {
		var chain strings.Builder
		for i := range 30 {
			fmt.Fprintf(&chain, `"%d":{"allOf":[{"$ref":"#/definitions/%d"},{"$ref":"#/definitions/%d"}]},`, i, i+1, i+1)
		}
		for name, a := range map[string]struct{ kind, schema, says string }{
			"json_schema": {"JSON", `{"$ref":"#/definitions/0","definitions":{` + chain.String() + `"30":{"type":"string"}}}`,
				"got number, want string"},
			"json_schema: many schemas": {"JSON", `{"allOf":[` + strings.Repeat("{},", 1<<20) + `{}]}`, "(split it)"},
			"json_schema: patterns": {"JSON", `{"allOf":[` + strings.Repeat(`{"pattern":"((a{10}){10}){10}"},`, 30_000) + `{}]}`,
				"regular expressions"},
		} {
			format, _, _ := strings.Cut(name, ":")
			r := decoded(t, format, a.kind, a.schema, []byte("\x00\x00\x00\x00\x011"))
			r.Want(t, 1, "1 received: 1 dropped", a.says)
		}
	}},
}

// validated is what becomes of lines that the step validate checks, which may take mostCPU.
func validated(t *testing.T, schema, timeout string, in io.Reader) flowdtest.Result {
	t.Helper()
	r := swallow(t, `
inputs: {in: {stdin: {framing: lines, max_record: 4MiB}}}
processors: [{validate: {schema: `+strings.Join(strings.Fields(schema), " ")+`}, timeout: `+timeout+`}]
outputs: {out: {drop: {}}}
engine: {on_failure: {retry: {max_attempts: 1}}}`, in)
	withinCPU(t, r)
	return r
}

// decoded is what becomes of a payload of a format whose schema a registry has.
func decoded(t *testing.T, format, kind, schema string, payload []byte) flowdtest.Result {
	t.Helper()
	answer, err := json.Marshal(map[string]string{"schemaType": kind, "schema": schema})
	if err != nil {
		t.Fatal(err)
	}
	registry := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(answer) }))
	defer registry.Close()
	r := swallow(t, `
inputs: {in: {stdin: {framing: {length: 4}}}}
processors: [{decode: {`+format+`: {registry: main}}}]
outputs: {out: {drop: {}}}
resources: {registries: {main: {url: "`+registry.URL+`"}}}`, strings.NewReader(string(framed(payload))))
	withinCPU(t, r)
	return r
}

func withinCPU(t *testing.T, r flowdtest.Result) {
	t.Helper()
	t.Logf("%v of CPU", r.CPU)
	if r.CPU > mostCPU {
		t.Errorf("%v of CPU were used, %v may be\n%s", r.CPU, mostCPU, r.Stderr)
	}
}
