package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"time"

	"github.com/flowd-io/flowd/engine/expr"
)

// Plan is a pipeline that is built and checked, and has done no I/O. It runs once.
type Plan struct {
	Name string

	log         *slog.Logger
	inputs      []*inputPlan
	steps       *program
	batchers    []*batcherPlan // in the order in which they are tried
	outputs     []*outputPlan
	plugins     []part // all that may want to be opened or closed, outputs first
	opened      int    // how many of them were opened
	workers     int
	orderBy     *expr.Expr
	ordered     bool
	maxMessages int
	maxBytes    int
	drain       time.Duration
	failure     policy

	current atomic.Pointer[run]
}

// part is a plugin with what errors call it: "output lake".
type part struct {
	name   string
	plugin any
}

type inputPlan struct {
	name    string
	inputs  []Input // one per instance
	steps   *program
	then    then // what the source can do with a failed message
	follows bool // fed by outputs of this process
}

type batcherPlan struct {
	name    string
	match   *expr.Cond // nil: all
	goesOn  bool       // later batchers see the message too
	key     *expr.Expr
	batcher Batcher // nil: messages pass as they come
	steps   *program
	outputs []*outputPlan
}

type outputPlan struct {
	name        string
	out         Output
	steps       *program
	concurrency int
	timeout     time.Duration
	failure     *policy // nil: the pipeline's
	sequential  bool
}

// Stats are the counts so far, at any time.
func (p *Plan) Stats() Stats {
	r := p.current.Load()
	if r == nil {
		return Stats{}
	}
	return Stats{r.roots.read(), r.pieces.read()}
}

func (p *Plan) batcherNames() string {
	names := make([]string, len(p.batchers))
	for i, b := range p.batchers {
		names[i] = b.name
	}
	return strings.Join(names, ", ")
}

// open opens outputs, steps and inputs, in this order.
func (p *Plan) open(ctx context.Context) error {
	for _, x := range p.plugins {
		if o, ok := x.plugin.(Opener); ok {
			if err := guard(ctx, o.Open); err != nil {
				return fmt.Errorf("%s: %w", x.name, err)
			}
		}
		p.opened++
	}
	return nil
}

// close closes what was opened, inputs first.
func (p *Plan) close(ctx context.Context) (first error) {
	for ; p.opened > 0; p.opened-- {
		x := p.plugins[p.opened-1]
		c, ok := x.plugin.(Closer)
		if !ok {
			continue
		}
		if err := guard(ctx, c.Close); err != nil && first == nil {
			first = fmt.Errorf("%s: close: %w", x.name, err)
		}
	}
	return first
}

// guard makes a call that may panic, and leaves it behind when it does not come
// back after ctx has ended.
func guard(ctx context.Context, call func(context.Context) error) error {
	done := make(chan error, 1)
	go func() {
		var err error
		defer func() { done <- err }()
		defer recovered(&err)
		err = call(ctx)
	}()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	select {
	case err := <-done:
		return err
	case <-time.After(killGrace):
		return errors.New("did not end when it was told to, and is left behind")
	}
}
