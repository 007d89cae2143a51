package sqs

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/network/call"
	"github.com/flowd-io/flowd/internal/network/httpx"
	"github.com/flowd-io/flowd/internal/systems/aws"
	"github.com/flowd-io/flowd/internal/systems/queue"
)

const (
	hidden = 5 * time.Minute  // what was read, unless it is prolonged
	look   = 30 * time.Second // how often what is held is checked
	empty  = 2 * time.Second  // after so long without messages the end is reached
	little = time.Second      // that a further receive waits

	mostHeld   = 120_000  // messages of a queue that the service hides at once
	mostAnswer = 64 << 20 // bytes: ten of the largest messages, with the escapes of JSON
)

// reader holds what it has read until it is done, returned, or the reader closed.
type reader struct {
	place
	next   uint64
	held   map[uint64]*hold
	looked time.Time
}

type hold struct {
	handle string
	until  time.Time
}

// Reader takes messages from a queue.
func (s *server) Reader(ctx context.Context, name string) (queue.Reader, error) {
	p, err := s.find(ctx, name)
	if err != nil {
		return nil, err
	}
	return &reader{place: p, held: map[uint64]*hold{}}, nil
}

// Read receives messages, and prolongs the leases of what is held.
func (r *reader) Read(ctx context.Context, most int) ([]queue.Message, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := r.prolong(ctx); err != nil {
		return nil, err
	}
	out, err := r.receive(ctx, most, empty)
	if err != nil {
		return nil, err
	}
	if len(out) == 0 {
		return nil, r.end(ctx)
	}
	if len(out) == mostReceived && ctx.Err() == nil {
		out = append(out, r.more(ctx, most-len(out))...)
	}
	until := time.Now().Add(hidden)
	owner := engine.Meta{}.With("queue", r.Name)
	all := make([]queue.Message, len(out))
	for i := range out {
		w := &out[i]
		r.next++
		r.held[r.next] = &hold{awssdk.ToString(w.ReceiptHandle), until}
		w.ReceiptHandle = nil
		all[i] = queue.Message{Payload: []byte(awssdk.ToString(w.Body)), Meta: aws.Meta(owner, w).Map(), Ref: r.next,
			Raw: w}
	}
	return all, nil
}

const mostReceived = 10 // messages of one call

// receive makes one call. A signal does not cut it off: what the service had already
// taken from the queue would stay hidden for minutes.
func (r *reader) receive(ctx context.Context, most int, wait time.Duration) ([]types.Message, error) {
	call, cancel := context.WithTimeout(context.WithoutCancel(ctx), callTimeout)
	defer cancel()
	defer context.AfterFunc(ctx, func() {
		select {
		case <-time.After(2 * empty):
			cancel()
		case <-call.Done():
		}
	})()
	out, err := r.client.ReceiveMessage(httpx.Most(call, mostAnswer), &sqs.ReceiveMessageInput{
		QueueUrl: &r.url, MaxNumberOfMessages: int32(min(most, mostReceived)), WaitTimeSeconds: aws.Seconds(wait),
		VisibilityTimeout:           aws.Seconds(hidden),
		MessageAttributeNames:       []string{"All"},
		MessageSystemAttributeNames: []types.MessageSystemAttributeName{types.MessageSystemAttributeNameAll},
	})
	if err != nil {
		return nil, aws.Explain(err, r.String())
	}
	return out.Messages, nil
}

// more receives up to n messages, with several calls at once. A group of a FIFO queue is in
// only one of them: none of its messages arrive while earlier ones are hidden. The first
// that gets nothing ends it, so that a queue that is empty is not waited for again and
// again; an error is for the next read to find.
func (r *reader) more(ctx context.Context, n int) (all []types.Message) {
	parts := make([][]types.Message, (n+mostReceived-1)/mostReceived)
	var dry atomic.Bool
	call.Beside(calls.Parallel, len(parts), func(i int) {
		if ctx.Err() != nil || dry.Load() {
			return
		}
		if parts[i], _ = r.receive(ctx, min(mostReceived, n-i*mostReceived), little); len(parts[i]) == 0 {
			dry.Store(true)
		}
	})
	return slices.Concat(parts...)
}

