package steptest

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/flowd-io/flowd/engine"
)

// Broker is an input that delivers messages again that are returned, as often as they are. Of those not
// taken yet the first is given, one in a Read.
type Broker struct {
	Again bool                                // give messages again; before the run
	Told  func(payload string, f engine.Fate) // is called with each end, unless nil; before the run
	Fates []string                            // in the order in which they became known; after the run

	mu    sync.Mutex // guards the fields below
	queue []string
	given []string // by ref
	ends  map[uint64]engine.Fate
	out   int // given and not settled
	poke  chan struct{}
}

// NewBroker has these messages.
func NewBroker(payloads ...string) *Broker {
	return &Broker{Again: true, queue: payloads, ends: map[uint64]engine.Fate{}, poke: make(chan struct{}, 1)}
}

// Traits says that it takes messages back.
func (b *Broker) Traits() engine.Traits { return engine.Traits{TakesBack: engine.TakesOne} }

// Read gives the next message, waits for one that may come back, or ends.
func (b *Broker) Read(ctx context.Context, into *engine.Batch) (engine.Acker, error) {
	for {
		b.mu.Lock()
		switch {
		case len(b.queue) > 0:
			m := into.Add([]byte(b.queue[0]))
			m.Ref = uint64(len(b.given))
			b.given = append(b.given, b.queue[0])
			b.queue = b.queue[1:]
			b.out++
			b.mu.Unlock()
			return b, nil
		case b.out == 0:
			b.mu.Unlock()
			return b, engine.ErrEnd
		}
		b.mu.Unlock()
		select {
		case <-b.poke:
			time.Sleep(time.Nanosecond) // the steps have been informed, too
		case <-ctx.Done():
			return b, nil
		}
	}
}

// Ack notes how messages have ended.
func (b *Broker) Ack(_ context.Context, rs []engine.Result) ([]engine.Result, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, r := range rs {
		b.out--
		b.ends[r.Ref] = r.Fate
		b.Fates = append(b.Fates, fmt.Sprint(b.given[r.Ref], " ", r.Fate))
		if b.Told != nil {
			b.Told(b.given[r.Ref], r.Fate)
		}
		if r.Fate == engine.Returned && b.Again {
			b.queue = append(b.queue, b.given[r.Ref])
		}
	}
	select {
	case b.poke <- struct{}{}:
	default:
	}
	return nil, nil
}

// Well are the messages that ended well, in the order in which they were given.
func (b *Broker) Well() (all []string) {
	for ref, payload := range b.given {
		if b.ends[uint64(ref)] <= engine.Delivered {
			all = append(all, payload)
		}
	}
	return all
}

// Stuck is how many messages wait for ever, after the run.
func (b *Broker) Stuck() int { return len(b.queue) + b.out }
