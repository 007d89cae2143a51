package kafka

import (
	"context"
	"errors"
	"slices"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/systems/queue/kafka"
	"github.com/twmb/franz-go/pkg/kgo"
)

var errTaken = errors.New("its transaction was aborted, and it is read again")

// transact writes in the transaction that is open, of which all writes share the client. What belongs to one that was
// aborted is not written: its messages have been taken away.
func (o *output) transact(ctx context.Context, s *sending) error {
	var failed error // of all
	send := func(which []int) {
		if failed == nil {
			failed = s.within(ctx, which)
		}
	}
	if s.ordered() {
		o.tx.Alone.Lock()
		defer o.tx.Alone.Unlock()
		send = s.knowing(o.tx.Known(), send)
		send(s.all())
	} else {
		o.tx.Alone.RLock()
		send(s.all())
		o.tx.Alone.RUnlock()
		if len(s.mixed()) > 0 {
			o.tx.Alone.Lock()
			defer o.tx.Alone.Unlock()
		}
	}
	s.apart(send, s.mixed())
	return failed
}

// within sends records in the transaction that is open, and waits for what becomes of them.
func (s *sending) within(ctx context.Context, which []int) error {
	w := newWrite(len(which))
	confirmed := w.confirmed
	var client *kgo.Client
	err := s.tx.Write(func(within context.Context, c *kgo.Client) {
		client = c
		for _, i := range which {
			if s.msgs[i].Taken() {
				confirmed(&s.records[i], errTaken)
				continue
			}
			c.Produce(within, &s.records[i], confirmed)
		}
	})
	if err != nil {
		for _, i := range which { // they are taken away before they are tried again
			confirmed(&s.records[i], err)
		}
		s.note(w)
		return nil
	}
	if !slices.Contains(s.clients, client) {
		s.clients = append(s.clients, client)
	}
	flush(ctx, client, w)
	select {
	case <-w.done:
		s.note(w)
		return s.ended()
	default: // what is in flight may be written or not, and must not be written again in this transaction
		late := engine.Errorf(engine.Transient, "the brokers do not confirm in time: %w", ctx.Err())
		s.tx.Doom(late)
		return late
	}
}

// ended has the transaction aborted where brokers have ended it, as when it took too long: no message is to blame.
func (s *sending) ended() error {
	for i, err := range s.errs {
		if kafka.Fenced(err) {
			why := kafka.Explain(err, "write to topic "+s.records[i].Topic)
			s.tx.Doom(why)
			return why
		}
	}
	return nil
}
