package exec

import (
	"bytes"
	"context"
	"errors"
	"unicode/utf8"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/components/programs"
	"github.com/flowd-io/flowd/internal/network/call"
)

// once starts the program for each message.
type once struct {
	program
	slots chan struct{} // one per program that may run
}

var (
	_ engine.Opener     = (*once)(nil)
	_ engine.Traited    = (*once)(nil)
	_ call.Asker[*task] = (*once)(nil)
)

// Open locates the program.
func (o *once) Open(context.Context) error { return o.Find() }

// Traits reports how many programs run at once.
func (o *once) Traits() engine.Traits { return engine.Traits{Together: o.cfg.Concurrency} }

// Process runs the programs. They end with ctx.
func (o *once) Process(ctx context.Context, b *engine.Batch) error {
	call.Each(ctx, b, o.cfg.Concurrency, o)
	return nil
}

// task is one run of the program.
type task struct{ payload, answer []byte }

// Prepare reads the payload.
func (o *once) Prepare(m *engine.Message) (*task, error) {
	return &task{payload: m.Bytes()}, o.ready(m)
}

// Finish stores the answer in the message.
func (o *once) Finish(m *engine.Message, t *task) error { return o.put(m, t.answer) }

// Call runs the program to its end.
func (o *once) Call(ctx context.Context, t *task) error {
	select {
	case o.slots <- struct{}{}:
		defer func() { <-o.slots }()
	case <-ctx.Done():
		return late(ctx, "the step's time had run out before the program could start")
	}
	run, cancel := context.WithCancel(ctx)
	defer cancel()
	out := &programs.Bounded{Max: int(o.cfg.MaxOutput), Exceeded: cancel}
	err := o.Run(run, bytes.NewReader(t.payload), out)
	switch {
	case out.Full:
		return o.tooLong()
	case err == nil:
		t.answer = withoutLineEnd(out.Bytes())
		return nil
	case ctx.Err() != nil:
		return late(ctx, "the program took longer than the step's timeout, and was killed")
	}
	return err
}

// late returns the error of a call that ctx has cut off.
func late(ctx context.Context, what string) error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return engine.Errorf(engine.Timeout, "%s (raise its `timeout`): %w", what, ctx.Err())
	}
	return engine.Errorf(engine.Transient, "the program was cut off: %w", ctx.Err())
}

// withoutLineEnd removes the line end of a text. Binary output stays unchanged.
func withoutLineEnd(out []byte) []byte {
	if !bytes.HasSuffix(out, []byte("\n")) || !utf8.Valid(out) {
		return out
	}
	return bytes.TrimSuffix(out[:len(out)-1], []byte("\r"))
}
