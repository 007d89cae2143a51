package poll

import (
	"context"
	"errors"
	"io"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/enginetest"
	"github.com/flowd-io/flowd/engine/runtime"
	_ "github.com/flowd-io/flowd/inputs/file"
	_ "github.com/flowd-io/flowd/inputs/generate"
	_ "github.com/flowd-io/flowd/inputs/http_server"
	_ "github.com/flowd-io/flowd/inputs/pipe"
	"github.com/flowd-io/flowd/internal/components/timing"
)

func TestInput(t *testing.T) {
	enginetest.Input(t, func(t *testing.T) engine.Input {
		return enginetest.New(t, engine.Inputs, `{"poll": {"strategy": "strict_priority", "sources": {
			"a": {"weight": 2, "generate": {"count": 3, "body": "counter()"}}
		}}}`)
	}, "1", "2", "3")
}

func TestALongPollHoldsUpNoOtherSource(t *testing.T) {
	for _, strategy := range []string{weighted, strict} {
		synctest.Test(t, func(t *testing.T) {
			a, b := newQueue("a"), numbered("b", 1000)
			a.wait = 20 * time.Second
			in := running(t, pollOf(t, strategy, 0, weights{{a, 9}, {b, 1}}))
			begin := time.Now()
			for n := 0; n < 1000; {
				n += len(read(t, in, 1))
			}
			if took := time.Since(begin); took > mostPatience {
				t.Errorf("%s: took %v while the other waits", strategy, took)
			}
			a.put("a0")
			if got := read(t, in, 1); !slices.Equal(got, []string{"a0"}) {
				t.Errorf("%s: got %q", strategy, got)
			}
			if n := len(a.reads()); n != 1 {
				t.Errorf("%s: %d reads of the source that waits, want one", strategy, n)
			}
		})
	}
}

func TestAReadAsksForTheFreeSlots(t *testing.T) {
	tests := []struct {
		name       string
		room, want int
	}{
		{"idle: as many as the source gives at once", 25, 10},
		{"one free slot: one", 1, 1},
		{"five: five", 5, 5},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := numbered("a", 100)
				in := running(t, pollOf(t, weighted, 0, weights{{a, 1}}))
				if got := len(read(t, in, tt.room)); got != tt.want || a.reads()[0] != tt.want {
					t.Errorf("got %d messages, asked for %d, want %d", got, a.reads()[0], tt.want)
				}
			})
		})
	}
}

func TestNoSlotNoRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, sink := numbered("a", 30), &enginetest.Sink{Block: make(chan struct{})}
		in := pollOf(t, weighted, 0, weights{{a, 1}})
		a.wait = time.Second
		stop, cancel := context.WithCancel(t.Context())
		defer cancel()
		done := make(chan runtime.Report)
		spec := engine.EngineSpec{Workers: 3, Timeout: time.Hour}
		spec.MaxInFlight.Messages = 10
		go func() { done <- carry(t, in, sink, spec, stop) }()
		time.Sleep(time.Minute)
		if n := len(a.reads()); n != 1 || a.left() != 20 {
			t.Errorf("%d reads, %d left: all slots are busy after the first ten", n, a.left())
		}
		close(sink.Block)
		time.Sleep(time.Minute)
		if a.left() != 0 {
			t.Errorf("%d are left when slots are free again", a.left())
		}
		cancel()
		if rep := <-done; rep.Err != nil || rep.Stats.Roots.Ended[engine.Delivered] != 30 {
			t.Errorf("%+v", rep)
		}
	})
}

func TestScarceSlotsGoByWeight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := numbered("a", 3000), numbered("b", 3000)
		a.takes, b.takes = 15*time.Millisecond, 10*time.Millisecond
		work := enginetest.Step("work", func(context.Context, *engine.Message) error {
			time.Sleep(200 * time.Millisecond)
			return nil
		})
		stop, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		spec := engine.EngineSpec{Workers: 4}
		spec.MaxInFlight.Messages = 8
		sink := &enginetest.Sink{}
		carry(t, pollOf(t, weighted, 0, weights{{a, 3}, {b, 1}}), sink, spec, stop, work)
		count := map[byte]int{}
		for _, body := range sink.Bodies() {
			count[body[0]]++
		}
		if a, b := count['a'], count['b']; a+b < 1000 || a < 27*b/10 || a > 33*b/10 {
			t.Errorf("a %d, b %d: want three to one, of 1200", a, b)
		}
	})
}

