package steps

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/expr"
	"github.com/flowd-io/flowd/engine/internal/flow"
	"github.com/flowd-io/flowd/engine/internal/guard"
	"github.com/flowd-io/flowd/engine/internal/inside"
	"github.com/flowd-io/flowd/engine/internal/order"
	"github.com/flowd-io/flowd/engine/internal/retry"
	"github.com/flowd-io/flowd/schema"
)

// Program is a list of steps as a flat sequence of instructions. The place of a message in it is one index, which only
// grows. Conditions, cases, named lists and repairs are jumps.
type Program struct {
	Ops      []Op
	Together int // how many messages a run should have at least; see engine.Traits
	Secrets  *schema.Secrets
}

// Op is one instruction.
type Op struct {
	Run     engine.Processor // nil: a jump
	Name    string
	When    *expr.Cond // a message for which this is false continues at Next; nil: always true
	Cases   []Branch   // of a switch: a message goes to the first that holds, else to Next
	Next    int32      // the instruction after this one
	Timeout time.Duration
	OnError onError
	Repair  int32       // if OnError is Repairs: where the repairing steps begin
	Forget  bool        // ends a repair: the error is removed from the message
	Enters  bool        // begins a block whose failures are handled as a whole; see frame
	Leaves  bool        // ends the block that begins at Block
	Block   int32       // see Leaves
	At      int32       // its own index
	In      *Program    // the program that it is in
	Retry   *retry.Plan // nil: failed messages are not tried again
	Figures *stepFigures
	Group   int8         // the group that takes the messages: its index, from 1; 0: none
	Scoped  bool         // stakes of steps inside it are taken back when it fails
	Spot    *engine.Spot // nil: nobody can observe it
}

// Branch is a case of a switch.
type Branch struct {
	When *expr.Cond // nil: always
	To   int32
	Spot *engine.Spot
}

type onError uint8

const (
	fails onError = iota
	Continues
	Drops
	Repairs
)

// Executor runs a program over batches, one at a time.
type Executor struct {
	Prog  *Program
	Own   Owner
	Stage inside.Stage // of messages that continue in this program
	sel   []int32
	// before has the messages of sel as the step found them, if a failure may have to restore them.
	before []inside.Mark[engine.Meta]
	Clock  guard.Clock[Op] // of the current call
	Sight  Sight
	Room   *Room // charges what steps add; nil: the executor of the step outside does

	Wrap    []engine.Middleware // around every run; the first is the outermost
	wrapped engine.Processor    // the program within Wrap
	out     *engine.Batch       // the results of the current run
}

// Owner keeps account of the messages that an executor runs. The executor calls it from its own goroutine.
type Owner interface {
	// Split replaces messages of b that the step at pc has split by their parts, and returns the batch with which the
	// executor continues.
	Split(ctx context.Context, x *Executor, b *engine.Batch, pc int32) *engine.Batch
	// Merge is called with each merge that a step has made; its parts are in Of.
	Merge(m *engine.Message)
	// Hold is called after a step when messages of b have failed, wait or are parked.
	Hold(b *engine.Batch, at inside.Stage)
	// Gather takes the messages sel of b, which have reached the group of o.
	Gather(b *engine.Batch, sel []int32, o *Op)
}

// Run runs the program over b within the middleware, and returns the result as Exec does.
func (x *Executor) Run(ctx context.Context, b *engine.Batch) *engine.Batch {
	if len(x.Wrap) == 0 || len(x.Prog.Ops) == 0 {
		return x.Exec(ctx, b, 0)
	}
	if x.wrapped == nil {
		x.wrapped = core{x}
		for _, m := range slices.Backward(x.Wrap) {
			x.wrapped = m(x.wrapped)
		}
	}
	x.out = b
	if err := process(ctx, x.wrapped, b); err != nil {
		for m := range x.out.All() {
			FailAt(m, "middleware", err)
		}
	}
	return x.out
}

// core is the processor that middleware wraps.
type core struct{ x *Executor }

// Process runs the program.
func (c core) Process(ctx context.Context, b *engine.Batch) error {
	c.x.out = c.x.Exec(ctx, b, 0)
	return nil
}

