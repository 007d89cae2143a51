package ledger

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/internal/guard"
)

// Account keeps what a run owes to sources and to steps with stakes, and counts messages and failures.
type Account struct {
	Log           *slog.Logger
	Timeout       time.Duration // of one call of an acker
	Open          ledgers
	Failures      failures
	Roots, Pieces law
	Latency       latency      // of roots, from read to settled
	Handed        atomic.Int64 // roots that were handed back unfinished
	Untold        atomic.Int64 // results that sources will not get
	Lost          atomic.Int64 // roots in flight whose lease is lost
	Recalls       atomic.Int64 // order keys in open ledgers whose later messages must be returned; see Recall
	withheld      withheld
	Settling      *settleLoop
	Holding       func(*AckLoop) engine.Holding
	ctx           context.Context // of acks

	acksMu sync.Mutex // guards the field below
	acks   []*AckLoop
}

// latency is a [guard.Latency] with a lock.
type latency struct {
	mu   sync.Mutex // guards took
	took guard.Latency
}

// Add counts n messages that took d.
func (l *latency) Add(d time.Duration, n int) {
	l.mu.Lock()
	l.took.Add(d, n)
	l.mu.Unlock()
}

// Get returns a copy of the counts.
func (l *latency) Get() guard.Latency {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.took
}

// Set takes over the counts of another run.
func (l *latency) Set(took guard.Latency) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.took = took
}

// Start starts the loops that tell sources and steps how messages ended. They run until ctx ends.
func (r *Account) Start(ctx context.Context) { r.ctx, r.Settling = ctx, startSettling(ctx, r.Log) }

// Acking returns the loops of all ackers.
func (r *Account) Acking() []*AckLoop {
	r.acksMu.Lock()
	defer r.acksMu.Unlock()
	return slices.Clone(r.acks)
}

// AcksOf returns the loop of an acker, which owes n more results. If the acker has no loop that runs, it starts one, so
// that no two loops call one acker.
func (r *Account) AcksOf(to engine.Acker, input string, n int) *AckLoop {
	r.acksMu.Lock()
	defer r.acksMu.Unlock()
	for _, a := range r.acks {
		if a.To == to && a.Owe(n) {
			return a
		}
	}
	a := startAcks(r, to, input)
	a.Owe(n)
	if to, ok := to.(engine.Revoker); ok {
		a.revokes = true
		to.Holds(r.Holding(a))
	}
	r.lend(a)
	r.acks = append(slices.DeleteFunc(r.acks, (*AckLoop).ended), a)
	return a
}

// FinishAcks waits until sources have got all results. At the deadline it calls cancel, and then waits until each acker
// has returned from its last call.
func (r *Account) FinishAcks(deadline time.Time, cancel func()) {
	acks := r.Acking()
	done := make(chan struct{})
	go func() {
		for _, a := range acks {
			a.Close()
		}
		r.Settling.close()
		for _, a := range acks {
			<-a.done
			if a.lent != nil {
				<-a.lent
			}
		}
		<-r.Settling.done
		close(done)
	}()
	guard.Until(done, deadline, nil)
	cancel()
	guard.Until(done, time.Now().Add(guard.KillGrace), nil)
}
