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
	visibility  = 5 * time.Minute  // how long messages that were read are hidden before their lease is renewed
	renewEvery  = 30 * time.Second // interval in which leases are checked
	emptyWait   = 2 * time.Second  // how long a receive waits before a queue is considered empty
	furtherWait = time.Second      // how long further receives of the same read wait

	mostHeld   = 120_000  // SQS's limit for the messages of a queue that are in flight
	mostAnswer = 64 << 20 // bytes; suffices for ten of the largest messages with the escapes of JSON
)

// reader hides the messages that it has read until they are done or returned, or until it is closed.
type reader struct {
	foundQueue
	next    uint64            // last handle
	held    map[uint64]*lease // messages that are neither done nor returned, by handle
	checked time.Time         // when leases were checked last
}

// lease is a message that is hidden.
type lease struct {
	handle string // receipt handle
	until  time.Time
}

// Reader returns a reader of a queue.
func (s *server) Reader(ctx context.Context, name string) (queue.Reader, error) {
	q, err := s.find(ctx, name)
	if err != nil {
		return nil, err
	}
	return &reader{foundQueue: q, held: map[uint64]*lease{}}, nil
}

// Read receives messages, and renews the leases of held messages.
func (r *reader) Read(ctx context.Context, most int) ([]queue.Message, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := r.renewLeases(ctx); err != nil {
		return nil, err
	}
	out, err := r.receive(ctx, most, emptyWait)
	if err != nil {
		return nil, err
	}
	if len(out) == 0 {
		return nil, r.endOfQueue(ctx)
	}
	if len(out) == mostReceived && ctx.Err() == nil {
		out = append(out, r.receiveMore(ctx, most-len(out))...)
	}
	until := time.Now().Add(visibility)
	owner := engine.Meta{}.With("queue", r.Name)
	all := make([]queue.Message, len(out))
	for i := range out {
		w := &out[i]
		r.next++
		r.held[r.next] = &lease{awssdk.ToString(w.ReceiptHandle), until}
		w.ReceiptHandle = nil
		all[i] = queue.Message{Payload: []byte(awssdk.ToString(w.Body)), Meta: aws.Meta(owner, w).Map(), Ref: r.next,
			Raw: w}
	}
	return all, nil
}

const mostReceived = 10 // messages of one call

// receive makes one call. If ctx ends, the call may still finish: messages that the service has already hidden would otherwise stay
// hidden for minutes.
func (r *reader) receive(ctx context.Context, most int, wait time.Duration) ([]types.Message, error) {
	call, cancel := context.WithTimeout(context.WithoutCancel(ctx), callTimeout)
	defer cancel()
	defer context.AfterFunc(ctx, func() {
		select {
		case <-time.After(2 * emptyWait):
			cancel()
		case <-call.Done():
		}
	})()
	out, err := r.client.ReceiveMessage(httpx.Most(call, mostAnswer), &sqs.ReceiveMessageInput{
		QueueUrl: &r.url, MaxNumberOfMessages: int32(min(most, mostReceived)), WaitTimeSeconds: aws.Seconds(wait),
		VisibilityTimeout:           aws.Seconds(visibility),
		MessageAttributeNames:       []string{"All"},
		MessageSystemAttributeNames: []types.MessageSystemAttributeName{types.MessageSystemAttributeNameAll},
	})
	if err != nil {
		return nil, aws.Explain(err, r.String())
	}
	return out.Messages, nil
}

// receiveMore receives up to n messages, with several calls at the same time. A call that gets no messages ends it, since the queue is
// empty. The next read returns a permanent error. Only one of the calls gets messages of a FIFO group, since the service does not
// deliver further messages of a group while earlier ones are hidden.
func (r *reader) receiveMore(ctx context.Context, n int) (all []types.Message) {
	parts := make([][]types.Message, (n+mostReceived-1)/mostReceived)
	var dry atomic.Bool
	call.Beside(calls.Parallel, len(parts), func(i int) {
		if ctx.Err() != nil || dry.Load() {
			return
		}
		if parts[i], _ = r.receive(ctx, min(mostReceived, n-i*mostReceived), furtherWait); len(parts[i]) == 0 {
			dry.Store(true)
		}
	})
	return slices.Concat(parts...)
}

// endOfQueue returns [engine.ErrEnd], or an error if the queue has messages that can't be read while others are held.
func (r *reader) endOfQueue(ctx context.Context) error {
	if len(r.held) >= mostHeld {
		return fmt.Errorf(
			"%d messages of the queue are in flight, which is the service's limit (remove them, as dump --delete does, or read fewer with -n)",
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
		return fmt.Errorf("about %s messages can't be read: a FIFO queue delivers the next messages of a group when the earlier "+
			"ones are removed (dump with --delete, and load them again)", n)
	}
	return engine.ErrEnd
}

// renewLeases renews the leases of held messages before they become visible to others.
func (r *reader) renewLeases(ctx context.Context) error {
	now := time.Now()
	if now.Sub(r.checked) < renewEvery {
		return nil
	}
	r.checked = now
	var due []uint64
	for ref, h := range r.held {
		if h.until.Sub(now) < visibility/2 {
			due = append(due, ref)
		}
	}
	errs := r.hide(ctx, due, visibility)
	for i, ref := range due {
		if errs[i] == nil {
			r.held[ref].until = now.Add(visibility)
		}
	}
	return errors.Join(errs...)
}

// Done deletes messages.
func (r *reader) Done(ctx context.Context, refs []uint64) error {
	return r.forget(refs, calls.Delete(ctx, r.client, r.url, r.String(), len(refs), func(i int) *string {
		return r.handle(refs[i])
	}))
}

// Return makes messages visible again at once.
func (r *reader) Return(ctx context.Context, refs []uint64) error {
	return r.forget(refs, r.hide(ctx, refs, 0))
}

// forget removes the messages without an error from the held ones, and returns the errors of the others.
func (r *reader) forget(refs []uint64, errs []error) error {
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

// calls are the batch calls of readers and writers.
var calls = aws.Requests{Bytes: aws.MaxMessage, Parallel: 4}

// Close returns all held messages, even if the command was interrupted.
func (r *reader) Close() error {
	perMessage := 10 * time.Millisecond // a call returns ten messages
	ctx, cancel := context.WithTimeout(context.Background(), callTimeout+time.Duration(len(r.held))*perMessage)
	defer cancel()
	return r.Return(ctx, slices.Collect(maps.Keys(r.held)))
}

// writer sends messages unchanged.
type writer struct {
	foundQueue
	fifo aws.FIFO
}

// Writer returns a writer to a queue.
func (s *server) Writer(ctx context.Context, name string) (queue.Writer, error) {
	q, err := s.find(ctx, name)
	if err != nil {
		return nil, err
	}
	return &writer{q, aws.FIFO{On: q.FIFO()}}, nil
}

// Write sends messages. It keeps the order within each group of a FIFO queue.
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

// Close does nothing.
func (*writer) Close() error { return nil }
