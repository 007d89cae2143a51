package writebehind

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flowd-io/flowd/engine"
)

// sink is a cache that writes what a queue of numbers gives it, and fails as fail says.
type sink struct {
	mu      sync.Mutex
	wrote   []int
	refused []int
	fail    func(n int) error
}

// got is what was written, and what the cache has refused, once nothing moves.
func (s *sink) got() (wrote, refused []int) {
	synctest.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(slices.Values(s.wrote)), slices.Clone(s.refused)
}

func (s *sink) queue() *Queue[int] {
	return &Queue[int]{Name: "c", Log: slog.New(slog.DiscardHandler), Width: 8,
		Begin: func(round []int) []int { return round },
		Spread: func(n int, write func(i int)) {
			for i := range n {
				write(i)
			}
		},
		Write: func(_ context.Context, n int) error {
			s.mu.Lock()
			defer s.mu.Unlock()
			if err := s.fail(n); err != nil {
				return err
			}
			s.wrote = append(s.wrote, n)
			return nil
		},
		Refuse: func(n int, _ error) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.refused = append(s.refused, n)
		},
		End: func([]int) {},
	}
}

func TestACacheThatIsAwayIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		down := time.Now().Add(time.Hour)
		s := &sink{fail: func(n int) error {
			if n == 2 {
				return engine.Errorf(engine.Rejected, "too large")
			}
			if time.Now().Before(down) {
				return errors.New("no connection")
			}
			return nil
		}}
		q := s.queue()
		q.Join()
		q.Put(1, 2, 3)
		saved := false
		q.Saved(func() { saved = true })
		time.Sleep(time.Minute)
		synctest.Wait()
		if saved || !engine.ErrorOf(q.Outage(), "").Holds || q.Trouble() == nil {
			t.Errorf("during the outage: saved %v, outage %v, trouble %v", saved, q.Outage(), q.Trouble())
		}
		q.Put(4)
		time.Sleep(time.Hour)
		wrote, refused := s.got()
		if !saved || q.Outage() != nil || q.Trouble() != nil || !slices.Equal(wrote, []int{1, 3, 4}) ||
			!slices.Equal(refused, []int{2}) {
			t.Errorf("after it: saved %v, outage %v, wrote %v, refused %v", saved, q.Outage(), wrote, refused)
		}
		if err := q.Leave(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

func TestOneFailureIsNoOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fails := 1
		s := &sink{}
		q := s.queue()
		s.fail = func(int) error {
			if fails--; fails >= 0 {
				return errors.New("busy")
			}
			return nil
		}
		q.Put(1)
		synctest.Wait()
		if err := q.Outage(); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Second)
		if wrote, _ := s.got(); !slices.Equal(wrote, []int{1}) {
			t.Errorf("wrote %v", wrote)
		}
	})
}

func TestTheLastStepToLeaveGivesUpWhatCanNotBeWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		down := true
		s := &sink{fail: func(int) error {
			if down {
				return errors.New("no connection")
			}
			return nil
		}}
		q := s.queue()
		q.Join()
		q.Join()
		q.Put(1)
		told := false
		q.Saved(func() { told = true })
		leave := func() error {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			return q.Leave(ctx)
		}
		if err := leave(); err == nil {
			t.Error("a step left as if all was written")
		}
		time.Sleep(time.Minute)
		if _, refused := s.got(); len(refused) > 0 {
			t.Error("given up although another step uses the cache")
		}
		q.Put(3) // while the other one waits for its next attempt
		if err := leave(); err == nil {
			t.Error("the last step left as if all was written")
		}
		time.Sleep(time.Minute)
		_, refused := s.got()
		slices.Sort(refused)
		if told || !slices.Equal(refused, []int{1, 3}) {
			t.Errorf("told %v, refused %v", told, refused)
		}
		if err := q.Outage(); err != nil || q.Trouble() != nil {
			t.Errorf("nobody tries the cache any more, and messages wait: %v", err)
		}
		down = false
		q.Join() // a step of the next plan
		q.Put(2)
		err := leave()
		if wrote, _ := s.got(); err != nil || !slices.Equal(wrote, []int{2}) {
			t.Errorf("the next step: %v, wrote %v", err, wrote)
		}
	})
}
