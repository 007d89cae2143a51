package lang

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

// Frame is one evaluation in progress. Frames are pooled: an evaluation allocates neither its arguments nor its
// variables.
type Frame struct {
	src    Source
	limits *Limits
	steps  int         // left until the next look at the budget
	later  int         // left after that
	memory int         // left, in bytes
	args   []any       // of the current calls, as a stack
	vars   []any       // values of variables
	slots  []slotValue // what loops have read from the document
	text   doc.Text    // written by Program.Encode

	elements []element // the current element of each loop
	foreign  bool      // values may have bytes or time zones in them
}

var frames = sync.Pool{New: func() any { return new(Frame) }}

// NewFrame is a frame with a whole budget.
func NewFrame(src Source, limits *Limits) *Frame {
	f := frames.Get().(*Frame)
	f.begin(src, limits)
	return f
}

// begin gives the frame a whole budget.
func (f *Frame) begin(src Source, limits *Limits) {
	f.src, f.limits = src, limits
	f.memory, f.later = limits.memory(), limits.steps()
	f.steps = min(f.later, stretch)
	f.later -= f.steps
}

// declare makes room for the variables and the elements of a program.
func (f *Frame) declare(p *Program) {
	f.foreign = p.foreign
	for len(f.vars) < p.slots {
		f.vars = append(f.vars, nil)
	}
	for len(f.elements) < p.elements {
		f.elements = append(f.elements, element{})
	}
}

