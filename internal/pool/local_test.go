package pool

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/runtime"
)

// local is a world whose pool has slots here, with one step.
func local(t *testing.T, p Policy, slots int, step func(ctx context.Context, m *engine.Message) error) *world {
	w := newWorld(t, p, slots)
	p = w.Policy
	w.Pool = New(p, slots, func(p *Pool) Transport {
		return NewLocal(p, runtime.NewRunner(engine.ProcessorFunc(step)), slots)
	})
	return w
}

func TestLocalSlotsWorkAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var now, most atomic.Int32
		w := local(t, Policy{}, 3, func(_ context.Context, m *engine.Message) error {
			most.Store(max(most.Load(), now.Add(1)))
			time.Sleep(100 * time.Millisecond)
			now.Add(-1)
			m.SetBytes([]byte("y"))
			return nil
		})
		began := time.Now()
		want := map[uint64]string{}
		for range 9 {
			want[w.submit().ID] = "y"
		}
		time.Sleep(300 * time.Millisecond)
		w.wantEnds(want)
		if most.Load() != 3 || time.Since(began) != 300*time.Millisecond {
			t.Errorf("%d worked at once", most.Load())
		}
		w.wantEmpty()
	})
}

func TestAStepThatHangsLosesItsSlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hangs := make(chan struct{})
		var n atomic.Int32
		w := local(t, Policy{Retries: 1, RetryOn: []string{TimedOut}}, 1, func(context.Context, *engine.Message) error {
			if n.Add(1) == 1 {
				<-hangs // and heeds no context
			}
			return nil
		})
		w.submit()
		w.submit()
		time.Sleep(1900 * time.Millisecond)
		w.wantEnds(nil)
		time.Sleep(200 * time.Millisecond) // one timeout after the revocation
		w.wantEnds(map[uint64]string{1: "x", 2: "x"})
		close(hangs) // it has no slot to give back
		synctest.Wait()
		if free := w.transport.(*Local).free; free != 1 {
			t.Errorf("%d slots are free", free)
		}
	})
}

func TestAStepThatHeedsItsContextKeepsItsSlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := local(t, Policy{}, 1, func(ctx context.Context, _ *engine.Message) error {
			<-ctx.Done()
			return context.Cause(ctx)
		})
		first := w.submit()
		w.submit()
		queued := w.submit()
		synctest.Wait()
		w.Cancel(queued, errors.New("enough"))
		w.Cancel(first, errors.New("enough"))
		time.Sleep(time.Second)
		w.wantEnds(map[uint64]string{1: "enough", 2: "no answer within 1s", 3: "enough"})
		l := w.transport.(*Local)
		if l.free != 1 || len(l.queue) != 0 || len(l.running) != 0 {
			t.Errorf("%d free, %d queued, %d running", l.free, len(l.queue), len(l.running))
		}
		time.Sleep(time.Hour)
		if l.free != 1 {
			t.Errorf("%d slots are free", l.free)
		}
	})
}

func TestAPanicIsAnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := local(t, Policy{}, 1, func(_ context.Context, m *engine.Message) error { panic("oh") })
		w.submit()
		w.wantEnds(map[uint64]string{1: "oh"})
		w.submit()
		w.wantEnds(map[uint64]string{1: "oh", 2: "oh"})
	})
}

func TestCloseStopsWhatRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := local(t, Policy{Timeout: time.Hour}, 2, func(ctx context.Context, _ *engine.Message) error {
			<-ctx.Done()
			return nil
		})
		want := map[uint64]string{}
		for range 5 {
			want[w.submit().ID] = "the pool is closed"
		}
		synctest.Wait()
		w.Close()
		w.wantEnds(want)
	})
}

func TestTriesShareNothingThatChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var n atomic.Int32
		w := local(t, Policy{Retries: 50, RetryOn: Reasons}, 4, func(_ context.Context, m *engine.Message) error {
			body := string(m.Bytes())
			m.SetBytes([]byte("edited"))
			m.Meta = m.Meta.With("n", 1)
			if n.Add(1)%5 != 0 {
				return errors.New("no")
			}
			m.SetBytes([]byte(strings.ToUpper(body)))
			return nil
		})
		want := map[uint64]string{}
		for range 20 {
			want[w.submit().ID] = "X"
		}
		time.Sleep(time.Hour)
		w.wantEnds(want)
	})
}

func TestRunSaysThatItWasCancelled(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(ErrRevoked)
	steps := runtime.NewRunner(engine.ProcessorFunc(func(context.Context, *engine.Message) error { return nil }))
	if r, err := Run(ctx, steps, slices.Collect(jobsOf("a").All())); r != nil || !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, %v", r, err)
	}
}
