package exec

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/components/programs"
	"github.com/flowd-io/flowd/internal/components/timing"
	"github.com/flowd-io/flowd/internal/formats/framing"
	"github.com/flowd-io/flowd/internal/network/call"
)

// pool keeps programs running, at most one per slot. Programs start on demand.
type pool struct {
	program
	logged *programs.Log
	slots  chan *slot // free slots

	mu      sync.Mutex // guards the fields below
	running map[*process]bool
	closed  bool
}

// slot is a place for one program. The goroutine that has taken it from pool.slots owns it.
type slot struct {
	p      *process  // nil: not running
	fails  int       // consecutive ends without an answer in between
	last   error     // the error of the last of these
	resume time.Time // do not start before this time
}

var (
	_ engine.Opener = (*pool)(nil)
	_ engine.Closer = (*pool)(nil)
)

func newStream(p program) *pool {
	return &pool{program: p, logged: programs.NewLog(p.log, p.Command[0], p.Secrets)}
}

// Open locates the program. The first message starts it.
func (s *pool) Open(context.Context) error {
	if err := s.Find(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed, s.running = false, map[*process]bool{}
	s.slots = make(chan *slot, s.cfg.Concurrency)
	for range s.cfg.Concurrency {
		s.slots <- &slot{}
	}
	return nil
}

// Process exchanges lines with one of the programs.
func (s *pool) Process(ctx context.Context, b *engine.Batch) error {
	msgs, lines := make([]*engine.Message, 0, b.Len()), make([][]byte, 0, b.Len())
	for m := range b.All() {
		err := s.ready(m)
		var line []byte
		if err == nil {
			line, err = framing.OneLine(m.Bytes(), "\n\r", "write `encode: base64` before it")
		}
		if err != nil {
			m.Fail(err)
			continue
		}
		msgs, lines = append(msgs, m), append(lines, line)
	}
	for len(lines) > 0 {
		answers, works, err := s.exchangeLines(ctx, lines)
		for i, answer := range answers {
			if err := s.finish(msgs[i], answer); err != nil {
				msgs[i].Fail(err)
			}
		}
		msgs, lines = msgs[len(answers):], lines[len(answers):]
		for len(lines) > 0 {
			msgs[0].Fail(err)
			msgs, lines = msgs[1:], lines[1:]
			if works { // the message that the program was working on is at fault; later ones are sent again
				break
			}
		}
	}
	return nil
}

// finish stores an answer in its message, or returns the error that the answer reports.
func (s *pool) finish(m *engine.Message, answer []byte) error {
	if prefix := s.cfg.ErrorPrefix; prefix != "" {
		if rest, is := bytes.CutPrefix(answer, []byte(prefix)); is {
			return s.reported(rest)
		}
	}
	return s.put(m, answer)
}

const (
	maxReported = 4 << 10        // bytes of the text of an error line
	maxAfter    = 24 * time.Hour // longest pause that an error line can ask for
)

// reportable are the classes that a program may give to its errors.
var reportable = []engine.Class{engine.Permanent, engine.Transient, engine.Rejected, engine.Timeout, engine.Decode, engine.Auth}

// reported returns the error of an error line, without the prefix.
func (s *pool) reported(rest []byte) error {
	said := struct {
		Text  string       `json:"text"`
		Class engine.Class `json:"class"`
		After float64      `json:"after"`
	}{Class: engine.Permanent}
	if err := json.Unmarshal(rest, &said); err != nil || said.Text == "" {
		said.Text = string(rest)
	}
	text := cmp.Or(call.Head([]byte(said.Text), maxReported, s.Secrets), "the program reported an error without a text")
	if !slices.Contains(reportable, said.Class) {
		return engine.Errorf(engine.Permanent, "%s (the program gave it the class %q: write permanent, transient, rejected, "+
			"timeout, decode or auth)", text, said.Class)
	}
	e := engine.Errorf(said.Class, "%s", text)
	e.Delay = time.Duration(min(max(said.After, 0), maxAfter.Seconds()) * float64(time.Second))
	return e
}

// exchangeLines returns the answers to the first of the lines, and the error that prevented others. works reports that the
// program would have answered other lines.
func (s *pool) exchangeLines(ctx context.Context, lines [][]byte) (answers [][]byte, works bool, err error) {
	if ctx.Err() != nil {
		return nil, false, late(ctx, "the step's time has run out")
	}
	var at *slot
	select {
	case at = <-s.slots:
	case <-ctx.Done():
		return nil, false, late(ctx, fmt.Sprintf("all %d programs were busy for the whole of the step's time",
			s.cfg.Concurrency))
	}
	defer func() { s.slots <- at }()
	if err := s.start(ctx, at); err != nil {
		return nil, false, err
	}
	p := at.p
	answers, err = p.exchange(ctx, lines)
	if len(answers) > 0 {
		at.fails = 0
	}
	switch {
	case err == nil:
	case ctx.Err() != nil: // it took too long; a pause would only add to that
		at.p = nil
	default:
		at.failed(err)
		works = p.hasServed()
	}
	return answers, works, err
}

// start makes sure that a slot's program is running.
func (s *pool) start(ctx context.Context, at *slot) error {
	if at.p != nil {
		dead, inOrder := at.p.dead()
		switch {
		case !dead:
			return nil
		case inOrder: // as if it ends after a number of lines
			at.p = nil
		default:
			at.failed(at.p.why)
		}
	}
	if err := at.pause(ctx); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return engine.Errorf(engine.Transient, "the step is closed")
	}
	p, err := start(&s.program, s.logged, s.ended)
	if err != nil {
		at.failed(err)
		return err
	}
	s.running[p], at.p = true, p
	return nil
}

func (s *pool) ended(p *process) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.running, p)
}

// After a failure, a program restarts after a pause, which doubles each time.
const (
	firstPause = 100 * time.Millisecond
	maxPause   = 10 * time.Second
)

// failed records that the program has ended, and computes when it may restart.
func (at *slot) failed(err error) {
	pause := min(firstPause<<min(at.fails, 10), maxPause)
	pause = pause/2 + rand.N(pause/2) // so that several programs don't restart at the same time
	at.p, at.last, at.resume = nil, err, time.Now().Add(pause)
	at.fails++
}

// pause waits until the program may start.
func (at *slot) pause(ctx context.Context) error {
	wait := time.Until(at.resume)
	if wait <= 0 || timing.Sleep(ctx, wait) == nil {
		return nil
	}
	e := engine.Errorf(engine.Transient, "the program has failed %d times in a row, the last time: %w", at.fails,
		at.last)
	e.Delay = time.Until(at.resume)
	return e
}

// Close ends the programs: it closes their input, and kills those that still run after the grace period or when ctx
// ends.
func (s *pool) Close(ctx context.Context) error {
	s.mu.Lock()
	s.closed = true
	var all sync.WaitGroup
	for p := range s.running {
		all.Go(func() { p.stop(ctx) })
	}
	s.mu.Unlock()
	all.Wait()
	return nil
}