func TestASlowSourceIsReadAllTheTimeAndHoldsUpNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow, fast := numbered("s", 5000), numbered("f", 50_000)
		slow.takes, fast.takes = 100*time.Millisecond, time.Millisecond
		in := running(t, pollOf(t, weighted, 0, weights{{slow, 1}, {fast, 1}}))
		count := map[byte]int{}
		for begin := time.Now(); time.Since(begin) < 10*time.Second; {
			for _, body := range read(t, in, 4) {
				count[body[0]]++
			}
		}
		if n := len(slow.reads()); n < 90 {
			t.Errorf("%d reads of the slow source in ten seconds, want a hundred", n)
		}
		if count['f'] < 10_000 {
			t.Errorf("%d messages of the fast source in ten seconds", count['f'])
		}
	})
}

// A source that rarely has a message is not read more often than it needs.
func TestATrickleHoldsUpNoOther(t *testing.T) {
	for _, strategy := range []string{weighted, strict} {
		synctest.Test(t, func(t *testing.T) {
			trickle, full := newQueue("t"), numbered("f", 100_000)
			trickle.wait, full.takes = 20*time.Second, time.Millisecond
			in := running(t, pollOf(t, strategy, 0, weights{{trickle, 9}, {full, 1}}))
			done := make(chan struct{})
			go func() {
				defer close(done)
				for range 100 {
					time.Sleep(100 * time.Millisecond)
					trickle.put("t")
				}
			}()
			count := map[byte]int{}
			for begin := time.Now(); time.Since(begin) < 10*time.Second; {
				for _, body := range read(t, in, 4) {
					count[body[0]]++
				}
			}
			<-done
			if count['t'] < 99 || count['f'] < 15_000 {
				t.Errorf("%s: %d of 100 of the trickle, %d of the other", strategy, count['t'], count['f'])
			}
		})
	}
}

func TestStrictPriorityReadsTheLowOnlyWhenTheHighIsEmpty(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		high, low := numbered("h", 500), numbered("l", 20)
		high.takes = 30 * time.Millisecond
		in := running(t, pollOf(t, strict, time.Second, weights{{low, 1}, {high, 2}}))
		var all []string
		for len(all) < 520 {
			all = append(all, read(t, in, 256)...)
		}
		if first := slices.IndexFunc(all, func(s string) bool { return s[0] == 'l' }); first != 500 {
			t.Errorf("the low one was read after %d messages of the high one, of 500", first)
		}
	})
}

func TestAnEmptySourcePauses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := newQueue("a"), newQueue("b")
		in := running(t, pollOf(t, weighted, 10*time.Second, weights{{a, 2}, {b, 1}}))
		begin := time.Now()
		stop, cancel := context.WithTimeout(t.Context(), 35*time.Second)
		defer cancel()
		if _, err := in.Read(stop, engine.NewBatch(5)); err != nil {
			t.Fatal(err)
		}
		var at []time.Duration
		for _, r := range a.times() {
			at = append(at, r.Sub(begin))
		}
		if want := []time.Duration{0, 10 * time.Second, 20 * time.Second, 30 * time.Second}; !slices.Equal(at, want) {
			t.Errorf("read at %v, want %v", at, want)
		}
	})
}

func TestWithoutAPauseAnEmptySourceIsNotHammered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newQueue("a")
		in := running(t, pollOf(t, strict, 0, weights{{a, 1}}))
		stop, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		if _, err := in.Read(stop, engine.NewBatch(5)); err != nil {
			t.Fatal(err)
		}
		if n := len(a.reads()); n < 95 || n > 101 {
			t.Errorf("%d reads in ten seconds, want about a hundred", n)
		}
	})
}