// Exec runs the program over b from an instruction on and returns the result: b, or another batch if steps have split
// messages.
func (x *Executor) Exec(ctx context.Context, b *engine.Batch, from int32) *engine.Batch {
	for pc := from; int(pc) < len(x.Prog.Ops); pc++ {
		o := &x.Prog.Ops[pc]
		sel := x.pick(b, pc, o)
		switch {
		case o.Group > 0:
			x.Own.Gather(b, sel, o)
			continue
		case len(sel) == 0:
			continue
		case o.Run == nil:
			x.jump(b, sel, o)
			continue
		}
		within, observed := x.Sight.Begin(ctx, o.Spot, b, sel)
		slab(b).Sel = sel
		began := x.call(within, b, o)
		slab(b).Sel = nil
		if observed {
			x.Sight.Passed(o.Spot, b, sel, engine.PassedOn)
		}
		x.Sight.Stepped(o.Name, b, sel, began)
		if x.conclude(b, sel, o, began) {
			x.Own.Hold(b, x.Stage)
		}
		if slab(b).Order != nil {
			slab(b).Reorder()
		}
		for _, m := range slab(b).Merges {
			msg(m).PC = o.Next
			inBlocks(m, IsMerged)
			x.Own.Merge(m)
			slab(b).Msgs = append(slab(b).Msgs, *m)
		}
		slab(b).Merges = nil
		if len(slab(b).Splits) > 0 {
			b = x.Own.Split(ctx, x, b, pc)
		}
	}
	return b
}

// pick selects the live messages at pc for which the condition is true. It moves the others behind the instruction.
func (x *Executor) pick(b *engine.Batch, pc int32, o *Op) []int32 {
	sel := x.sel[:0]
	for i := range slab(b).Msgs {
		m := &slab(b).Msgs[i]
		if msg(m).PC != pc || msg(m).State != inside.Live {
			continue
		}
		if o.When != nil {
			holds, err := o.When.Test(m)
			if err != nil {
				msg(m).Stage = x.Stage
				m.Fail(err)
				x.Sight.One(o.Spot, b, m, engine.FailedThere, time.Time{})
				o.Failed(m, err)
				continue
			}
			if !holds {
				x.Sight.One(o.Spot, b, m, engine.SkippedStep, time.Time{})
				msg(m).PC = o.Next
				continue
			}
		}
		sel = append(sel, int32(i))
	}
	x.sel = sel
	return sel
}

// jump carries out an instruction without a step: it enters or leaves a block, ends a repair, or selects a case.
func (x *Executor) jump(b *engine.Batch, sel []int32, o *Op) {
	for _, i := range sel {
		m := &slab(b).Msgs[i]
		switch {
		case o.Forget:
			msg(m).Err = nil
		case o.Enters:
			Enter(m, o)
		case o.Leaves:
			leaveBlock(m, &x.Prog.Ops[o.Block])
			x.Prog.Ops[o.Block].Figures.Reached()
		}
		msg(m).PC = o.Next
		for _, c := range o.Cases {
			holds, err := true, error(nil)
			if c.When != nil {
				holds, err = c.When.Test(m)
			}
			if err != nil {
				msg(m).Stage = x.Stage
				m.Fail(err)
				x.Sight.One(o.Spot, b, m, engine.FailedThere, time.Time{})
				stepError(msg(m).Err, o)
				Rescue(m, o.In)
				break
			}
			if holds {
				x.Sight.One(c.Spot, b, m, engine.PassedOn, time.Time{})
				msg(m).PC = c.To
				break
			}
		}
	}
}

