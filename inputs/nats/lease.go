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
	firstBackoff = time.Second      // before a message that was returned without a delay is redelivered
	maxBackoff   = 15 * time.Minute // likewise, after several deliveries
	settleLimit  = 2 * time.Minute  // how long to extend the lease of a message whose acknowledgement can't be sent
)

// The acknowledgements of the protocol.
var (
	ack      = []byte("+ACK")
	nak      = []byte("-NAK")
	progress = []byte("+WPI") // it extends ack_wait
)

// reply is an acknowledgement of one message.
type reply struct {
	ref  uint64
	a    *arrival
	text []byte
}

// send sends acknowledgements. The server handles those for a consumer in order, so its answer to the last one confirms all.
func (p *pull) send(ctx context.Context, all []reply) error {
	if len(all) == 0 {
		return nil
	}
	if err := p.conn.Down(); err != nil {
		return err
	}
	final := all[len(all)-1]
	for _, r := range all[:len(all)-1] {
		if err := p.conn.Publish(r.a.Reply, r.text); err != nil {
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
	if p.closed() {
		return nil, nil
	}
	p.mu.Lock()
	now := time.Now()
	var replies []reply
	for i := range rs {
		r := &rs[i]
		a := p.held[r.Ref]
		if a == nil { // lost
			continue
		}
		if a.settling = true; a.settled.IsZero() {
			a.settled = now
		}
		if text := p.decide(r, a, now); text != nil {
			replies = append(replies, reply{r.Ref, a, text})
		}
	}
	p.mu.Unlock()
	p.wake.Set()
	slices.SortFunc(replies, func(x, y reply) int { // so that returned messages keep their order
		return int(int64(x.a.Delivery) - int64(y.a.Delivery))
	})
	err = p.send(ctx, replies)
	if errors.Is(err, client.ErrNoResponders) {
		p.in.log.Debug("acknowledgements are dropped: the consumer no longer exists", "messages", len(replies))
		err = nil
	}
	if err != nil {
		return rs, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, r := range replies {
		p.forget(r.ref)
	}
	return nil, nil
}

// closed reports whether the connection was closed. The server redelivers its messages, so acknowledgements no longer matter.
func (p *pull) closed() bool { return p.conn.IsClosed() }

// decide returns the acknowledgement of a message, or nil if none is due. p.mu is held.
func (p *pull) decide(r *engine.Result, a *arrival, now time.Time) []byte {
	switch {
	case r.Fate == engine.DeadLettered || r.Fate == engine.Dropped && r.Err != nil:
		return p.terminate(r)
	case r.Fate != engine.Returned:
		return ack
	}
	unfinished := r.Err == nil || r.Err.Unfinished()
	if p.maxDeliver > 0 && a.Deliveries >= p.maxDeliver {
		switch {
		case p.stopped || unfinished:
			p.logIfStranded(a)
			p.forget(r.Ref)
			return nil
		case r.Delay == 0:
			p.in.log.Error("a message failed at its last delivery, and is given up (name a dead_letter)", "stream", a.Stream,
				"sequence", a.Sequence, "err", r.Err)
			return p.terminate(r)
		}
		p.forget(r.Ref)
		a.due, a.settling, a.settled = now.Add(r.Delay), false, time.Time{}
		if a.retries++; r.Err != nil {
			a.retries = max(a.retries, r.Err.Attempt+1-a.Deliveries)
		}
		p.waiting = append(p.waiting, a)
		return nil
	}
	d := r.Delay
	switch {
	case p.stopped || unfinished:
		return nak
	case d == 0:
		d = min(firstBackoff<<min(max(a.Deliveries-1, 0), 20), maxBackoff)
	}
	p.in.tries.Returned(a.id(), *r, a.Deliveries)
	return fmt.Appendf(nil, `-NAK {"delay": %d}`, min(d, maxDelay))
}

// logIfStranded logs that the consumer will not deliver a message again, and reports whether that is so.
func (p *pull) logIfStranded(a *arrival) bool {
	if p.maxDeliver == 0 || a.Deliveries < p.maxDeliver {
		return false
	}
	p.in.log.Error("a message was not settled at its last delivery: it stays in the stream, and the consumer will not "+
		"deliver it again (raise max_deliver)", "stream", a.Stream, "sequence", a.Sequence)
	return true
}

// terminate returns the acknowledgement that ends redelivery of a message. The server publishes an advisory about it.
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

// forget removes a message from held. p.mu is held.
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

// Renew extends the ack_wait of messages when half of it has passed, including those that wait to be read.
func (p *pull) Renew(ctx context.Context, refs []uint64) (lost []uint64, next time.Duration, err error) {
	if p.closed() { // messages in flight are redelivered
		return refs, p.ackWait, nil
	}
	next = p.ackWait / 4
	if err = p.extend(ctx, p.held); err == nil {
		p.noteAckFloor(ctx)
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

// extend extends the ack_wait of messages that need it: of those that wait to be read, and of held.
func (p *pull) extend(ctx context.Context, held map[uint64]*arrival) error {
	now := time.Now()
	p.mu.Lock()
	var due []reply
	for ref, a := range held {
		if a.settling && now.Sub(a.settled) > settleLimit {
			p.forget(ref)
		} else if a.until.Sub(now) < p.ackWait/2 {
			due = append(due, reply{ref, a, progress})
		}
	}
	p.waiting = slices.DeleteFunc(p.waiting, func(a *arrival) bool {
		late := !now.Before(a.until)
		if late {
			p.logIfStranded(a)
		}
		return late
	})
	for _, a := range p.waiting {
		if a.until.Sub(now) < p.ackWait/2 {
			due = append(due, reply{0, a, progress})
		}
	}
	p.mu.Unlock()
	if err := p.send(ctx, due); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, r := range due {
		r.a.until = now.Add(p.ackWait)
	}
	return nil
}

// stop returns messages that were not read. Before that, it queries the consumer, so that the server forgets pull requests without a
// listener. Otherwise the server might deliver a returned message to such a request, and then redeliver it after later ones.
func (p *pull) stop(ctx context.Context) {
	p.conn.Unsubscribe(ctx, p.sub)
	_, _ = p.info(ctx)
	p.mu.Lock()
	p.stopped = true
	var replies []reply
	for _, a := range p.waiting {
		if p.logIfStranded(a) {
			continue
		}
		replies = append(replies, reply{0, a, nak})
	}
	p.waiting = nil
	p.mu.Unlock()
	if err := p.send(ctx, replies); err != nil {
		p.in.log.Debug("messages that were not read are redelivered after ack_wait", "messages", len(replies), "err", err)
	}
}

// close does nothing: the server redelivers messages that are not acknowledged.
func (*pull) close(context.Context) {}

// ackFloorInterval is the time between two calls of noteAckFloor that query the consumer.
const ackFloorInterval = 10 * time.Second

// noteAckFloor records up to which sequence all readers have acknowledged the messages. With that, a consumer that is deleted can
// be recreated without a loss.
func (p *pull) noteAckFloor(ctx context.Context) {
	if p.in.cfg.Declare == nil || time.Since(p.floorAsked) < ackFloorInterval {
		return
	}
	p.floorAsked = time.Now()
	if info, err := p.info(ctx); err == nil {
		p.in.from.Store(info.AckFloor.Stream + 1)
	}
}