// end is [engine.ErrEnd], unless there is more that can't be had while what was read is held.
func (r *reader) end(ctx context.Context) error {
	if len(r.held) >= mostHeld {
		return fmt.Errorf(
			"%d messages are read, and the service can't hide more of a queue at once (remove them, as dump --delete does, or read fewer with -n)",
			len(r.held))
	}
	if !r.FIFO() || len(r.held) == 0 {
		return engine.ErrEnd
	}
	call, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	out, err := r.client.GetQueueAttributes(call, &sqs.GetQueueAttributesInput{QueueUrl: &r.url,
		AttributeNames: []types.QueueAttributeName{types.QueueAttributeNameApproximateNumberOfMessages}})
	if err != nil {
		return aws.Explain(err, r.String())
	}
	if n := out.Attributes[string(types.QueueAttributeNameApproximateNumberOfMessages)]; n != "" && n != "0" {
		return fmt.Errorf("about %s messages can't be read: a FIFO queue gives the next ones of a group when those before are removed (dump "+
			"with --delete, and load them again)", n)
	}
	return engine.ErrEnd
}

// prolong renews what is held before others see it.
func (r *reader) prolong(ctx context.Context) error {
	now := time.Now()
	if now.Sub(r.looked) < look {
		return nil
	}
	r.looked = now
	var due []uint64
	for ref, h := range r.held {
		if h.until.Sub(now) < hidden/2 {
			due = append(due, ref)
		}
	}
	errs := r.hide(ctx, due, hidden)
	for i, ref := range due {
		if errs[i] == nil {
			r.held[ref].until = now.Add(hidden)
		}
	}
	return errors.Join(errs...)
}

// Done deletes messages.
func (r *reader) Done(ctx context.Context, refs []uint64) error {
	return r.settled(refs, calls.Delete(ctx, r.client, r.url, r.String(), len(refs), func(i int) *string {
		return r.handle(refs[i])
	}))
}

// Return makes messages visible again at once.
func (r *reader) Return(ctx context.Context, refs []uint64) error {
	return r.settled(refs, r.hide(ctx, refs, 0))
}

// settled forgets what went well, and is the errors of the rest.
func (r *reader) settled(refs []uint64, errs []error) error {
	for i, ref := range refs {
		if errs[i] == nil {
			delete(r.held, ref)
		}
	}
	return errors.Join(errs...)
}

func (r *reader) hide(ctx context.Context, refs []uint64, d time.Duration) []error {
	return calls.Hide(ctx, r.client, r.url, r.String(), len(refs), func(i int) (*string, int32) {
		return r.handle(refs[i]), aws.Seconds(d)
	})
}

func (r *reader) handle(ref uint64) *string {
	if h := r.held[ref]; h != nil {
		return &h.handle
	}
	return new(string)
}

var calls = aws.Requests{Bytes: aws.MaxMessage, Parallel: 4}

// Close returns what is left, also when the command was interrupted.
func (r *reader) Close() error {
	perMessage := 10 * time.Millisecond // a call has ten
	ctx, cancel := context.WithTimeout(context.Background(), callTimeout+time.Duration(len(r.held))*perMessage)
	defer cancel()
	return r.Return(ctx, slices.Collect(maps.Keys(r.held)))
}

// writer sends messages as they were.
type writer struct {
	place
	fifo aws.FIFO
}

// Writer sends messages to a queue.
func (s *server) Writer(ctx context.Context, name string) (queue.Writer, error) {
	p, err := s.find(ctx, name)
	if err != nil {
		return nil, err
	}
	return &writer{p, aws.FIFO{On: p.FIFO()}}, nil
}

// Write sends messages, of each group of a FIFO queue one after the other.
func (w *writer) Write(ctx context.Context, ms []queue.Message) []error {
	out := make([]aws.Outgoing, len(ms))
	for i, m := range ms {
		if raw, ok := m.Raw.(*types.Message); ok {
			out[i] = w.fifo.FromReceived(raw)
			continue
		}
		out[i] = w.fifo.FromMetadata(m.Payload, m.Meta)
	}
	errs := calls.Send(ctx, w.client, w.url, w.String(), out)
	if errors.Join(errs...) == nil {
		return nil
	}
	return errs
}

// Close has nothing to do.
func (*writer) Close() error { return nil }
