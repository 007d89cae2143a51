package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/flowd-io/flowd/engine/expr"
	"github.com/flowd-io/flowd/schema"
)

// program is a list of steps made flat: a message's place in it is one integer,
// which only grows. Conditions, cases, named lists and repairs are jumps.
type program struct {
	ops      []op
	together int // messages that a run should have at least; see Traits
	secrets  *schema.Secrets
}

// op is one instruction. After it a message goes on at next.
type op struct {
	run     Processor // nil: a jump
	name    string
	when    *expr.Cond // else the message skips to next
	cases   []branch   // of a switch: the first that holds says where to go
	next    int32
	timeout time.Duration
	onError onError
	repair  int32      // with repairs: where the repairing steps begin
	forget  bool       // the end of a repair: the error is dealt with
	enters  bool       // a block begins whose failures are dealt with as a whole; see frame
	leaves  bool       // such a block ends, the one that begins at block
	block   int32      // see leaves
	at      int32      // its own index
	in      *program   // that it is an instruction of
	retry   *retryPlan // nil: nothing is tried again here
	figures *stepFigures
	group   int8 // that takes the messages: its index, from 1; 0: none
}

type branch struct {
	when *expr.Cond // nil: always
	to   int32
}

type onError uint8

const (
	fails onError = iota
	continues
	drops
	repairs
)

// executor runs a program over batches, one at a time.
type executor struct {
	prog  *program
	own   owner
	stage stage // of messages that are to go on in this program
	sel   []int32
	// before holds messages as a step found them, in the order of sel, where a
	// failure may have to restore them.
	before []Mark
	clock  clock[op] // of the call that is under way
	room   *room     // for what steps add; nil: those of another step know

	wrap    []Middleware // around every run
	wrapped Processor    // this program in them
	out     *Batch       // what came of the run at hand
}

// owner is who keeps account of the messages that an executor runs.
type owner interface {
	// split replaces what the step at pc has split in b and returns the batch to go on with behind it.
	split(ctx context.Context, x *executor, b *Batch, pc int32) *Batch
	// merge is told of a merge; its parts are in m.of.
	merge(m *Message)
	// hold is told that messages of b have failed or wait.
	hold(b *Batch, at stage)
	// gather takes the messages sel of b, which have come to a group.
	gather(b *Batch, sel []int32, o *op)
}

// run is exec from the beginning, within the pipeline's middleware.
func (x *executor) run(ctx context.Context, b *Batch) *Batch {
	if len(x.wrap) == 0 || len(x.prog.ops) == 0 {
		return x.exec(ctx, b, 0)
	}
	if x.wrapped == nil {
		x.wrapped = core{x}
		for _, m := range slices.Backward(x.wrap) {
			x.wrapped = m(x.wrapped)
		}
	}
	x.out = b
	if err := process(ctx, x.wrapped, b); err != nil {
		for m := range x.out.All() {
			m.failAt("middleware", err)
		}
	}
	return x.out
}

// core is what middleware wraps.
type core struct{ x *executor }

// Process runs the program.
func (c core) Process(ctx context.Context, b *Batch) error {
	c.x.out = c.x.exec(ctx, b, 0)
	return nil
}

// exec runs b from an instruction to the end and returns what came of it: b, or
// another batch where steps have split messages.
func (x *executor) exec(ctx context.Context, b *Batch, from int32) *Batch {
	for pc := from; int(pc) < len(x.prog.ops); pc++ {
		o := &x.prog.ops[pc]
		sel := x.pick(b, pc, o)
		switch {
		case o.group > 0:
			x.own.gather(b, sel, o)
			continue
		case len(sel) == 0:
			continue
		case o.run == nil:
			x.jump(b, sel, o)
			continue
		}
		b.in.Sel = sel
		x.call(ctx, b, o)
		b.in.Sel = nil
		if x.conclude(b, sel, o) {
			x.own.hold(b, x.stage)
		}
		if b.in.Order != nil {
			b.in.Reorder()
		}
		for _, m := range b.in.Merges {
			m.in.PC = o.next
			m.inBlocks(isMerged)
			x.own.merge(m)
			b.in.Msgs = append(b.in.Msgs, *m)
		}
		b.in.Merges = nil
		if len(b.in.Splits) > 0 {
			b = x.own.split(ctx, x, b, pc)
		}
	}
	return b
}

