package engine

import (
	"testing"
	"time"

	"github.com/flowd-io/flowd/schema"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func TestARetryTakesOverWhatItLeavesOut(t *testing.T) {
	backoff := Retry{MaxAttempts: 3, Backoff: time.Second, MaxBackoff: time.Minute, MaxAge: time.Hour}
	waits := Retry{MaxAttempts: 0, Backoff: 200 * time.Millisecond, MaxBackoff: 30 * time.Second,
		Intervals: []time.Duration{time.Second}}
	written := func(r Retry, keys ...string) Retry {
		r.Place.Node = &schema.Node{Kind: schema.MapNode}
		for _, key := range keys {
			r.Place.Node.Keys = append(r.Place.Node.Keys, &schema.Node{Text: key})
			r.Place.Node.Items = append(r.Place.Node.Items, &schema.Node{})
		}
		return r
	}
	tests := []struct {
		name      string
		own, from Retry
		want      Retry
	}{
		{"nothing is written", written(Retry{MaxAttempts: 5}), backoff, backoff},
		{"attempts alone", written(Retry{MaxAttempts: 9}, "max_attempts"), backoff,
			Retry{MaxAttempts: 9, Backoff: time.Second, MaxBackoff: time.Minute, MaxAge: time.Hour}},
		{"attempts beside intervals", written(Retry{MaxAttempts: 9}, "max_attempts"), waits, Retry{MaxAttempts: 9,
			Backoff: 200 * time.Millisecond, MaxBackoff: 30 * time.Second, Intervals: waits.Intervals}},
		{"a back-off leaves out intervals", written(Retry{Backoff: time.Minute}, "backoff"), waits,
			Retry{Backoff: time.Minute, MaxBackoff: 30 * time.Second}},
		{"intervals leave out a back-off", written(Retry{Intervals: waits.Intervals}, "intervals"), backoff,
			Retry{MaxAttempts: 3, MaxAge: time.Hour, Intervals: waits.Intervals}},
		{"what a program made is whole", Retry{MaxAttempts: 1}, backoff, Retry{MaxAttempts: 1}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if d := cmp.Diff(tt.want, tt.own.Over(tt.from), cmpopts.IgnoreFields(Retry{}, "Place")); d != "" {
				t.Error(d)
			}
		})
	}
}
