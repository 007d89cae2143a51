package window_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	_ "github.com/flowd-io/flowd/batchers/window"
	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/enginetest"
	"github.com/flowd-io/flowd/engine/runtime"
	"github.com/flowd-io/flowd/internal/testing/steptest"
	_ "github.com/flowd-io/flowd/processors/aggregate"
	_ "github.com/flowd-io/flowd/processors/set"
	_ "github.com/flowd-io/flowd/processors/split"
	"github.com/google/go-cmp/cmp"
)

// events returns payloads with key a and quantity 2 at these seconds past noon.
func events(at ...float64) (payloads []string) {
	noon := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	for _, s := range at {
		at := noon.Add(time.Duration(s * float64(time.Second)))
		payloads = append(payloads, fmt.Sprintf(`{"k":"a","qty":2,"at":%q}`, at.Format(time.RFC3339Nano)))
	}
	return payloads
}

const total = `{"aggregate": {"total": "sum(messages(), .qty)", "from": "format(window().start, \"15:04:05\")", "to": ` +
	`"format(window().end, \"15:04:05\")", "part": "window().part", "key": "batch_key()"}}`

// pipeline returns a pipeline from src through a window batcher with a key to dst.
func pipeline(t *testing.T, src *enginetest.Source, dst *enginetest.Sink, window, steps string) *engine.Pipeline {
	t.Helper()
	var b engine.BatcherSpec
	steptest.Decode(t, `{"key": "k", "window": `+window+`, "processors": [`+steps+`], "output": "out"}`, &b)
	return &engine.Pipeline{
		Inputs:   enginetest.Named("in", src.Input()),
		Batchers: enginetest.Named("w", b),
		Outputs:  enginetest.Named("out", dst.Output()),
		Engine:   engine.EngineSpec{Workers: 1},
	}
}

func TestAggregateSeesTheWindow(t *testing.T) {
	tests := []struct {
		name, window string
		at           []float64
		want         []string
		failed       int64
	}{
		{"of a length", `{"every": "10s", "time": "at"}`, []float64{1, 9, 12, 25, 14}, []string{
			`{"total":4,"from":"12:00:00","to":"12:00:10","part":1,"key":"a"}`,
			`{"total":2,"from":"12:00:10","to":"12:00:20","part":1,"key":"a"}`,
			`{"total":2,"from":"12:00:20","to":"12:00:30","part":1,"key":"a"}`,
		}, 1},
		{"that slides over copies", `{"every": "10s", "slide": "5s", "time": "at"}`, []float64{1, 7, 12, 30}, []string{
			`{"total":2,"from":"11:59:55","to":"12:00:05","part":1,"key":"a"}`,
			`{"total":4,"from":"12:00:00","to":"12:00:10","part":1,"key":"a"}`,
			`{"total":4,"from":"12:00:05","to":"12:00:15","part":1,"key":"a"}`,
			`{"total":2,"from":"12:00:10","to":"12:00:20","part":1,"key":"a"}`,
			`{"total":2,"from":"12:00:25","to":"12:00:35","part":1,"key":"a"}`,
			`{"total":2,"from":"12:00:30","to":"12:00:40","part":1,"key":"a"}`,
		}, 0},
		{"of a session that was bridged", `{"session": "5s", "time": "at", "lateness": "20s"}`, []float64{1, 9, 5, 60},
			[]string{
				`{"total":6,"from":"12:00:01","to":"12:00:14","part":1,"key":"a"}`,
				`{"total":2,"from":"12:01:00","to":"12:01:05","part":1,"key":"a"}`,
			}, 0},
	}
	for _, tt := range tests {
		for _, perRead := range []int{0, 1} {
			t.Run(fmt.Sprintf("%s, %d per read", tt.name, perRead), func(t *testing.T) {
				src := &enginetest.Source{Payloads: events(tt.at...), Takes: engine.TakesOne, PerRead: perRead}
				dst := &enginetest.Sink{}
				rep := enginetest.Run(t, pipeline(t, src, dst, tt.window, total), nil)
				if diff := cmp.Diff(tt.want, dst.Bodies()); diff != "" || rep.Err != nil {
					t.Errorf("err %v, delivered (-want +got):\n%s", rep.Err, diff)
				}
				if n := rep.Stats.Roots.Ended[engine.Returned]; n != tt.failed {
					t.Errorf("%d messages were returned, want %d", n, tt.failed)
				}
				for body, r := range src.Results() {
					if r.Fate == engine.Returned && r.Err.Class != engine.Late {
						t.Errorf("%s: class %s", body, r.Err.Class)
					}
				}
			})
		}
	}
}

