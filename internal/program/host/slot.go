package host

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/components/programs"
	"github.com/flowd-io/flowd/internal/components/timing"
	"github.com/flowd-io/flowd/internal/program/frame"
)

// slot is a place for one process, which is started again after it has ended.
type slot struct {
	client *Client
	index  int
	load   atomic.Int64        // messages that wait for it or are in it
	room   *semaphore.Weighted // messages that the process may still get
	ctx    context.Context     // ends with the slot, or with an Open that is interrupted
	cancel context.CancelFunc

	mu       sync.Mutex // guards the fields below
	closed   bool
	starting chan struct{} // closed when a start that is under way has ended; nil: there is none
	p        *running      // nil: not started, or starting
	fails    int           // how often the process has ended without having answered anything since it was started
	last     *engine.Error // why the last start has failed; nil: it has not
	since    time.Time     // when starts began to fail
	resume   time.Time     // do not start before this time
}

// running is a process with the batches that it has to answer.
type running struct {
	*Process
	slot *slot

	mu      sync.Mutex // guards the fields below
	number  uint64     // of the last batch
	batches map[uint64]*batch
	served  bool // it has answered a message
}

// batch is a batch that a process has.
type batch struct {
	items    []item
	answered []bool
	left     int           // messages without an answer
	done     chan struct{} // closed when all messages are answered
	canceled bool          // nobody waits for the answers
}

func newSlot(c *Client, index int) *slot {
	s := &slot{client: c, index: index, room: semaphore.NewWeighted(int64(c.cfg.Window))}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	return s
}

// start starts the process, after a pause if it has failed before.
func (s *slot) start() {
	s.mu.Lock()
	pause := time.Until(s.resume)
	s.mu.Unlock()
	var p *running
	var err *engine.Error
	if pause > 0 && timing.Sleep(s.ctx, pause) != nil {
		err = engine.Errorf(engine.Transient, "the program is being stopped")
	} else {
		p = &running{slot: s, batches: map[uint64]*batch{}}
		c := s.client
		p.Process, err = c.prog.Start(s.ctx, s.index, len(c.slots), c.cfg.Window, nil, p.handle)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case err == nil:
		if s.p, s.last = p, nil; s.fails > 0 {
			s.client.prog.env.Log.Info("the program was started again")
		}
	case s.ctx.Err() == nil:
		if s.last == nil {
			s.since = time.Now()
			if s.fails > 0 {
				s.client.prog.env.Log.Error("the program can't be started again", "reason", err)
			}
		}
		s.last = err
		s.failed()
	default:
		s.last = err
	}
	if s.starting != nil {
		close(s.starting)
		s.starting = nil
	}
}

// failed computes when the process may be started again. s.mu is held.
func (s *slot) failed() {
	r := s.client.prog.cfg.Restart
	pause := min(r.Backoff<<min(s.fails, 20), r.MaxBackoff)
	if pause <= 0 { // the shift overflows
		pause = r.MaxBackoff
	}
	s.fails++
	s.resume = time.Now().Add(pause/2 + rand.N(pause/2+1)) // so that several processes don't start at the same time
}

func (s *slot) lastError() *engine.Error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.last
}

// process returns the process, and starts it if it has ended. Its error says that the messages are not to blame.
func (s *slot) process(ctx context.Context) (*running, *engine.Error) {
	for tried := false; ; tried = true {
		s.mu.Lock()
		switch {
		case s.closed:
			s.mu.Unlock()
			return nil, engine.Errorf(engine.Transient, "the program was stopped")
		case s.p != nil:
			select {
			case <-s.p.done:
				s.p = nil
			default:
				defer s.mu.Unlock()
				return s.p, nil
			}
		}
		if tried && s.last != nil {
			e := *s.last
			e.Class, e.Holds, e.Delay = engine.Transient, true, max(0, time.Until(s.resume))
			s.mu.Unlock()
			return nil, &e
		}
		if s.starting == nil {
			s.starting = make(chan struct{})
			go s.start()
		}
		wait := s.starting
		s.mu.Unlock()
		select {
		case <-wait:
		case <-ctx.Done():
			e := engine.Errorf(engine.Transient, "the program was not started again in the step's time: %w", ctx.Err())
			if last := s.lastError(); last != nil {
				e.Err = fmt.Errorf("the program can't be started again: %w", last.Err)
			}
			e.Holds = true
			return nil, e
		}
	}
}

