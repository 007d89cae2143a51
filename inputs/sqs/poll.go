package sqs

import (
	"context"
	"net/http/httptrace"
	"sync/atomic"
	"time"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	awssqs "github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/flowd-io/flowd/engine"

	"github.com/flowd-io/flowd/internal/systems/aws"
)

const (
	answerTime = time.Second            // to wait for an answer that had begun when the input was closed
	lastAnswer = 100 * time.Millisecond // to wait for messages that were handed back just before
)

// poll is a receive in progress. A call that is cancelled may still receive messages, which would then stay hidden until their
// visibility timeout ends. So a call goes on when its Read is stopped. The next Read takes it over, and messages that arrive
// without a Read become visible again at once. Close ends the call.
type poll struct {
	done  chan struct{} // closed when the call has ended, and messages that no Read wants are handed back
	end   func()
	since time.Time   // when it began
	begun atomic.Bool // its answer

	// Set before done is closed.
	got []types.Message
	at  time.Time
	err error
	n   int32 // messages that were asked for

	joined, ended bool // guarded by input.mu: a Read waits for the answer; the answer is there
}

// join returns the current poll, or begins a new one.
func (in *input) join(ctx context.Context, c *conn, n int) *poll {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.poll == nil || in.poll.ended {
		p := &poll{done: make(chan struct{}), since: time.Now()}
		call, cancel := context.WithTimeout(context.WithoutCancel(ctx), in.cfg.Wait+callTimeout)
		p.end = cancel
		in.poll = p
		go in.receive(call, c, p, int32(n))
	}
	in.poll.joined = true
	return in.poll
}

// leave says that no Read waits for p any more. It returns false if p has ended: its messages then belong to this Read.
func (in *input) leave(p *poll) bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	p.joined = p.ended
	return !p.ended
}

func (in *input) receive(ctx context.Context, c *conn, p *poll, n int32) {
	defer close(p.done)
	defer p.end()
	traced := httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		WroteRequest:         func(httptrace.WroteRequestInfo) { p.begun.Store(false) },
		GotFirstResponseByte: func() { p.begun.Store(true) },
	})
	out, err := c.ask(traced, &awssqs.ReceiveMessageInput{
		QueueUrl: &c.url, MaxNumberOfMessages: n, WaitTimeSeconds: aws.Seconds(in.cfg.Wait),
		VisibilityTimeout:           aws.Seconds(c.visibility),
		MessageAttributeNames:       []string{"All"},
		MessageSystemAttributeNames: []types.MessageSystemAttributeName{types.MessageSystemAttributeNameAll},
		//lint:ignore SA1019 it is all that older services of this protocol know
		AttributeNames: []types.QueueAttributeName{types.QueueAttributeNameAll},
	})
	p.at, p.err, p.n = time.Now(), err, n
	if out != nil {
		p.got = out.Messages
	}
	in.mu.Lock()
	p.ended = true
	wanted := p.joined
	in.mu.Unlock()
	if !wanted {
		if err := in.release(context.WithoutCancel(ctx), c, p.got); err != nil {
			in.log.Warn("messages that arrived while nothing was read could not be handed back, and stay hidden", "queue", in.queue.Name,
				"messages", len(p.got), "err", err)
		}
	}
}

// ask receives messages. It runs in a goroutine of its own, so it turns panics into errors.
func (c *conn) ask(ctx context.Context, in *awssqs.ReceiveMessageInput) (out *awssqs.ReceiveMessageOutput, err error) {
	defer engine.Recovered(&err)
	return c.client.ReceiveMessage(ctx, in)
}

// endPoll ends a poll that is still open. A service may give it messages that were handed back just before. endPoll waits for them,
// and hands them back again.
func (in *input) endPoll(ctx context.Context) {
	in.mu.Lock()
	p, gave := in.poll, in.gave
	in.mu.Unlock()
	if p == nil {
		return
	}
	if gave {
		wait(ctx, p.done, lastAnswer)
	}
	if p.begun.Load() {
		wait(ctx, p.done, answerTime)
	}
	p.end()
	<-p.done
}

func wait(ctx context.Context, done <-chan struct{}, d time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	select {
	case <-done:
	case <-ctx.Done():
	}
}

// release makes messages visible that no Read takes.
func (in *input) release(ctx context.Context, c *conn, all []types.Message) error {
	changes := make([]change, len(all))
	for i := range all {
		changes[i].l = &lease{handle: awssdk.ToString(all[i].ReceiptHandle)}
	}
	return in.hideAll(ctx, c, changes)
}
