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

// Reader reads a stream, or the messages of a consumer.
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
	r := &consumerReader{server: s, consumer: c, name: name, held: map[uint64]jetstream.Msg{}, closing: make(chan struct{})}
	r.wait.Go(r.keepHeld)
	return r, nil
}

// streamReader reads the messages that a stream had when the reader was made, by sequence. It does not hide them from others.
type streamReader struct {
	*server
	stream     jetstream.Stream
	name       string
	next, last uint64
}

// Read gets the messages one by one.
func (r *streamReader) Read(ctx context.Context, most int) (all []queue.Message, err error) {
	for len(all) < most && r.next <= r.last {
		raw, err := r.get(ctx)
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			break
		}
		if err != nil {
			if len(all) > 0 && ctx.Err() == nil {
				return all, nil // the next read returns the error
			}
			return nil, Explain(err, "read stream "+r.name)
		}
		if r.next = raw.Sequence + 1; raw.Sequence > r.last {
			break
		}
		for _, name := range directHeaders {
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

// directHeaders are headers that a server adds to the messages that it reads from a stream.
var directHeaders = strings.Fields("Nats-Stream Nats-Subject Nats-Sequence Nats-Time-Stamp Nats-Num-Pending " +
	"Nats-Last-Sequence")

// get returns the first message from sequence r.next on.
func (r *streamReader) get(ctx context.Context) (*jetstream.RawStreamMsg, error) {
	ctx, cancel := r.within(ctx)
	defer cancel()
	return r.stream.GetMsg(ctx, r.next, jetstream.WithGetMsgSubject(">"))
}

// parallelDeletes is how many messages are deleted at the same time.
const parallelDeletes = 16

// Done deletes messages.
func (r *streamReader) Done(ctx context.Context, refs []uint64) error {
	ctx, cancel := context.WithTimeout(ctx, r.conn.Timeout+time.Duration(len(refs))*time.Millisecond)
	defer cancel()
	errs := make([]error, len(refs))
	call.Beside(parallelDeletes, len(refs), func(i int) {
		if err := r.stream.DeleteMsg(ctx, refs[i]); !errors.Is(err, jetstream.ErrMsgNotFound) {
			errs[i] = Explain(err, "delete from stream "+r.name)
		}
	})
	return errors.Join(errs...)
}

// Return does nothing, since reading leaves messages in the stream.
func (*streamReader) Return(context.Context, []uint64) error { return nil }

// Close does nothing.
func (*streamReader) Close() error { return nil }

// consumerReader reads messages of a consumer, which hides them from its other readers.
type consumerReader struct {
	*server
	consumer jetstream.Consumer
	name     string
	closing  chan struct{} // closed by Close
	wait     sync.WaitGroup

	mu   sync.Mutex               // guards the fields below
	next uint64                   // last handle
	held map[uint64]jetstream.Msg // messages that are neither done nor returned, by handle
}

// emptyWait is how long Read waits for messages before it considers a consumer empty.
const emptyWait = time.Second

// Read fetches messages.
func (r *consumerReader) Read(ctx context.Context, most int) (all []queue.Message, err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	batch, err := r.consumer.Fetch(most, jetstream.FetchMaxWait(emptyWait))
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

// keepHeld tells the server regularly that the held messages are in progress, so that it does not redeliver them.
func (r *consumerReader) keepHeld() {
	tick := time.NewTicker(max(r.consumer.CachedInfo().Config.AckWait/4, time.Millisecond))
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-r.closing:
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
	return r.settle(ctx, refs, "+ACK")
}

// Return returns messages to the consumer.
func (r *consumerReader) Return(ctx context.Context, refs []uint64) error {
	return r.settle(ctx, refs, "-NAK")
}

// settle sends an acknowledgement for messages. The server handles acknowledgements in order, so the answer to the last one confirms
// all.
func (r *consumerReader) settle(ctx context.Context, refs []uint64, ack string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, ref := range refs {
		m := r.held[ref]
		if m == nil {
			continue
		}
		var err error
		if i < len(refs)-1 {
			err = r.conn.Publish(m.Reply(), []byte(ack))
		} else {
			err = r.conn.Ask(ctx, m.Reply(), []byte(ack))
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

// Close returns the messages that are still held.
func (r *consumerReader) Close() error {
	close(r.closing)
	r.wait.Wait()
	return r.Return(context.Background(), slices.Sorted(maps.Keys(r.held)))
}
