package codetext_test

import (
	"testing"

	"github.com/flowd-io/flowd/engine/expr/internal/codetext"
	"github.com/flowd-io/flowd/schema"
)

// Errors point into the text, whatever the length of a placeholder's value is, and do not show the value.
func TestAnOriginKnowsWhereCodeIsFrom(t *testing.T) {
	const text = `a + ${X} + b`
	c := &codetext.Coder{}
	c.Add("a + ", 0)
	c.AddPlaceholder(schema.Piece{Text: "12345", Offset: len("a + "), Placeholder: true})
	c.Add(" + b", len("a + ${X}"))
	code := string(c.Code)
	if want := "a +  12345  + b"; code != want {
		t.Fatalf("got %q, want %q", code, want)
	}
	o := codetext.Origin{Text: text, Runs: c.Runs}
	for _, tt := range []struct {
		at, want int
		hidden   bool
	}{
		{0, 0, false},
		{len("a + "), len("a + "), true},
		{len("a +  12"), len("a + "), true},
		{len(code) - 1, len(text) - 1, false},
		{len(code) + 5, len(text), false},
	} {
		if got := o.At(tt.at); got != tt.want {
			t.Errorf("byte %d of the code is at %d, want %d", tt.at, got, tt.want)
		}
		if got := o.Hidden(tt.at, tt.at+1); got != tt.hidden {
			t.Errorf("byte %d of the code is hidden: got %v", tt.at, got)
		}
	}
}

func TestCallsThatAreStillOpen(t *testing.T) {
	for code, want := range map[string]string{
		`upper(`: "upper", `upper(lower(x), `: "upper", `f(")", `: "f", `f(a) + [`: "", `f(/* ) */ `: "f", "g(`(`": "g", `(`: "",
	} {
		if got, _ := codetext.CallBefore(code); got != want {
			t.Errorf("%s: got %q, want %q", code, got, want)
		}
	}
}
