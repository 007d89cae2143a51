package exec

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"os/exec"
	"sync"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/components/programs"
)

// process is a program that is kept running. One goroutine at a time exchanges lines with it. Other goroutines read
// its output, so that neither side ever blocks because the other does not read.
type process struct {
	prog *program
	cmd  *exec.Cmd
	in   io.WriteCloser
	wr   *bufio.Writer // buffers in; only for the goroutine that exchanges lines
	said *programs.Tail
	done chan struct{} // closed when the program has ended and all its output was read

	mu      sync.Mutex // guards the fields below
	owed    int        // answers that the current exchange still expects
	answers [][]byte   // answers of the current exchange
	full    chan struct{}
	why     error // why the program has ended or will end
	ending  bool  // Close has asked it to end
	served  bool  // it has answered at least once
}

// start starts the program. It calls ended when the program has ended, before it closes done.
func start(p *program, logged *programs.Log, ended func(*process)) (*process, error) {
	s := &process{prog: p, said: &programs.Tail{}, done: make(chan struct{}), cmd: &exec.Cmd{}}
	mark := p.Prepare(s.cmd)
	errs := logged.Writer()
	s.cmd.Stdout = &programs.Lines{Max: int(p.cfg.MaxOutput), Handle: s.handleLine}
	s.cmd.Stderr = io.MultiWriter(errs, s.said)
	in, err := s.cmd.StdinPipe()
	if err == nil {
		err = s.cmd.Start()
	}
	if err != nil {
		return nil, engine.Errorf(engine.Transient, "program %q: %w", p.Command[0], programs.Cause(err))
	}
	s.in, s.wr = in, bufio.NewWriterSize(in, 64<<10)
	go func() {
		s.wait(mark)
		_ = errs.Flush()
		logged.ReportLeftOut()
		ended(s)
		close(s.done)
	}()
	return s, nil
}

// wait reads the program's output until it has ended.
func (s *process) wait(mark string) {
	err := programs.Wait(s.cmd, mark)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.why == nil {
		s.why = engine.Errorf(engine.Transient, "the program ended: %s", s.prog.Describe(err, s.said))
		if !s.ending {
			s.prog.log.Warn("the program ended", "reason", s.prog.Describe(err, s.said))
		}
	} else {
		s.prog.log.Warn("the program was killed", "reason", s.why)
	}
}

// handleLine handles one line of output.
func (s *process) handleLine(line []byte, cut bool) error {
	s.mu.Lock()
	var err error
	switch {
	case s.owed == len(s.answers):
		err = engine.Errorf(engine.Transient,
			"the program wrote a line that belongs to no message (it must write exactly one for each line that it reads)")
	case cut:
		err = s.prog.tooLong()
		s.served = true
	default:
		s.answers = append(s.answers, bytes.Clone(line))
		s.served = true
		if s.owed == len(s.answers) {
			close(s.full)
		}
	}
	s.mu.Unlock()
	if err != nil {
		s.kill(err)
	}
	return err
}

// kill kills the program for a reason.
func (s *process) kill(why error) {
	s.mu.Lock()
	if s.why == nil {
		s.why = why
	}
	s.mu.Unlock()
	select {
	case <-s.done:
	default:
		_ = programs.Kill(s.cmd.Process)
	}
}

// exchange sends lines. It returns the answers to the first of them, and the error that prevented others. After an
// error the program is dead, or soon will be.
func (s *process) exchange(ctx context.Context, lines [][]byte) ([][]byte, error) {
	full := make(chan struct{})
	s.mu.Lock()
	s.owed, s.answers, s.full = len(lines), make([][]byte, 0, len(lines)), full
	s.mu.Unlock()

	over := make(chan struct{})
	stop := context.AfterFunc(ctx, func() { // also ends a send that blocks
		defer close(over)
		s.kill(s.late(ctx))
	})
	if err := s.send(lines); err != nil {
		select { // it has ended and will soon say why, or it no longer reads
		case <-full:
		case <-s.done:
		case <-ctx.Done():
		case <-time.After(ioDelay):
			s.kill(engine.Errorf(engine.Transient, "the program no longer reads: %w", programs.Cause(err)))
		}
	}
	select {
	case <-full:
	case <-s.done:
	case <-ctx.Done():
		s.kill(s.late(ctx)) // the cancellation may arrive before stop has run
		select {            // answers that were written in time may be unread
		case <-s.done:
		case <-time.After(ioDelay):
		}
	}
	if !stop() {
		<-over // otherwise stop could kill the program during the next exchange
	}

	s.mu.Lock()
	defer s.mu.Unlock()
	answers := s.answers
	s.owed, s.answers = 0, nil
	if len(answers) == len(lines) {
		return answers, nil
	}
	return answers, s.why
}

func (s *process) send(lines [][]byte) error {
	for _, line := range lines {
		if _, err := s.wr.Write(line); err != nil {
			return err
		}
		if err := s.wr.WriteByte('\n'); err != nil {
			return err
		}
	}
	return s.wr.Flush()
}

// late returns the error of an exchange that ctx has cut off.
func (s *process) late(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	what := "the program did not answer in the step's time, and was killed"
	if !s.served {
		what += "; it has never answered, so it may hold lines back (make it flush each line)"
	}
	return late(ctx, what)
}

// dead reports whether the program has ended, and whether it ended without an error.
func (s *process) dead() (is, inOrder bool) {
	select {
	case <-s.done:
		return true, s.cmd.ProcessState.Success() && s.served
	default:
		return false, false
	}
}

// hasServed reports whether the program has answered anything, even too much.
func (s *process) hasServed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.served
}

// stop closes the program's input, and kills the program if it does not stop.
func (s *process) stop(ctx context.Context) {
	s.mu.Lock()
	s.ending = true
	s.mu.Unlock()
	programs.Stop(ctx, s.done, func() { _ = s.in.Close() },
		func() { s.kill(errors.New("it did not end when its input was closed")) })
}
