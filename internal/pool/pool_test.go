package pool

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flowd-io/flowd/engine"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// recorder is a Transport that records its calls.
type recorder struct {
	mu   sync.Mutex // guards the field below
	told []string
}

func (r *recorder) Launch(c *Call, try int) { r.note("launch %d.%d", c.ID, try) }
func (r *recorder) Revoke(c *Call, try int) { r.note("revoke %d.%d", c.ID, try) }

func (r *recorder) note(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.told = append(r.told, fmt.Sprintf(format, args...))
}

// world is a pool with a recorder, and how its calls have ended.
type world struct {
	t *testing.T
	*Pool
	via  *recorder
	mu   sync.Mutex // guards the field below
	ends map[uint64][]string
}

func newWorld(t *testing.T, p Policy, workers int) *world {
	if p.MaxPending == 0 {
		p.MaxPending = 100
	}
	if p.Timeout == 0 {
		p.Timeout = time.Second
	}
	p.Name = "p"
	w := &world{t: t, via: &recorder{}, ends: map[uint64][]string{}}
	w.Pool = New(p, workers, func(*Pool) Transport { return w.via })
	return w
}

// submit starts a call of one message.
func (w *world) submit() *Call {
	var c *Call
	known := make(chan struct{})
	c = w.Pool.Submit(jobsOf("x"), func(r *Result, err error) {
		go func() { // done may be called within Submit
			<-known
			w.ended(c.ID, r, err)
		}()
	})
	close(known)
	return c
}

func (w *world) ended(id uint64, r *Result, err error) {
	end := "error: "
	switch {
	case err != nil:
		end += err.Error()
	case r.Failure() != nil:
		end = "failed: " + r.Failure().Error()
	default:
		end = string(r.Made[0].Body)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ends[id] = append(w.ends[id], end)
}

func (w *world) wantEnds(want map[uint64]string) {
	w.t.Helper()
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	for id, text := range want {
		if got := w.ends[id]; len(got) != 1 || !strings.Contains(got[0], text) {
			w.t.Errorf("call %d ended as %q, want once %q", id, got, text)
		}
	}
	if len(w.ends) != len(want) {
		w.t.Errorf("%d calls have ended, want %d: %v", len(w.ends), len(want), w.ends)
	}
}

func (w *world) wantTold(want ...string) {
	w.t.Helper()
	synctest.Wait()
	w.via.mu.Lock()
	defer w.via.mu.Unlock()
	if !slices.Equal(w.via.told, want) {
		w.t.Errorf("the transport was told\n%q, want\n%q", w.via.told, want)
	}
	w.via.told = nil
}

func (w *world) wantEmpty() {
	w.t.Helper()
	w.Pool.mu.Lock()
	defer w.Pool.mu.Unlock()
	if len(w.pending) != 0 || len(w.waiting) != 0 {
		w.t.Errorf("%d calls pend and %d wait", len(w.pending), len(w.waiting))
	}
}

func jobsOf(bodies ...string) *engine.Batch {
	b := engine.NewBatch(len(bodies))
	for i, body := range bodies {
		b.Add([]byte(body)).Ref = uint64(i + 1)
	}
	return b
}

// made is the answer of a job of one message.
func made(body string) *Result {
	return &Result{Ends: make([]End, 1), Made: []Made{{Of: []int{0}, Body: []byte(body)}}}
}

func failedWith(text string) *Result { return &Result{Ends: []End{{Err: errors.New(text)}}} }

func TestACallEndsWithItsAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Policy{}, 1)
		c := w.submit()
		time.Sleep(time.Hour) // it waits for its turn
		if !w.Taken(c.ID, 1) {
			t.Error("nobody awaits it")
		}
		if taken, waiting := w.Counts(); taken != 1 || waiting != 0 {
			t.Errorf("%d are taken and %d wait", taken, waiting)
		}
		w.Answer(c.ID, 1, made("y"), nil)
		w.wantEnds(map[uint64]string{1: "y"})
		w.wantTold("launch 1.1")
		if w.Taken(c.ID, 1) {
			t.Error("it is taken after its end")
		}
		w.Answer(c.ID, 1, made("z"), nil)
		w.Returned(c.ID, 1)
		time.Sleep(time.Hour)
		w.wantEnds(map[uint64]string{1: "y"})
		w.wantTold()
		w.wantEmpty()
	})
}

func TestATryHasItsTimeFromWhenItIsTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Policy{Retries: 1, RetryOn: []string{TimedOut}}, 1)
		c := w.submit()
		time.Sleep(time.Minute)
		w.Taken(c.ID, 1)
		time.Sleep(999 * time.Millisecond)
		w.wantTold("launch 1.1")
		time.Sleep(time.Millisecond)
		w.wantTold("revoke 1.1", "launch 1.2")
		if w.Taken(c.ID, 1) {
			t.Error("an old try is taken")
		}
		time.Sleep(time.Minute)
		w.Taken(c.ID, 2)
		time.Sleep(time.Second)
		w.wantEnds(map[uint64]string{1: "pool p: no answer within 1s, after 2 attempts"})
		w.wantTold("revoke 1.2")
		w.wantEmpty()
	})
}

func TestWithoutWorkersACallWaitsForAsLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Policy{}, 0)
		w.submit()
		time.Sleep(time.Second)
		w.wantEnds(map[uint64]string{1: "there was no worker within 1s (flowd worker --pool p starts one)"})
		w.wantTold("launch 1.1", "revoke 1.1")
		w.wantEmpty()
	})
}

func TestWithoutWorkersATryWaitsOnWhereItIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Policy{Retries: -1, RetryOn: []string{TimedOut}}, 0)
		c := w.submit()
		time.Sleep(time.Hour)
		w.wantTold("launch 1.1")
		w.Members(1)
		w.Taken(c.ID, 1)
		w.Answer(c.ID, 1, made("y"), nil)
		w.wantEnds(map[uint64]string{1: "y"})
	})
}

func TestMembersStartAndStopTheClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Policy{}, 0)
		waits, runs := w.submit(), w.submit()
		w.Members(1)
		w.Taken(runs.ID, 1)
		time.Sleep(999 * time.Millisecond)
		w.Members(0) // the one that runs keeps its clock
		time.Sleep(time.Millisecond)
		w.wantEnds(map[uint64]string{2: "no answer within 1s"})
		time.Sleep(998 * time.Millisecond)
		w.Members(3)
		time.Sleep(time.Hour)
		w.Members(2)
		w.wantEnds(map[uint64]string{2: "no answer"})
		w.Members(0)
		time.Sleep(time.Second)
		w.wantEnds(map[uint64]string{1: "there was no worker", 2: "no answer"})
		_ = waits
		w.wantEmpty()
	})
}

func TestALostTryIsTakenAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Policy{Retries: 1, RetryOn: []string{Lost}}, 2)
		c := w.submit()
		w.Taken(c.ID, 1)
		time.Sleep(900 * time.Millisecond)
		if !w.Taken(c.ID, 1) {
			t.Error("there is no second try")
		}
		time.Sleep(900 * time.Millisecond) // its own time
		w.wantEnds(nil)
		if w.Taken(c.ID, 1) {
			t.Error("there is a third try")
		}
		w.wantEnds(map[uint64]string{1: "the worker that had the job is gone, after 2 attempts"})
		w.wantTold("launch 1.1", "revoke 1.1")
		w.wantEmpty()
	})
}

func TestALostTryEndsTheCallUnlessAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Policy{Retries: -1, RetryOn: []string{TimedOut, Failed}}, 2)
		c := w.submit()
		w.Taken(c.ID, 1)
		w.Taken(c.ID, 1)
		w.wantEnds(map[uint64]string{1: "the worker that had the job is gone"})
	})
}

func TestATryThatIsHandedBackCountsForNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Policy{}, 1)
		c := w.submit()
		for range 10 {
			w.Taken(c.ID, 1)
			time.Sleep(900 * time.Millisecond)
			w.Returned(c.ID, 1)
			time.Sleep(time.Hour)
		}
		w.wantEnds(nil)
		w.Taken(c.ID, 1)
		w.Answer(c.ID, 1, made("y"), nil)
		w.wantEnds(map[uint64]string{1: "y"})
	})
}

func TestALateAnswerIsGoodUnlessItIsAFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Policy{Retries: 5, RetryOn: []string{TimedOut}}, 1)
		c := w.submit()
		for try := range 2 {
			w.Taken(c.ID, try+1)
			time.Sleep(time.Second)
			synctest.Wait()
		}
		w.wantTold("launch 1.1", "revoke 1.1", "launch 1.2", "revoke 1.2", "launch 1.3")
		w.Answer(c.ID, 1, failedWith("late"), nil)
		w.Answer(c.ID, 2, nil, errors.New("late"))
		w.wantEnds(nil)
		w.Answer(c.ID, 1, made("late"), nil)
		w.wantEnds(map[uint64]string{1: "late"})
		w.wantTold("revoke 1.3")
		w.wantEmpty()
	})
}

