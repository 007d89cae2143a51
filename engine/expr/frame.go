package expr

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/flowd-io/flowd/engine/doc"
	"github.com/flowd-io/flowd/engine/expr/internal/value"
	"github.com/flowd-io/flowd/schema"
)

// Source is what an expression reads: a message, or a substitute for one.
type Source interface {
	// Document is the document whose fields identifiers name.
	Document() *doc.Doc
}

// frame is one evaluation in progress. Frames are pooled: an evaluation allocates neither its arguments nor its
// variables.
type frame struct {
	src    Source
	limits *Limits
	steps  int   // left of the present stretch
	later  int   // left behind it
	memory int   // left, in bytes
	args   []any // of the current calls, as a stack
	vars   []any // values of variables
	slots  []slotValue
	text   doc.Text // written by an Encode

	elements []element // that loops are at
	foreign  bool      // values may have what a document can't contain in them
}

var frames = sync.Pool{New: func() any { return new(frame) }}

func newFrame(src Source, limits *Limits) *frame {
	f := frames.Get().(*frame)
	f.begin(src, limits)
	return f
}

// begin gives the frame a whole budget.
func (f *frame) begin(src Source, limits *Limits) {
	f.src, f.limits = src, limits
	f.memory, f.later = limits.memory(), limits.steps()
	f.steps = min(f.later, stretch)
	f.later -= f.steps
}

// declare makes room for the variables and the elements of a program.
func (f *frame) declare(p *program) {
	f.foreign = p.foreign
	for len(f.vars) < p.slots {
		f.vars = append(f.vars, nil)
	}
	for len(f.elements) < p.elements {
		f.elements = append(f.elements, element{})
	}
}

// reset makes the frame ready for another program with what is left of the budget.
func (f *frame) reset() {
	clear(f.args[:cap(f.args)])
	f.args = f.args[:0]
	clear(f.vars)
	for i := range f.elements {
		e := &f.elements[i]
		clear(e.path[:cap(e.path)])
		*e = element{path: e.path[:0]}
	}
	clear(f.slots)
	f.slots = f.slots[:0]
}

// release returns the frame.
func (f *frame) release() {
	f.reset()
	if f.src = nil; cap(f.text) > maxKept {
		f.text = nil
	}
	frames.Put(f)
}

// get is the value at a path of the document. Decoding a large one is charged.
func (f *frame) get(offset int, p doc.Path) any {
	d := f.src.Document()
	raw, ok, err := d.Raw(p)
	if err == nil && !ok {
		return nil
	}
	f.step(offset, len(raw)>>7)
	if err == nil {
		v, left, err := doc.DecodeWithin(raw, f.memory)
		if err == nil {
			f.memory = left
			return v
		}
		if errors.Is(err, doc.ErrLarge) {
			f.tooMuch(offset)
		}
	}
	_, err = d.Get(p) // whose error names the path
	_, broken := errors.AsType[*doc.SyntaxError](err)
	panic(&failure{err: err, offset: offset, final: broken})
}

// once is get for a path that a loop reads: it is decoded once per evaluation.
func (f *frame) once(offset int, p doc.Path, slot int) any {
	for len(f.slots) <= slot {
		f.slots = append(f.slots, slotValue{})
	}
	if s := f.slots[slot]; s.read {
		return s.value
	}
	v := f.get(offset, p)
	f.slots[slot] = slotValue{v, true}
	return v
}

// slotValue is what a loop has read from the document.
type slotValue struct {
	value any
	read  bool
}

// step charges work.
func (f *frame) step(offset, n int) {
	if f.steps -= n; f.steps < 0 {
		f.goOn(offset)
	}
}

// goOn begins another stretch of steps, unless the budget or the call is at its end.
func (f *frame) goOn(offset int) {
	if f.later += f.steps; f.later < 0 {
		end(offset, "give it less to process, or raise engine.limits.expression.steps",
			"the expression takes more than %d steps%s", f.limits.steps(), f.where())
	}
	f.steps = min(f.later, stretch)
	f.later -= f.steps
	if src, ok := f.src.(Interrupted); ok {
		if err := src.Interrupted(); err != nil {
			f := &failure{final: true, err: err, offset: offset, msg: "the evaluation was interrupted: " + err.Error()}
			if errors.Is(err, context.DeadlineExceeded) {
				f.msg, f.remedy = "the evaluation took longer than the timeout",
					"give it less to process, or raise `timeout`"
			}
			panic(f)
		}
	}
}

