package ledger

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/internal/inside"
)

// moody is an acker that sometimes refuses results, panics or is late.
type moody struct {
	t    *testing.T
	rnd  *rand.Rand
	told map[uint64]engine.Result
	call int
}

func (a *moody) Ack(_ context.Context, results []engine.Result) (again []engine.Result, err error) {
	a.call++
	if !slices.IsSortedFunc(results, func(x, y engine.Result) int { return int(x.Ref) - int(y.Ref) }) {
		a.t.Errorf("call %d, of %d results, is not in read order", a.call, len(results))
	}
	switch a.rnd.IntN(6) {
	case 0:
		panic("a mistake of the plugin")
	case 1:
		time.Sleep(time.Duration(a.rnd.IntN(1000)) * time.Millisecond)
	}
	for _, r := range results {
		if a.rnd.IntN(8) == 0 {
			again = append(again, r)
			continue
		}
		if _, twice := a.told[r.Ref]; twice {
			a.t.Errorf("root %d is reported twice", r.Ref)
		}
		a.told[r.Ref] = r
	}
	return again, nil
}

// Roots end in any order and on several goroutines, while their source refuses results. Each result is reported once and is correct.
// The results of one call are in read order.
func TestEveryRootIsReportedOnceAsItEnded(t *testing.T) {
	for seed := range uint64(20) {
		synctest.Test(t, func(t *testing.T) {
			rnd := rand.New(rand.NewPCG(seed, 0))
			source := &moody{t, rand.New(rand.NewPCG(seed, 1)), map[uint64]engine.Result{}, 0}
			ctx, cancel := context.WithCancel(t.Context())
			account := &Account{Log: slog.New(slog.DiscardHandler), Timeout: time.Minute}
			account.Start(ctx)
			ends := []engine.Fate{engine.Delivered, engine.Filtered, engine.Dropped, engine.Returned}
			var reports [3]Reports
			var open []Root
			want, read := map[uint64]engine.Fate{}, uint64(0)
			for range 60 {
				n := 1 + rnd.IntN(inside.SlabSize)
				led := &Ledger{Acks: account.AcksOf(source, "in", n), First: read}
				led.Begin(n)
				for i := range n {
					led.Keep(i, &engine.Message{Ref: read})
					open = append(open, Root{led, uint32(i)})
					read++
				}
				rnd.Shuffle(len(open), func(i, j int) { open[i], open[j] = open[j], open[i] })
				for _, r := range open[:rnd.IntN(len(open)+1)] {
					end(t, r, ends[rnd.IntN(len(ends))], &reports[rnd.IntN(len(reports))], want)
					open = open[1:]
				}
				for i := range reports {
					reports[i].Send()
				}
				time.Sleep(time.Duration(rnd.IntN(3)) * time.Second)
			}
			for _, r := range open {
				end(t, r, engine.Delivered, &reports[0], want)
			}
			reports[0].Send()
			account.FinishAcks(time.Now().Add(time.Hour), cancel)
			for ref, f := range want {
				if got, told := source.told[ref]; !told || got.Fate != f {
					t.Errorf("seed %d: root %d ended as %v, its source was told %v", seed, ref, f, got)
				}
			}
			if len(source.told) != int(read) {
				t.Errorf("seed %d: %d roots of %d were reported", seed, len(source.told), read)
			}
		})
	}
}

// away is an acker whose server is unreachable until the time back.
type away struct {
	back time.Time
	told int
}

func (a *away) Ack(ctx context.Context, results []engine.Result) ([]engine.Result, error) {
	if ctx.Err() != nil || time.Now().Before(a.back) {
		return results, errors.New("not there")
	}
	a.told += len(results)
	return nil, nil
}

// When a pipeline ends, results are reported again at once, even if the next attempt would be much later.
func TestTheEndDoesNotWaitForAnAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := &away{back: time.Now().Add(time.Minute)}
		account, _, cancel := owed(t, source)
		account.AcksOf(&away{}, "in", 1).Forget() // the input has another connection
		time.Sleep(61 * time.Second)
		account.FinishAcks(time.Now().Add(time.Second), cancel)
		if source.told != 1 {
			t.Error("the source was not told")
		}
	})
}

// During a long outage of the source, results are kept until the deadline, even if the input gets a new connection or the pipeline
// ends.
func TestAnOutageOfTheSourceEndsWithTheDeadlineAlone(t *testing.T) {
	for _, replaced := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			source := &away{back: time.Now().Add(24 * time.Hour)}
			account, acks, cancel := owed(t, source)
			if replaced {
				acks.Close()
				time.Sleep(25 * time.Hour)
			}
			account.FinishAcks(time.Now().Add(25*time.Hour), cancel)
			if untold := account.Untold.Load(); source.told != 1 || untold != 0 {
				t.Errorf("replaced %t: the source was told %d results, and %d were given up", replaced, source.told, untold)
			}
		})
	}
}

// owed returns an account that owes a source the result of one delivered message.
func owed(t *testing.T, source engine.Acker) (account *Account, acks *AckLoop, stop context.CancelFunc) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	account = &Account{Log: slog.New(slog.DiscardHandler), Timeout: time.Minute}
	account.Start(ctx)
	led := &Ledger{Acks: account.AcksOf(source, "in", 1)}
	led.Begin(1)
	led.Keep(0, &engine.Message{})
	var report Reports
	end(t, Root{led, 0}, engine.Delivered, &report, map[uint64]engine.Fate{})
	report.Send()
	return account, led.Acks, stop
}

func end(t *testing.T, r Root, f engine.Fate, to *Reports, want map[uint64]engine.Fate) {
	if !r.End(f, nil) {
		t.Error("a root of one piece has not ended with it")
	}
	want[r.Led.Roots[r.I].Ref] = f
	to.Add(r)
}

// A step may split a message after all roots were handed back. The fence is closed by then, except for messages that wait there.
func TestARootThatWasGivenUpDoesNotEndAgain(t *testing.T) {
	l := new(Ledger)
	l.Begin(1)
	r := Root{Led: l}
	r.GiveUp()
	r.Add(2)
	for range 3 {
		if r.End(engine.Filtered, nil) {
			t.Error("it has ended again")
		}
	}
}