func TestStepsOnEachMessageSeeTheWindowOfTheirCopy(t *testing.T) {
	src, dst := &enginetest.Source{Payloads: events(7, 30), PerRead: 1}, &enginetest.Sink{}
	steps := `{"set": {"from": "format(window().start, \"05\")", "at": "nil", "n": "batch_size()"}}`
	enginetest.Run(t, pipeline(t, src, dst, `{"every": "10s", "slide": "5s", "time": "at"}`, steps), nil)
	var want []string
	for _, from := range []string{"00", "05", "25", "30"} {
		want = append(want, fmt.Sprintf(`{"k":"a","qty":2,"at":null,"from":%q,"n":1}`, from))
	}
	if diff := cmp.Diff(want, dst.Bodies()); diff != "" {
		t.Errorf("delivered (-want +got):\n%s", diff)
	}
}

func TestByTheClockWindowsCloseOnTheirMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := &enginetest.Source{Payloads: events(0, 0, 0, 0, 0, 0, 0), PerRead: 1, Every: 25 * time.Second}
		dst := &enginetest.Sink{}
		begin := time.Now() // the fake clock begins at midnight
		rep := enginetest.Run(t, pipeline(t, src, dst, `{"every": "1m"}`, ""), nil)
		var got []string
		for _, w := range dst.Writes() {
			got = append(got, fmt.Sprintf("%v %s %d", w.At.Sub(begin), w.Trigger, len(w.Bodies)))
		}
		want := []string{"1m0s timeout 2", "2m0s timeout 2", "3m0s timeout 3"}
		if diff := cmp.Diff(want, got); diff != "" || rep.Err != nil {
			t.Errorf("err %v, writes (-want +got):\n%s", rep.Err, diff)
		}
	})
}

// TestAWindowLargerThanThePipelineLeavesInParts would hang if windows waited for messages for which there are no credits.
func TestAWindowLargerThanThePipelineLeavesInParts(t *testing.T) {
	for _, window := range []string{`{"every": "1h", "time": "at"}`, `{"every": "1h", "slide": "20m", "time": "at"}`,
		`{"session": "1h", "time": "at"}`, `{"every": "1h"}`} {
		t.Run(window, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var at []float64
				for i := range 1000 {
					at = append(at, 1200+float64(i)/1000)
				}
				src, dst := &enginetest.Source{Payloads: events(at...), Takes: engine.TakesOne}, &enginetest.Sink{}
				p := pipeline(t, src, dst, window, total)
				p.Engine.MaxInFlight.Messages = 100
				var log bytes.Buffer
				plan, problems := runtime.Build(p, runtime.Options{Log: slog.New(slog.NewTextHandler(&log, nil))})
				if plan == nil {
					t.Fatal(problems)
				}
				rep := plan.Run(t.Context(), t.Context())
				if c := rep.Stats.Pieces; rep.Err != nil || !c.Balanced() || c.InFlight != 0 ||
					rep.Stats.Roots.Ended[engine.Delivered] != 1000 {
					t.Errorf("err %v, roots %+v, pieces %+v", rep.Err, rep.Stats.Roots, c)
				}
				if n := strings.Count(log.String(), "raise engine.max_in_flight"); n != 1 {
					t.Errorf("%d warnings, want 1:\n%s", n, &log)
				}
				bodies := dst.Bodies()
				if len(bodies) < 10 {
					t.Errorf("%d parts, want at least ten:\n%s", len(bodies), strings.Join(bodies, "\n"))
				}
				slices.Sort(bodies)
				if unique := slices.Compact(slices.Clone(bodies)); len(unique) != len(bodies) {
					t.Errorf("parts are alike:\n%s", strings.Join(bodies, "\n"))
				}
			})
		})
	}
}

// TestPartsOfASplitGoIntoWindowsWithoutRoom would hang if copies did not count as messages that can release credits.
func TestPartsOfASplitGoIntoWindowsWithoutRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var lists []string
		for range 5 {
			lists = append(lists, "["+strings.Join(events(1, 2, 3), ",")+"]")
		}
		src, dst := &enginetest.Source{Payloads: lists, PerRead: 1, Takes: engine.TakesOne}, &enginetest.Sink{}
		p := pipeline(t, src, dst, `{"every": "10s", "slide": "5s", "time": "at"}`, "")
		p.Engine.MaxInFlight.Messages = 1
		p.Processors = engine.Steps{{Use: enginetest.Processing(enginetest.New(t, engine.Processors,
			`{"split": "this"}`))}}
		rep := enginetest.Run(t, p, nil)
		if n := len(dst.Bodies()); rep.Err != nil || n != 30 {
			t.Errorf("err %v, %d messages were written, want 15 in two windows each", rep.Err, n)
		}
	})
}