func TestASettledMessageEndsThePauseOfAFIFOQueue(t *testing.T) {
	for _, fifo := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			a := newQueue("a", "x")
			a.fifo = fifo
			in := running(t, pollOf(t, strict, time.Hour, weights{{a, 1}}))
			b := engine.NewBatch(1)
			acker, err := in.Read(t.Context(), b)
			if err != nil || b.Len() != 1 {
				t.Fatal(err, b.Len())
			}
			got := make(chan []string, 1)
			stop, cancel := context.WithCancel(t.Context())
			defer cancel()
			go func() {
				b := engine.NewBatch(1)
				_, _ = in.Read(stop, b)
				var bodies []string
				for m := range b.All() {
					bodies = append(bodies, string(m.Bytes()))
				}
				got <- bodies
			}()
			time.Sleep(time.Second) // the poll finds it empty
			a.put("y")
			if _, err := acker.Ack(t.Context(), []engine.Result{{Fate: engine.Delivered}}); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
			cancel()
			if bodies := <-got; (len(bodies) == 1) != fifo {
				t.Errorf("fifo %v: got %q", fifo, bodies)
			}
		})
	}
}

func TestAMessageThatIsSettledWhileAFIFOQueueIsReadCounts(t *testing.T) {
	for _, fifo := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			a := newQueue("a", "x")
			a.fifo, a.wait = fifo, time.Second
			in := running(t, pollOf(t, strict, time.Hour, weights{{a, 1}}))
			b := engine.NewBatch(1)
			acker, err := in.Read(t.Context(), b)
			if err != nil || b.Len() != 1 {
				t.Fatal(err, b.Len())
			}
			got := reading(t, in)
			time.Sleep(time.Second / 2) // the next read waits, and the queue withholds y
			a.mu.Lock()
			a.msgs = append(a.msgs, "y")
			a.mu.Unlock()
			if _, err := acker.Ack(t.Context(), []engine.Result{{Fate: engine.Delivered}}); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
			if n := len(got()); (n == 1) != fifo {
				t.Errorf("fifo %v: got %d", fifo, n)
			}
		})
	}
}

func TestResultsGoToTheSourceOfTheMessage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := numbered("a", 25), numbered("b", 25)
		a.end, b.end = engine.ErrEnd, engine.ErrEnd
		sink := &enginetest.Sink{Fail: func(body string) error {
			if strings.HasSuffix(body, "7") {
				return engine.Errorf(engine.Rejected, "no sevens")
			}
			return nil
		}}
		rep := carry(t, pollOf(t, weighted, 0, weights{{a, 3}, {b, 1}}), sink, engine.EngineSpec{}, nil)
		if rep.Err != nil {
			t.Fatal(rep.Err)
		}
		for _, q := range []*queue{a, b} {
			fates := q.fates()
			if len(fates) != 25 || fates[q.name+"7"] != engine.Returned || fates[q.name+"8"] != engine.Delivered {
				t.Errorf("%s: %v", q.name, fates)
			}
			if got, want := q.did(), []string{"open", "close"}; !slices.Equal(got, want) {
				t.Errorf("%s: %q", q.name, got)
			}
		}
		for _, w := range sink.Writes() {
			for i, meta := range w.Metas {
				want := map[string]any{"source": w.Bodies[i][:1], "queue": w.Bodies[i][:1], "header": "x"}
				if !maps.Equal(meta, want) {
					t.Fatalf("%s: metadata %v, want %v", w.Bodies[i], meta, want)
				}
			}
		}
	})
}

func TestTheNameOfTheSourceIsNotAHeader(t *testing.T) {
	in := running(t, pollOf(t, weighted, 0, weights{{newQueue("a", "x"), 1}}))
	b := engine.NewBatch(1)
	if _, err := in.Read(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	for m := range b.All() {
		if got := maps.Collect(m.Meta.Added()); len(got) != 1 || got["header"] != "x" {
			t.Errorf("passed on as headers: %v", got)
		}
	}
}

func TestAFailingSourceBacksOffAloneAndRecovers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := numbered("a", 5), numbered("b", 3000)
		for range 3 {
			a.fails = append(a.fails, errors.New("500 internal error"), io.EOF) // a lost connection does not end the source
		}
		a.opens = []error{nil, errors.New("still down")}
		b.takes = 10 * time.Millisecond
		b.end = engine.ErrEnd
		a.end = engine.ErrEnd
		sink := &enginetest.Sink{}
		begin := time.Now()
		rep := carry(t, pollOf(t, strict, 0, weights{{a, 2}, {b, 1}}), sink, engine.EngineSpec{}, nil)
		if rep.Err != nil || rep.Stats.Roots.Ended[engine.Delivered] != 3005 {
			t.Fatalf("%+v", rep)
		}
		at := a.times()
		if len(at) < 7 || at[6].Sub(begin) < 100*time.Millisecond {
			t.Errorf("reads of the failing source at %v", at)
		}
		if took := b.times()[299].Sub(begin); took > 5*time.Second {
			t.Errorf("the other took %v for 3000 messages", took)
		}
		opens := 0
		for _, what := range a.did() {
			if what == "open" {
				opens++
			}
		}
		if opens != 8 { // at the start, after six failures, one of these twice
			t.Errorf("opened %d times: %q", opens, a.did())
		}
	})
}

