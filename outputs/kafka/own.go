package kafka

import (
	"context"
	"slices"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/systems/queue/kafka"
	"github.com/twmb/franz-go/pkg/kgo"
)

// own is a client for the exclusive use of one write. When a broker refuses a batch of records, the client fails all records that
// wait for the same partition. In an exclusive client, these belong to the same write. The client sends nothing before it has all
// records (see [gated]), so no later record overtakes the failed ones.
type own struct {
	*kafka.Client
	known map[string]bool // topics whose partitions the client knows
}

// gated are the options of a client that sends only during a flush. max_in_flight of the pipeline bounds a write.
var gated = []kgo.Opt{kgo.ManualFlushing(), kgo.MaxBufferedRecords(1 << 30)}

// borrow returns a client that no other write uses.
func (o *output) borrow() (*own, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if n := len(o.idle); n > 0 {
		c := o.idle[n-1]
		o.idle = o.idle[:n-1]
		return c, nil
	}
	client, err := o.client.WithOptions(gated...)
	if err != nil {
		return nil, engine.WithClass(engine.Permanent, err)
	}
	c := &own{client, map[string]bool{}}
	o.own = append(o.own, c)
	return c, nil
}

// giveBack makes a client available to other writes, unless the output was closed meanwhile.
func (o *output) giveBack(c *own) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if slices.Contains(o.own, c) {
		o.idle = append(o.idle, c)
	}
}

// flush lets a client send until w is done, or ctx ends.
func flush(ctx context.Context, client *kgo.Client, w *write) {
	flushing, stop := context.WithCancel(context.WithoutCancel(ctx))
	flushed := make(chan struct{})
	go func() {
		defer close(flushed)
		_ = client.Flush(flushing)
	}()
	select {
	case <-w.done:
	case <-ctx.Done():
	}
	stop()
	<-flushed
}
