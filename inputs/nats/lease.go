package nats

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/systems/queue/nats"
	client "github.com/nats-io/nats.go"
)

var _ engine.Leaser = (*pull)(nil)

const (
	firstBackoff = time.Second
	mostBackoff  = 15 * time.Minute // of a message that was returned without a delay
	givenUp      = 2 * time.Minute  // after which the server is not kept waiting for the end of a message
)

// words to the server about messages.
var (
	ackWord      = []byte("+ACK")
	nakWord      = []byte("-NAK")
	progressWord = []byte("+WPI")
)

// word is one, about one message.
type word struct {
	ref  uint64
	a    *arrival
	text []byte
}

// tell sends words. The server handles those of a consumer in order, so its answer to the last one stands for all.
func (p *pull) tell(ctx context.Context, all []word) error {
	if len(all) == 0 {
		return nil
	}
	if err := p.conn.Down(); err != nil {
		return err
	}
	final := all[len(all)-1]
	for _, w := range all[:len(all)-1] {
		if err := p.conn.Publish(w.a.Reply, w.text); err != nil {
			return nats.Explain(err, "acknowledge messages")
		}
	}
	err := p.conn.Ask(ctx, final.a.Reply, final.text)
	if errors.Is(err, client.ErrPermissionViolation) {
		return engine.Errorf(engine.Auth,
			"acknowledge messages: this user may not publish to $JS.ACK.> (give the user the permission)")
	}
	return nats.Explain(err, "acknowledge messages")
}

