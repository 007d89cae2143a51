package sqs

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	_ "github.com/flowd-io/flowd/batchers/batch"
	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/enginetest"
	"github.com/flowd-io/flowd/engine/expr"
	"github.com/flowd-io/flowd/internal/components/timing"
	"github.com/flowd-io/flowd/internal/testing/fakesqs"
)

func numbers(n int) (all []string) {
	for i := range n {
		all = append(all, fmt.Sprintf("m%d", i))
	}
	return all
}

func failing(which string, err error) engine.StepSpec {
	return enginetest.Step("check", func(_ context.Context, m *engine.Message) error {
		if string(m.Bytes()) == which {
			return err
		}
		return nil
	})
}

var errBad = errors.New("no good")

func TestSettledMessagesAreDeletedInTens(t *testing.T) {
	virtual(t, fakesqs.Queue{}, nil, func(t *testing.T, b *bench) {
		b.Put("orders", numbers(100)...)
		dst := &enginetest.Sink{}
		b.run(t, b.pipeline(dst), time.Minute)
		if left := b.Bodies("orders"); len(left) != 0 || len(dst.Bodies()) != 100 {
			t.Errorf("%d left, %d delivered", len(left), len(dst.Bodies()))
		}
		if n := len(b.Calls("DeleteMessageBatch")); n > 25 {
			t.Errorf("%d calls to delete 100 messages", n)
		}
	})
}

func TestWithoutDeleteMessagesComeAgain(t *testing.T) {
	virtual(t, fakesqs.Queue{Visibility: 10 * time.Second}, func(c *Config) { c.Delete = false },
		func(t *testing.T, b *bench) {
			b.Put("orders", "a")
			dst := &enginetest.Sink{}
			b.run(t, b.pipeline(dst), 25*time.Second)
			if got := dst.Bodies(); len(got) != 3 || len(b.Calls("DeleteMessageBatch")) != 0 {
				t.Errorf("delivered %d times in 25s, want at 0, 10 and 20s", len(got))
			}
		})
}

func TestOnlyTheEntriesThatFailedAreDeletedAgain(t *testing.T) {
	virtual(t, fakesqs.Queue{}, nil, func(t *testing.T, b *bench) {
		b.Put("orders", numbers(10)...)
		b.Fault("DeleteMessageBatch", fakesqs.Fault{Code: "InternalError",
			Entry: func(body string) bool { return body == "m3" || body == "m7" }})
		p := b.pipeline(&enginetest.Sink{})
		p.Batchers = enginetest.Named("all", tens(t)) // otherwise the number of delete calls is random
		b.run(t, p, time.Minute)
		if left := b.Bodies("orders"); len(left) != 0 {
			t.Errorf("left: %q", left)
		}
		calls := b.Calls("DeleteMessageBatch")
		if n := calls[len(calls)-1].Entries; n != 2 || len(calls) != 2 {
			t.Errorf("the last of %d calls deletes %d, want two calls, and in the last the two that had failed",
				len(calls), n)
		}
	})
}

// tens returns a batcher. Messages that are written together are reported together.
func tens(t *testing.T) engine.BatcherSpec {
	return engine.BatcherSpec{
		Use: engine.Use(func(engine.Env) (engine.Batcher, error) {
			return enginetest.New(t, engine.Batchers, `{"batch": {"size": 10}}`), nil
		}),
		Output: engine.Names{"out"},
	}
}

