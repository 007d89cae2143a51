package expr

import (
	"sync"
	"time"

	"github.com/expr-lang/expr/vm"

	"github.com/flowd-io/flowd/engine/doc"
)

// frame is one evaluation under way. Frames are pooled: an evaluation neither
// allocates its VM nor its arguments.
type frame struct {
	src    Source
	steps  int   // left
	memory int   // left, in bytes
	loops  int   // begun by the VM
	args   []any // of the calls under way, as a stack
	slots  []slotValue
	vm     vm.VM
	text   doc.Text // written by an Encode
}

var frames = sync.Pool{New: func() any { return new(frame) }}

func newFrame(src Source) *frame {
	f := frames.Get().(*frame)
	f.src, f.steps, f.memory = src, maxSteps, maxMemory
	return f
}

// release returns the frame. The VM keeps a scope for each loop that it ever
// began, so one that began many is dropped.
func (f *frame) release() {
	if f.loops > 64 {
		f.vm, f.loops = vm.VM{}, 0
	}
	clear(f.args[:cap(f.args)])
	f.args = f.args[:0]
	clear(f.slots)
	f.slots = f.slots[:0]
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
		v, err := doc.DecodeRaw(raw)
		if err == nil {
			return v
		}
	}
	_, err = d.Get(p) // whose error names the path
	panic(&failure{err: err, offset: offset})
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

// step charges work: about 100 ns each.
func (f *frame) step(offset, n int) {
	if f.steps -= n; f.steps < 0 {
		fail(offset, "the expression takes too long on this message: over %d steps", maxSteps)
	}
}

// alloc charges memory, in bytes.
func (f *frame) alloc(offset, n int) {
	if f.memory -= n; f.memory < 0 {
		fail(offset, "the expression makes more than %d MiB on this message", maxMemory>>20)
	}
}

// weigh charges for a value that an operation in a predicate works on: the
// operation's time grows with it.
func (f *frame) weigh(offset int, v any) {
	switch v := v.(type) {
	case string:
		f.step(offset, len(v)>>7)
	case doc.Number:
		f.step(offset, len(v)>>7)
	case []any:
		f.step(offset, weight(v, 0))
	case map[string]any:
		f.step(offset, weight(v, 0))
	}
}

// weight is about how many steps it takes to walk a value.
func weight(v any, depth int) int {
	if depth > maxDepth {
		return 0 // equal and Append go no deeper either
	}
	n := 1
	switch v := v.(type) {
	case string:
		n += len(v) >> 7
	case []any:
		for _, e := range v {
			n += weight(e, depth+1)
		}
	case map[string]any:
		for _, e := range v {
			n += weight(e, depth+1)
		}
	}
	return n
}

// made charges for a value that was just made, by its own size alone: what it
// is made of was charged before.
func (f *frame) made(offset int, v any) {
	switch v := v.(type) {
	case string:
		f.step(offset, len(v)>>10)
		f.alloc(offset, len(v))
	case []any:
		f.madeList(offset, len(v))
	case map[string]any:
		f.madeObject(offset, len(v))
	}
}

func (f *frame) madeList(offset, n int) {
	f.step(offset, n>>4)
	f.alloc(offset, n*elementSize)
}

func (f *frame) madeObject(offset, n int) {
	f.step(offset, n>>2)
	f.alloc(offset, n*3*elementSize)
}

// now is the clock of expressions; testing/synctest makes it virtual.
func now() time.Time { return time.Now() }
