package twophase_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/enginetest"
	"github.com/flowd-io/flowd/internal/state/twophase"
	gocmp "github.com/google/go-cmp/cmp"
)

var errScripted = errors.New("scripted")

// in runs a test in a world of such messages, in virtual time.
func in(t *testing.T, scripts []script, f func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, scripts)
		f(t, w)
		w.cancel()
		<-w.done
		if err := w.use.Close(t.Context()); fmt.Sprint(err) != cmp.Or(w.closing, "<nil>") {
			t.Errorf("Close gave %v, want %q", err, w.closing)
		}
	})
}

func (w *world) want(saw map[string]string, cache map[string]string) {
	w.t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	if diff := gocmp.Diff(saw, w.saw); diff != "" {
		w.t.Errorf("results (-want +got):\n%s", diff)
	}
	if diff := gocmp.Diff(cache, w.store.all()); diff != "" {
		w.t.Errorf("cache (-want +got):\n%s", diff)
	}
}

var crossing = []script{
	{Orders: [2]order{{"add", "a"}, {"add", "b"}}},
	{Orders: [2]order{{"add", "b"}, {"add", "a"}}},
}

func TestNobodyWaitsInACircle(t *testing.T) {
	for _, well := range []bool{true, false} {
		t.Run(fmt.Sprint(well), func(t *testing.T) {
			in(t, crossing, func(_ *testing.T, w *world) {
				w.open(0, nil)
				w.open(1, nil)
				w.open(0, nil) // waits for b
				w.want(map[string]string{"0.0": "true", "1.0": "true"}, map[string]string{})
				w.open(1, nil) // would wait for a, whose owner waits for b
				w.want(map[string]string{"0.0": "true", "1.0": "true", "1.1": "false"}, map[string]string{})
				if well {
					w.open(1, nil)
					w.want(map[string]string{"0.0": "true", "1.0": "true", "1.1": "false", "0.1": "false"},
						map[string]string{"b": "1.0"})
				} else {
					w.open(1, errScripted)
					w.want(map[string]string{"0.0": "true", "1.0": "true", "1.1": "false", "0.1": "true"},
						map[string]string{})
				}
				w.open(0, nil)
			})
		})
	}
}

func TestAKeyPassesToTheNextWhoWaits(t *testing.T) {
	in(t, []script{
		{Orders: [2]order{{"add", "a"}, {"none", ""}}},
		{Orders: [2]order{{"add", "b"}, {"add", "a"}}},
		{Orders: [2]order{{"set", "c"}, {"add", "a"}}},
		{Orders: [2]order{{"none", ""}, {"set", "a"}}},
	}, func(_ *testing.T, w *world) {
		for range 2 {
			for id := range 3 {
				w.open(id, nil)
			}
		}
		w.open(0, errScripted) // a passes to 1, and 2 waits for that
		w.want(map[string]string{"0.0": "true", "1.0": "true", "1.1": "true"}, map[string]string{})
		w.open(1, nil)
		w.want(map[string]string{"0.0": "true", "1.0": "true", "1.1": "true", "2.1": "false"},
			map[string]string{"a": "1.1", "b": "1.0"})
	})
}

func TestAWriteThatTheCacheRefusesIsReported(t *testing.T) {
	in(t, []script{{Orders: [2]order{{"set", "a"}, {"none", ""}}}, {Orders: [2]order{{"get", "a"}, {"add", "a"}}}},
		func(t *testing.T, w *world) {
			w.store.fail = engine.Errorf(engine.Permanent, "never")
			for range 3 {
				w.open(0, nil)
			}
			if w.store.sets != 1 {
				t.Errorf("%d tries, want one", w.store.sets)
			}
			w.store.fail = nil
			w.open(1, nil)
			w.open(1, nil)
			w.want(map[string]string{"1.0": "none", "1.1": "true"}, map[string]string{})
			w.closing = "cache c: missing writes of delivered messages: 1: never"
		})
}

func TestAWriteIsTriedUntilTheCacheIsBack(t *testing.T) {
	in(t, []script{{Orders: [2]order{{"set", "a"}, {"none", ""}}}, {Orders: [2]order{{"get", "a"}, {"add", "a"}}}},
		func(t *testing.T, w *world) {
			w.store.fails(errScripted)
			for range 3 {
				w.open(0, nil)
			}
			time.Sleep(time.Hour)
			w.want(map[string]string{}, map[string]string{})
			w.store.fails(nil)
			time.Sleep(10 * time.Second)
			w.want(map[string]string{}, map[string]string{"a": "0.0"})
			w.open(1, nil)
			w.open(1, nil)
			w.want(map[string]string{"1.0": "0.0", "1.1": "false"}, map[string]string{"a": "0.0"})
		})
}

