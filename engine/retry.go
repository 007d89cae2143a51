package engine

import (
	"errors"
	"math/rand/v2"
	"time"
)

// retryPlan is a Retry with its defaults filled in.
type retryPlan Retry

// forever is the plan without a limit of attempts or age, for dead letters.
func (p *retryPlan) forever() *retryPlan {
	q := *p
	q.MaxAttempts, q.MaxAge = 0, 0
	return &q
}

// trial is a message that has failed and is tried again.
type trial struct {
	attempts int       // tries made where it is
	unmade   int       // tries of a step that did not reach anyone
	first    time.Time // when it failed first
	due      time.Time // of the next try
	err      *Error    // of the last one
	cause    any       // the step that is tried again; nil: a write
	reason   *Error    // why a dead letter is one
	lacked   int       // bytes that there was no room for, see growth.go
	room     int       // of those, what it has got since and not used
}

// trialOf is m's trial, or nil.
func trialOf(m *Message) *trial {
	if m.in.Rare == nil {
		return nil
	}
	t, _ := m.in.Rare.Trial.(*trial)
	return t
}

// setTrial gives m a trial; nil takes it away.
func setTrial(m *Message, t *trial) {
	if m.in.Rare != nil || t != nil {
		m.in.SetRare(func(r *Rare) { r.Trial = slot(t) })
	}
}

// tries is how many attempts were made.
func (t *trial) tries() int {
	if t == nil {
		return 0
	}
	return t.attempts
}

// over is what is left of a trial when its step, or write, is over: why a dead letter
// is one.
func (t *trial) over() *trial {
	if t == nil || t.reason == nil {
		return nil
	}
	return &trial{reason: t.reason}
}

// retryable says whether trying again may help.
func (c Class) retryable() bool { return c == Transient || c == Timeout }

// again decides whether a message that has just failed with m.err is tried again,
// and notes when. It counts the attempt, unless it was free: nothing that holds an output
// is one, and no call of a step that reached nobody, unless on_error says what to do then.
// With held the output waits as a whole; else messages wait with back-off, each by itself.
func (p *retryPlan) again(m *Message, now time.Time, free, held bool) bool {
	tr := trialOf(m)
	if tr == nil {
		tr = &trial{attempts: m.tried()}
		setTrial(m, tr)
	}
	if tr.first.IsZero() {
		tr.first = now
	}
	tr.err, m.in.Err.FirstFailed = m.in.Err, tr.first
	n := 0
	if free {
		tr.unmade++
		n = tr.unmade
	} else {
		tr.attempts++
		n = tr.attempts
	}
	m.in.Err.Attempt = max(1, tr.attempts)
	if !m.in.Err.Class.retryable() && !free || errors.Is(m.in.Err, ErrGone) {
		return false
	}
	if !free && p.MaxAttempts > 0 && tr.attempts >= p.MaxAttempts {
		return false
	}
	tr.due = now
	if !held {
		tr.due = now.Add(max(p.wait(n), m.in.Err.Delay))
	}
	return p.MaxAge == 0 || tr.due.Sub(tr.first) <= p.MaxAge
}

// tried is how often a message was tried before it was read: its source counts
// where it delays messages itself.
func (m *Message) tried() int {
	if led := firstRoot(m).led; led != nil && led.delays > 0 {
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
	if b.tokens >= 1-1e-6 {
		b.tokens--
		return true, time.Time{}
	}
	return false, now.Add(time.Duration((1 - b.tokens) * float64(time.Second)))
}
