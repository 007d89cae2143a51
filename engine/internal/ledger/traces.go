package ledger

import (
	"sync/atomic"

	"github.com/flowd-io/flowd/engine"
)

// traces are the traces of a ledger's roots, in portions, since a tracer follows few of them as a rule. Pieces of a root may be in
// several goroutines.
type traces []atomic.Pointer[portion]

// portion has the traces of neighbouring roots.
type portion [16]atomic.Pointer[engine.Trace]

// Followed says whether a tracer follows at least one root.
func (l *Ledger) Followed() bool { return l.traces.Load() != nil }

// Trace is the trace of a root, or nil.
func (l *Ledger) Trace(i uint32) *engine.Trace {
	all := l.traces.Load()
	if all == nil {
		return nil
	}
	if some := (*all)[i/uint32(len(portion{}))].Load(); some != nil {
		return some[i%uint32(len(some))].Load()
	}
	return nil
}

// SetTrace sets the trace of a root, unless it has one.
func (l *Ledger) SetTrace(i uint32, t *engine.Trace) {
	if t == nil {
		return
	}
	n := len(portion{})
	all := l.traces.Load()
	if all == nil {
		made := make(traces, (len(l.Roots)+n-1)/n)
		l.traces.CompareAndSwap(nil, &made)
		all = l.traces.Load()
	}
	at := &(*all)[int(i)/n]
	if at.Load() == nil {
		at.CompareAndSwap(nil, new(portion))
	}
	at.Load()[int(i)%n].CompareAndSwap(nil, t)
}
