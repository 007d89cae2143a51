package payload_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/enginetest"
	"github.com/flowd-io/flowd/internal/testing/steptest"
	_ "github.com/flowd-io/flowd/processors/payload"
)

func TestPayload(t *testing.T) {
	steptest.Run(t, []steptest.Case{
		{Name: "text is as it is", Step: `{"payload": "name"}`, In: []string{`{"name":"\"Ann\"\n"}`},
			Want: []string{"\"Ann\"\n"}},
		{Name: "no text at all", Step: `{"payload": "\"\""}`, In: []string{`{}`}, Want: []string{""}},
		{Name: "bytes are as they are", Step: `{"payload": "from_base64(data)"}`, In: []string{`{"data":"/wD+"}`},
			Want: []string{"\xff\x00\xfe"}},
		{Name: "anything else is JSON", Step: `{"payload": "x"}`,
			In:   []string{`{"x":[1, "a"]}`, `{"x":2.50}`, `{"x":null}`, `{}`},
			Want: []string{`[1,"a"]`, `2.5`, `null`, `null`}},
		{Name: "a field of what has none", Step: `{"payload": "v"}`, In: []string{`5`, `[{"v":1}]`},
			Want: []string{"failed permanent: v is not a field: the document is a number, not an object",
				"failed permanent: v is not a field: the document is an array, not an object"}},
		{Name: "bytes as they are, and where they can't be", Step: `{"payload": "{a: raw()}"}`, In: []string{"\xff\xfe"},
			Want: []string{"failed expression: a: the text is not UTF-8, as a document must be"}},
		{Name: "bytes that are not text have no upper case", Step: `{"payload": "upper(raw())"}`, In: []string{"\xff"},
			Want: []string{"failed expression: upper() needs text in UTF-8 (to_base64(x) and to_hex(x) give text of any bytes)"}},
		{Name: "bytes are compared as they are", Step: `{"payload": "raw() contains \"a\""}`, In: []string{"\xffa", "\xff"},
			Want: []string{"true", "false"}},
		{Name: "lone surrogates are not equal", Step: `{"payload": "a == b"}`, In: []string{`{"a":"\ud800","b":"\ud801"}`},
			Want: []string{`failed expression: a: the text has half of a character, the surrogate \ud800 (correct it at its source)`}},
		{Name: "one among other fields", Step: `{"payload": "{b: this}"}`, In: []string{`{"a":"\udc00"}`},
			Want: []string{`failed expression: the text has half of a character, the surrogate \udc00`}},
		{Name: "a time is as in a document", Step: `{"payload": "date(\"2026-01-02\")"}`, In: []string{`{}`},
			Want: []string{"2026-01-02T00:00:00Z"}},
		{Name: "a payload that is not a document", Step: `{"payload": "upper(raw())"}`, In: []string{"abc"},
			Want: []string{"ABC"}},
		{Name: "a failure leaves the message as it was", Step: `{"payload": "from_base64(data)"}`,
			In: []string{`{"data":"eA=="}`, `{"data": "?"}`}, Want: []string{"x", "failed expression: "}},
	})
}

func TestPayloadConforms(t *testing.T) {
	steptest.Conforms(t, `{"payload": "this.a"}`, `{"a":1}`, `{"c":2}`)
}

func TestATemplateIsRefusedWithWhatToWrite(t *testing.T) {
	got := fmt.Sprint(enginetest.Problems(t, engine.Processors, `{"payload": "id $(id)"}`))
	if !strings.Contains(got, "this is an expression, not a template") || !strings.Contains(got, `"id " + string(id)`) {
		t.Errorf("got %s", got)
	}
}
