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

// Program is a list of steps made flat: a message's place in it is one integer,
// which only grows. Conditions, cases, named lists and repairs are jumps.
type Program struct {
	Ops      []Op
	Together int // messages that a run should have at least; see Traits
	Secrets  *schema.Secrets
}

// Op is one instruction. After it a message continues at next.
type Op struct {
	Run     engine.Processor // nil: a jump
	Name    string
	When    *expr.Cond // else the message skips to next
	Cases   []Branch   // of a switch: the first that holds says where to go
	Next    int32
	Timeout time.Duration
	OnError onError
	Repair  int32       // with repairs: where the repairing steps begin
	Forget  bool        // the end of a repair: the error is dealt with
	Enters  bool        // a block begins whose failures are dealt with as a whole; see frame
	Leaves  bool        // such a block ends, the one that begins at block
	Block   int32       // see leaves
	At      int32       // its own index
	In      *Program    // that it is an instruction of
	Retry   *retry.Plan // nil: nothing is tried again here
	Figures *stepFigures
	Group   int8 // that takes the messages: its index, from 1; 0: none
	Scoped  bool // what steps inside it have staked is taken back when it fails
}

// Branch is a case of a switch.
type Branch struct {
	When *expr.Cond // nil: always
	To   int32
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
	// before holds messages as a step found them, in the order of sel, where a
	// failure may have to restore them.
	before []inside.Mark[engine.Meta]
	Clock  guard.Clock[Op] // of the current call
	Room   *Room           // for what steps add; nil: those of another step know

	Wrap    []engine.Middleware // around every run
	wrapped engine.Processor    // this program in them
	out     *engine.Batch       // the results of the current run
}

// Owner is who keeps account of the messages that an executor runs.
type Owner interface {
	// Split replaces what the step at pc has split in b and returns the batch to continue
	// with after it.
	Split(ctx context.Context, x *Executor, b *engine.Batch, pc int32) *engine.Batch
	// Merge is told of a merge; its parts are in m.of.
	Merge(m *engine.Message)
	// Hold is told that messages of b have failed or wait.
	Hold(b *engine.Batch, at inside.Stage)
	// Gather takes the messages sel of b, which have come to a group.
	Gather(b *engine.Batch, sel []int32, o *Op)
}

// Run is exec from the beginning, within the pipeline's middleware.
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

// core is what middleware wraps.
type core struct{ x *Executor }

// Process runs the program.
func (c core) Process(ctx context.Context, b *engine.Batch) error {
	c.x.out = c.x.Exec(ctx, b, 0)
	return nil
}

// Exec runs b from an instruction to the end and returns the result: b, or another batch if
// steps have split messages.
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
		slab(b).Sel = sel
		x.call(ctx, b, o)
		slab(b).Sel = nil
		if x.conclude(b, sel, o) {
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

// pick selects the messages whose place is pc and for which the condition is true; those
// that skip the step continue after it.
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
				o.Failed(m, err)
				continue
			}
			if !holds {
				msg(m).PC = o.Next
				continue
			}
		}
		sel = append(sel, int32(i))
	}
	x.sel = sel
	return sel
}

// jump sends messages to where their case says, or to the end of a block or a repair.
func (x *Executor) jump(b *engine.Batch, sel []int32, o *Op) {
	for _, i := range sel {
		m := &slab(b).Msgs[i]
		switch {
		case o.Forget:
			msg(m).Err = nil
		case o.Enters:
			Enter(m, o)
		case o.Leaves:
			leave(m, &x.Prog.Ops[o.Block])
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
				stepError(msg(m).Err, o)
				Rescue(m, o.In)
				break
			}
			if holds {
				msg(m).PC = c.To
				break
			}
		}
	}
}

// call runs the step; an error, and a panic, fail what is still live.
func (x *Executor) call(ctx context.Context, b *engine.Batch, o *Op) {
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
	began := x.Clock.Start(o)
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
			x.Room.account(b)
		}
	}
	o.Figures.Called(len(slab(b).Sel), time.Since(began))
}

func process(ctx context.Context, p engine.Processor, b *engine.Batch) (err error) {
	defer engine.Recovered(&err)
	return p.Process(ctx, b)
}

// conclude moves on what the step has dealt with, and says whether any of it has
// failed or waits.
func (x *Executor) conclude(b *engine.Batch, sel []int32, o *Op) (troubled bool) {
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
			msg(m).Stage = x.Stage
			reached, waits = reached || !msg(m).Err.Holds, waits || msg(m).Err.Holds
			if n := inside.Lacks(msg(m).Err); n > 0 && x.Room != nil {
				x.waitsForRoom(m, o, n)
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

// Failed does what is to be done about a message that the step failed, and that
// is as the step found it: it is tried again, or treated as on_error says.
func (o *Op) Failed(m *engine.Message, err error) {
	m.Fail(err)
	stepError(msg(m).Err, o)
	if inside.Lacks(err) > 0 { // the step outside, with all that is inside, is tried again
		return
	}
	o.Figures.failed()
	free := msg(m).Err.Holds && o.OnError == fails && !BlockOf(m).rescues()
	if o.Retry != nil && o.Retry.Again(m, time.Now(), free, false) {
		if free {
			o.Figures.outage.waits(msg(m).Err)
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

// Pull moves the messages of b to batches of the owner's, parts in the place of
// what the step o has split, and returns the last of them. room gives the batch
// for the next part (it may run and carry the present one; nil: the run is over,
// and what is left is handed back), part is told of each part, and done when all
// parts of m are made.
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
		err := each(s.Parts, func(body []byte) bool {
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
			return flow.NewSlab(0) // cur has been carried
		case err != nil:
			o.unsplit(m, n, err)
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

// unsplit fails what is left of m after n parts. What the parts already carry can't
// continue again as a whole.
func (o *Op) unsplit(m *engine.Message, n int, err error) {
	step := o
	if n > 0 {
		step = o.onlyEnds()
		inBlocks(m, isSpent)
	}
	step.Failed(m, engine.WithClass(engine.ErrorOf(err, engine.Decode).Class, fmt.Errorf("part %d: %w", n+1, err)))
}

var errRunOver = errors.New("the run is over")

func each(parts iter.Seq2[[]byte, error], f func(body []byte) bool) (err error) {
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

// Original is a message as something found it.
type Original struct {
	body []byte
	meta engine.Meta
	vars engine.Vars
}

// OriginalOf is a message as it is.
func OriginalOf(m *engine.Message) *Original { return &Original{m.Bytes(), m.Meta, m.Vars()} }

// Restore makes m what it was.
func (o *Original) Restore(m *engine.Message) {
	m.SetBytes(o.body)
	m.Meta = o.meta
	m.SetVars(o.vars)
}

// stepError adds to an error what the engine knows of it.
func stepError(e *engine.Error, o *Op) {
	if e.Step == "" {
		e.Step = o.Name
	}
	if o.In != nil {
		e.Mask(o.In.Secrets)
	}
	Complete(e, engine.Permanent)
}

// Complete fills in what an error does not say: its class, attempt and time.
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

// FailAt fails m at a place that is not a step of a program.
func FailAt(m *engine.Message, step string, err error) {
	m.Fail(err)
	stepError(msg(m).Err, &Op{Name: step})
}
