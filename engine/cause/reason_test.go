package cause_test

import (
	"testing"

	"github.com/flowd-io/flowd/engine/cause"
)

func TestReasonsAreToldApart(t *testing.T) {
	same := [][2]string{
		{"", ""},
		{"after 5 attempts", "after 12 attempts"},
		{`cannot compare text "abc" with number 5`, `cannot compare text "x \" y" with number 7.25`},
		{"key 'a' is missing", "key 'b c' is missing"},
		{"order 7f1c0e02-1b1d-4e0b-9a67-1c0f9a2d8c11 is unknown", "order 0aa1 is unknown"},
		{"dial tcp 10.0.0.1:5432: refused", "dial tcp 10.0.0.27:5433: refused"},
	}
	for _, tt := range same {
		if cause.Reason(tt[0]) != cause.Reason(tt[1]) {
			t.Errorf("%q and %q have different reasons", tt[0], tt[1])
		}
	}
	different := [][2]string{
		{"", "x"},
		{"timeout", "refused"},
		{"cannot compare nothing with number 5", `cannot compare text "a" with number 5`},
		{"it can't be read, or it can't be opened", "it can't be found, or it can't be opened"},
		{`a quote that stays open: "abc`, `a quote that stays open: "def`},
	}
	for _, tt := range different {
		if cause.Reason(tt[0]) == cause.Reason(tt[1]) {
			t.Errorf("%q and %q have the same reason", tt[0], tt[1])
		}
	}
}

func TestReasonAllocatesNothing(t *testing.T) {
	text := `step check: cannot compare text "abc" with number 5` + "\n  total > 5\n        ^"
	if n := testing.AllocsPerRun(100, func() { cause.Reason(text) }); n > 0 {
		t.Errorf("Reason allocates %v times", n)
	}
}

func TestTemplateLeavesOutWhatVaries(t *testing.T) {
	for text, want := range map[string]string{
		`order "x 1" of 10.0.0.1:5432: refused`:    `order "…" of …:…: refused`,
		"server answered 422 Unprocessable Entity": "server answered … Unprocessable Entity",
		"it can't be read":                         "it can't be read",
		`a quote that stays open: "abc`:            `a quote that stays open: "…"abc`,
		"the field \"total\" is text\n  total > 5": "the field \"…\" is text\n  total > …",
	} {
		if got := cause.Template(text); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}
