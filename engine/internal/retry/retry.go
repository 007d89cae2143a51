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

// Forever is the plan without a limit of attempts or age, for dead letters.
func (p *Plan) Forever() *Plan {
	q := *p
	q.MaxAttempts, q.MaxAge = 0, 0
	return &q
}

// Trial is a message that has failed and is tried again.
type Trial struct {
	Attempts int           // attempts made where it is
	unmade   int           // attempts of a step that reached no server
	First    time.Time     // when it failed first
	Due      time.Time     // of the next attempt
	Err      *engine.Error // of the last one
	Cause    any           // the step that is tried again; nil: a write
	Reason   *engine.Error // why a dead letter is one
	Lacked   int           // bytes that there was no room for, see growth.go
	Room     int           // of those, what it has got since and not used
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

// SetTrial gives m a trial; nil takes it away.
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

// Tries is how many attempts were made.
func (t *Trial) Tries() int {
	if t == nil {
		return 0
	}
	return t.Attempts
}

// Over is what is left of a trial when its step, or write, is over: why a dead letter
// is one.
func (t *Trial) Over() *Trial {
	if t == nil || t.Reason == nil {
		return nil
	}
	return &Trial{Reason: t.Reason}
}

// Retryable says whether trying again may help.
func Retryable(c engine.Class) bool { return c == engine.Transient || c == engine.Timeout }

// Again decides whether a message that has just failed with m.err is retried, and records
// when. It counts the attempt, unless it was free: nothing that holds an output is one, and
// no call of a step that reached nobody, unless on_error says what to do then. With held
// the output waits as a whole; else messages wait with back-off, each by itself.
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

// Tried is how often a message was tried before it was read: its source counts
// where it delays messages itself.
func Tried(m *engine.Message) int {
	if led := ledger.FirstRoot(m).Led; led != nil && led.Delays > 0 {
		return max(0, m.Attempt-1)
	}
	return 0
}

// wait is the time before the attempt after n.
func (p *Plan) wait(n int) time.Duration {
	if len(p.Intervals) > 0 {
		return p.Intervals[min(max(n, 1), len(p.Intervals))-1]
	}
	return Jittered(p.Backoff, p.MaxBackoff, n)
}

// unmadeWait is the least time before the attempt after n that were not counted. Nothing else bounds these, so that with
// a policy that hardly waits they would keep a processor busy for as long as the server is away.
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

// Budget bounds how much retries add to an output's load: a message delivered
// earns a tenth of a write, and one write a second is free. It starts full and
// only delays (Finagle's RetryBudget).
type Budget struct {
	tokens float64
	at     time.Time
}

const (
	budgetMax  = 100 // writes
	budgetEarn = 0.1 // of a write, per message delivered
)

// NewBudget is a full budget.
func NewBudget() Budget { return Budget{tokens: budgetMax} }

// Earn adds what so many delivered messages earn.
func (b *Budget) Earn(messages int) {
	b.tokens = min(budgetMax, b.tokens+budgetEarn*float64(messages))
}

// Take pays for one write; else it says when there will be enough.
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
