package runtime_test

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flowd-io/flowd/engine"
	. "github.com/flowd-io/flowd/engine/enginetest"
)

// deaf is a source whose Ack fails until some time.
type deaf struct {
	Source
	until time.Time
	told  []uint64
}

func (d *deaf) Read(ctx context.Context, b *engine.Batch) (engine.Acker, error) {
	_, err := d.Source.Read(ctx, b)
	return d, err
}

func (d *deaf) Ack(_ context.Context, rs []engine.Result) ([]engine.Result, error) {
	if time.Now().Before(d.until) {
		return rs, errors.New("no connection")
	}
	for _, r := range rs {
		d.told = append(d.told, r.Ref)
	}
	return nil, nil
}

func (d *deaf) pipeline() *engine.Pipeline {
	d.Takes, d.Endless = engine.TakesOne, true
	p := pipe(&d.Source, &Sink{})
	p.Inputs = Named("in", engine.InputSpec{Use: engine.Use(func(engine.Env) (engine.Input, error) { return d, nil })})
	return p
}

func TestAnAcknowledgementIsTriedAsLongAsItsConnectionIsUsed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &deaf{Source: Source{Payloads: numbers(3)}, until: time.Now().Add(time.Hour)}
		plan := Build(t, d.pipeline())
		stop, cancel := context.WithTimeout(t.Context(), 2*time.Hour)
		defer cancel()
		go func() {
			for _, tt := range []struct {
				at   time.Duration
				want string
			}{{time.Second, ""}, {time.Minute, "no connection"}, {59 * time.Minute, "no connection"}, {61 * time.Minute, ""}} {
				time.Sleep(tt.at - time.Hour + time.Until(d.until))
				if in := plan.Snapshot().Inputs[0]; in.AckErr != tt.want || (in.Unacked == 0) != (tt.at > time.Hour) {
					t.Errorf("after %v: the input shows %q with %d unacknowledged, want %q", tt.at, in.AckErr, in.Unacked, tt.want)
				}
			}
		}()
		rep := plan.Run(stop, context.Background())
		slices.Sort(d.told)
		if !slices.Equal(d.told, []uint64{0, 1, 2}) || rep.Untold != 0 || rep.Code() != 0 {
			t.Errorf("told %v, %d untold, code %d", d.told, rep.Untold, rep.Code())
		}
	})
}

func TestFailedAcknowledgementsAreReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &deaf{Source: Source{Payloads: numbers(3)}, until: time.Now().Add(time.Hour)}
		stop, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		rep := Run(t, d.pipeline(), stop)
		if rep.Untold != 3 || rep.Code() != 3 {
			t.Errorf("%d untold, code %d, want 3 and 3", rep.Untold, rep.Code())
		}
	})
}

// archive is a step whose saves fail until some time.
type archive struct {
	from  time.Time
	saved atomic.Bool
}

func (a *archive) Process(_ context.Context, b *engine.Batch) error {
	for m := range b.All() {
		m.StakeOnDelivery(a, 1)
	}
	return nil
}

func (*archive) Settle(context.Context, []uint64, []uint64) {}

func (a *archive) Save(then func()) {
	time.AfterFunc(time.Until(a.from), func() {
		a.saved.Store(true)
		then()
	})
}

// A message is acknowledged only after its step has saved. Meanwhile its lease is renewed, and the run does not end.
func TestSourcesWaitForWhatStepsSave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &archive{from: time.Now().Add(time.Minute)}
		l := &lender{Source: Source{Payloads: numbers(2)}, every: 10 * time.Second}
		rep := Run(t, lent(l, &Sink{}, proc("archive", a.Process)), nil)
		if !a.saved.Load() || rep.Code() != 0 || len(l.Results()) != 2 {
			t.Errorf("saved %v, code %d, told %v", a.saved.Load(), rep.Code(), l.Results())
		}
		if calls := l.calls(); len(calls) < 6 || len(calls[4]) != 2 {
			t.Errorf("leases were renewed like this: %v, want both messages every 10s for a minute", calls)
		}
	})
}

func TestADrainDoesNotWaitForEverForWhatStepsSave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &archive{from: time.Now().Add(time.Hour)}
		src := &Source{Payloads: numbers(2), Takes: engine.TakesOne, Endless: true}
		stop, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		rep := Run(t, pipe(src, &Sink{}, proc("archive", a.Process)), stop)
		if rep.Untold != 2 || rep.Code() != 3 || len(src.Results()) != 0 {
			t.Errorf("untold %d, code %d, told %v", rep.Untold, rep.Code(), src.Results())
		}
		time.Sleep(time.Hour) // the late save changes nothing
	})
}

// A reload while a step can't save leaves messages unacknowledged. The input is reopened, so that its source redelivers them.
func TestAReloadReopensAnInputThatCouldNotAcknowledge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &archive{from: time.Now().Add(time.Hour)}
		in := &cutting{Source: &Source{Payloads: numbers(2), Takes: engine.TakesOne, Endless: true}}
		build := func() *engine.Pipeline {
			p := pipe(in.Source, &Sink{}, proc("archive", a.Process))
			p.Inputs = Named("in",
				engine.InputSpec{Use: engine.Use(func(engine.Env) (engine.Input, error) { return in, nil })})
			return p
		}
		plan := Build(t, build())
		next := replaced(t, build(), plan, "input in")
		go func() {
			time.Sleep(time.Second)
			plan.Replace(next)
		}()
		plan.Run(t.Context(), context.Background())
		stop, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		next.Run(stop, context.Background())
		if in.opened != 2 {
			t.Errorf("the input was opened %d times, want twice", in.opened)
		}
		time.Sleep(time.Hour)
	})
}

func (c *cutting) Close(context.Context) error { return nil }