func TestACommittedWriteCountsBeforeItIsMade(t *testing.T) {
	in(t, []script{{Orders: [2]order{{"set", "a"}, {"none", ""}}}, {Orders: [2]order{{"get", "a"}, {"add", "a"}}}},
		func(_ *testing.T, w *world) {
			w.store.pause = time.Hour
			w.open(0, nil)
			w.open(0, nil)
			w.open(0, nil)
			w.open(1, nil)
			w.open(1, nil)
			w.want(map[string]string{"1.0": "0.0", "1.1": "false"}, map[string]string{})
			time.Sleep(time.Hour)
			synctest.Wait()
			w.want(map[string]string{"1.0": "0.0", "1.1": "false"}, map[string]string{"a": "0.0"})
		})
}

func TestACloseThatIsNotGivenTheTimeSaysSo(t *testing.T) {
	in(t, []script{{Orders: [2]order{{"set", "a"}, {"none", ""}}}, {Orders: [2]order{{"set", "b"}, {"none", ""}}}},
		func(t *testing.T, w *world) {
			w.store.pause = time.Hour
			for range 3 {
				w.open(0, nil)
			}
			w.open(1, nil)
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			if err := w.use.Close(ctx); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("a Close that is not given the time: %v", err)
			}
			time.Sleep(time.Hour) // the call that was under way ends
			w.open(1, nil)
			w.open(1, nil) // its root ends well, but nobody listens any more
			w.want(map[string]string{}, map[string]string{"a": "0.0"})
		})
}

func TestAClosedStepTakesNothing(t *testing.T) {
	use := twophase.Join(enginetest.Env(), "c", &store{values: map[string]string{}})
	if err := use.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	b := enginetest.Batch("a", "b")
	for m := range b.All() {
		if m.Size() == 1 && string(m.Bytes()) == "a" {
			use.Write(t.Context(), []twophase.Write{{M: m, Key: "k"}})
		} else {
			use.Add(t.Context(), []twophase.Add{{M: m, Key: "k"}}, func(*engine.Message, bool) error { return nil })
		}
	}
	for m := range b.All() {
		t.Errorf("%s goes on", m.Bytes())
	}
}

// What no input has read has no end that would be reported.
func TestWritesOfNoMessageAreMadeAtOnce(t *testing.T) {
	s := &store{values: map[string]string{}}
	use := twophase.Join(enginetest.Env(), "c", s)
	b := enginetest.Batch("a")
	for m := range b.All() {
		use.Write(t.Context(), []twophase.Write{{M: m, Key: "k", Value: []byte("v")}})
	}
	if err := use.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if diff := gocmp.Diff(map[string]string{"k": "v"}, s.all()); diff != "" {
		t.Error(diff)
	}
}

// slowly makes n writes by one call each for all to a store that takes an hour for
// each, and returns the first error.
func slowly(t *testing.T, n int, value []byte) (failed int, err error) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		use := twophase.Join(enginetest.Env(), "c", &store{values: map[string]string{}, pause: time.Hour})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		for from := 0; from < n; from += 100 {
			b := engine.NewBatch(100)
			var all []twophase.Write
			for i := range 100 {
				all = append(all, twophase.Write{M: b.Add(nil), Key: fmt.Sprint(from + i), Value: value})
			}
			use.Write(ctx, all)
			for m := range b.Ended() {
				failed++
				err = m.Err()
			}
		}
		if e := use.Close(t.Context()); e != nil {
			t.Error(e)
		}
	})
	return failed, err
}

func TestPendingBytesAreBounded(t *testing.T) {
	failed, err := slowly(t, 400, make([]byte, 1<<20)) // 256 MiB fit
	if failed < 100 || failed > 200 || !strings.Contains(err.Error(), "too many cache writes") {
		t.Errorf("%d of 400 MiB failed: %v", failed, err)
	}
}

func TestStepsWaitForACacheThatFallsBehind(t *testing.T) {
	const n = 70_000
	failed, err := slowly(t, n, nil)
	if failed == 0 || failed > n-1<<16 || !strings.Contains(err.Error(), "cache c is too slow") {
		t.Errorf("%d of %d failed: %v", failed, n, err)
	}
}
