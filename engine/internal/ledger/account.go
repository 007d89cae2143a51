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

// Account is what a run owes: to sources, and to steps that have a stake. It counts all messages, and
// those that failed.
type Account struct {
	Log           *slog.Logger
	Timeout       time.Duration // of a call of an acker
	Open          ledgers
	Failures      failures
	Roots, Pieces law
	Handed        atomic.Int64 // roots that went back unfinished
	Untold        atomic.Int64 // results that sources did not get
	Lost          atomic.Int64 // roots in flight whose lease is lost
	Recalls       atomic.Int64 // order keys in open ledgers of which messages are to go back
	withheld      withheld
	Settling      *settleLoop
	Holding       func(*AckLoop) engine.Holding
	ctx           context.Context // of acks

	acksMu sync.Mutex // guards the field below
	acks   []*AckLoop
}

// Start begins to tell sources and steps how their messages ended, until ctx ends.
func (r *Account) Start(ctx context.Context) { r.ctx, r.Settling = ctx, startSettling(ctx, r.Log) }

// Acking are the acks of all connections.
func (r *Account) Acking() []*AckLoop {
	r.acksMu.Lock()
	defer r.acksMu.Unlock()
	return slices.Clone(r.acks)
}

// AcksOf is the loop of an acker: the one at work, so that no two call it at once,
// or a new one.
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

// FinishAcks waits until sources know everything. After the deadline it calls cancel, and waits until each acker has
// returned from a last call.
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
