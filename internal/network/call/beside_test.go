package call

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestBesideCallsEachOnceAndSoManyAtATime(t *testing.T) {
	for _, c := range []struct{ width, n, seconds int }{
		{4, 0, 0}, {4, 1, 1}, {4, 3, 1}, {4, 8, 2}, {4, 9, 3}, {1, 3, 3}, {0, 2, 2},
	} {
		t.Run(fmt.Sprintf("%d of %d", c.width, c.n), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began, calls := time.Now(), make([]atomic.Int32, c.n)
				Beside(c.width, c.n, func(i int) {
					calls[i].Add(1)
					time.Sleep(time.Second) // virtual
				})
				if got := time.Since(began); got != time.Duration(c.seconds)*time.Second {
					t.Errorf("took %v, want %ds", got, c.seconds)
				}
				for i := range calls {
					if n := calls[i].Load(); n != 1 {
						t.Errorf("%d was called %d times", i, n)
					}
				}
			})
		})
	}
}

func TestAPanicBesideOthersIsOneOfTheCaller(t *testing.T) {
	for _, n := range []int{1, 8} {
		var calls, over atomic.Int32
		func() {
			defer func() {
				if p := recover(); p == nil || !strings.Contains(fmt.Sprint(p), "a broken answer") {
					t.Errorf("of %d: recovered %v", n, p)
				}
			}()
			Beside(2, n, func(i int) {
				calls.Add(1)
				defer over.Add(1)
				if i == 0 {
					panic("a broken answer")
				}
			})
		}()
		if calls.Load() != over.Load() {
			t.Errorf("of %d: it returned before all calls were over", n)
		}
	}
}
