package programs

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/network/call"
)

// Stream runs the program to its end, and writes its standard output to out as it comes. While a Write waits, so does the
// program, once the pipe between them is full. Standard error goes to log. When ctx ends or a Write fails, the program is
// stopped: see [Stop]. Everything that it has started ends with it.
//
// The error is nil if the exit status is 0. Otherwise it is that of ctx, that of the Write, with its class, or of class
// transient. It quotes the end of standard error.
func (p *Program) Stream(ctx context.Context, out io.Writer, log *Log) error {
	output, written, err := os.Pipe()
	if err != nil {
		return err
	}
	defer output.Close()
	said, logged := &Tail{}, log.Writer()
	cmd := &exec.Cmd{Stdout: written, Stderr: io.MultiWriter(logged, said)}
	mark := p.Prepare(cmd)
	err = cmd.Start()
	written.Close()
	if err != nil {
		return engine.Errorf(engine.Transient, "program %q: %w", p.Command[0], Cause(err))
	}
	var status error
	done := make(chan struct{})
	go func() {
		defer close(done)
		status = Wait(cmd, mark)
		_ = logged.Flush()
		log.ReportLeftOut()
		_ = output.SetReadDeadline(time.Now().Add(ioDelay))
	}()
	defer context.AfterFunc(ctx, func() { output.Close() })() // ends a read

	if _, err = io.Copy(out, pipe{output}); err == nil {
		select {
		case <-done:
		case <-ctx.Done():
		}
	}
	if err != nil || ctx.Err() != nil {
		output.Close()
		Stop(context.Background(), done, func() { _ = Terminate(cmd.Process) }, func() { _ = Kill(cmd.Process) })
	}
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err == nil && cmd.ProcessState.Success():
		return nil
	case err == nil:
		return engine.Errorf(engine.Transient, "the program ended: %s", p.Describe(status, said))
	}
	e := engine.ErrorOf(err, engine.Transient)
	if quote := call.Tail(said.buf, maxQuoted, p.Secrets); quote != "" {
		e = engine.Errorf(e.Class, "%w; standard error: %s", e.Err, quote)
	}
	return e
}

// pipe is the output of a program that sets a deadline for reads when it has ended, since other processes may hold the
// output open. All output of the program itself is in the pipe by then, and may be read later.
type pipe struct{ file *os.File } // not embedded, because WriteTo must not bypass Read

// Read reads what is there, also after the deadline.
func (r pipe) Read(p []byte) (n int, err error) {
	n, err = r.file.Read(p)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		_ = r.file.SetReadDeadline(time.Now().Add(ioDelay / 10))
		if n, err = r.file.Read(p); errors.Is(err, os.ErrDeadlineExceeded) {
			err = io.EOF
		}
	}
	return n, err
}
