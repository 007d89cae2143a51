package expr

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/flowd-io/flowd/engine/expr/internal/exprtest"
)

// The results in the guide are right.
func TestExamplesOfTheGuide(t *testing.T) {
	text, err := os.ReadFile("../../docs/expressions.md")
	if err != nil {
		t.Fatal(err)
	}
	_, document, _ := strings.Cut(string(text), "```json\n")
	document, _, _ = strings.Cut(document, "```")
	evaluated := 0
	for _, block := range regexp.MustCompile("(?ms)^```expr\n(.*?)^```$").FindAllStringSubmatch(string(text), -1) {
		for line := range strings.Lines(block[1]) {
			evaluated++
			src, want, ok := strings.Cut(strings.TrimSpace(line), " → ")
			got, err := exprtest.EvalBoth(t, src, exprtest.NewMessage(document))
			if why, fails := strings.CutPrefix(want, "error: "); fails {
				if exprtest.Short(err) != why {
					t.Errorf("%s: got %v, error %q, want %q", src, got, exprtest.Short(err), why)
				}
				continue
			}
			is, cerr := exprtest.EvalBoth(t, "("+src+") == ("+want+")", exprtest.NewMessage(document))
			if !ok || is != true {
				t.Errorf("%s: got %v, %v, want %s (%v)", src, got, err, want, cerr)
			}
		}
	}
	if evaluated < 50 {
		t.Errorf("only %d examples", evaluated)
	}
}
