package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"time"

	"github.com/flowd-io/flowd/engine/doc"
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
	group   *groupPlan // that takes the messages; nil: none
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
	before []snapshot
	clock        // of the call that is under way
	room   *room // for what steps add; nil: those of another step know

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

// snapshot is a message as a step found it. It holds until the arena is reset.
type snapshot struct {
	doc  doc.Mark
	meta Meta
}

func snapshotOf(m *Message) snapshot { return snapshot{m.doc.Mark(), m.Meta} }

func (s *snapshot) restore(m *Message) {
	m.doc.Restore(s.doc)
	m.Meta = s.meta
}

// each calls f for the messages from a place on, until it panics, and returns the
// place behind them. Who works on one message at a time needs to remember only one.
func (f ProcessorFunc) each(ctx context.Context, b *Batch, at int) (next int) {
	var m *Message
	var before snapshot
	own := ownerOf(b.arena)
	defer func() {
		if r := recover(); r != nil {
			if b.restores {
				before.restore(m)
			}
			m.Fail(panicked(r))
			next = at + 1
		}
	}()
	for ; at < b.Len(); at++ {
		if m = b.nth(at); m.state != live {
			continue
		}
		if own != nil && m.charge > len(m.orig)+slack {
			m.regain(own)
		}
		if b.restores || own != nil {
			before = snapshotOf(m)
		}
		spent := b.arena.Spent()
		if err := f(ctx, m); err != nil {
			m.Fail(err)
		}
		if spent = b.arena.Spent() - spent; spent > slack && own != nil && m.state == live {
			if err := own.settle(m, spent); err != nil {
				m.Fail(err)
			}
		}
		if m.state != live && (b.restores || m.state == failed && lacks(m.err) > 0) {
			before.ends(m)
		}
	}
	return at
}

// ends is told that a message has failed, waits or has ended.
func (s *snapshot) ends(m *Message) {
	switch m.state {
	case failed:
		s.restore(m)
	case parked:
		m.parked.before = s.kept(m)
	}
}

// kept makes a snapshot hold for good; m goes on as it is.
func (s snapshot) kept(m *Message) *original {
	now := m.Bytes()
	m.doc.Restore(s.doc)
	o := &original{m.Bytes(), s.meta}
	m.doc.Reset(now, nil)
	return o
}

// original is a message as a step found it, apart from any arena.
type original struct {
	body []byte
	meta Meta
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
		case o.group != nil:
			x.own.gather(b, sel, o)
			continue
		case len(sel) == 0:
			continue
		case o.run == nil:
			x.jump(b, sel, o)
			continue
		}
		b.sel = sel
		x.call(ctx, b, o)
		b.sel = nil
		if x.conclude(b, sel, o) {
			x.own.hold(b, x.stage)
		}
		if b.order != nil {
			b.reorder()
		}
		for _, m := range b.merges {
			m.pc = o.next
			x.own.merge(m)
			b.msgs = append(b.msgs, *m)
		}
		b.merges = nil
		if len(b.splits) > 0 {
			b = x.own.split(ctx, x, b, pc)
		}
	}
	return b
}

