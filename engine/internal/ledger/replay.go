package ledger

import "sync"

// Replay limits how far a reader of a source with a position reads ahead of its oldest unsettled message, since everything
// from there on is read again after a crash.
type Replay struct {
	Moved chan struct{} // has room for one

	mu   sync.Mutex // guards the field below
	open []*Ledger  // oldest first; those that have ended leave from the front
}

// Add adds the ledger that was read last.
func (p *Replay) Add(l *Ledger) {
	p.mu.Lock()
	p.open = append(p.open, l)
	p.mu.Unlock()
	l.Replay = p
}

// Ended is called when all roots of a ledger have ended.
func (p *Replay) Ended() {
	p.mu.Lock()
	n := 0
	for n < len(p.open) && p.open[n].Open.Load() == 0 {
		n++
	}
	clear(p.open[:n])
	p.open = p.open[n:]
	p.mu.Unlock()
	if n > 0 {
		select {
		case p.Moved <- struct{}{}:
		default:
		}
	}
}

// Span is how many messages were read from the oldest open ledger on, if read is the number of all messages read.
func (p *Replay) Span(read uint64) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.open) == 0 {
		return 0
	}
	return int(read - p.open[0].First)
}