// pick selects the messages whose place is pc and for which the condition
// holds; those that skip the step go on behind it.
func (x *executor) pick(b *Batch, pc int32, o *op) []int32 {
	sel := x.sel[:0]
	for i := range b.in.Msgs {
		m := &b.in.Msgs[i]
		if m.in.PC != pc || m.in.State != live {
			continue
		}
		if o.when != nil {
			holds, err := o.when.Test(m)
			if err != nil {
				m.in.Stage = x.stage
				o.failed(m, err)
				continue
			}
			if !holds {
				m.in.PC = o.next
				continue
			}
		}
		sel = append(sel, int32(i))
	}
	x.sel = sel
	return sel
}

// jump sends messages to where their case says, or to the end of a block or a repair.
func (x *executor) jump(b *Batch, sel []int32, o *op) {
	for _, i := range sel {
		m := &b.in.Msgs[i]
		switch {
		case o.forget:
			m.in.Err = nil
		case o.enters:
			m.enter(o)
		case o.leaves:
			m.leave(&x.prog.ops[o.block])
		}
		m.in.PC = o.next
		for _, c := range o.cases {
			holds, err := true, error(nil)
			if c.when != nil {
				holds, err = c.when.Test(m)
			}
			if err != nil {
				m.in.Stage = x.stage
				m.Fail(err)
				stepError(m.in.Err, o)
				m.rescue(o.in)
				break
			}
			if holds {
				m.in.PC = c.to
				break
			}
		}
	}
}

// call runs the step; an error, and a panic, fail what is still live.
func (x *executor) call(ctx context.Context, b *Batch, o *op) {
	if restores := o.retry != nil || o.onError == continues || o.onError == repairs; restores {
		if _, alone := o.run.(ProcessorFunc); alone {
			b.in.Restores = true
			defer func() { b.in.Restores = false }()
		} else {
			for _, i := range b.in.Sel {
				x.before = append(x.before, MarkOf(&b.in.Msgs[i]))
			}
		}
	}
	spent := b.in.Arena.Spent()
	began := x.clock.start(o)
	within := &deadline{parent: ctx, at: began.Add(o.timeout)}
	defer within.end()
	if a := b.in.Arena; a != nil {
		outer := a.Call
		a.Call = within
		defer func() { a.Call = outer }()
	}
	err := process(within, o.run, b)
	x.clock.stop()
	if err != nil {
		for m := range b.All() {
			m.Fail(err)
		}
	}
	if x.room != nil {
		x.room.leaveInside()
		if _, alone := o.run.(ProcessorFunc); !alone && b.in.Arena.Spent()-spent > slack {
			x.room.account(b)
		}
	}
	o.figures.called(len(b.in.Sel), time.Since(began))
}

func process(ctx context.Context, p Processor, b *Batch) (err error) {
	defer recovered(&err)
	return p.Process(ctx, b)
}

// conclude moves on what the step has dealt with, and says whether any of it has
// failed or waits.
func (x *executor) conclude(b *Batch, sel []int32, o *op) (troubled bool) {
	for n, i := range sel {
		m := &b.in.Msgs[i]
		switch m.in.State {
		case live:
			if m.in.PC = o.next; m.in.Rare != nil {
				setTrial(m, trialOf(m).over())
			}
		case parked:
			m.in.PC, m.in.Stage, m.in.Parking.Step = o.next, x.stage, o
			if len(x.before) > 0 {
				m.in.Parking.Before = x.before[n].Kept(m)
			}
		case consumed:
			m.in.Stage = x.stage
		case failed:
			if len(x.before) > 0 {
				x.before[n].Restore(m)
			}
			m.in.Stage = x.stage
			if n := lacks(m.in.Err); n > 0 && x.room != nil {
				x.waitsForRoom(m, o, n)
			} else {
				o.failed(m, m.in.Err)
			}
		}
		troubled = troubled || m.in.State == failed || m.in.State == waits || m.in.State == parked
	}
	clear(x.before)
	x.before = x.before[:0]
	return troubled
}

