package retry

import (
	"errors"
	"math/rand/v2"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/internal/inside"
	"github.com/flowd-io/flowd/engine/internal/ledger"
)

// Plan is a Retry with its defaults filled in.
type Plan engine.Retry

// Forever returns the plan without limits of attempts and age, for dead letters.
func (p *Plan) Forever() *Plan {
	q := *p
	q.MaxAttempts, q.MaxAge = 0, 0
	return &q
}

// Trial is a message that has failed and is tried again.
type Trial struct {
	Attempts int           // attempts of the step or write, as far as they count
	unmade   int           // calls of a step that reached no server, which do not count
	First    time.Time     // when it first failed
	Due      time.Time     // when the next attempt is due
	Err      *engine.Error // of the last attempt
	Cause    any           // the step that is tried again; nil: a write
	Reason   *engine.Error // of a dead letter: why it is one
	Lacked   int           // bytes for which it waits; see growth.go of package steps
	Room     int           // bytes that it has got since then and has not used
	Waits    int           // how often it has waited for bytes before its step
}

// TrialOf is m's trial, or nil.
func TrialOf(m *engine.Message) *Trial {
	if msg(m).Rare == nil {
		return nil
	}
	t, _ := msg(m).Rare.Trial.(*Trial)
	return t
}

// SetTrial sets the trial of m; nil removes it.
func SetTrial(m *engine.Message, t *Trial) {
	switch {
	case t != nil:
		msg(m).SetTrial(t)
	case msg(m).Rare != nil:
		msg(m).SetTrial(nil)
	}
}

// IsTrial makes a Trial what a message keeps.
func (*Trial) IsTrial(inside.Key) {}

// Tries is how many attempts were made; 0 for nil.
func (t *Trial) Tries() int {
	if t == nil {
		return 0
	}
	return t.Attempts
}

// Over returns what remains of a trial when its step or write is over: the reason of a dead letter, otherwise nil.
func (t *Trial) Over() *Trial {
	if t == nil || t.Reason == nil {
		return nil
	}
	return &Trial{Reason: t.Reason}
}

// Retryable says whether an error of a class may pass by itself.
func Retryable(c engine.Class) bool { return c == engine.Transient || c == engine.Timeout }

// Again decides whether a message that has just failed is tried again, and records when. It counts the attempt unless free
// is true: an error that holds an output does not count, and neither does a call of a step that reached no server, unless
// on_error handles that. If held is true, the whole output waits. Otherwise each message waits by itself, with back-off.
func (p *Plan) Again(m *engine.Message, now time.Time, free, held bool) bool {
	tr := TrialOf(m)
	if tr == nil {
		tr = &Trial{Attempts: Tried(m)}
		SetTrial(m, tr)
	}
	if tr.First.IsZero() {
		tr.First = now
	}
	tr.Err, msg(m).Err.FirstFailed = msg(m).Err, tr.First
	n := 0
	if free {
		tr.unmade++
		n = tr.unmade
	} else {
		tr.Attempts++
		n = tr.Attempts
	}
	msg(m).Err.Attempt = max(1, tr.Attempts)
	if !Retryable(msg(m).Err.Class) && !free || errors.Is(msg(m).Err, engine.ErrGone) {
		return false
	}
	if !free && p.MaxAttempts > 0 && tr.Attempts >= p.MaxAttempts {
		return false
	}
	tr.Due = now
	if !held {
		wait := max(p.wait(n), msg(m).Err.Delay)
		if free {
			wait = max(wait, unmadeWait(n))
		}
		tr.Due = now.Add(wait)
	}
	return p.MaxAge == 0 || tr.Due.Sub(tr.First) <= p.MaxAge
}

// Tried is how often a message was tried before it was read, if its source delays and counts messages itself.
func Tried(m *engine.Message) int {
	if led := ledger.FirstRoot(m).Led; led != nil && led.Delays > 0 {
		return max(0, m.Attempt-1)
	}
	return 0
}

// wait is the time to wait after the n-th attempt.
func (p *Plan) wait(n int) time.Duration {
	if len(p.Intervals) > 0 {
		return p.Intervals[min(max(n, 1), len(p.Intervals))-1]
	}
	return Jittered(p.Backoff, p.MaxBackoff, n)
}

// unmadeWait is the least time to wait after n attempts that did not count. Their number has no limit, so a policy that
// hardly waits would keep a CPU busy for as long as the server is down.
func unmadeWait(n int) time.Duration {
	return min(time.Millisecond<<min(max(n, 1)-1, 10), time.Second)
}

// Jittered draws the n-th wait of an exponential back-off with full jitter, n from 1.
func Jittered(base, most time.Duration, n int) time.Duration {
	ceiling := most
	if n = max(n, 1); n < 40 && base<<(n-1) > 0 && base<<(n-1) < most {
		ceiling = base << (n - 1)
	}
	return 1 + rand.N(ceiling)
}

// Budget limits the load that retries add to an output, like Finagle's RetryBudget. A delivered message earns a tenth of a
// write, and each second earns one write. The budget starts full. An empty budget only delays retries.
type Budget struct {
	tokens float64
	at     time.Time
}

const (
	budgetMax  = 100 // writes
	budgetEarn = 0.1 // of a write, per message delivered
)

// NewBudget returns a full budget.
func NewBudget() Budget { return Budget{tokens: budgetMax} }

// Earn adds what so many delivered messages earn.
func (b *Budget) Earn(messages int) {
	b.tokens = min(budgetMax, b.tokens+budgetEarn*float64(messages))
}

// Take pays for one write. If the budget does not suffice, it returns when it will.
func (b *Budget) Take(now time.Time) (ok bool, at time.Time) {
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