func TestMessagesThatCannotBeDeletedYetStayHidden(t *testing.T) {
	tests := []struct {
		name  string
		fault fakesqs.Fault
	}{
		{"throttled for minutes", fakesqs.Fault{Code: "RequestThrottled", Times: -1}},
		{"it does not answer", fakesqs.Fault{Delay: time.Hour, Times: -1}},
		{"one entry fails", fakesqs.Fault{Code: "InternalError", Times: -1,
			Entry: func(body string) bool { return body == "m3" }}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			virtual(t, fakesqs.Queue{}, nil, func(t *testing.T, b *bench) {
				b.Put("orders", numbers(5)...)
				b.Fault("DeleteMessageBatch", tt.fault)
				time.AfterFunc(5*time.Minute, b.Heal)
				dst := &enginetest.Sink{}
				b.run(t, b.pipeline(dst), 10*time.Minute)
				if got, left := len(dst.Bodies()), b.Bodies("orders"); got != 5 || len(left) != 0 {
					t.Errorf("%d delivered, left %q; want each once, and deleted when that works again", got, left)
				}
				if n := strings.Count(b.log.String(), "\n"); n > 15 {
					t.Errorf("%d log lines:\n%s", n, b.log.String())
				}
			})
		})
	}
}

func TestMessagesThatCanNeverBeDeletedAreRedeliveredAsLateAsPossible(t *testing.T) {
	virtual(t, fakesqs.Queue{}, func(c *Config) { c.Lease.Max = 10 * time.Minute }, func(t *testing.T, b *bench) {
		b.Put("orders", "a")
		b.Fault("DeleteMessageBatch", fakesqs.Fault{Code: "InternalError", Status: 500, Times: -1})
		dst := &enginetest.Sink{}
		rep := b.run(t, b.pipeline(dst), 25*time.Minute)
		var at []time.Duration
		for _, w := range dst.Writes() {
			at = append(at, w.At.Sub(dst.Writes()[0].At).Round(time.Minute))
		}
		if !slices.Equal(at, []time.Duration{0, 10 * time.Minute, 20 * time.Minute}) {
			t.Errorf("delivered after %v, want again whenever its lease can't be renewed any more", at)
		}
		if n := strings.Count(b.log.String(), "acknowledged too late"); n != 2 {
			t.Errorf("%d warnings that the queue delivers it again, want 2, log:\n%s", n, b.log.String())
		}
		if rep.Code() != 3 || rep.Untold != 1 {
			t.Errorf("code %d, %d not acknowledged, want that the last one is reported", rep.Code(), rep.Untold)
		}
	})
}

func TestAHandleThatHasExpiredIsNotTriedAgain(t *testing.T) {
	virtual(t, fakesqs.Queue{Visibility: 10 * time.Second},
		func(c *Config) { c.Lease.Renew = false; c.Wait = time.Second }, func(t *testing.T, b *bench) {
			b.Put("orders", "a")
			p := b.pipeline(&enginetest.Sink{Delay: 12 * time.Second})
			b.run(t, p, 11*time.Second) // the message is received again at 10s
			if n := len(b.Calls("DeleteMessageBatch")); n > 2 {
				t.Errorf("%d calls", n)
			}
			if !strings.Contains(b.log.String(), "acknowledged too late") {
				t.Errorf("log: %s", b.log.String())
			}
		})
}

func TestLeasesAreRenewedWhileWorkRuns(t *testing.T) {
	for _, visibility := range []time.Duration{time.Second, 5 * time.Second, 30 * time.Second, 5 * time.Minute} {
		virtual(t, fakesqs.Queue{Visibility: visibility}, nil, func(t *testing.T, b *bench) {
			b.Put("orders", numbers(30)...)
			dst := &enginetest.Sink{Delay: 10 * visibility}
			p := b.pipeline(dst)
			o := dst.Output()
			o.Timeout, o.Concurrency = time.Hour*13, 10
			p.Outputs = enginetest.Named("out", o)
			rep := b.run(t, p, 40*visibility+time.Minute)
			if left := b.Messages("orders"); len(left) != 0 || len(dst.Bodies()) != 30 {
				t.Errorf("%v: %d left, %d delivered, %+v", visibility, len(left), len(dst.Bodies()), rep.Stats.Roots)
			}
			for _, c := range b.Calls("ChangeMessageVisibilityBatch") {
				if c.Entries < 2 && len(dst.Bodies()) < 10 {
					t.Errorf("%v: a call for %d leases", visibility, c.Entries)
				}
			}
		})
	}
}

