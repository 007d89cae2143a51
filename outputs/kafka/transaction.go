package kafka

import (
	"context"
	"errors"

	"github.com/flowd-io/flowd/engine"
	"github.com/twmb/franz-go/pkg/kgo"
)

var errTaken = errors.New("its transaction was aborted, and it is read again")

// transact writes in the transaction that is open. What belongs to one that was aborted is not written: its messages
// have been taken away.
func (o *output) transact(ctx context.Context, w *write, records []kgo.Record, msgs []*engine.Message) error {
	confirmed := w.confirmed // one for all
	err := o.tx.Write(func(within context.Context, client *kgo.Client) {
		for i := range records {
			if msgs[i].Taken() {
				confirmed(&records[i], errTaken)
				continue
			}
			client.Produce(within, &records[i], confirmed)
		}
	})
	if err != nil {
		for _, m := range msgs {
			m.Fail(err) // they are taken away before they are tried again
		}
		return nil
	}
	select {
	case <-w.done:
		return o.conclude(w, records, msgs)
	case <-ctx.Done(): // what is in flight may be written or not, and must not be written again in this transaction
		o.tx.Doom()
		return engine.Errorf(engine.Transient, "the brokers do not confirm in time: %w", ctx.Err())
	}
}
