package program

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/source"
	"github.com/flowd-io/flowd/internal/program/frame"
	"github.com/flowd-io/flowd/internal/program/host"
)

// maxQueued is how many bytes of payloads are received before they are read.
const maxQueued = 16 << 20

// link is one running program.
type link struct {
	*host.Process
	in    *input
	some  source.Signal // set when a message or the end has arrived
	first atomic.Uint64 // Ref of its first message, plus 1; 0: none was read

	mu       sync.Mutex // guards the fields below
	room     *sync.Cond // signalled when bytes or closing changes
	queue    []frame.Incoming
	bytes    int
	credit   int    // messages that the program may still send
	received uint64 // messages
	read     uint64 // how many of them were read
	ended    bool   // the program has sent its last message
	closing  bool
}

func newLink(in *input) *link {
	l := &link{in: in, some: source.NewSignal()}
	l.room = sync.NewCond(&l.mu)
	return l
}

// handle handles a frame. It waits while the queue is full, so that the program waits as well.
func (l *link) handle(sent *frame.Sent) error {
	switch sent.Type {
	case "end":
		l.mu.Lock()
		l.ended = true
		l.mu.Unlock()
		l.some.Set()
		return nil
	case "messages":
	default:
		return nil
	}
	all, err := sent.Messages()
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.ended:
		return errors.New("it sent messages after the end")
	case len(all) > l.credit:
		return fmt.Errorf("it sent %d messages, but had credit for %d", len(all), l.credit)
	}
	l.credit -= len(all)
	l.received += uint64(len(all))
	l.queue = append(l.queue, all...)
	for i := range all {
		l.bytes += len(all[i].Payload)
	}
	l.some.Set()
	for l.bytes > maxQueued && !l.closing {
		l.room.Wait()
	}
	return nil
}

// receive waits for messages. It returns none, and no error, when ctx ends.
func (l *link) receive(ctx context.Context) ([]frame.Incoming, error) {
	for over := false; ; {
		l.mu.Lock()
		queue, ended := l.queue, l.ended
		l.queue, l.bytes = nil, 0
		l.room.Signal()
		l.mu.Unlock()
		switch {
		case len(queue) > 0:
			return queue, nil
		case ended:
			return nil, engine.ErrEnd
		case over:
			return nil, l.Err()
		}
		select {
		case <-l.some:
		case <-l.Done():
			over = true // but it may have sent messages before
		case <-ctx.Done():
			return nil, nil
		}
	}
}

// begins notes the Ref of the first message.
func (l *link) begins(ref uint64) { l.first.CompareAndSwap(0, ref+1) }

// grant allows the program to send n further messages, after as many were read.
func (l *link) grant(n int) {
	if n == 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.credit += n
	if l.first.Load() > 0 {
		l.read += uint64(n)
	}
	l.Send(frame.Credit(n))
}

// reportFates passes the results of its messages to the program. Those of an earlier process are left out.
func (l *link) reportFates(results []engine.Result) {
	first := l.first.Load()
	if first == 0 {
		return
	}
	own := make([]engine.Result, 0, len(results))
	for _, r := range results {
		if r.Ref+1 >= first {
			own = append(own, r)
		}
	}
	if len(own) > 0 {
		l.Send(frame.AppendFates(nil, first-1, own))
	}
}

// Stop returns messages that were not read, and asks the program to send no more.
func (l *link) Stop(context.Context) error {
	l.mu.Lock()
	var unread []engine.Result
	for n := l.read; n < l.received; n++ {
		unread = append(unread, engine.Result{Ref: n, Fate: engine.Returned})
	}
	l.read = l.received
	l.mu.Unlock()
	if len(unread) > 0 {
		l.Send(frame.AppendFates(nil, 0, unread))
	}
	l.Drain()
	return nil
}

// Close ends the program, and closes the checkpoint.
func (l *link) Close(ctx context.Context, _ bool) error {
	l.mu.Lock()
	l.closing = true
	l.room.Signal()
	l.mu.Unlock()
	l.Process.Stop(ctx)
	return l.in.places.Leave()
}
