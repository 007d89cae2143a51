package ledger

import (
	"context"
	"log/slog"
	"sync"

	"github.com/flowd-io/flowd/engine"
)

// settleLoop tells steps how the roots with their stakes ended. It has a goroutine of its own, because a Settler may call
// anything, and resume parked messages.
type settleLoop struct {
	log  *slog.Logger
	done chan struct{} // closed when the loop has ended

	mu     sync.Mutex // guards the fields below
	cond   sync.Cond
	inbox  []Settlement
	closed bool
}

func startSettling(ctx context.Context, log *slog.Logger) *settleLoop {
	l := &settleLoop{log: log, done: make(chan struct{})}
	l.cond.L = &l.mu
	go l.run(ctx)
	return l
}

func (l *settleLoop) Put(s []Settlement) {
	l.mu.Lock()
	l.inbox = append(l.inbox, s...)
	l.mu.Unlock()
	l.cond.Signal()
}

// close ends the loop when it has told everything.
func (l *settleLoop) close() {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	l.cond.Signal()
}

func (l *settleLoop) takeInbox() []Settlement {
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.inbox) == 0 && !l.closed {
		l.cond.Wait()
	}
	s := l.inbox
	l.inbox = nil
	return s
}

func (l *settleLoop) run(ctx context.Context) {
	defer close(l.done)
	for all := l.takeInbox(); all != nil; all = l.takeInbox() {
		for _, s := range all {
			l.settle(ctx, s)
		}
	}
}

func (l *settleLoop) settle(ctx context.Context, s Settlement) {
	defer func() {
		if p := recover(); p != nil {
			l.log.Error("settling panicked", "panic", p)
		}
	}()
	if s.Then != nil {
		s.Then()
		return
	}
	s.By.Settle(ctx, s.Committed, s.RolledBack)
}

// Settlement is one call of a Settler.
type Settlement struct {
	Then                  func() // called instead of By, after the settlements before it; nil: By is called
	By                    engine.Settler
	Committed, RolledBack []uint64
}