// run passes messages to the process, and waits for their results. It returns the messages that the process has not answered
// because it has ended, and why. weight is given back when the process has finished with the messages.
func (s *slot) run(ctx context.Context, items []item, weight int64) (left []item, why *engine.Error) {
	p, err := s.process(ctx)
	if err != nil {
		s.room.Release(weight)
		fail(items, err)
		return nil, nil
	}
	b, n := p.submit(ctx, items)
	released := false
	defer func() {
		if !released {
			s.room.Release(weight)
		}
	}()
	select {
	case <-b.done:
	case <-p.done:
	case <-ctx.Done():
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if b.left == 0 {
		return nil, nil
	}
	for i, is := range b.answered {
		if !is {
			left = append(left, items[i])
		}
	}
	select {
	case <-p.done:
		delete(p.batches, n)
		s.noteEnd(p)
		if why = p.Err(); why.Holds {
			fail(left, why)
			return nil, nil
		}
		return left, why
	default:
	}
	b.canceled, released = true, true
	go func() { // the program still works on them
		select {
		case <-b.done:
		case <-p.done:
		}
		s.room.Release(weight)
	}()
	p.Send(frame.Cancel(n, nil))
	begun := min(p.begun(n), len(left))
	fail(left[:begun], late(ctx, "the program did not answer in time"))
	fail(left[begun:], waiting(ctx))
	return nil, nil
}

// begun returns how many messages of a batch the program may be working on, rather than on those of earlier batches. r.mu is
// held.
func (r *running) begun(number uint64) int {
	n := r.slot.client.cfg.Parallel
	for other, b := range r.batches {
		if other < number {
			n -= b.left
		}
	}
	return max(0, n)
}

// submit sends a batch.
func (r *running) submit(ctx context.Context, items []item) (b *batch, number uint64) {
	b = &batch{items: items, answered: make([]bool, len(items)), left: len(items)}
	programs.Outside(func() { b.done = make(chan struct{}) }) // the reader closes it
	messages, payloads := make([]*engine.Message, len(items)), make([][]byte, len(items))
	for i, it := range items {
		messages[i], payloads[i] = it.m, it.m.Bytes()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.number++
	header := frame.AppendBatch(nil, frame.Batch{Number: r.number, Timeout: timeoutOf(ctx),
		DeadLetters: r.prog.kind == frame.Output}, messages)
	if len(header) > frame.MaxHeader {
		fail(items, engine.Errorf(engine.Permanent, "the metadata of %d messages has %d bytes, more than %d (set a smaller `batch`)",
			len(items), len(header), frame.MaxHeader))
		b.left = 0
		close(b.done)
		return b, r.number
	}
	r.batches[r.number] = b
	r.work.Add(int64(len(items)))
	r.Send(header, payloads...)
	return b, r.number
}

// handle handles a frame of the process.
func (r *running) handle(sent *frame.Sent) error {
	if sent.Type != "results" {
		return nil
	}
	number, first, results, err := sent.Results()
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	b := r.batches[number]
	switch {
	case b == nil && number > 0 && number <= r.number:
		return fmt.Errorf("it answered batch %d, of which every message was answered before", number)
	case b == nil:
		return fmt.Errorf("it answered batch %d, which does not exist", number)
	case first+len(results) > len(b.items):
		return fmt.Errorf("it answered message %d of batch %d, which has only %d messages", first+len(results)-1, number, len(b.items))
	case len(results) == 0:
		return errors.New("it sent results without a result")
	}
	for i := range results {
		at := first + i
		if b.answered[at] {
			return fmt.Errorf("it answered message %d of batch %d twice", at, number)
		}
		b.answered[at] = true
		if !b.canceled {
			*b.items[at].r = results[i]
		}
	}
	b.left -= len(results)
	r.work.Add(-int64(len(results)))
	if !r.served {
		r.served = true
		r.slot.noteAnswer()
	}
	if b.left == 0 {
		delete(r.batches, number)
		close(b.done)
	}
	return nil
}

// noteAnswer notes that the process works.
func (s *slot) noteAnswer() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fails = 0
}

// noteEnd notes that the process has ended while it had work.
func (s *slot) noteEnd(p *running) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.p == p {
		s.p = nil
		s.failed()
	}
}

// trouble reports that the process can't be started, or says that it is not ready.
func (s *slot) trouble() *engine.Trouble {
	t := &engine.Trouble{Indicator: "program_down", Impact: "messages wait for the program " + s.client.prog.Command[0],
		Action: "see the log of the program; flowd starts it again until it works"}
	s.mu.Lock()
	p := s.p
	if s.last != nil && s.fails > 0 {
		t.Cause, t.Since = s.last.Error(), s.since
	}
	s.mu.Unlock()
	if t.Cause == "" && p != nil {
		t.Cause, t.Since = p.Unready()
		t.Indicator, t.Action = "program_not_ready", "the program says so itself: see what it needs"
	}
	if t.Cause == "" {
		return nil
	}
	return t
}

// close ends the process.
func (s *slot) close(ctx context.Context) {
	s.mu.Lock()
	s.closed = true
	p, starting := s.p, s.starting
	s.mu.Unlock()
	s.cancel()
	if starting != nil {
		<-starting
		s.mu.Lock()
		p = s.p
		s.mu.Unlock()
	}
	if p != nil {
		p.Stop(ctx)
	}
}

// maxCrashes is how often a program may crash while it works on a single message.
const maxCrashes = 3

// recover tries messages again that a process had when it ended. It takes the whole slot for itself, and sends fewer messages
// at a time after each further crash, until it has found those at fault.
func (s *slot) recover(ctx context.Context, items []item) {
	window := int64(s.client.cfg.Window)
	if s.room.Acquire(ctx, window) != nil {
		fail(items, waiting(ctx))
		return
	}
	defer s.room.Release(window)
	// A program that works on one message after the other has most probably crashed at the first.
	s.isolate(ctx, items[:1])
	s.isolate(ctx, items[1:])
}

// isolate passes messages to the process, and to a new one after each crash.
func (s *slot) isolate(ctx context.Context, items []item) {
	for crashes := 1; len(items) > 0; crashes++ {
		left, why := s.run(ctx, items, 0)
		switch {
		case len(items) > 1 && len(left) > 0:
			half := (len(left) + 1) / 2
			s.isolate(ctx, left[:half])
			s.isolate(ctx, left[half:])
			return
		case len(left) > 0 && crashes == maxCrashes:
			class := engine.Permanent
			if why.Class == engine.Timeout {
				class = engine.Timeout
			}
			fail(left, engine.Errorf(class, "the program failed %d times while it had only this message: %w", crashes, why))
			return
		}
		items = left
	}
}