func TestALeaseEndsAtItsLongest(t *testing.T) {
	virtual(t, fakesqs.Queue{}, func(c *Config) { c.Lease.Max = 2 * time.Minute }, func(t *testing.T, b *bench) {
		b.Put("orders", "slow")
		var mu sync.Mutex
		var starts []time.Duration
		began := time.Now()
		dst := &enginetest.Sink{}
		p := b.pipeline(dst, enginetest.Step("slow", func(ctx context.Context, m *engine.Message) error {
			mu.Lock()
			starts = append(starts, time.Since(began))
			n := len(starts)
			mu.Unlock()
			if n == 1 {
				_ = timing.Sleep(ctx, 5*time.Minute)
			}
			return nil
		}))
		p.Processors[0].Timeout = time.Hour
		rep := b.run(t, p, 10*time.Minute)
		if len(starts) != 2 || starts[1] < 119*time.Second || starts[1] > 130*time.Second {
			t.Errorf("worked on at %v, want again when the lease has ended after 2m", starts)
		}
		if len(dst.Bodies()) != 1 || rep.Stats.Roots.Ended[engine.Returned] != 1 ||
			rep.Stats.Roots.Ended[engine.Delivered] != 1 {
			t.Errorf("delivered %q, %+v", dst.Bodies(), rep.Stats.Roots)
		}
	})
}

func TestALeaseIsNeverRenewedBeyondTwelveHours(t *testing.T) {
	virtual(t, fakesqs.Queue{Visibility: time.Hour}, nil, func(t *testing.T, b *bench) {
		b.Put("orders", "a")
		dst := &enginetest.Sink{Delay: 11*time.Hour + 59*time.Minute}
		p := b.pipeline(dst)
		o := dst.Output()
		o.Timeout = 20 * time.Hour
		p.Outputs = enginetest.Named("out", o)
		p.Engine.Drain.Timeout = 20 * time.Hour
		b.run(t, p, 10*time.Minute)
		if left := b.Messages("orders"); len(left) != 0 || strings.Contains(b.log.String(), "not renewed") {
			t.Errorf("left %v, log %s", left, b.log.String())
		}
	})
}

func TestALostLeaseStopsTheDelivery(t *testing.T) {
	virtual(t, fakesqs.Queue{Visibility: 20 * time.Second}, nil, func(t *testing.T, b *bench) {
		b.Put("orders", "a")
		time.AfterFunc(12*time.Second, func() { b.Expire("orders") })
		dst := &enginetest.Sink{}
		rep := b.run(t, b.pipeline(dst, enginetest.Step("slow", func(ctx context.Context, m *engine.Message) error {
			if m.Attempt == 1 {
				_ = timing.Sleep(ctx, 25*time.Second)
			}
			return nil
		})), time.Minute)
		if got := dst.Bodies(); len(got) != 1 || len(b.Messages("orders")) != 0 {
			t.Errorf("delivered %d times, want once, by the second delivery", len(got))
		}
		if c := rep.Stats.Roots; c.Ended[engine.Returned] != 1 || c.Ended[engine.Delivered] != 1 {
			t.Errorf("%+v", c)
		}
		if !strings.Contains(b.log.String(), "leases were lost") {
			t.Errorf("log: %s", b.log.String())
		}
	})
}