// reset makes the frame ready for another program with what is left of the budget.
func (f *Frame) reset() {
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

// release returns the frame to the pool.
func (f *Frame) release() {
	f.reset()
	if f.src = nil; cap(f.text) > maxKept {
		f.text = nil
	}
	frames.Put(f)
}

// readPath is the value at a path of the document. Decoding a large one is charged.
func (f *Frame) readPath(offset int, p doc.Path) any {
	d := f.src.Document()
	raw, ok, err := d.Raw(p)
	if err == nil && !ok {
		return nil
	}
	f.Step(offset, len(raw)>>7)
	if err == nil {
		v, left, err := doc.DecodeWithin(raw, f.memory)
		if err == nil {
			f.memory = left
			return v
		}
		if errors.Is(err, doc.ErrLarge) {
			f.FailMemory(offset)
		}
	}
	_, err = d.Get(p) // whose error names the path
	_, broken := errors.AsType[*doc.SyntaxError](err)
	panic(&failure{err: err, offset: offset, final: broken})
}

// readPathOnce is readPath for a path that a loop reads. It is decoded once per evaluation.
func (f *Frame) readPathOnce(offset int, p doc.Path, slot int) any {
	for len(f.slots) <= slot {
		f.slots = append(f.slots, slotValue{})
	}
	if s := f.slots[slot]; s.read {
		return s.value
	}
	v := f.readPath(offset, p)
	f.slots[slot] = slotValue{v, true}
	return v
}

// slotValue is what a loop has read from the document.
type slotValue struct {
	value any
	read  bool
}

// Step charges n steps of work.
func (f *Frame) Step(offset, n int) {
	if f.steps -= n; f.steps < 0 {
		f.nextStretch(offset)
	}
}

// nextStretch takes more steps from the budget, unless that is used up or the evaluation has to end early.
func (f *Frame) nextStretch(offset int) {
	if f.later += f.steps; f.later < 0 {
		failFinal(offset, "give it less to process, or raise engine.limits.expression.steps",
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

// Alloc charges n bytes of memory.
func (f *Frame) Alloc(offset, n int) {
	if f.memory -= n; f.memory < 0 {
		f.FailMemory(offset)
	}
}

// CheckRoom ends the evaluation if n bytes are more than it may still allocate. It charges nothing: whoever is about to make
// something large asks first, and charges for it when it is made.
func (f *Frame) CheckRoom(offset, n int) {
	if n > f.memory {
		f.FailMemory(offset)
	}
}

// MemoryLeft is how many bytes the evaluation may still allocate.
func (f *Frame) MemoryLeft() int { return f.memory }

// StepLimit is how many steps the whole evaluation may take.
func (f *Frame) StepLimit() int { return f.limits.steps() }

// Source is what the expression is evaluated on.
func (f *Frame) Source() Source { return f.src }

// FailMemory ends the evaluation because it takes too much memory.
func (f *Frame) FailMemory(offset int) {
	failFinal(offset, "make it produce less, or raise engine.limits.expression.memory",
		"the expression takes more than %s of memory%s", schema.Size(f.limits.memory()), f.where())
}

// where is an ending for errors: constants are evaluated without a message.
func (f *Frame) where() string {
	if f.src == nil {
		return ""
	}
	return " on this message"
}

// chargeWalk charges for going through a value with all that is in it.
func (f *Frame) chargeWalk(offset int, v any) { f.walk(offset, v, 0, 0) }

// ChargeText charges for turning a value into text. It is called before that happens.
func (f *Frame) ChargeText(offset int, v any) { f.walk(offset, v, len(`0,`), 0) }

// walk charges steps for each value within v and for its text. Unless size is 0, it also charges memory: size bytes for each
// value, and texts by their length. A value that occurs several times counts each time. The walk itself ends with the budget.
func (f *Frame) walk(offset int, v any, size, depth int) {
	if depth > value.MaxDepth {
		return // operations do not go deeper either
	}
	switch v := v.(type) {
	case string:
		f.ChargeBytes(offset, len(v), size)
	case doc.Number:
		f.ChargeBytes(offset, len(v), size)
	case []byte:
		f.ChargeBytes(offset, len(v), size)
	case []any:
		f.Step(offset, 1+len(v))
		f.Alloc(offset, size*len(v))
		for _, e := range v {
			f.walk(offset, e, size, depth+1)
		}
	case map[string]any:
		f.Step(offset, 1+len(v))
		f.Alloc(offset, size*len(v))
		for k, e := range v {
			f.ChargeBytes(offset, len(k), size)
			f.walk(offset, e, size, depth+1)
		}
	}
}

// ChargeBytes charges for reading n bytes of text and, unless size is 0, for a copy.
func (f *Frame) ChargeBytes(offset, n, size int) {
	if size == 0 {
		f.Step(offset, n>>7)
		return
	}
	f.Step(offset, n>>6)
	f.Alloc(offset, n)
}

// chargeCharacters charges for reading n bytes of text character by character.
func (f *Frame) chargeCharacters(offset, n int) { f.Step(offset, n>>5) }

// ChargeMade charges for a value that was just made, without the values in it, which were charged before.
func (f *Frame) ChargeMade(offset int, v any) {
	switch v := v.(type) {
	case string:
		f.Step(offset, len(v)>>10)
		f.Alloc(offset, len(v))
	case []byte:
		f.Step(offset, len(v)>>10)
		f.Alloc(offset, len(v))
	case []any:
		f.ChargeList(offset, len(v))
	case map[string]any:
		f.ChargeObject(offset, len(v))
	}
}

// ChargeList charges for a list of n elements, without these.
func (f *Frame) ChargeList(offset, n int) {
	f.Step(offset, n>>2)
	f.Alloc(offset, n*ElementSize)
}

// ChargeObject charges for an object of n keys, without its values.
func (f *Frame) ChargeObject(offset, n int) {
	f.Step(offset, n)
	f.Alloc(offset, doc.ObjectSize+n*(doc.KeySize+ElementSize))
}

// Now is the clock of expressions; testing/synctest makes it virtual.
func Now() time.Time { return time.Now() }

// DecodeText is the value of a JSON text. If the text is not JSON, it ends the evaluation.
func (f *Frame) DecodeText(s *Site, text []byte) any {
	v, err := f.TryDecode(s.Offset, text)
	if err != nil {
		s.Fail("%s(): the text is not JSON: %s", s.Name, err)
	}
	return v
}

// TryDecode is DecodeText, but returns the error of a text that is not JSON.
func (f *Frame) TryDecode(offset int, text []byte) (any, error) {
	f.Alloc(offset, len(text))
	var d doc.Doc
	d.Reset(text, nil)
	raw, _, err := d.Raw(doc.Path{})
	if err == nil {
		var v any
		if v, f.memory, err = doc.DecodeWithin(raw, f.memory); err == nil {
			return v, nil
		}
	}
	if errors.Is(err, doc.ErrLarge) {
		f.FailMemory(offset)
	}
	return nil, err
}

// ChargedBytes is the bytes of a text or of bytes, and charges for hashing or encrypting them. The caller does not write to them.
func (f *Frame) ChargedBytes(s *Site, v any) []byte {
	data := value.ViewBytes(v)
	f.Step(s.Offset, len(data)>>5)
	return data
}
