package fail_test

import (
	"testing"

	"github.com/flowd-io/flowd/internal/testing/steptest"
	_ "github.com/flowd-io/flowd/processors/fail"
)

func TestFail(t *testing.T) {
	steptest.Run(t, []steptest.Case{
		{Name: "every message fails with the reason", Step: `{"fail": "unknown plan $(plan)"}`,
			In:   []string{`{"plan":"x"}`, `{"plan":2}`},
			Want: []string{"failed permanent: unknown plan x", "failed permanent: unknown plan 2"}},
		{Name: "a class", Step: `{"fail": {"reason": "no $(plan)", "class": "rejected"}}`, In: []string{`{"plan":"x"}`},
			Want: []string{"failed rejected: no x"}},
		{Name: "a reason with a part that is nil fails too", Step: `{"fail": "plan $(plan)"}`, In: []string{`{}`},
			Want: []string{"failed expression: plan"}},
	})
}

func TestFailRefuses(t *testing.T) {
	steptest.RunRefused(t, []steptest.Refused{
		{Name: "no reason", Step: `{"fail": null}`, Want: "fail"},
		{Name: "a class without a reason", Step: `{"fail": {"class": "rejected"}}`, Want: "required"},
		{Name: "a class of the engine", Step: `{"fail": {"reason": "x", "class": "auth"}}`, Want: "class"},
		{Name: "a wait without another attempt", Step: `{"fail": {"reason": "x", "after": "5s"}}`, Want: "this class is not retried"},
	})
}

func TestFailConforms(t *testing.T) { steptest.Conforms(t, `{"fail": "no"}`) }
