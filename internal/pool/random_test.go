package pool

import (
	"errors"
	"maps"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// launched is a Transport that loses what it is given: copies vanish from it.
type launched struct {
	mu     sync.Mutex // guards the fields below
	here   []try      // all that were launched
	copies map[try]bool
}

type try struct {
	id uint64
	n  int
}

func (l *launched) Launch(c *Call, n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.here = append(l.here, try{c.ID, n})
	l.copies[try{c.ID, n}] = true
}

// vanish loses some copies, or all of them.
func (l *launched) vanish(r *rand.Rand) {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := r.IntN(3) == 0
	maps.DeleteFunc(l.copies, func(try, bool) bool { return all || r.IntN(4) == 0 })
}

// has reports whether there is a copy of a try.
func (l *launched) has(one try) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.copies[one]
}

// audit reports which of the current attempts have vanished, also from slots.
func (l *launched) audit(p *Pool, slots bool) {
	for one := range present(p) {
		if l.has(one) {
			continue
		}
		if slots {
			p.Returned(one.id, one.n)
		}
		p.Vanished(one.id, one.n)
	}
}

// present are the attempts that are awaited, except those that are still to be launched.
func present(p *Pool) map[try]bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := map[try]bool{}
	for id, c := range p.pending {
		now[try{id, c.try}] = true
	}
	return now
}

func (l *launched) Revoke(*Call, int) {} // it always arrives too late

// some is one of the attempts, current or not.
func (l *launched) some(r *rand.Rand) (try, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.here) == 0 {
		return try{}, false
	}
	from := max(0, len(l.here)-20)
	return l.here[from+r.IntN(len(l.here)-from)], true
}

// TestEveryCallEndsOnce has everything happen to calls in any order.
func TestEveryCallEndsOnce(t *testing.T) {
	for seed := range uint64(200) {
		synctest.Test(t, func(t *testing.T) { happen(t, seed) })
	}
}

func happen(t *testing.T, seed uint64) {
	r := rand.New(rand.NewPCG(seed, 1))
	via := &launched{copies: map[try]bool{}}
	policy := Policy{Name: "p", Timeout: time.Second, Retries: r.IntN(4) - 1, MaxPending: 1 + r.IntN(5)}
	for _, reason := range Reasons {
		if r.IntN(2) == 0 {
			policy.RetryOn = append(policy.RetryOn, reason)
		}
	}
	p := New(policy, r.IntN(2), func(*Pool) Transport { return via })
	var mu sync.Mutex
	ends := map[int]int{}
	var calls []*Call
	submit := func() {
		i := len(calls)
		calls = append(calls, p.Submit(jobsOf("x"), func(*Result, error) {
			mu.Lock()
			defer mu.Unlock()
			ends[i]++
		}))
	}
	for range 300 {
		one, ok := via.some(r)
		switch n := r.IntN(22); {
		case n < 4 || !ok:
			submit()
		case n < 8:
			p.Taken(one.id, one.n)
		case n < 10:
			p.Returned(one.id, one.n)
		case n < 13:
			p.Answer(one.id, one.n, made("y"), nil)
		case n == 13:
			p.Answer(one.id, one.n, failedWith("no"), nil)
		case n == 14:
			p.Answer(one.id, one.n, nil, errors.New("no"))
		case n == 15:
			p.Members(r.IntN(2))
		case n == 16:
			p.Cancel(calls[r.IntN(len(calls))], errors.New("enough"))
		case n == 17:
			via.audit(p, r.IntN(2) == 0)
		case n == 18:
			via.vanish(r)
		case n == 19:
			p.Lost(one.id, one.n)
		default:
			time.Sleep(rand.N(900 * time.Millisecond))
		}
		if r.IntN(3) == 0 {
			synctest.Wait()
		}
		p.mu.Lock()
		pending, waiting := len(p.pending), len(p.waiting)
		p.mu.Unlock()
		if pending > policy.MaxPending || waiting > 0 && pending < policy.MaxPending {
			t.Errorf("seed %d: %d calls pend, at most %d may, and %d wait", seed, pending, policy.MaxPending, waiting)
		}
	}
	// From now on there is a worker that does what it gets, and nothing vanishes any
	// more. Slots that have begun before never answer.
	p.Members(1)
	if r.IntN(4) == 0 {
		p.Close()
	}
	for range 40 * len(calls) {
		via.audit(p, true)
		for one := range present(p) {
			if via.has(one) && p.Taken(one.id, one.n) {
				p.Answer(one.id, one.n, made("y"), nil)
			}
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if taken, waiting := p.Counts(); taken+waiting == 0 {
			break
		}
	}
	mu.Lock()
	defer mu.Unlock()
	for i := range calls {
		if ends[i] != 1 {
			t.Errorf("seed %d: call %d of %d has ended %d times", seed, i, len(calls), ends[i])
		}
	}
	if len(p.pending)+len(p.waiting) != 0 {
		t.Errorf("seed %d: %d calls pend and %d wait at the end", seed, len(p.pending), len(p.waiting))
	}
}