func TestASourceThatFailsForGoodLeavesTheOthersAndFailsTheRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := numbered("a", 5), numbered("b", 300)
		a.fails = []error{engine.Errorf(engine.Permanent, "no such queue")}
		b.end = engine.ErrEnd
		rep := carry(t, pollOf(t, weighted, 0, weights{{a, 2}, {b, 1}}), &enginetest.Sink{}, engine.EngineSpec{}, nil)
		if rep.Stats.Roots.Ended[engine.Delivered] != 300 {
			t.Errorf("%+v", rep.Stats.Roots)
		}
		if rep.Err == nil || !strings.Contains(rep.Err.Error(), "source a: no such queue") {
			t.Errorf("got %v", rep.Err)
		}
	})
}

func TestAPanicInASourceIsAFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := numbered("a", 5)
		a.panics, a.end = true, engine.ErrEnd
		rep := carry(t, pollOf(t, weighted, 0, weights{{a, 2}}), &enginetest.Sink{}, engine.EngineSpec{}, nil)
		if rep.Err != nil || rep.Stats.Roots.Ended[engine.Delivered] != 5 {
			t.Errorf("%+v", rep)
		}
	})
}

func TestReopenedDuringAReadItContinues(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := newQueue("a"), newQueue("b")
		a.wait, b.fails = time.Hour, []error{errors.New("lost")}
		in := running(t, pollOf(t, weighted, 0, weights{{a, 1}, {b, 1}}))
		stop, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if _, err := in.Read(stop, engine.NewBatch(5)); err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(in.Close(t.Context()), in.Open(t.Context())); err != nil {
			t.Fatal(err)
		}
		a.put("x")
		if got := read(t, in, 5); !slices.Equal(got, []string{"x"}) {
			t.Errorf("got %q", got)
		}
		b.put("y")
		if got := read(t, in, 5); !slices.Equal(got, []string{"y"}) {
			t.Errorf("got %q", got)
		}
	})
}

func TestAllSourcesThatDoNotOpenAreReported(t *testing.T) {
	a, b, c := newQueue("a"), newQueue("b"), newQueue("c")
	a.opens, c.opens = []error{errors.New("bad ARN")}, []error{errors.New("no such queue")}
	in := pollOf(t, weighted, 0, weights{{a, 1}, {b, 1}, {c, 1}})
	err := in.Open(t.Context())
	if err == nil || err.Error() != "source a: bad ARN\nsource c: no such queue" {
		t.Errorf("got %v", err)
	}
	if got, want := b.did(), []string{"open", "close"}; !slices.Equal(got, want) {
		t.Errorf("the one that did open: %q, want %q", got, want)
	}
}

func TestAStopReturnsPrefetchedMessages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := numbered("a", 40), numbered("b", 40)
		in := running(t, pollOf(t, weighted, 0, weights{{a, 1}, {b, 1}}))
		got := read(t, in, 20)
		synctest.Wait() // the other instance has read as well
		if err := in.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
		back := len(a.fates()) + len(b.fates())
		if taken := 80 - a.left() - b.left(); back != taken-len(got) || back == 0 {
			t.Errorf("%d read, %d taken, %d given back", taken, len(got), back)
		}
		for _, fates := range []map[string]engine.Fate{a.fates(), b.fates()} {
			for body, fate := range fates {
				if fate != engine.Returned {
					t.Errorf("%s: %v", body, fate)
				}
			}
		}
		if !slices.Contains(a.did(), "stop") || !slices.Contains(b.did(), "stop") {
			t.Errorf("not stopped: %q, %q", a.did(), b.did())
		}
	})
}