// pick selects the messages whose place is pc and for which the condition
// holds; those that skip the step go on behind it.
func (x *executor) pick(b *Batch, pc int32, o *op) []int32 {
	sel := x.sel[:0]
	for i := range b.msgs {
		m := &b.msgs[i]
		if m.pc != pc || m.state != live {
			continue
		}
		if o.when != nil {
			holds, err := o.when.Test(m)
			if err != nil {
				m.stage = x.stage
				o.failed(m, err)
				continue
			}
			if !holds {
				m.pc = o.next
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
		m := &b.msgs[i]
		switch {
		case o.forget:
			m.err = nil
		case o.enters:
			m.enter(o)
		case o.leaves:
			m.leave(&x.prog.ops[o.block])
		}
		m.pc = o.next
		for _, c := range o.cases {
			holds, err := true, error(nil)
			if c.when != nil {
				holds, err = c.when.Test(m)
			}
			if err != nil {
				m.stage = x.stage
				m.Fail(err)
				stepError(m.err, o)
				m.rescue(o.in)
				break
			}
			if holds {
				m.pc = c.to
				break
			}
		}
	}
}

// call runs the step; an error, and a panic, fail what is still live.
func (x *executor) call(ctx context.Context, b *Batch, o *op) {
	if restores := o.retry != nil || o.onError == continues || o.onError == repairs; restores {
		if _, alone := o.run.(ProcessorFunc); alone {
			b.restores = true
			defer func() { b.restores = false }()
		} else {
			for _, i := range b.sel {
				x.before = append(x.before, snapshotOf(&b.msgs[i]))
			}
		}
	}
	spent := b.arena.Spent()
	began := x.clock.start(o)
	within := &deadline{parent: ctx, at: began.Add(o.timeout)}
	defer within.end()
	if a := b.arena; a != nil {
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
		if _, alone := o.run.(ProcessorFunc); !alone && b.arena.Spent()-spent > slack {
			x.room.account(b)
		}
	}
	o.figures.called(len(b.sel), time.Since(began))
}

func process(ctx context.Context, p Processor, b *Batch) (err error) {
	defer recovered(&err)
	return p.Process(ctx, b)
}

// recovered, deferred around a plugin's call, makes an error of its panic.
func recovered(err *error) {
	if r := recover(); r != nil {
		*err = panicked(r)
	}
}

func panicked(r any) *Error {
	return &Error{Class: Panicked, Err: fmt.Errorf("panic: %v\n%s", r, debug.Stack())}
}

// conclude moves on what the step has dealt with, and says whether any of it has
// failed or waits.
func (x *executor) conclude(b *Batch, sel []int32, o *op) (troubled bool) {
	for n, i := range sel {
		m := &b.msgs[i]
		switch m.state {
		case live:
			m.pc, m.trial = o.next, m.trial.over()
		case parked:
			m.pc, m.stage, m.parked.step = o.next, x.stage, o
			if len(x.before) > 0 {
				m.parked.before = x.before[n].kept(m)
			}
		case consumed:
			m.stage = x.stage
		case failed:
			if len(x.before) > 0 {
				x.before[n].restore(m)
			}
			m.stage = x.stage
			if n := lacks(m.err); n > 0 && x.room != nil {
				x.waitsForRoom(m, o, n)
			} else {
				o.failed(m, m.err)
			}
		}
		troubled = troubled || m.state == failed || m.state == waits || m.state == parked
	}
	clear(x.before)
	x.before = x.before[:0]
	return troubled
}

// failed does what is to be done about a message that the step failed, and that
// is as the step found it: it is tried again, or treated as on_error says.
func (o *op) failed(m *Message, err error) {
	m.Fail(err)
	stepError(m.err, o)
	if lacks(err) > 0 { // the step outside, with all that is inside, is tried again
		return
	}
	o.figures.failed()
	if o.retry != nil && o.retry.again(m, time.Now(), o) {
		m.state, m.pc, m.trial.cause = waits, o.at, o
		return
	}
	m.trial = m.trial.over()
	switch o.onError {
	case continues:
		m.state, m.err, m.pc = live, nil, o.next
	case drops:
		m.state = discarded
	case repairs:
		m.state, m.pc = live, o.repair
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
	splits := b.splits
	slices.SortFunc(splits, func(x, y pendingSplit) int { return cmp.Compare(x.i, y.i) })
	for i := range b.msgs {
		m := &b.msgs[i]
		if len(splits) == 0 || splits[0].i != i {
			if m.state != consumed && m.state != moved {
				cur = room(cur, false)
				cur.take(m)
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
			p := cur.append(body)
			p.Key, p.Ref, p.Meta, p.root, p.batch, p.batchKey, p.via = m.Key, m.Ref, m.Meta, m.root, m.batch, m.batchKey, m.via.bare()
			p.Attempt, p.dead, p.stage, p.owns, p.back, p.groups = m.Attempt, m.dead, m.stage, m.owns, m.back, m.groups
			if p.dead {
				p.err = m.err
			}
			p.orig, p.part, p.pc, p.of = body, int32(n), o.next, m.heirs()
			p.block = m.block.as(isPart, p)
			part(m, p)
			return true
		})
		switch {
		case errors.Is(err, errRunOver):
			return newSlab(0) // cur has been carried
		case err != nil:
			o.unsplit(m, n, err)
		case n == 0:
			m.state = dropped
		default:
			done(m, n)
			continue
		}
		cur = room(cur, false)
		cur.take(m)
	}
	b.splits = b.splits[:0]
	return cur
}

// unsplit fails what is left of m after n parts. What the parts already carry
// can't go on again as a whole.
func (o *op) unsplit(m *Message, n int, err error) {
	step := o
	if n > 0 {
		step, m.block = o.onlyEnds(), m.block.as(isSpent, m)
	}
	step.failed(m, WithClass(classified(err, Decode).Class, fmt.Errorf("part %d: %w", n+1, err)))
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
