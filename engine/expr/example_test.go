package expr

import (
	"strings"
	"testing"

	"github.com/flowd-io/flowd/engine/expr/internal/exprtest"
)

// The results in the docs of functions are right. Another test checks that each function has an example.
func TestExamplesOfFunctions(t *testing.T) {
	for _, f := range Functions(Scopes()...) {
		for line := range strings.SplitSeq(f.Example, "\n") {
			call, want, ok := strings.Cut(line, " → ")
			if line == "" {
				continue
			}
			if !ok || !strings.Contains(call, f.Name+"(") {
				t.Errorf("%s: %q is not a call and what it gives", f.Name, line)
				continue
			}
			if why, fails := strings.CutPrefix(want, "error: "); fails {
				if _, err := exprtest.EvalBoth(t, call, exprtest.NewMessage(exprtest.Sample)); exprtest.Short(err) != why {
					t.Errorf("%s: got error %q, want %q", call, exprtest.Short(err), why)
				}
				continue
			}
			if got, err := exprtest.EvalBoth(t, "("+call+") == ("+want+")", exprtest.NewMessage(exprtest.Sample)); got != true {
				got, _ := exprtest.EvalBoth(t, call, exprtest.NewMessage(exprtest.Sample))
				t.Errorf("%s: got %v, %v, want %s", call, got, err, want)
			}
		}
	}
}
