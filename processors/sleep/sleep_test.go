package sleep_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/enginetest"
	"github.com/flowd-io/flowd/internal/testing/steptest"
	_ "github.com/flowd-io/flowd/processors/sleep"
)

func TestSleepWaitsOncePerMessage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := enginetest.New(t, engine.Processors, `{"sleep": "$(ms)ms"}`)
		start := time.Now()
		if err := p.Process(t.Context(), enginetest.Batch(`{"ms":10}`, `{"ms":20}`)); err != nil {
			t.Fatal(err)
		}
		if got, want := time.Since(start), 30*time.Millisecond; got != want {
			t.Errorf("slept %v, want %v", got, want)
		}
	})
}

func TestSleepEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := enginetest.New(t, engine.Processors, `{"sleep": "1h"}`)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start := time.Now()
		b := enginetest.Batch(`{}`)
		if err := p.Process(ctx, b); err != nil {
			t.Fatal(err)
		}
		if got, want := time.Since(start), time.Second; got != want {
			t.Errorf("slept %v, want %v", got, want)
		}
		for m := range b.All() {
			t.Errorf("%s goes on as if the time were over", m.Bytes())
		}
		for m := range b.Ended() {
			if got := m.Err().Class; got != engine.Timeout {
				t.Errorf("class %s, want %s", got, engine.Timeout)
			}
			if got, want := m.Err().Error(), "a sleep of 1h0m0s exceeds the step's timeout"; !strings.Contains(got,
				want) {
				t.Errorf("message %q, want it to contain %q", got, want)
			}
		}
	})
}

func TestSleepFailsInvalidDurations(t *testing.T) {
	steptest.Run(t, []steptest.Case{
		{Name: "text that is no duration", Step: `{"sleep": "$(t)"}`, In: []string{`{"t":"soon"}`},
			Want: []string{`failed permanent: "soon" is not a valid duration to sleep`}},
		{Name: "a negative duration", Step: `{"sleep": "$(t)"}`, In: []string{`{"t":"-1s"}`},
			Want: []string{`failed permanent: "-1s" is not a valid duration to sleep`}},
	})
	steptest.RunRefused(t, []steptest.Refused{
		{Name: "a bare number", Step: `{"sleep": "10"}`, Want: `"10" is not a valid duration to sleep`},
		{Name: "nothing", Step: `{"sleep": null}`, Want: "sleep"},
	})
}

func TestSleepConforms(t *testing.T) { steptest.Conforms(t, `{"sleep": "1ns"}`, `{"a":1}`, `{"c":2}`) }
