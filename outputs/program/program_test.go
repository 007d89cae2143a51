package program

import (
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/enginetest"
	"github.com/flowd-io/flowd/internal/testing/programtest"
)

func TestMain(m *testing.M) { programtest.Main(m) }

func newOutput(t *testing.T, program, more string) engine.Output {
	return enginetest.New(t, engine.Outputs, programtest.Component(program, more))
}

func TestConforms(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	enginetest.Output(t, func(t *testing.T) engine.Output { return newOutput(t, "answers", "") }, "a", "b")
}

func TestResults(t *testing.T) {
	const fast = `"restart": {"backoff": "1ms", "max_backoff": "2ms"}`
	for payload, want := range map[string]string{
		"written":    "",
		"fail busy":  ": busy", // the engine adds the class
		"trace":      "rejected: ValueError: 13",
		"up a":       "permanent: the program answered with a change (an output only confirms or fails)",
		"drop":       "permanent: the program answered with a change (an output only confirms or fails)",
		"crash":      "permanent: the program failed 3 times while it had only this message: the program ended: exit status 9",
		"error":      "transient: the database is gone",
		"exit":       "",
		"say hello":  "",
		"say hello2": "",
	} {
		t.Run(payload, func(t *testing.T) {
			t.Parallel()
			o := newOutput(t, "answers", fast)
			if err := o.(engine.Opener).Open(t.Context()); err != nil {
				t.Fatal(err)
			}
			b := enginetest.Batch("first", payload, "last")
			var all []*engine.Message
			for m := range b.All() {
				all = append(all, m)
			}
			if err := o.Write(t.Context(), b); err != nil {
				t.Fatal(err)
			}
			for i, m := range all {
				got := ""
				if e := m.Err(); e != nil {
					got = string(e.Class) + ": " + e.Error()
				}
				switch {
				case i == 1 && (!strings.HasPrefix(got, want) || want == "" && got != ""):
					t.Errorf("got %q, want %q", got, want)
				case i != 1 && got != "" && payload != "error":
					t.Errorf("message %d: %s", i, got)
				}
			}
			if err := o.(engine.Closer).Close(t.Context()); err != nil {
				t.Fatal(err)
			}
		})
	}
}