func TestMessagesThatNoReadTakesGoBackAfterAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := numbered("a", 10), numbered("b", 10)
		in := running(t, pollOf(t, weighted, 0, weights{{a, 1}, {b, 1}}))
		read(t, in, 20)
		time.Sleep(holding - time.Second)
		if n := len(a.fates()) + len(b.fates()); n != 0 {
			t.Errorf("%d given back too soon", n)
		}
		time.Sleep(2 * time.Second)
		if n := len(a.fates()) + len(b.fates()); n != 10 {
			t.Errorf("%d given back, want 10", n)
		}
	})
}

func TestAPauseEndsTheReadsUnderWayAndAResumeBeginsNewOnes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newQueue("a")
		a.wait = time.Hour
		in := running(t, pollOf(t, weighted, 0, weights{{a, 1}}))
		pause, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		begin := time.Now()
		if _, err := in.Read(pause, engine.NewBatch(5)); err != nil || time.Since(begin) != time.Minute {
			t.Errorf("err %v after %v", err, time.Since(begin))
		}
		go func() {
			time.Sleep(time.Second)
			a.put("x")
		}()
		if got := read(t, in, 5); !slices.Equal(got, []string{"x"}) {
			t.Errorf("got %q", got)
		}
	})
}

func TestMessagesThatArriveAtTheEndOfAReadAreKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in := running(t, pollOf(t, weighted, 0, weights{{newQueue("a", "x"), 1}}))
		done, cancel := context.WithCancel(t.Context())
		cancel()
		b := engine.NewBatch(5)
		if _, err := in.Read(done, b); err != nil || b.Len() != 0 {
			t.Errorf("err %v, %d messages: it may not even ask", err, b.Len())
		}
		if got := read(t, in, 5); !slices.Equal(got, []string{"x"}) {
			t.Errorf("got %q", got)
		}
	})
}

func TestLeasesOfTheSourceCanBeRenewed(t *testing.T) {
	in := running(t, pollOf(t, weighted, 0, weights{{newQueue("a", "x"), 1}}))
	acker, err := in.Read(t.Context(), engine.NewBatch(1))
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := acker.(engine.Leaser); ok {
		t.Error("a source that lends nothing is a Leaser")
	}
	lending := &lender{queue: newQueue("b", "x")}
	in = newPoll(roundRobin{}, enginetest.Env())
	if err := in.add("b", 1, lending); err != nil {
		t.Fatal(err)
	}
	running(t, in)
	acker, err = in.Read(t.Context(), engine.NewBatch(1))
	if err != nil {
		t.Fatal(err)
	}
	lost, next, err := acker.(engine.Leaser).Renew(t.Context(), []uint64{7})
	if err != nil || next != time.Second || !slices.Equal(lost, []uint64{7}) {
		t.Errorf("got %v, %v, %v", lost, next, err)
	}
}

func TestWhatAFIFOQueueGaveAtOnceComesInOneRead(t *testing.T) {
	for _, fifo := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			q, quick := numbered("a", 5), newQueue("b", "x")
			q.fifo, q.takes, quick.wait = fifo, 500*time.Millisecond, time.Minute
			in := running(t, pollOf(t, weighted, 0, weights{{q, 1}, {quick, 1}}))
			if got := read(t, in, 20); !slices.Equal(got, []string{"x"}) {
				t.Fatalf("got %q", got)
			}
			b := engine.NewBatch(2)
			acker, err := in.Read(t.Context(), b)
			if err != nil || b.Len() != 2 {
				t.Fatalf("%v, %d messages", err, b.Len())
			}
			synctest.Wait()
			q.mu.Lock()
			defer q.mu.Unlock()
			back := 0
			for _, f := range q.results {
				if f == engine.Returned {
					back++
				}
			}
			if want := map[bool]int{false: 0, true: 3}[fifo]; back != want || engine.TraitsOf(acker).Withholds != fifo {
				t.Errorf("FIFO %v: %d went back at once, want %d", fifo, back, want)
			}
		})
	}
}

// lender is a queue that leases messages.
type lender struct{ *queue }

func (l *lender) Read(ctx context.Context, b *engine.Batch) (engine.Acker, error) {
	_, err := l.queue.Read(ctx, b)
	return l, err
}

func (l *lender) Renew(_ context.Context, refs []uint64) ([]uint64, time.Duration, error) {
	return refs, time.Second, nil
}

