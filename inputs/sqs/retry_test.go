package sqs

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/enginetest"
	"github.com/flowd-io/flowd/internal/testing/fakesqs"
)

// tried is an attempt: its time, its number, and how often the message was received before.
type tried struct {
	at                time.Duration
	attempt, receives int
}

// tries runs a pipeline whose only step fails "bad", and returns the attempts.
func tries(t *testing.T, b *bench, retry engine.Retry, d time.Duration) (all []tried, dlq *enginetest.Sink) {
	t.Helper()
	began := time.Now()
	dst := &enginetest.Sink{}
	dlq = &enginetest.Sink{}
	p := b.pipeline(dst, enginetest.Step("check", func(_ context.Context, m *engine.Message) error {
		if string(m.Bytes()) != "bad" {
			return nil
		}
		count, _ := m.Meta.Get("receive_count")
		all = append(all, tried{time.Since(began).Round(time.Second), m.Attempt, count.(int)})
		return engine.WithClass(engine.Transient, errBad)
	}))
	withDeadLetters(p, dst, dlq)
	p.Engine.OnFailure.Then.Word, p.Engine.OnFailure.Retry = "dead_letter", &retry
	b.run(t, p, d)
	if got := dst.Bodies(); !slices.Equal(got, []string{"good"}) {
		t.Errorf("delivered %q", got)
	}
	return all, dlq
}

func TestAttemptsContinueFromThePipelineToTheQueueToTheDeadLetters(t *testing.T) {
	tests := []struct {
		name  string
		retry engine.Retry
		want  []tried
		at    int // number of the attempt in the history of the dead letter
	}{
		{
			"a short wait in the pipeline, a long one in the queue",
			engine.Retry{Intervals: []time.Duration{5 * time.Second, time.Minute, 10 * time.Minute}, MaxAttempts: 3},
			[]tried{{0, 1, 1}, {5 * time.Second, 1, 1}, {65 * time.Second, 3, 2}}, 3,
		},
		{
			"long ones, then a short one", engine.Retry{Intervals: []time.Duration{time.Minute, 5 * time.Second,
				10 * time.Minute}, MaxAttempts: 4},
			[]tried{{0, 1, 1}, {time.Minute, 2, 2}, {65 * time.Second, 2, 2}, {665 * time.Second, 4, 3}}, 4,
		},
		{
			"long ones alone", engine.Retry{Intervals: []time.Duration{time.Minute, 10 * time.Minute}, MaxAttempts: 4},
			[]tried{{0, 1, 1}, {time.Minute, 2, 2}, {11 * time.Minute, 3, 3}, {21 * time.Minute, 4, 4}}, 4,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			virtual(t, fakesqs.Queue{}, nil, func(t *testing.T, b *bench) {
				b.Put("orders", "bad", "good")
				all, dlq := tries(t, b, tt.retry, time.Hour)
				if !slices.Equal(all, tt.want) {
					t.Errorf("tried %+v, want %+v", all, tt.want)
				}
				if got := dlq.Bodies(); !slices.Equal(got, []string{"bad"}) || len(b.Messages("orders")) != 0 ||
					b.in.tries.Len() != 0 {
					t.Fatalf("dead letters %q, left %q, %d counted", got, b.Bodies("orders"), b.in.tries.Len())
				}
				m := dlq.Writes()[0].Metas[0]
				last := tt.want[len(tt.want)-1]
				if m["error_attempt"] != tt.at || m["receive_count"] != last.receives || m["error_step"] != "check" ||
					m["error_message"] != "no good" || m["queue"] != "orders" || m["message_id"] != "orders-1" {
					t.Errorf("its history: %v", m)
				}
			})
		})
	}
}

func TestAWaitingMessageIsHiddenInTheQueueAndNotHeldInThePipeline(t *testing.T) {
	virtual(t, fakesqs.Queue{}, nil, func(t *testing.T, b *bench) {
		b.Put("orders", "bad", "good")
		time.AfterFunc(2*time.Minute, func() {
			for _, m := range b.Messages("orders") {
				if wait := time.Until(m.Visible).Round(time.Second); wait != 9*time.Minute+5*time.Second {
					t.Errorf("%s is hidden for %v more, want ten minutes from the try at 65s", m.Body, wait)
				}
			}
			b.in.mu.Lock()
			defer b.in.mu.Unlock()
			if n := len(b.in.held); n != 0 {
				t.Errorf("%d messages are held while they wait", n)
			}
		})
		retry := engine.Retry{Intervals: []time.Duration{5 * time.Second, time.Minute, 10 * time.Minute},
			MaxAttempts: 4}
		all, dlq := tries(t, b, retry, time.Hour)
		if n := len(all); n != 4 || len(dlq.Bodies()) != 1 {
			t.Errorf("tried %+v, dead letters %q", all, dlq.Bodies())
		}
	})
}
