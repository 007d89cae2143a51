package engine

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// account is what a run owes: to sources, and to steps that have a stake. It counts all messages, and
// those that failed.
type account struct {
	log           *slog.Logger
	timeout       time.Duration // of a call of an acker
	open          ledgers
	failures      failures
	roots, pieces law
	handed        atomic.Int64 // roots that went back unfinished
	lost          atomic.Int64 // roots in flight whose lease is lost
	recalls       atomic.Int64 // order keys in open ledgers of which messages are to go back
	settling      *settleLoop
	ctx           context.Context // of acks

	acksMu sync.Mutex // guards the field below
	acks   []*ackLoop
}

// start begins to tell sources and steps how their messages ended, until ctx ends.
func (r *account) start(ctx context.Context) { r.ctx, r.settling = ctx, startSettling(ctx, r.log) }

// acking are the acks of all connections.
func (r *account) acking() []*ackLoop {
	r.acksMu.Lock()
	defer r.acksMu.Unlock()
	return slices.Clone(r.acks)
}

// acksOf is the loop of an acker: the one at work, so that no two call it at once,
// or a new one.
func (r *account) acksOf(to Acker, input string, n int) *ackLoop {
	r.acksMu.Lock()
	defer r.acksMu.Unlock()
	for _, a := range r.acks {
		if a.to == to && a.owe(n) {
			return a
		}
	}
	a := startAcks(r.ctx, to, input, r.timeout, r.log)
	a.owe(n)
	r.lend(a)
	r.acks = append(slices.DeleteFunc(r.acks, (*ackLoop).ended), a)
	return a
}

// finishAcks waits until sources know everything.
func (r *account) finishAcks(deadline time.Time, cancel func()) {
	acks := r.acking()
	done := make(chan struct{})
	go func() {
		for _, a := range acks {
			a.close()
		}
		r.settling.close()
		for _, a := range acks {
			<-a.done
			if a.lent != nil {
				<-a.lent
			}
		}
		<-r.settling.done
		close(done)
	}()
	until(done, deadline, nil)
	cancel()
}