// failed does what is to be done about a message that the step failed, and that
// is as the step found it: it is tried again, or treated as on_error says.
func (o *op) failed(m *Message, err error) {
	m.Fail(err)
	stepError(m.in.Err, o)
	if lacks(err) > 0 { // the step outside, with all that is inside, is tried again
		return
	}
	o.figures.failed()
	if o.retry != nil && o.retry.again(m, time.Now(), m.in.Err.Holds && o.onError == fails && !blockOf(m).rescues(), false) {
		m.in.State, m.in.PC, trialOf(m).cause = waits, o.at, o
		return
	}
	setTrial(m, trialOf(m).over())
	switch o.onError {
	case continues:
		m.in.State, m.in.Err, m.in.PC = live, nil, o.next
	case drops:
		m.in.State = discarded
	case repairs:
		m.in.State, m.in.PC = live, o.repair
	default:
		m.rescue(o.in)
	}
}

// pull moves the messages of b to batches of the owner's, parts in the place of
// what the step o has split, and returns the last of them. room gives the batch
// for the next part (it may run and carry the present one; nil: the run is over,
// and what is left is handed back), part is told of each part, and done when all
// parts of m are made.
func (b *Batch) pull(cur *Batch, o *op, room func(cur *Batch, part bool) *Batch, part func(of, p *Message), done func(m *Message, parts int)) *Batch {
	splits := b.in.Splits
	slices.SortFunc(splits, func(x, y pendingSplit) int { return cmp.Compare(x.i, y.i) })
	for i := range b.in.Msgs {
		m := &b.in.Msgs[i]
		if len(splits) == 0 || splits[0].i != i {
			if m.in.State != consumed && m.in.State != moved {
				cur = room(cur, false)
				cur.in.Take(m)
			}
			continue
		}
		n, s := 0, splits[0]
		splits = splits[1:]
		err := s.each(func(body []byte) bool {
			next := room(cur, true)
			if next == nil {
				return false
			}
			cur = next
			n++
			p := cur.in.Append(body)
			p.Inherit(key{}, m)
			p.Key, p.Ref, p.Attempt = m.Key, m.Ref, m.Attempt
			p.in.Orig, p.in.Part, p.in.PC, p.in.Of = body, int32(n), o.next, m.Heirs(key{})
			setClaim(p, claimOf(m))
			p.inBlocks(isPart)
			part(m, p)
			return true
		})
		switch {
		case errors.Is(err, errRunOver):
			return newSlab(0) // cur has been carried
		case err != nil:
			o.unsplit(m, n, err)
		case n == 0:
			m.in.State = dropped
		default:
			done(m, n)
			continue
		}
		cur = room(cur, false)
		cur.in.Take(m)
	}
	b.in.Splits = b.in.Splits[:0]
	return cur
}

// unsplit fails what is left of m after n parts. What the parts already carry
// can't go on again as a whole.
func (o *op) unsplit(m *Message, n int, err error) {
	step := o
	if n > 0 {
		step = o.onlyEnds()
		m.inBlocks(isSpent)
	}
	step.failed(m, WithClass(ErrorOf(err, Decode).Class, fmt.Errorf("part %d: %w", n+1, err)))
}

var errRunOver = errors.New("the run is over")

func (s *pendingSplit) each(f func(body []byte) bool) (err error) {
	defer recovered(&err)
	for body, err := range s.parts {
		if err != nil {
			return err
		}
		if !f(body) {
			return errRunOver
		}
	}
	return nil
}