func TestFailuresAreTriedAgainOnlyWhenAsked(t *testing.T) {
	for _, r := range []struct {
		on   []string
		want string
		told []string
	}{
		{[]string{Lost, TimedOut}, "failed: no", []string{"launch 1.1"}},
		{[]string{Failed}, "failed: no", []string{"launch 1.1", "launch 1.2", "launch 1.3"}},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, Policy{Retries: 2, RetryOn: r.on}, 1)
			c := w.submit()
			for try := range len(r.told) {
				w.Taken(c.ID, try+1)
				w.Answer(c.ID, try+1, failedWith("no"), nil)
				time.Sleep(time.Minute) // the pause is shorter
			}
			w.wantEnds(map[uint64]string{1: r.want})
			w.wantTold(r.told...)
			w.wantEmpty()
		})
	}
}

func TestMembersDoNotCutAPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Policy{Retries: -1, RetryOn: Reasons}, 1)
		c := w.submit()
		w.Taken(c.ID, 1)
		w.Answer(c.ID, 1, nil, errors.New("no"))
		for n := range 10 {
			w.Members(n % 2)
		}
		if taken, waiting := w.Counts(); taken != 0 || waiting != 1 {
			t.Errorf("%d are taken and %d wait", taken, waiting)
		}
		w.Members(0)
		time.Sleep(300 * time.Millisecond)
		w.wantTold("launch 1.1", "launch 1.2")
		w.Taken(c.ID, 2)
		w.Answer(c.ID, 2, made("y"), nil)
		w.wantEnds(map[uint64]string{1: "y"})
	})
}

func TestEndlessTriesLeaveNothingBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Policy{Retries: -1, RetryOn: Reasons}, 1)
		c := w.submit()
		for try := 1; try <= 3000; try++ {
			w.Taken(c.ID, try)
			switch try % 3 {
			case 0:
				time.Sleep(time.Second)
			case 1:
				w.Answer(c.ID, try, failedWith("no"), nil)
				time.Sleep(time.Minute)
			case 2:
				w.Answer(c.ID, try, nil, errors.New("no"))
				time.Sleep(time.Minute)
			}
			synctest.Wait()
		}
		w.wantEnds(nil)
		w.Taken(c.ID, 3001)
		w.Answer(c.ID, 3001, made("y"), nil)
		w.wantEnds(map[uint64]string{1: "y"})
		w.wantEmpty()
	})
}

func TestCallsBeyondTheLimitWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Policy{MaxPending: 2}, 0)
		calls := []*Call{w.submit(), w.submit(), w.submit(), w.submit(), w.submit()}
		w.wantTold("launch 1.1", "launch 2.1")
		if taken, waiting := w.Counts(); taken != 0 || waiting != 5 {
			t.Errorf("%d are taken and %d wait", taken, waiting)
		}
		w.Members(1)
		w.Cancel(calls[3], errors.New("enough"))
		w.Answer(1, 1, made("a"), nil)
		w.wantTold("launch 3.1")
		w.Answer(3, 1, made("c"), nil)
		w.Answer(2, 1, made("b"), nil)
		w.Answer(5, 1, made("e"), nil)
		w.wantTold("launch 5.1")
		w.wantEnds(map[uint64]string{1: "a", 2: "b", 3: "c", 4: "enough", 5: "e"})
		w.wantEmpty()
	})
}

func TestTheClockOfACallThatWaitsForRoomStands(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Policy{MaxPending: 1}, 0)
		w.submit()
		w.submit()
		time.Sleep(time.Second)
		w.wantEnds(map[uint64]string{1: "there was no worker"})
		time.Sleep(time.Second)
		w.wantEnds(map[uint64]string{1: "there was no worker", 2: "there was no worker"})
	})
}

func TestCancelAndCloseEndCallsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Policy{MaxPending: 2, Retries: -1, RetryOn: Reasons}, 1)
		cancelled, pauses, waits := w.submit(), w.submit(), w.submit()
		w.Taken(pauses.ID, 1)
		w.Answer(pauses.ID, 1, failedWith("no"), nil)
		w.Taken(cancelled.ID, 1)
		w.Cancel(cancelled, errors.New("enough"))
		w.Cancel(cancelled, errors.New("more than enough"))
		w.Answer(cancelled.ID, 1, made("late"), nil)
		w.Close()
		w.Close()
		late := w.submit()
		w.Cancel(late, errors.New("enough"))
		w.Cancel(waits, errors.New("enough"))
		w.Vanished(pauses.ID, 2)
		w.Members(0)
		time.Sleep(time.Hour)
		w.wantEnds(map[uint64]string{1: "enough", 2: "the pool is closed", 3: "the pool is closed",
			4: "the pool is closed"})
		slices.Sort(w.via.told)
		w.wantTold("launch 1.1", "launch 2.1", "launch 3.1", "revoke 1.1", "revoke 2.2", "revoke 3.1")
		w.wantEmpty()
	})
}

