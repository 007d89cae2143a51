package exprtest

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/flowd-io/flowd/engine/expr/internal/lang"
)

// Failures are expressions, the errors that they fail with, and where the caret is.
type Failures []struct{ Src, Want, At string }

// CheckFailures checks the errors of expressions.
func CheckFailures(t *testing.T, m *Message, tests Failures) {
	t.Helper()
	for _, tt := range tests {
		_, err := EvalBoth(t, tt.Src, m)
		var e *lang.Error
		if !errors.As(err, &e) || e.Short() != tt.Want {
			t.Errorf("%s\n got %s\nwant %s", tt.Src, Short(err), tt.Want)
		} else if !strings.HasPrefix(tt.Src[e.Offset:], tt.At) {
			t.Errorf("%s: caret at %q, want at %q", tt.Src, tt.Src[e.Offset:], tt.At)
		}
	}
}

// Values are expressions and their values.
type Values []struct {
	Name, Src string
	Want      any
}

// CheckValues checks the values of expressions.
func CheckValues(t *testing.T, m *Message, tests Values) {
	for _, test := range tests {
		t.Run(test.Name, func(t *testing.T) {
			got, err := EvalBoth(t, test.Src, m)
			if diff := cmp.Diff(got, test.Want); diff != "" || err != nil {
				t.Errorf("%s: %v (-got +want):\n%s", test.Src, err, diff)
			}
		})
	}
}

// Mistakes are expressions, the errors that they fail with, and the part of their text where the caret is.
type Mistakes []struct {
	Name, Src, Want, At string
	Late                bool // they fail on a message, not at load
}

// CheckMistakes checks the errors of expressions, and whether they come at load.
func CheckMistakes(t *testing.T, m *Message, tests Mistakes) {
	for _, test := range tests {
		t.Run(test.Name, func(t *testing.T) {
			_, err := Compile(test.Src, false)
			if (err == nil) != test.Late {
				t.Fatalf("got the error %v at load", err)
			}
			if test.Late {
				_, err = EvalBoth(t, test.Src, m)
			}
			var e *lang.Error
			if !errors.As(err, &e) || e.Short() != test.Want || !strings.HasPrefix(test.Src[e.Offset:], test.At) {
				t.Errorf("got %v\nwant %s at %s", err, test.Want, test.At)
			}
		})
	}
}

// Outcomes are expressions over [Sample] with their values, or, if Want is nil, their errors. An Err of "" is any error, or the
// value nil.
type Outcomes []struct {
	Src  string
	Want any
	Err  string
}

// CheckOutcomes checks the values and errors of expressions.
func CheckOutcomes(t *testing.T, tests Outcomes) {
	for _, tt := range tests {
		t.Run(tt.Src, func(t *testing.T) {
			got, err := EvalBoth(t, tt.Src, NewMessage(Sample))
			if tt.Want == nil {
				if tt.Err != "" && Short(err) != tt.Err {
					t.Fatalf("got %v, error %q\nwant     %q", got, Short(err), tt.Err)
				}
				return
			}
			if diff := cmp.Diff(got, tt.Want); diff != "" || err != nil {
				t.Errorf("error %v (-got +want):\n%s", err, diff)
			}
		})
	}
}