func TestARenewalThatFailsIsTriedAgain(t *testing.T) {
	tests := []struct {
		name  string
		fault fakesqs.Fault
		lost  bool
	}{
		{"throttled for a while", fakesqs.Fault{Code: "RequestThrottled", Times: 4}, false},
		{"one entry fails once", fakesqs.Fault{Code: "InternalError",
			Entry: func(body string) bool { return body == "m3" }}, false},
		{"never allowed", fakesqs.Fault{Code: "AccessDenied", Status: 403, Times: -1}, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			virtual(t, fakesqs.Queue{Visibility: 20 * time.Second}, nil, func(t *testing.T, b *bench) {
				b.Put("orders", numbers(5)...)
				b.Fault("ChangeMessageVisibilityBatch", tt.fault)
				rep := b.run(t, b.pipeline(&enginetest.Sink{Delay: 25 * time.Second}), 55*time.Second)
				if lost := strings.Contains(b.log.String(), "leases were lost"); lost != tt.lost {
					t.Errorf("lost %v, want %v: %+v\n%s", lost, tt.lost, rep.Stats.Roots, b.log.String())
				}
				if n := strings.Count(b.log.String(), "\n"); n > 15 {
					t.Errorf("%d log lines", n)
				}
			})
		})
	}
}

func TestRetriesAreLeftToTheQueue(t *testing.T) {
	virtual(t, fakesqs.Queue{}, nil, func(t *testing.T, b *bench) {
		b.Put("orders", "bad", "good")
		var at []time.Duration
		began := time.Now()
		dst, dlq := &enginetest.Sink{}, &enginetest.Sink{}
		p := b.pipeline(dst, enginetest.Step("check", func(_ context.Context, m *engine.Message) error {
			if string(m.Bytes()) == "good" {
				return nil
			}
			at = append(at, time.Since(began).Round(time.Second))
			return engine.WithClass(engine.Transient, errBad)
		}))
		withDeadLetters(p, dst, dlq)
		p.Engine.OnFailure.Retry = &engine.Retry{Intervals: []time.Duration{30 * time.Second, 10 * time.Minute,
			2 * time.Hour}, MaxAttempts: 4}
		b.run(t, p, 4*time.Hour)
		want := []time.Duration{0, 30 * time.Second, 10*time.Minute + 30*time.Second,
			2*time.Hour + 10*time.Minute + 30*time.Second}
		if !slices.Equal(at, want) {
			t.Errorf("tried at %v, want %v", at, want)
		}
		if got := dlq.Bodies(); !slices.Equal(got, []string{"bad"}) || len(b.Messages("orders")) != 0 {
			t.Errorf("dead letters %q, left %q", got, b.Bodies("orders"))
		}
		if meta := dlq.Writes()[0].Metas[0]; meta["error_attempt"] != 4 || meta["receive_count"] != 4 {
			t.Errorf("attempt %v, receive count %v; want 4", meta["error_attempt"], meta["receive_count"])
		}
	})
}

func TestTheQueuesOwnRedriveTakesWhatIsReturned(t *testing.T) {
	virtual(t, fakesqs.Queue{DeadLetters: "dead", MaxReceives: 3}, nil, func(t *testing.T, b *bench) {
		b.Create("dead", fakesqs.Queue{})
		b.Put("orders", "bad", "good")
		p := b.pipeline(&enginetest.Sink{}, failing("bad", errBad))
		p.Engine.OnFailure.Then.Word = "return"
		b.run(t, p, time.Minute)
		if got := b.Bodies("dead"); !slices.Equal(got, []string{"bad"}) || len(b.Messages("orders")) != 0 {
			t.Errorf("dead letters %q, left %q", got, b.Bodies("orders"))
		}
	})
}

func TestAMessageThatIsReturnedForEverMakesNoStorm(t *testing.T) {
	virtual(t, fakesqs.Queue{}, nil, func(t *testing.T, b *bench) {
		b.Put("orders", "bad")
		p := b.pipeline(&enginetest.Sink{}, failing("bad", errBad))
		p.Engine.OnFailure.Then.Word = "return"
		b.run(t, p, time.Hour)
		if n := b.Messages("orders")[0].Receives; n > 15 {
			t.Errorf("received %d times in an hour", n)
		}
	})
}