// Ack reports how messages ended.
func (p *pull) Ack(ctx context.Context, rs []engine.Result) (again []engine.Result, err error) {
	if p.ended() {
		return nil, nil
	}
	p.mu.Lock()
	now := time.Now()
	var words []word
	for i := range rs {
		r := &rs[i]
		a := p.held[r.Ref]
		if a == nil { // lost
			continue
		}
		if a.settling = true; a.asked.IsZero() {
			a.asked = now
		}
		if text := p.judge(r, a, now); text != nil {
			words = append(words, word{r.Ref, a, text})
		}
	}
	p.mu.Unlock()
	p.wake.Set()
	slices.SortFunc(words, func(x, y word) int { // so that returned messages keep their order
		return int(int64(x.a.Delivery) - int64(y.a.Delivery))
	})
	err = p.tell(ctx, words)
	if errors.Is(err, client.ErrNoResponders) {
		p.in.log.Debug("acknowledgements are dropped: the consumer is gone", "messages", len(words))
		err = nil
	}
	if err != nil {
		return rs, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, w := range words {
		p.forget(w.ref)
	}
	return nil, nil
}

// ended says that this opening of the input has ended. The server delivers again what it had out, and nothing that is
// said of it any more counts.
func (p *pull) ended() bool { return p.conn.IsClosed() }

// judge is what to tell the server about a message; nil: nothing. p.mu is held.
func (p *pull) judge(r *engine.Result, a *arrival, now time.Time) []byte {
	switch {
	case r.Fate == engine.DeadLettered || r.Fate == engine.Dropped && r.Err != nil:
		return p.terminate(r)
	case r.Fate != engine.Returned:
		return ackWord
	}
	unfinished := r.Err == nil || r.Err.Unfinished()
	if p.last > 0 && a.Deliveries >= p.last {
		switch {
		case p.stopped || unfinished:
			p.strand(a)
			p.forget(r.Ref)
			return nil
		case r.Delay == 0:
			p.in.log.Error("a message failed at its last delivery, and is given up (name a dead_letter)", "stream", a.Stream,
				"sequence", a.Sequence, "err", r.Err)
			return p.terminate(r)
		}
		p.forget(r.Ref)
		a.due, a.settling, a.asked = now.Add(r.Delay), false, time.Time{}
		if a.more++; r.Err != nil {
			a.more = max(a.more, r.Err.Attempt+1-a.Deliveries)
		}
		p.waiting = append(p.waiting, a)
		return nil
	}
	d := r.Delay
	switch {
	case p.stopped || unfinished:
		return nakWord
	case d == 0:
		d = min(firstBackoff<<min(max(a.Deliveries-1, 0), 20), mostBackoff)
	}
	p.in.tries.Returned(a.id(), *r, a.Deliveries)
	return fmt.Appendf(nil, `-NAK {"delay": %d}`, min(d, longest))
}

// strand logs that the consumer gives a message to nobody any more.
func (p *pull) strand(a *arrival) bool {
	if p.last == 0 || a.Deliveries < p.last {
		return false
	}
	p.in.log.Error("a message was not settled at its last delivery: it stays in the stream, and the consumer gives it to "+
		"nobody (raise max_deliver)", "stream", a.Stream, "sequence", a.Sequence)
	return true
}

// terminate ends a message, which an advisory of the server reports.
func (p *pull) terminate(r *engine.Result) []byte {
	if !p.reasons {
		return []byte("+TERM")
	}
	reason := "flowd: " + r.Fate.String()
	if r.Err != nil {
		reason += ", " + string(r.Err.Class)
	}
	return []byte("+TERM " + reason)
}

// forget ends the lease of a message. p.mu is held.
func (p *pull) forget(ref uint64) {
	a := p.held[ref]
	if a == nil {
		return
	}
	delete(p.held, ref)
	if p.refs[a.Sequence] == ref {
		delete(p.refs, a.Sequence)
	}
}

// Renew sends signs of life for messages when half of their time has passed, including those that wait to be read.
func (p *pull) Renew(ctx context.Context, refs []uint64) (lost []uint64, next time.Duration, err error) {
	if p.ended() { // what is in flight comes again
		return refs, p.ackWait, nil
	}
	next = p.ackWait / 4
	if err = p.prolong(ctx, p.held); err == nil {
		p.floor(ctx)
	} else {
		next = p.ackWait / 16
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	lost, p.lost = p.lost, nil
	now := time.Now()
	for _, ref := range refs {
		if a := p.held[ref]; a != nil && !now.Before(a.until) {
			lost = append(lost, ref)
			p.forget(ref)
		}
	}
	return lost, next, err
}

// prolong gives the signs of life that are due, of what waits to be read, and of what is held.
func (p *pull) prolong(ctx context.Context, held map[uint64]*arrival) error {
	now := time.Now()
	p.mu.Lock()
	var due []word
	for ref, a := range held {
		if a.settling && now.Sub(a.asked) > givenUp {
			p.forget(ref)
		} else if a.until.Sub(now) < p.ackWait/2 {
			due = append(due, word{ref, a, progressWord})
		}
	}
	p.waiting = slices.DeleteFunc(p.waiting, func(a *arrival) bool {
		late := !now.Before(a.until)
		if late {
			p.strand(a)
		}
		return late
	})
	for _, a := range p.waiting {
		if a.until.Sub(now) < p.ackWait/2 {
			due = append(due, word{0, a, progressWord})
		}
	}
	p.mu.Unlock()
	if err := p.tell(ctx, due); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, w := range due {
		w.a.until = now.Add(p.ackWait)
	}
	return nil
}

// stop hands back messages that were not read. Before that, it asks about the consumer, so that the server forgets requests without a
// listener. Otherwise the server would try to deliver a message to such a request, and put it behind others that go back.
func (p *pull) stop(ctx context.Context) {
	p.conn.Unsubscribe(ctx, p.sub)
	_, _ = p.info(ctx)
	p.mu.Lock()
	p.stopped = true
	var words []word
	for _, a := range p.waiting {
		if p.strand(a) {
			continue
		}
		words = append(words, word{0, a, nakWord})
	}
	p.waiting = nil
	p.mu.Unlock()
	if err := p.tell(ctx, words); err != nil {
		p.in.log.Debug("messages that were not read come again after ack_wait", "messages", len(words), "err", err)
	}
}

// close does nothing: messages that are not acknowledged are delivered again.
func (*pull) close(context.Context) {}

// floorEvery is how often the consumer is asked how far it is.
const floorEvery = 10 * time.Second

// floor notes up to where all is acknowledged, by this and other readers: so a consumer that is deleted can be made
// again without a loss.
func (p *pull) floor(ctx context.Context) {
	if p.in.cfg.Declare == nil || time.Since(p.asked) < floorEvery {
		return
	}
	p.asked = time.Now()
	if info, err := p.info(ctx); err == nil {
		p.in.from.Store(info.AckFloor.Stream + 1)
	}
}