func TestATryThatVanishedIsHandedOverOnceMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Policy{Retries: 1, RetryOn: Reasons}, 1)
		c := w.submit()
		if !w.Vanished(c.ID, 1) || w.Vanished(c.ID, 1) || w.Vanished(7, 1) {
			t.Error("other than the present try has vanished")
		}
		w.wantTold("launch 1.1", "revoke 1.1", "launch 1.2")
		time.Sleep(time.Hour) // it waits for its turn
		if w.Taken(c.ID, 1) || !w.Awaits(c, 2) || w.Awaits(c, 1) {
			t.Error("the try before is still awaited")
		}
		w.Taken(c.ID, 2)
		if w.Vanished(c.ID, 2) {
			t.Error("a slot has it, and will answer")
		}
		w.wantTold()
		w.Returned(c.ID, 2)
		if !w.Vanished(c.ID, 2) {
			t.Error("the slot has not got it after all")
		}
		w.Taken(c.ID, 3)
		w.Lost(c.ID, 3) // the first that counts
		if !w.Vanished(c.ID, 3) {
			t.Error("the slot that had it is gone")
		}
		w.wantTold("revoke 1.2", "launch 1.3", "revoke 1.3", "launch 1.4")
		w.Taken(c.ID, 4)
		w.Answer(c.ID, 4, made("y"), nil)
		w.wantEnds(map[uint64]string{1: "y"})
		w.wantEmpty()
	})
}

func TestATryThatIsStillToBeHandedOverHasNotVanished(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Policy{Retries: 1, RetryOn: Reasons}, 1)
		c := w.submit()
		w.Taken(c.ID, 1)
		w.Answer(c.ID, 1, failedWith("no"), nil)
		if w.Vanished(c.ID, 2) {
			t.Error("it was never there")
		}
		time.Sleep(time.Hour)
		w.wantTold("launch 1.1", "launch 1.2")
		w.Close()
		w.wantEnds(map[uint64]string{1: "closed"})
	})
}

func TestAnAnswerThatDoesNotFitIsAnError(t *testing.T) {
	for name, r := range map[string]*Result{
		"nothing":                    nil,
		"no ends":                    {},
		"too many ends":              {Ends: make([]End, 2), Made: []Made{{Of: []int{0}}, {Of: []int{1}}}},
		"nothing of a message":       {Ends: make([]End, 1)},
		"made of nothing":            {Ends: make([]End, 1), Made: []Made{{Of: []int{0}}, {}}},
		"made of another":            {Ends: make([]End, 1), Made: []Made{{Of: []int{1}}}},
		"made of a negative":         {Ends: make([]End, 1), Made: []Made{{Of: []int{-1}}}},
		"the same body of several":   {Ends: make([]End, 1), Made: []Made{{Of: []int{0, 0}, SameBody: true}}},
		"the same vars of several":   {Ends: make([]End, 1), Made: []Made{{Of: []int{0, 0}, SameVars: true}}},
		"the same meta of several":   {Ends: make([]End, 1), Made: []Made{{Of: []int{0, 0}, SameMeta: true}}},
		"one of nothing beside ends": {Ends: []End{{Dropped: true}}, Made: []Made{{}}},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, Policy{}, 1)
			c := w.submit()
			w.Taken(c.ID, 1)
			w.Answer(c.ID, 1, r, nil)
			synctest.Wait()
			if got := w.ends[1]; len(got) != 1 || !strings.Contains(got[0], "does not match") {
				t.Errorf("%s: %q", name, got)
			}
		})
	}
}

// TestATimerThatWasStoppedTooLateDoesNothing calls what a timer calls that has fired
// just before it was stopped.
func TestATimerThatWasStoppedTooLateDoesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Policy{}, 0)
		c := w.submit()
		fired := c.clock
		w.Members(1)
		w.Taken(c.ID, 1)
		w.expired(c, fired)
		fired = c.clock
		w.Returned(c.ID, 1)
		w.expired(c, fired)
		w.relaunch(c, fired)
		w.wantEnds(nil)
		w.wantTold("launch 1.1")
		w.Close()
		w.expired(c, fired)
		w.wantEnds(map[uint64]string{1: "closed"})
	})
}