func TestWhatTheEngineAsksBeforeItOpens(t *testing.T) {
	a, b := newQueue("a"), newQueue("b")
	a.delays, b.delays = 15*time.Minute, time.Minute
	a.early, b.early = true, true
	in := pollOf(t, weighted, 0, weights{{a, 1}, {b, 1}})
	if got := in.Traits(); got.TakesBack != engine.TakesOne || got.Delays != time.Minute || !got.AcksEarly {
		t.Errorf("got %+v", got)
	}
	b.back = engine.TakesPosition
	if err := pollOf(t, weighted, 0, weights{{a, 1}}).add("b", 1, b); err == nil ||
		!strings.Contains(err.Error(), "takes back a position, the first one single messages") {
		t.Errorf("got %v", err)
	}
	b.back, b.early = engine.TakesOne, false
	if err := pollOf(t, weighted, 0, weights{{a, 1}}).add("b", 1, b); err == nil ||
		!strings.Contains(err.Error(), "early_ack") {
		t.Errorf("got %v", err)
	}
}

// Whatever sources do, each message is delivered once, and its own source gets the result.
func TestNothingIsLostOrMixedUp(t *testing.T) {
	for seed := range uint64(30) {
		synctest.Test(t, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 1))
			var of weights
			var all []string
			for i := range 1 + rng.IntN(6) {
				q := numbered(string(rune('a'+i)), rng.IntN(400))
				all = append(all, q.msgs...)
				q.again, q.fifo = true, rng.IntN(2) == 0
				q.wait, q.takes = time.Duration(rng.IntN(3))*7*time.Second,
					time.Duration(rng.IntN(300))*time.Millisecond
				for range rng.IntN(4) {
					q.fails = append(q.fails, errors.New("lost"))
				}
				q.panics = rng.IntN(4) == 0
				of = append(of, struct {
					q *queue
					w int
				}{q, 1 + rng.IntN(9)})
			}
			strategy := []string{weighted, strict, "test_last"}[rng.IntN(3)]
			in := pollOf(t, strategy, time.Duration(rng.IntN(3))*time.Second, of)
			spec := engine.EngineSpec{Workers: 1 + rng.IntN(4)}
			spec.MaxInFlight.Messages = 1 + rng.IntN(60)
			sink := &enginetest.Sink{Delay: time.Duration(rng.IntN(50)) * time.Millisecond}
			plan := enginetest.Build(t, &engine.Pipeline{
				Name: "p",
				Inputs: enginetest.Named("work",
					engine.InputSpec{Use: engine.Use(func(engine.Env) (engine.Input, error) { return in, nil })}),
				Outputs: enginetest.Named("out", sink.Output()), Engine: spec,
			})
			stop, cancel := context.WithCancel(t.Context())
			defer cancel()
			done := make(chan runtime.Report)
			go func() { done <- plan.Run(stop, t.Context()) }()
			for i := 0; len(sink.Bodies()) < len(all) && i < 1000; i++ {
				time.Sleep(time.Second)
				if i%10 == 3 {
					plan.Pause()
					time.Sleep(time.Duration(rng.IntN(15)) * time.Second)
					plan.Resume()
				}
			}
			cancel()
			if rep := <-done; rep.Err != nil || !rep.Stats.Roots.Balanced() || rep.HandedBack != 0 {
				t.Errorf("seed %d: %+v", seed, rep)
			}
			got := sink.Bodies()
			slices.Sort(got)
			slices.Sort(all)
			if !slices.Equal(got, all) {
				t.Errorf("seed %d, %s: %d delivered, want %d", seed, strategy, len(got), len(all))
			}
			for _, x := range of {
				for body, fate := range x.q.fates() {
					if fate != engine.Delivered || body[:1] != x.q.name {
						t.Errorf("seed %d: %s is told %v of %s", seed, x.q.name, fate, body)
					}
				}
			}
		})
	}
}

