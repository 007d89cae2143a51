package nats

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/network/call"
	"github.com/flowd-io/flowd/internal/systems/queue"
	client "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Reader reads a stream, or takes messages from a consumer.
func (s *server) Reader(ctx context.Context, name string) (queue.Reader, error) {
	st, consumer, err := s.stream(ctx, name)
	if err != nil {
		return nil, err
	}
	if consumer == "" {
		state := st.CachedInfo().State
		return &streamReader{server: s, stream: st, name: name, next: state.FirstSeq, last: state.LastSeq}, nil
	}
	asked, cancel := s.within(ctx)
	defer cancel()
	c, err := st.Consumer(asked, consumer)
	if err != nil {
		return nil, Explain(err, "look for consumer "+name)
	}
	if p := c.CachedInfo().Config.AckPolicy; p != jetstream.AckExplicitPolicy {
		return nil, fmt.Errorf("consumer %s can't be read: its ack policy is %s (name the stream)", name, p)
	}
	r := &consumerReader{server: s, consumer: c, name: name, held: map[uint64]jetstream.Msg{}, over: make(chan struct{})}
	r.wait.Go(r.prolong)
	return r, nil
}

// streamReader reads what was in a stream when it was made, by number: nothing is hidden from others.
type streamReader struct {
	*server
	stream     jetstream.Stream
	name       string
	next, last uint64
}

// Read gets one message after the other.
func (r *streamReader) Read(ctx context.Context, most int) (all []queue.Message, err error) {
	for len(all) < most && r.next <= r.last {
		raw, err := r.get(ctx)
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			break
		}
		if err != nil {
			if len(all) > 0 && ctx.Err() == nil {
				return all, nil // the next read says it
			}
			return nil, Explain(err, "read stream "+r.name)
		}
		if r.next = raw.Sequence + 1; raw.Sequence > r.last {
			break
		}
		for _, name := range direct {
			raw.Header.Del(name)
		}
		meta := (&Arrivals{All: []*client.Msg{{Subject: raw.Subject, Header: raw.Header}}}).Meta(0).Map()
		meta["stream"], meta["sequence"], meta["timestamp"] = r.name, int(raw.Sequence), raw.Time.UTC()
		all = append(all, queue.Message{Payload: raw.Data, Meta: meta, Ref: raw.Sequence, Raw: raw.Header})
	}
	if len(all) == 0 {
		return nil, engine.ErrEnd
	}
	return all, nil
}

// direct are headers that a server adds to what it gives from a stream.
var direct = strings.Fields("Nats-Stream Nats-Subject Nats-Sequence Nats-Time-Stamp Nats-Num-Pending " +
	"Nats-Last-Sequence")

// get gets the next message that there is.
func (r *streamReader) get(ctx context.Context) (*jetstream.RawStreamMsg, error) {
	ctx, cancel := r.within(ctx)
	defer cancel()
	return r.stream.GetMsg(ctx, r.next, jetstream.WithGetMsgSubject(">"))
}

// calls is how many are made at once.
const calls = 16

// Done deletes messages.
func (r *streamReader) Done(ctx context.Context, refs []uint64) error {
	ctx, cancel := context.WithTimeout(ctx, r.conn.Timeout+time.Duration(len(refs))*time.Millisecond)
	defer cancel()
	errs := make([]error, len(refs))
	call.Beside(calls, len(refs), func(i int) {
		if err := r.stream.DeleteMsg(ctx, refs[i]); !errors.Is(err, jetstream.ErrMsgNotFound) {
			errs[i] = Explain(err, "delete from stream "+r.name)
		}
	})
	return errors.Join(errs...)
}

// Return has nothing to do: messages are where they were.
func (*streamReader) Return(context.Context, []uint64) error { return nil }

// Close has nothing to do.
func (*streamReader) Close() error { return nil }

// consumerReader takes messages from a consumer, which hides them from its other readers.
type consumerReader struct {
	*server
	consumer jetstream.Consumer
	name     string
	over     chan struct{}
	wait     sync.WaitGroup

	mu   sync.Mutex // guards the fields below
	next uint64
	held map[uint64]jetstream.Msg
}

// empty is for how long a consumer has nothing that is at its end.
const empty = time.Second

// Read takes messages.
func (r *consumerReader) Read(ctx context.Context, most int) (all []queue.Message, err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	batch, err := r.consumer.Fetch(most, jetstream.FetchMaxWait(empty))
	if err != nil {
		return nil, Explain(err, "read consumer "+r.name)
	}
	for m := range batch.Messages() {
		raw := &client.Msg{Subject: m.Subject(), Reply: m.Reply(), Header: m.Headers(), Data: m.Data()}
		r.mu.Lock()
		r.next++
		r.held[r.next] = m
		all = append(all, queue.Message{Payload: raw.Data, Meta: (&Arrivals{All: []*client.Msg{raw}}).Meta(0).Map(),
			Ref: r.next, Raw: raw.Header})
		r.mu.Unlock()
	}
	switch err := batch.Error(); {
	case len(all) > 0:
		return all, nil
	case err != nil && !errors.Is(err, client.ErrTimeout) && !errors.Is(err, jetstream.ErrNoMessages):
		return nil, Explain(err, "read consumer "+r.name)
	}
	return nil, engine.ErrEnd
}

// prolong gives signs of life of what is held.
func (r *consumerReader) prolong() {
	tick := time.NewTicker(max(r.consumer.CachedInfo().Config.AckWait/4, time.Millisecond))
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-r.over:
			return
		}
		r.mu.Lock()
		for _, m := range r.held {
			_ = m.InProgress()
		}
		r.mu.Unlock()
	}
}

// Done acknowledges messages.
func (r *consumerReader) Done(ctx context.Context, refs []uint64) error {
	return r.tell(ctx, refs, "+ACK")
}

// Return gives messages back.
func (r *consumerReader) Return(ctx context.Context, refs []uint64) error {
	return r.tell(ctx, refs, "-NAK")
}

// tell says a word about messages. The answer to the last stands for all: see the input.
func (r *consumerReader) tell(ctx context.Context, refs []uint64, word string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, ref := range refs {
		m := r.held[ref]
		if m == nil {
			continue
		}
		var err error
		if i < len(refs)-1 {
			err = r.conn.Publish(m.Reply(), []byte(word))
		} else {
			err = r.conn.Ask(ctx, m.Reply(), []byte(word))
		}
		if err != nil {
			return Explain(err, "acknowledge messages of consumer "+r.name)
		}
	}
	for _, ref := range refs {
		delete(r.held, ref)
	}
	return nil
}

// Close returns what is left.
func (r *consumerReader) Close() error {
	close(r.over)
	r.wait.Wait()
	return r.Return(context.Background(), slices.Sorted(maps.Keys(r.held)))
}
