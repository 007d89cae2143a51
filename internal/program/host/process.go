package host

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/components/programs"
	"github.com/flowd-io/flowd/internal/program/frame"
)

// Process is one running program. Its methods are safe for concurrent use.
type Process struct {
	prog    *Program
	cmd     *exec.Cmd
	mark    string
	in      *os.File // descriptor 3 of the program
	out     *os.File // descriptor 4 of the program
	handle  func(*frame.Sent) error
	ready   chan frame.Ready
	said    *programs.Tail
	exited  chan struct{} // closed when the program has exited, and its family was ended
	drained chan struct{} // closed when readLoop has ended
	done    chan struct{} // closed after both, when why is known
	work    atomic.Int64  // messages that the program has to answer
	heard   atomic.Int64  // frames that have arrived

	mu        sync.Mutex    // guards the fields below
	queue     []message     // frames to write
	wake      *sync.Cond    // signalled when the queue or closing changes
	closing   bool          // nothing more is queued: the writer closes the pipe when the queue is empty
	why       *engine.Error // why the program has ended, or will end
	isReady   bool          // it has sent "ready"
	explained bool          // the program itself has said why it can't go on
	stopping  bool          // Stop was called
	unready   string        // why the program says that it is not ready; "": it is ready
	since     time.Time     // when it said so
}

// message is a frame to write.
type message struct {
	header []byte
	parts  [][]byte
}

const (
	ioDelay   = time.Second             // for reading frames after the program has exited
	exitDelay = 1500 * time.Millisecond // for the exit of a program that has closed its pipe
)

// Start starts the program, and waits until it is ready. window is how many messages it may have, and position the JSON of
// the position of an input. handle gets the frames that only the caller knows, in order, from one goroutine; its error ends
// the program. The error is transient if the program says so or the system can't start programs,
// otherwise permanent.
func (p *Program) Start(ctx context.Context, instance, instances, window int, position []byte, handle func(*frame.Sent) error) (
	*Process, *engine.Error) {
	var s *Process
	var err error
	programs.Outside(func() { s, err = p.launch(handle) })
	if err != nil {
		return nil, engine.Errorf(engine.Transient, "program %q: %w", p.Command[0], programs.Cause(err))
	}
	s.Send(p.hello(instance, instances, window, position).Header())
	limit := time.NewTimer(p.cfg.StartTimeout)
	defer limit.Stop()
	var failed *engine.Error
	select {
	case r := <-s.ready:
		switch {
		case r.Error != nil && r.Setting != "":
			s.explain()
			failed = engine.Errorf(r.Error.Class, "config.%s: %w", r.Setting, r.Error.Err)
		case r.Error != nil:
			s.explain()
			failed = r.Error
		case r.Version != frame.Version:
			failed = engine.Errorf(engine.Permanent, "the program speaks version %d of the protocol, flowd version %d", r.Version, frame.Version)
		default:
			s.mu.Lock()
			defer s.mu.Unlock()
			s.isReady = true
			return s, nil
		}
	case <-s.done:
		return nil, s.Err()
	case <-limit.C:
		failed = engine.Errorf(engine.Permanent, "the program was not ready within start_timeout (%s), and was killed", p.cfg.StartTimeout)
	case <-ctx.Done():
		failed = engine.Errorf(engine.Transient, "the program was not ready in time: %w", context.Cause(ctx))
	}
	s.kill(failed)
	<-s.done
	return nil, s.Err()
}

// launch starts the program.
func (p *Program) launch(handle func(*frame.Sent) error) (s *Process, err error) {
	s = &Process{prog: p, handle: handle, ready: make(chan frame.Ready, 1), said: &programs.Tail{},
		exited: make(chan struct{}), drained: make(chan struct{}), done: make(chan struct{}), cmd: &exec.Cmd{}}
	s.wake = sync.NewCond(&s.mu)
	s.mark = p.Prepare(s.cmd, frame.Variable)
	stdout, stderr := p.lines.Writer(), p.lines.Writer()
	s.cmd.Stdout, s.cmd.Stderr = stdout, io.MultiWriter(stderr, s.said)
	if s.in, s.out, err = frame.Start(s.cmd); err != nil {
		return nil, err
	}
	go s.writeLoop()
	go s.readLoop()
	go s.watchLoop()
	go func() {
		err := programs.Wait(s.cmd, s.mark)
		close(s.exited)
		_ = s.out.SetReadDeadline(time.Now().Add(ioDelay)) // a process that has left the family may hold the pipe open
		<-s.drained
		_, _ = stdout.Flush(), stderr.Flush()
		p.lines.ReportLeftOut()
		s.end(err)
	}()
	return s, nil
}

// readLoop handles the frames of the program until its pipe is closed.
func (s *Process) readLoop() {
	defer close(s.drained)
	defer s.out.Close()
	r := bufio.NewReaderSize(s.out, 64<<10)
	for {
		f, err := frame.Read(r, int(s.prog.cfg.MaxMessage))
		if err == nil {
			s.heard.Add(1)
			err = s.handleFrame(f)
		}
		switch {
		case err == nil:
			continue
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, os.ErrDeadlineExceeded):
			select { // an exit closes the pipe as well, and its status says more
			case <-s.exited:
			case <-time.After(exitDelay):
				s.kill(engine.Errorf(engine.Transient, "the program closed its pipe without exiting, and was killed"))
			}
		default:
			e := engine.ErrorOf(err, engine.Transient)
			e.Err = fmt.Errorf("the program broke the protocol, and was killed: %w", e.Err)
			s.kill(e)
		}
		return
	}
}