// call runs the step, and returns when it began. Its error or panic fails the messages that are still live.
func (x *Executor) call(ctx context.Context, b *engine.Batch, o *Op) (began time.Time) {
	if restores := o.Retry != nil || o.OnError == Continues || o.OnError == Repairs; restores {
		if _, alone := o.Run.(engine.ProcessorFunc); alone {
			slab(b).Restores = true
			defer func() { slab(b).Restores = false }()
		} else {
			for _, i := range slab(b).Sel {
				x.before = append(x.before, markOf(&slab(b).Msgs[i]))
			}
		}
	}
	if o.Scoped {
		for _, i := range slab(b).Sel {
			msg(&slab(b).Msgs[i]).Enter()
		}
	}
	spent := slab(b).Arena.Spent()
	began = x.Clock.Start(o)
	within := &guard.Deadline{Parent: ctx, At: began.Add(o.Timeout)}
	defer within.End()
	if a := slab(b).Arena; a != nil {
		outer := a.Call
		a.Call = within
		defer func() { a.Call = outer }()
	}
	err := process(within, o.Run, b)
	x.Clock.Stop()
	if err != nil {
		for m := range b.All() {
			m.Fail(err)
		}
	}
	if x.Room != nil {
		x.Room.leaveInside()
		if _, alone := o.Run.(engine.ProcessorFunc); !alone && slab(b).Arena.Spent()-spent > inside.Slack {
			x.Room.overdraw(b)
		}
	}
	o.Figures.Called(len(slab(b).Sel), time.Since(began))
	return began
}

func process(ctx context.Context, p engine.Processor, b *engine.Batch) (err error) {
	defer engine.Recovered(&err)
	return p.Process(ctx, b)
}

// conclude moves the messages of a step on, or handles their failures, after a call that began at a time. It says whether some
// have failed, wait or are parked.
func (x *Executor) conclude(b *engine.Batch, sel []int32, o *Op, began time.Time) (troubled bool) {
	reached, waits := false, false
	for n, i := range sel {
		m := &slab(b).Msgs[i]
		if o.Scoped {
			msg(m).Leave(msg(m).State == inside.Failed)
		}
		switch msg(m).State {
		case inside.Live:
			reached = true
			if msg(m).PC = o.Next; msg(m).Rare != nil {
				retry.SetTrial(m, retry.TrialOf(m).Over())
			}
		case inside.Parked:
			msg(m).PC, msg(m).Stage, msg(m).Parking.Step = o.Next, x.Stage, o
			if len(x.before) > 0 {
				msg(m).Parking.Before = x.before[n].Kept(&msg(m).Doc)
			}
		case inside.Consumed:
			reached = true
			msg(m).Stage = x.Stage
		case inside.Failed:
			if len(x.before) > 0 {
				x.before[n].Restore(&msg(m).Doc, &m.Meta)
			}
			x.Sight.Failed(o.Spot, m, began)
			msg(m).Stage = x.Stage
			reached, waits = reached || !msg(m).Err.Holds, waits || msg(m).Err.Holds
			if n := inside.Lacks(msg(m).Err); n > 0 && x.Room != nil {
				x.waitForRoom(m, o, n)
			} else {
				o.Failed(m, msg(m).Err)
			}
		}
		troubled = troubled || msg(m).State == inside.Failed || msg(m).State == inside.Waits ||
			msg(m).State == inside.Parked
	}
	if reached && !waits {
		o.Figures.Reached()
	}
	clear(x.before)
	x.before = x.before[:0]
	return troubled
}

// Failed handles a message that the step has failed: it is tried again, or treated as on_error says. If either may be
// the case, the caller has restored m as the step found it.
func (o *Op) Failed(m *engine.Message, err error) {
	m.Fail(err)
	stepError(msg(m).Err, o)
	if inside.Lacks(err) > 0 { // of an inner step: the step around it is tried again as a whole
		return
	}
	o.Figures.failed()
	free := msg(m).Err.Holds && o.OnError == fails && !BlockOf(m).hasOnError()
	if o.Retry != nil && o.Retry.Again(m, time.Now(), free, false) {
		if free {
			o.Figures.outage.noteUnreached(msg(m).Err)
		}
		msg(m).State, msg(m).PC, retry.TrialOf(m).Cause = inside.Waits, o.At, o
		return
	}
	retry.SetTrial(m, retry.TrialOf(m).Over())
	switch o.OnError {
	case Continues:
		msg(m).State, msg(m).Err, msg(m).PC = inside.Live, nil, o.Next
	case Drops:
		msg(m).State = inside.Discarded
	case Repairs:
		msg(m).State, msg(m).PC = inside.Live, o.Repair
	default:
		Rescue(m, o.In)
	}
}