func TestADrainReturnsMessagesAtOnce(t *testing.T) {
	virtual(t, fakesqs.Queue{Visibility: 10 * time.Minute}, nil, func(t *testing.T, b *bench) {
		b.Put("orders", numbers(25)...)
		dst := &enginetest.Sink{Block: make(chan struct{})}
		p := b.pipeline(dst)
		p.Engine.Drain.Timeout = 10 * time.Second
		rep := b.run(t, p, 5*time.Second)
		now := time.Now()
		for _, m := range b.Messages("orders") {
			if m.Visible.After(now) {
				t.Errorf("%s is hidden for %v more", m.Body, m.Visible.Sub(now))
			}
		}
		if rep.HandedBack != 25 || rep.Code() != 3 {
			t.Errorf("handed back %d, exit %d; want 25 and 3", rep.HandedBack, rep.Code())
		}
	})
}

func TestMessagesWithoutAResultAreReleased(t *testing.T) {
	virtual(t, fakesqs.Queue{}, nil, func(t *testing.T, b *bench) {
		b.Put("orders", numbers(3)...)
		if err := b.in.Open(t.Context()); err != nil {
			t.Fatal(err)
		}
		if n := len(b.read(t, 10)); n != 3 {
			t.Fatalf("read %d", n)
		}
		if err := errors.Join(b.in.Stop(t.Context()), b.in.Close(t.Context())); err != nil {
			t.Fatal(err)
		}
		for _, m := range b.Messages("orders") {
			if m.Visible.After(time.Now()) {
				t.Errorf("%s is still hidden", m.Body)
			}
		}
	})
}

func TestAnInputThatIsStartedAgainKeepsItsLeases(t *testing.T) {
	virtual(t, fakesqs.Queue{}, nil, func(t *testing.T, b *bench) {
		b.Put("orders", "a")
		time.AfterFunc(5*time.Second, func() {
			b.Fault("ReceiveMessage", fakesqs.Fault{Code: "AccessDenied", Status: 403, Times: 3})
			b.Put("orders", "b")
		})
		dst := &enginetest.Sink{Delay: 90 * time.Second}
		p := b.pipeline(dst)
		o := dst.Output()
		o.Timeout, o.Concurrency = time.Hour, 4
		p.Outputs = enginetest.Named("out", o)
		b.run(t, p, 5*time.Minute)
		if got := dst.Bodies(); !slices.Equal(got, []string{"a", "b"}) || len(b.Messages("orders")) != 0 {
			t.Errorf("delivered %q, left %q", got, b.Bodies("orders"))
		}
	})
}

func TestDuplicatesAreAckedEach(t *testing.T) {
	virtual(t, fakesqs.Queue{}, func(c *Config) { c.Wait = time.Second }, func(t *testing.T, b *bench) {
		b.Fault("ReceiveMessage", fakesqs.Fault{Duplicate: true})
		b.Put("orders", "a", "b")
		rep := b.run(t, b.pipeline(&enginetest.Sink{}), 20*time.Second)
		if left := b.Bodies("orders"); len(left) != 0 || rep.Stats.Roots.Ended[engine.Delivered] < 2 {
			t.Errorf("left %q, %+v", left, rep.Stats.Roots)
		}
	})
}

func TestAFIFOQueueIsReadInOrderAndInParallel(t *testing.T) {
	virtual(t, fakesqs.Queue{}, func(c *Config) { c.Queue = "orders.fifo" }, func(t *testing.T, b *bench) {
		var all []string
		for i := range 10 {
			for _, g := range []string{"a", "b", "c", "d"} {
				all = append(all, fmt.Sprintf("%s:%d", g, i))
			}
		}
		b.Put("orders.fifo", all...)
		dst := &enginetest.Sink{}
		p := b.pipeline(dst, enginetest.Step("slow",
			func(ctx context.Context, _ *engine.Message) error { _ = timing.Sleep(ctx, time.Second); return nil }))
		p.Engine.OrderBy = expr.MustCompile(`meta("message_group_id")`)
		began := time.Now()
		p.Engine.Workers = 64 // groups that share a lane wait for each other, and lanes are assigned at random
		b.run(t, p, time.Minute)
		last := map[string]int{}
		for _, body := range dst.Bodies() {
			var n int
			group, number, _ := strings.Cut(body, ":")
			if _, err := fmt.Sscan(number, &n); err != nil || n != last[group] {
				t.Errorf("%s after %s:%d", body, group, last[group]-1)
			}
			last[group]++
		}
		if writes := dst.Writes(); len(dst.Bodies()) != 40 || writes[len(writes)-1].At.Sub(began) > 35*time.Second {
			t.Errorf("%d delivered in %v: 40 steps of a second, four groups at once", len(dst.Bodies()),
				writes[len(writes)-1].At.Sub(began))
		}
	})
}

