package sqs

import (
	"context"
	"errors"
	"strconv"
	"time"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	awssqs "github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/components/timing"
	"github.com/flowd-io/flowd/internal/network/httpx"
	"github.com/flowd-io/flowd/internal/systems/aws"
)

// emptyPause is the shortest time between an empty receive that did not wait and the next one. The next Read waits, so that a pause
// of the caller counts.
const emptyPause = time.Second

// defaultVisibility is that of SQS, for a queue that hides nothing or does not say.
const defaultVisibility = 30 * time.Second

// visibilityOf returns how long messages are hidden: as configured, or as the queue says.
func (in *input) visibilityOf(ctx context.Context, c *conn) (time.Duration, error) {
	out, err := c.client.GetQueueAttributes(ctx, &awssqs.GetQueueAttributesInput{
		QueueUrl: &c.url, AttributeNames: []types.QueueAttributeName{types.QueueAttributeNameVisibilityTimeout},
	})
	switch {
	case aws.Denied(err): // it may still be read
		in.log.Debug("no permission to read the attributes of the queue", "queue", in.queue.Name)
		return max(in.cfg.Visibility, defaultVisibility), nil
	case err != nil:
		return 0, aws.Explain(err, in.queue.String())
	case in.cfg.Visibility > 0:
		return in.cfg.Visibility, nil
	}
	seconds, err := strconv.Atoi(out.Attributes["VisibilityTimeout"])
	if err != nil || seconds <= 0 {
		in.log.Warn("the queue does not hide messages from other readers, so flowd asks for 30s (set its visibility timeout, or `visibility`)",
			"queue", in.queue.Name)
		return defaultVisibility, nil
	}
	return time.Duration(seconds) * time.Second, nil
}

// Read receives messages, with a new call or with the one that an earlier Read left.
func (in *input) Read(ctx context.Context, b *engine.Batch) (engine.Acker, error) {
	if !in.empty.IsZero() {
		_ = timing.Sleep(ctx, time.Until(in.empty.Add(emptyPause)))
	}
	if ctx.Err() != nil {
		return in, nil
	}
	c := in.Conn()
	p := in.join(ctx, c, min(b.Room(), in.most))
	select {
	case <-p.done:
	case <-ctx.Done():
		if in.leave(p) {
			return in, nil
		}
		<-p.done // the call has just ended, and its messages belong to this Read
	}
	if p.err != nil {
		in.fewer(p)
		return in, in.paused(ctx, p.since, aws.Explain(p.err, in.queue.String()))
	}
	var back []change
	for i := range p.got {
		w := &p.got[i]
		wait := in.withheld(w, p.at)
		if b.Room() == 0 || wait > 0 { // the Read that began the call may have had more room
			back = append(back, change{l: &lease{handle: awssdk.ToString(w.ReceiptHandle)}, seconds: wait})
			continue
		}
		in.add(b, c, w, p.at)
	}
	if in.empty = (time.Time{}); in.cfg.Wait == 0 && len(p.got) == 0 {
		in.empty = p.at
	}
	return in, in.hideAll(ctx, c, back)
}

// fewer halves the number of messages per receive when an answer is too long, as one with ten of the largest messages may be with
// the escapes of JSON. These messages are redelivered.
func (in *input) fewer(p *poll) {
	if _, long := errors.AsType[*httpx.TooLong](p.err); !long || p.n == 1 {
		return
	}
	in.most = int(p.n) / 2
	in.log.Warn("the response to a receive is too long: fewer messages are received at once, and these are redelivered", "queue",
		in.queue.Name, "messages", p.n, "from_now_on", in.most, "err", p.err)
}

// withheld returns for how many seconds a message must wait for a hidden message of its group. SQS itself withholds it for that
// long, but not every service with the same protocol does.
func (in *input) withheld(w *types.Message, now time.Time) int32 {
	in.mu.Lock()
	defer in.mu.Unlock()
	return aws.Seconds(in.hidden[group(w)].Sub(now))
}

// group returns the group of a message in a FIFO queue, or "".
func group(w *types.Message) string {
	return w.Attributes[string(types.MessageSystemAttributeNameMessageGroupId)]
}

// paused waits for as long as the service asks, before the input is reopened. It records when the failed call began: a long call
// does not mean that the queue worked.
func (in *input) paused(ctx context.Context, since time.Time, err error) error {
	var e *engine.Error
	if !errors.As(err, &e) {
		e = &engine.Error{Class: engine.Transient, Err: err}
		err = e
	}
	e.FirstFailed = since
	if e.Delay > 0 {
		_ = timing.Sleep(ctx, e.Delay)
	}
	return err
}

// add adds a message and records its lease.
func (in *input) add(b *engine.Batch, c *conn, w *types.Message, now time.Time) {
	m := b.Add([]byte(awssdk.ToString(w.Body)))
	m.Attempt = aws.Receives(w)
	l := &lease{id: awssdk.ToString(w.MessageId), group: group(w), handle: awssdk.ToString(w.ReceiptHandle),
		received: now, until: now.Add(c.visibility), receives: max(1, m.Attempt)}
	in.mu.Lock()
	in.next++
	m.Ref = in.next
	in.held[m.Ref] = l
	in.mu.Unlock()
	m.Attempt = in.tries.Attempt(l.receives, func() string { return l.id })
	m.Meta = aws.Meta(in.owner, w)
}
