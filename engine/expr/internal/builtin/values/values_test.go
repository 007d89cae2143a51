package values_test

import (
	"testing"

	"github.com/flowd-io/flowd/engine/expr/internal/exprtest"
)

func TestFailuresAndBytes(t *testing.T) {
	exprtest.CheckOutcomes(t, exprtest.Outcomes{
		{`try(status + name, "none")`, "none", ""},
		{`try(throw("no"), try(missing + 1, 2))`, 2, ""},
		{`try(map(list, # > 1 ? throw("big") : #), [])`, []any{}, ""},
		{`map(list, try(10 / (# - 1), -1))`, []any{5.0, -1, 10.0}, ""},
		{`let l = 1..1000; try(count(l, count(l, count(l, # > 0) > 0) > 0), 0)`, nil,
			"the expression takes more than 10000000 steps on this message (give it less to process, or raise engine.limits.expression.steps)"},
		{`throw("status " + string(status))`, nil, "status 503"},
		{`assert(status < 500, "server error")`, nil, "server error"},
		{`try(1)`, nil, "try() takes 2 arguments, not 1 (try(any, any) any)"},
		{`bytes("héllo")[1:3] == "é"`, true, ""},
		{`from_base64("/////w==")`, nil, "bytes are not a value that a document can contain" +
			" (write string(x) where they are text, else to_base64(x) or to_hex(x))"},
		{`{a: from_base64("/////w==")}`, nil, "at a: bytes are not a value that a document can contain" +
			" (write string(x) where they are text, else to_base64(x) or to_hex(x))"},
		{`string(from_base64("/////w=="))`, nil,
			"the bytes are not text in UTF-8 (to_base64(x) and to_hex(x) give text of any bytes)"},
		{`to_base64(from_base64("/////w==" + empty))`, "/////w==", ""},
	})
}