func TestAGroupKeepsItsOrderWhenAMessageIsReturned(t *testing.T) {
	virtual(t, fakesqs.Queue{}, func(c *Config) { c.Queue = "orders.fifo" }, func(t *testing.T, b *bench) {
		var all []string
		for i := range 20 {
			for _, g := range []string{"a", "b", "c"} {
				all = append(all, fmt.Sprintf("%s:%d", g, i))
			}
		}
		b.Put("orders.fifo", all...)
		dst := &enginetest.Sink{}
		var mu sync.Mutex
		tries := map[string]int{}
		p := b.pipeline(dst, enginetest.Step("check", func(_ context.Context, m *engine.Message) error {
			mu.Lock()
			defer mu.Unlock()
			body := string(m.Bytes())
			if tries[body]++; tries[body] <= 2 && strings.HasSuffix(body, "3") {
				return errBad
			}
			return nil
		}))
		p.Engine.OrderBy, p.Engine.OnFailure.Then.Word = expr.MustCompile(`meta("message_group_id")`), "return"
		b.run(t, p, 5*time.Minute)
		next := map[string]int{}
		for _, body := range dst.Bodies() {
			group, _, _ := strings.Cut(body, ":")
			if want := fmt.Sprintf("%s:%d", group, next[group]); body != want {
				t.Errorf("delivered %s, want %s", body, want)
			}
			next[group]++
		}
		if len(dst.Bodies()) != 60 || len(b.Messages("orders.fifo")) != 0 {
			t.Errorf("delivered %d, left %q", len(dst.Bodies()), b.Bodies("orders.fifo"))
		}
	})
}

func TestAServiceThatDoesNotLockGroupsIsGivenBackWhatIsBehindAReturnedMessage(t *testing.T) {
	virtual(t, fakesqs.Queue{Unlocked: true}, func(c *Config) { c.Queue = "orders.fifo"; c.Wait = 10 * time.Second },
		func(t *testing.T, b *bench) {
			b.Put("orders.fifo", "a:0", "a:1", "a:2", "b:0")
			b.open(t)
			first := b.read(t, 2)
			results := []engine.Result{
				{Ref: first[0].Ref, Fate: engine.Returned, Err: engine.Errorf(engine.Permanent, "no"),
					Delay: 5 * time.Second},
				{Ref: first[1].Ref, Fate: engine.Returned,
					Err: engine.Errorf(engine.Transient, "%w", engine.ErrBehind)},
			}
			if again, err := b.in.Ack(t.Context(), results); err != nil || len(again) > 0 {
				t.Fatal(again, err)
			}
			if got := bodies(b.read(t, 10)); !slices.Equal(got, []string{"b:0"}) {
				t.Errorf("read %q beside the hidden group", got)
			}
			if got := bodies(b.read(t, 10)); len(got) == 0 || got[0] != "a:0" {
				t.Errorf("read %q when the group is visible again", got)
			}
		})
}

// withDeadLetters adds an output for dead letters.
func withDeadLetters(p *engine.Pipeline, dst, dlq *enginetest.Sink) {
	p.Outputs = outputs("out", dst, "dlq", dlq)
	p.Engine.OnFailure.DeadLetter = "dlq"
}