// Pull moves the messages of b to batches of the owner, with parts in the place of messages that the step o has split. It
// returns the last batch.
//
//   - room returns the batch for the next message: cur, or another one after it has passed cur on. nil means that the run
//     is over and the rest of b has been handed back.
//   - part is called with each new part.
//   - done is called when all parts of m have been made.
func Pull(b *engine.Batch, cur *engine.Batch, o *Op, room func(cur *engine.Batch, part bool) *engine.Batch,
	part func(of, p *engine.Message), done func(m *engine.Message, parts int)) *engine.Batch {
	splits := slab(b).SortedSplits()
	for i := range slab(b).Msgs {
		m := &slab(b).Msgs[i]
		if len(splits) == 0 || splits[0].I != i {
			if msg(m).State != inside.Consumed && msg(m).State != inside.Moved {
				cur = room(cur, false)
				slab(cur).Take(m)
			}
			continue
		}
		n, s := 0, splits[0]
		splits = splits[1:]
		err := eachPart(s.Parts, func(body []byte) bool {
			next := room(cur, true)
			if next == nil {
				return false
			}
			cur = next
			n++
			p := slab(cur).Append(body)
			p.Key, p.Ref, p.Meta, p.Attempt = m.Key, m.Ref, m.Meta, m.Attempt
			msg(p).SetPart(m, n)
			msg(p).Orig, msg(p).PC = body, o.Next
			order.SetClaim(p, order.ClaimOf(m))
			inBlocks(p, isPart)
			part(m, p)
			return true
		})
		switch {
		case errors.Is(err, errRunOver):
			return flow.NewSlab(0) // room has passed cur on
		case err != nil:
			o.failSplit(m, n, err)
		case n == 0:
			msg(m).State = inside.Dropped
		default:
			done(m, n)
			continue
		}
		cur = room(cur, false)
		slab(cur).Take(m)
	}
	slab(b).Splits = slab(b).Splits[:0]
	return cur
}

// failSplit fails the rest of m, whose split broke off after n parts. If there are parts, which continue, m itself can't
// continue as well.
func (o *Op) failSplit(m *engine.Message, n int, err error) {
	step := o
	if n > 0 {
		step = o.onlyEnds()
		inBlocks(m, isSpent)
	}
	step.Failed(m, engine.WithClass(engine.ErrorOf(err, engine.Decode).Class, fmt.Errorf("part %d: %w", n+1, err)))
}

var errRunOver = errors.New("the run is over")

// eachPart calls f for each part until it returns false. A panic is an error.
func eachPart(parts iter.Seq2[[]byte, error], f func(body []byte) bool) (err error) {
	defer engine.Recovered(&err)
	for body, err := range parts {
		if err != nil {
			return err
		}
		if !f(body) {
			return errRunOver
		}
	}
	return nil
}

func markOf(m *engine.Message) inside.Mark[engine.Meta] { return inside.MarkOf(&msg(m).Doc, m.Meta) }

// Original is a copy of a message's payload, metadata and vars.
type Original struct {
	body []byte
	meta engine.Meta
	vars engine.Vars
}

// OriginalOf copies a message as it is now.
func OriginalOf(m *engine.Message) *Original { return &Original{m.Bytes(), m.Meta, m.Vars()} }

// Restore sets m back to the copy.
func (o *Original) Restore(m *engine.Message) {
	m.SetBytes(o.body)
	m.Meta = o.meta
	m.SetVars(o.vars)
}

// stepError adds the name of the step, and what else the engine knows, to an error.
func stepError(e *engine.Error, o *Op) {
	if e.Step == "" {
		e.Step = o.Name
	}
	if o.In != nil {
		e.Mask(o.In.Secrets)
	}
	Complete(e, engine.Permanent)
}

// Complete fills in the class, attempt and time of an error if they are not set.
func Complete(e *engine.Error, fallback engine.Class) {
	if e.Class == "" {
		e.Class = fallback
	}
	if e.Attempt == 0 {
		e.Attempt = 1
	}
	if e.FirstFailed.IsZero() {
		e.FirstFailed = time.Now()
	}
}

// FailAt fails m at a place that is not a step of a program, such as "order_by".
func FailAt(m *engine.Message, step string, err error) {
	m.Fail(err)
	stepError(msg(m).Err, &Op{Name: step})
}
