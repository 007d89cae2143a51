package kafka

import (
	"context"
	"errors"
	"slices"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/systems/queue/kafka"
	"github.com/twmb/franz-go/pkg/kgo"
)

var errTaken = errors.New("its transaction was aborted, and the message is read again")

// transact writes in the open transaction, whose client all writes share. Messages of an aborted transaction are not written: they
// have been taken away.
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

// within sends records in the open transaction, and waits for their results.
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
		for _, i := range which { // they are taken away before they would be retried
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
	default: // records in flight may have been written, and must not be written again in this transaction
		late := engine.Errorf(engine.Transient, "the brokers do not confirm in time: %w", ctx.Err())
		s.tx.Doom(late)
		return late
	}
}

// ended aborts the transaction if brokers have ended it, for example because it took too long. No message is to blame.
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