func TestConfiguration(t *testing.T) {
	for _, tt := range [][2]string{
		{`{}`, "required"},
		{`{"sources": {}}`, "empty"},
		{`{"strategy": "bogus", "sources": {"a": {"generate": {}}}}`, `no strategy "bogus" is compiled in`},
		{`{"strategy": "StrictPriority", "sources": {"a": {"generate": {}}}}`, "strict_priority"},
		{`{"strategy": "strict_prioritee", "sources": {"a": {"generate": {}}}}`, `did you mean "strict_priority"?`},
		{`{"sources": {"a": {"weight": 0, "generate": {}}}}`, "weight"},
		{`{"empty_pause": "-1s", "sources": {"a": {"generate": {}}}}`, "empty_pause"},
		{`{"delay": "1s", "sources": {"a": {"generate": {}}}}`, "write `empty_pause`"},
		{`{"sources": {"a": {"weight": 1}}}`, "no input type is given"},
		{`{"sources": {"a": {"pipe": "x"}, "b": {"generate": {"body": "1"}}}}`,
			"source a: it ends with its writers, so it can't be polled (give it its own entry in `inputs`)"},
		{`{"sources": {"a": {"http_server": ":0"}}}`, "source a: messages are pushed to it"},
		{`{"sources": {"a": {"generate": {"body": "1"}}, "b": {"file": {"path": "x", "follow": true, "checkpoint": "y"}}}}`,
			"source b: its source takes back a position, the first one nothing"},
		{`{"sources": {"a": {"file": {"path": "x", "framing": "bad"}}}}`, "bad"},
	} {
		config, want := tt[0], tt[1]
		got := strings.Join(enginetest.Problems(t, engine.Inputs, `{"poll": `+config+`}`), "\n")
		if !strings.Contains(got, want) {
			t.Errorf("%s: got %q, want %q in it", config, got, want)
		}
	}
	if got := enginetest.Problems(t, engine.Inputs,
		`{"poll": {"sources": {"a": {"generate": {"body": "1"}}}}}`); len(got) > 0 {
		t.Errorf("the shortest: %q", got)
	}
}

// A source has recovered when its connection has lasted for a second, with messages or without.
func TestAQuietSourceThatIsCutNowAndThenIsBackAtOnce(t *testing.T) {
	tests := []struct {
		name   string
		stands time.Duration
		longer bool // the delays increase
	}{
		{"a second", time.Second, false},
		{"not so long", 900 * time.Millisecond, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := &cutOff{queue: newQueue("a"), stands: tt.stands}
				in := pollOf(t, weighted, 0, weights{{a.queue, 1}})
				in.sources[0].part = a
				running(t, in)
				stop, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
				defer cancel()
				if _, err := in.Read(stop, engine.NewBatch(5)); err != nil {
					t.Fatal(err)
				}
				if longest := slices.Max(a.down); (longest > firstBackoff) != tt.longer {
					t.Errorf("closed for %v, longer than %v: want %v", a.down, firstBackoff, tt.longer)
				}
			})
		})
	}
}

// cutOff is a queue without messages whose connection is cut some time after it was opened.
type cutOff struct {
	*queue
	stands       time.Duration
	opened, lost time.Time
	down         []time.Duration
}

func (c *cutOff) Open(context.Context) error {
	if c.opened = time.Now(); !c.lost.IsZero() {
		c.down = append(c.down, time.Since(c.lost))
	}
	return nil
}

func (c *cutOff) Read(ctx context.Context, _ *engine.Batch) (engine.Acker, error) {
	if timing.Sleep(ctx, time.Until(c.opened.Add(c.stands))) != nil {
		return nil, nil
	}
	c.lost = time.Now()
	return nil, errors.New("connection reset")
}

// If a source has been idle since the last Read had little room, the next Read uses all of its room.
func TestAnIdleSourceTakesWhatIsFree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := newQueue("a", "a0"), newQueue("b", "b0")
		a.wait, b.wait = time.Hour, time.Hour
		in := running(t, pollOf(t, weighted, 0, weights{{a, 1}, {b, 1}}))
		read(t, in, 40)
		read(t, in, 40) // both have been read
		stop, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		for room := 1; stop.Err() == nil; room = 40 {
			if _, err := in.Read(stop, engine.NewBatch(room)); err != nil {
				t.Fatal(err)
			}
		}
		for _, q := range []*queue{a, b} {
			if rooms := q.reads(); rooms[len(rooms)-1] != 10 || len(rooms) > 4 {
				t.Errorf("%s was read with room for %v, want 10 in the end, and few reads", q.name, rooms)
			}
		}
	})
}