// alloc charges memory, in bytes.
func (f *frame) alloc(offset, n int) {
	if f.memory -= n; f.memory < 0 {
		f.tooMuch(offset)
	}
}

// room ends the evaluation before something is made that takes n bytes and cannot be
// paid: it is charged once it is made.
func (f *frame) room(offset, n int) {
	if n > f.memory {
		f.tooMuch(offset)
	}
}

// memoryLeft is how many bytes the evaluation may still allocate.
func (f *frame) memoryLeft() int { return f.memory }

// stepLimit is how many steps the whole evaluation may take.
func (f *frame) stepLimit() int { return f.limits.steps() }

// source is what the expression is evaluated on.
func (f *frame) source() Source { return f.src }

func (f *frame) tooMuch(offset int) {
	end(offset, "make it produce less, or raise engine.limits.expression.memory",
		"the expression takes more than %s of memory%s", schema.Size(f.limits.memory()), f.where())
}

// where distinguishes a message from the constants of an expression, which have none.
func (f *frame) where() string {
	if f.src == nil {
		return ""
	}
	return " on this message"
}

// weigh charges for a value that an operation goes through: its time grows with it.
func (f *frame) weigh(offset int, v any) { f.walk(offset, v, 0, 0) }

// encode charges for a value as text, before it is one.
func (f *frame) encode(offset int, v any) { f.walk(offset, v, len(`0,`), 0) }

// walk charges a step for each value within v and for its text, and memory: so much
// for each value, and texts by their length, unless that is 0. What is shared
// counts each time, and the walk itself ends with the budget.
func (f *frame) walk(offset int, v any, size, depth int) {
	if depth > value.MaxDepth {
		return // whatever goes through values goes no deeper either
	}
	switch v := v.(type) {
	case string:
		f.bytes(offset, len(v), size)
	case doc.Number:
		f.bytes(offset, len(v), size)
	case []byte:
		f.bytes(offset, len(v), size)
	case []any:
		f.step(offset, 1+len(v))
		f.alloc(offset, size*len(v))
		for _, e := range v {
			f.walk(offset, e, size, depth+1)
		}
	case map[string]any:
		f.step(offset, 1+len(v))
		f.alloc(offset, size*len(v))
		for k, e := range v {
			f.bytes(offset, len(k), size)
			f.walk(offset, e, size, depth+1)
		}
	}
}

// bytes charges for n bytes of text that are gone through, and copied unless size is 0.
func (f *frame) bytes(offset, n, size int) {
	if size == 0 {
		f.step(offset, n>>7)
		return
	}
	f.step(offset, n>>6)
	f.alloc(offset, n)
}

// characters charges for n bytes of text that are gone through character by character.
func (f *frame) characters(offset, n int) { f.step(offset, n>>5) }

// made charges for a value that was just made, by its own size alone: what it
// is made of was charged before.
func (f *frame) made(offset int, v any) {
	switch v := v.(type) {
	case string:
		f.step(offset, len(v)>>10)
		f.alloc(offset, len(v))
	case []byte:
		f.step(offset, len(v)>>10)
		f.alloc(offset, len(v))
	case []any:
		f.madeList(offset, len(v))
	case map[string]any:
		f.madeObject(offset, len(v))
	}
}

func (f *frame) madeList(offset, n int) {
	f.step(offset, n>>2)
	f.alloc(offset, n*elementSize)
}

func (f *frame) madeObject(offset, n int) {
	f.step(offset, n)
	f.alloc(offset, doc.ObjectSize+n*(doc.KeySize+elementSize))
}

// now is the clock of expressions; testing/synctest makes it virtual.
func now() time.Time { return time.Now() }
