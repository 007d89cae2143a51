package engine

import (
	"cmp"
	"errors"
	"math/rand/v2"
	"slices"
	"time"
)

// retryPlan is a Retry with its defaults filled in.
type retryPlan Retry

// retry resolves what is configured for a step or an output.
func (b *builder) retry(own *Retry) *retryPlan {
	r := cmp.Or(own, b.spec.Engine.OnFailure.Retry, &defaultRetry)
	if !slices.Contains(b.retries, r) {
		b.retries = append(b.retries, r)
	}
	if all := b.spec.Engine.OnFailure.Retry; own != nil && all != nil {
		full := own.Over(*all)
		r = &full
	}
	p := retryPlan(*r)
	p.Backoff = cmp.Or(p.Backoff, defaultRetry.Backoff)
	p.MaxBackoff = max(p.Backoff, cmp.Or(p.MaxBackoff, defaultRetry.MaxBackoff))
	return &p
}

// forever is the plan without a limit of attempts or age, for dead letters.
func (p *retryPlan) forever() *retryPlan {
	q := *p
	q.MaxAttempts, q.MaxAge = 0, 0
	return &q
}

// trial is a message that has failed and is tried again.
type trial struct {
	attempts int       // tries made where it is
	first    time.Time // when it failed first
	due      time.Time // of the next try
	err      *Error    // of the last one
	cause    *op       // the step that is tried again; nil: a write
	reason   *Error    // why a dead letter is one
	lacked   int       // bytes that there was no room for, see growth.go
	room     int       // of those, what it has got since and not used
}

// retryable says whether trying again may help.
func (c Class) retryable() bool { return c == Transient || c == Timeout }

// again decides whether a message that has just failed with m.err is tried again,
// and notes when. It counts the attempt in either case.
func (p *retryPlan) again(m *Message, now time.Time) bool {
	tr := m.trial
	if tr == nil {
		tr = &trial{attempts: m.tried()}
		m.trial = tr
	}
	if tr.first.IsZero() {
		tr.first = now
	}
	tr.err, m.err.FirstFailed = m.err, tr.first
	if !m.err.holds() { // a refused credential is no fault of the message
		tr.attempts++
	}
	m.err.Attempt = max(1, tr.attempts)
	if !m.err.Class.retryable() && !m.err.holds() || errors.Is(m.err, ErrGone) {
		return false
	}
	if !m.err.holds() && p.MaxAttempts > 0 && tr.attempts >= p.MaxAttempts {
		return false
	}
	wait := max(p.wait(tr.attempts), m.err.Delay)
	if m.err.holds() {
		wait = 0 // the output is held as a whole
	}
	tr.due = now.Add(wait)
	return p.MaxAge == 0 || tr.due.Sub(tr.first) <= p.MaxAge
}

// tried is how often a message was tried before it was read: its source counts
// where it delays messages itself.
func (m *Message) tried() int {
	if led := m.firstRoot().led; led != nil && led.delays > 0 {
		return max(0, m.Attempt-1)
	}
	return 0
}

// wait is the time before the try after n.
func (p *retryPlan) wait(n int) time.Duration {
	if len(p.Intervals) > 0 {
		return p.Intervals[min(max(n, 1), len(p.Intervals))-1]
	}
	return jittered(p.Backoff, p.MaxBackoff, n)
}

// jittered draws the n-th wait of an exponential back-off with full jitter, n from 1.
func jittered(base, most time.Duration, n int) time.Duration {
	ceiling := most
	if n = max(n, 1); n < 40 && base<<(n-1) > 0 && base<<(n-1) < most {
		ceiling = base << (n - 1)
	}
	return 1 + rand.N(ceiling)
}

// budget bounds how much retries add to an output's load: a message delivered
// earns a tenth of a write, and one write a second is free. It starts full and
// only delays (Finagle's RetryBudget).
type budget struct {
	tokens float64
	at     time.Time
}

const (
	budgetMax  = 100 // writes
	budgetEarn = 0.1 // of a write, per message delivered
)

func newBudget() budget { return budget{tokens: budgetMax} }

func (b *budget) earn(messages int) {
	b.tokens = min(budgetMax, b.tokens+budgetEarn*float64(messages))
}

// take pays for one write; else it says when there will be enough.
func (b *budget) take(now time.Time) (ok bool, at time.Time) {
	if !b.at.IsZero() && now.After(b.at) {
		b.tokens = min(budgetMax, b.tokens+now.Sub(b.at).Seconds())
	}
	b.at = now
	if b.tokens >= 1-crumb {
		b.tokens--
		return true, time.Time{}
	}
	return false, now.Add(time.Duration((1 - b.tokens) * float64(time.Second)))
}