// handleFrame handles one frame. An error ends the program.
func (s *Process) handleFrame(f frame.Frame) error {
	sent, err := frame.ParseSent(f)
	if err != nil {
		return err
	}
	switch sent.Type {
	case "ready":
		r, err := sent.Ready()
		if err != nil {
			return err
		}
		select {
		case s.ready <- r:
		default:
			return errors.New("it sent a second \"ready\"")
		}
		return nil
	case "log", "metric", "state":
		return s.report(sent)
	case "error":
		e, err := sent.Failure()
		if err == nil {
			e.Holds = true
			s.explain()
			s.kill(e)
		}
		return err
	}
	return s.handle(sent)
}

// watchLoop kills the program if it has work and sends nothing for a while.
func (s *Process) watchLoop() {
	limit := s.prog.cfg.Timeout
	tick := time.NewTicker(min(limit/4, time.Second))
	defer tick.Stop()
	heard, since := s.heard.Load(), time.Now()
	for {
		select {
		case <-s.done:
			return
		case <-tick.C:
		}
		if now := s.heard.Load(); now != heard || s.work.Load() == 0 {
			heard, since = now, time.Now()
		} else if time.Since(since) >= limit {
			s.kill(engine.Errorf(engine.Timeout, "the program had %d messages, sent nothing for %s, and was killed (raise `timeout`, or let "+
				"it report its state meanwhile)", s.work.Load(), limit))
			return
		}
	}
}

// Send queues a frame. Nothing of it may change afterwards. It never blocks: who sends much waits for answers. Frames of a
// program that has ended are discarded.
func (s *Process) Send(header []byte, parts ...[]byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closing {
		s.queue = append(s.queue, message{header, parts})
		s.wake.Signal()
	}
}

// writeLoop writes queued frames until the queue is closed or the program ends.
func (s *Process) writeLoop() {
	defer s.in.Close()
	w := frame.NewWriter(s.in)
	for {
		s.mu.Lock()
		for len(s.queue) == 0 && !s.closing {
			s.wake.Wait()
		}
		all := s.queue
		s.queue = nil
		s.mu.Unlock()
		if len(all) == 0 {
			return
		}
		for _, m := range all {
			if err := w.Write(m.header, m.parts...); err != nil {
				s.closeQueue() // the program has closed the pipe or has ended, which readLoop notices
				return
			}
		}
	}
}

// closeQueue makes the writer write what is queued, and then close the pipe.
func (s *Process) closeQueue() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closing = true
	s.wake.Signal()
}

// explain notes that the program itself has said why it can't go on.
func (s *Process) explain() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.explained = true
}

// kill kills the program for a reason.
func (s *Process) kill(why *engine.Error) {
	s.mu.Lock()
	if s.why == nil {
		s.why = why
	}
	s.mu.Unlock()
	select {
	case <-s.exited:
	default:
		_ = programs.Kill(s.cmd.Process)
	}
}

// end notes how the program has ended.
func (s *Process) end(err error) {
	s.mu.Lock()
	how := s.prog.Describe(err, s.said)
	switch {
	case s.why != nil && s.explained:
	case s.why != nil:
		if quote := s.said.Quote(s.prog.Secrets); quote != "" {
			s.why.Err = fmt.Errorf("%w: %s", s.why.Err, quote)
		}
	case s.isReady:
		s.why = engine.Errorf(engine.Transient, "the program ended: %s", how)
	default:
		s.why = engine.Errorf(engine.Permanent, "the program ended before it was ready: %s", how)
	}
	if s.isReady && !s.stopping {
		s.prog.env.Log.Warn("the program ended", "reason", s.why)
	}
	s.closing, s.queue = true, nil
	s.wake.Signal()
	s.mu.Unlock()
	_ = s.in.SetWriteDeadline(time.Now()) // if the writer waits for a reader
	close(s.done)
}

// Done is closed when the program has ended and all its frames were handled.
func (s *Process) Done() <-chan struct{} { return s.done }

// Err returns why the program has ended. It is called after Done is closed.
func (s *Process) Err() *engine.Error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.why
}

// Drain asks the program to finish its work.
func (s *Process) Drain() { s.Send(frame.Drain(programs.Grace)) }

// Stop ends the program: it asks the program to finish, closes its pipe, and waits. A program that does not exit in time gets
// SIGTERM, and then SIGKILL. It gets SIGKILL at once when ctx ends.
func (s *Process) Stop(ctx context.Context) {
	s.mu.Lock()
	s.stopping = true
	s.mu.Unlock()
	var stopped chan struct{}
	programs.Outside(func() {
		stopped = make(chan struct{})
		go func() {
			defer close(stopped)
			s.stop()
		}()
	})
	kill := context.AfterFunc(ctx, s.killLate)
	defer kill()
	<-stopped
}

func (s *Process) stop() {
	ask := func() {
		s.Drain()
		s.closeQueue()
	}
	never := context.Background()
	programs.Stop(never, s.done, ask, func() {
		programs.Stop(never, s.done, func() { _ = programs.Terminate(s.cmd.Process) }, s.killLate)
	})
}

func (s *Process) killLate() {
	s.kill(engine.Errorf(engine.Transient, "the program did not exit when it was told to"))
}
