package wire

import (
	"fmt"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/pool"
)

// Job is an attempt on its way to a worker.
type Job struct {
	Hash string // of its stage
	Try  Try    // named by the subject

	of []byte // its messages, packed
}

// Pack encodes messages once, for all attempts.
func Pack(of []*engine.Message) []byte {
	w := &writer{}
	w.uint(len(of))
	l := likeness(of)
	w.flags(map[bool]byte{true: 1}[l != nil])
	if l != nil {
		w.text(l.Batcher)
		w.text(string(l.Trigger))
		w.uint(l.Size)
		if w.flags(map[bool]byte{true: 1}[l.Window != nil]); l.Window != nil {
			w.time(l.Window.Start)
			w.time(l.Window.End)
			w.uint(l.Window.Part)
		}
	}
	metas, vars := w.tables()
	for _, m := range of {
		o := m.Provenance()
		w.bytes(m.Bytes())
		metas.put(m.Meta)
		w.text(o.Input)
		w.time(o.ReceivedAt)
		w.uint(o.Attempt)
		w.text(o.BatchKey)
		w.uint(o.BatchIndex)
		if w.flags(map[bool]byte{true: 1}[o.Err != nil]); o.Err != nil {
			w.err(o.Err)
		}
		vars.put(o.Vars)
	}
	return w.b
}

func likeness(of []*engine.Message) *engine.Likeness {
	if len(of) == 0 {
		return nil
	}
	return of[0].Provenance().Batch
}

// table writes values that several messages share, such as metadata, once.
type table[T comparable] struct {
	w     *writer
	write func(T)
	known map[T]int
}

func (w *writer) tables() (metas table[engine.Meta], vars table[engine.Vars]) {
	return table[engine.Meta]{w, w.meta, map[engine.Meta]int{}}, table[engine.Vars]{w, w.putVars, map[engine.Vars]int{}}
}

func (t *table[T]) put(x T) {
	i, known := t.known[x]
	if !known {
		i = len(t.known)
		t.known[x] = i
	}
	t.w.uint(i)
	if !known {
		t.write(x)
	}
}

// list is the reading side of a table.
type list[T any] []T

func (l *list[T]) next(r *reader, read func(*reader) T) (none T) {
	switch i := r.small(); {
	case i < len(*l):
		return (*l)[i]
	case i == len(*l):
		x := read(r)
		*l = append(*l, x)
		return x
	default:
		r.fail()
		return none
	}
}

// Encode returns the encoded job.
func (j *Job) Encode(packed []byte) []byte {
	w := &writer{b: make([]byte, 0, len(packed)+len(j.Hash)+64)}
	w.flags(Protocol)
	w.text(j.Hash)
	w.b = append(w.b, packed...)
	return w.b
}

// DecodeJob decodes the header of a job. Messages decodes the rest.
func DecodeJob(b []byte) (*Job, error) {
	r := &reader{b: b}
	if v := r.flags(); v != Protocol {
		return nil, fmt.Errorf("the job has version %d of the protocol, but this flowd supports version %d", v,
			Protocol)
	}
	j := &Job{Hash: r.text()}
	j.of = r.b
	return j, r.err
}

// leastMessage is the minimum size of a message in a job, in bytes.
const leastMessage = 22

// Messages returns the messages of the job, as a batch for inner steps.
func (j *Job) Messages() (*engine.Batch, error) {
	r := &reader{b: j.of}
	n := r.count()
	if n > len(r.b)/leastMessage {
		r.fail()
		return nil, r.err
	}
	var l *engine.Likeness
	if r.flags() == 1 {
		l = &engine.Likeness{Batcher: r.text(), Trigger: engine.Trigger(r.text()), Size: r.small()}
		if r.flags() == 1 {
			l.Window = &engine.Window{Start: r.time(), End: r.time(), Part: r.small()}
		}
	}
	b := engine.NewBatch(n)
	var metas list[engine.Meta]
	var vars list[engine.Vars]
	for range n {
		body := r.bytes()
		meta := metas.next(r, (*reader).meta)
		o := engine.Provenance{Input: r.text(), ReceivedAt: r.time(), Attempt: r.small(), BatchKey: r.text(),
			BatchIndex: r.small(), Batch: l}
		if r.flags() == 1 {
			o.Err = r.failure()
		}
		o.Vars = vars.next(r, (*reader).vars)
		if r.err != nil {
			return nil, r.err
		}
		b.AddFrom(body, o).Meta = meta
	}
	if len(r.b) > 0 {
		r.fail()
	}
	return b, r.err
}

const (
	endDropped = 1 + iota
	endGone
	endFailed

	madeSameBody = 1
	madeSameMeta = 2
	madeSameVars = 4
)

// EncodeAnswer encodes the outcome of an attempt: a result, or an error for all messages.
func EncodeAnswer(t Try, result *pool.Result, err error) []byte {
	w := &writer{}
	w.flags(Protocol)
	w.uint(t.Pool)
	w.id(t.ID)
	w.uint(t.Try)
	w.text(t.Key)
	w.flags(map[bool]byte{true: 1}[err != nil])
	if err != nil {
		w.err(err)
		return w.b
	}
	w.uint(len(result.Ends))
	for _, e := range result.Ends {
		switch {
		case e.Err != nil:
			w.flags(endFailed)
			w.err(e.Err)
		case e.Dropped:
			w.flags(endDropped)
		case e.Gone:
			w.flags(endGone)
		default:
			w.flags(0)
		}
	}
	w.uint(len(result.Made))
	metas, vars := w.tables()
	for _, d := range result.Made {
		w.made(&d)
		if !d.SameMeta {
			metas.put(d.Meta)
		}
		if !d.SameVars {
			vars.put(d.Vars)
		}
	}
	return w.b
}

func (w *writer) made(d *pool.Made) {
	w.uint(len(d.Of))
	for _, i := range d.Of {
		w.uint(i)
	}
	var flags byte
	if d.SameBody {
		flags |= madeSameBody
	}
	if d.SameMeta {
		flags |= madeSameMeta
	}
	if d.SameVars {
		flags |= madeSameVars
	}
	w.flags(flags)
	if !d.SameBody {
		w.bytes(d.Body)
	}
}

// DecodeAnswer decodes an answer. Errors in it name the worker.
func DecodeAnswer(b []byte, worker string) (t Try, result *pool.Result, failure error, err error) {
	r := &reader{b: b}
	if v := r.flags(); v != Protocol {
		return t, nil, nil, fmt.Errorf("the answer has version %d of the protocol, but this flowd supports version %d",
			v, Protocol)
	}
	t = Try{Pool: r.small(), ID: r.id(), Try: r.small(), Key: r.text()}
	if r.flags() == 1 {
		failure = remote(r.failure(), worker)
		return t, nil, failure, r.err
	}
	result = &pool.Result{}
	for n := r.count(); len(result.Ends) < n && r.err == nil; {
		var e pool.End
		switch r.flags() {
		case endFailed:
			e.Err = remote(r.failure(), worker)
		case endDropped:
			e.Dropped = true
		case endGone:
			e.Gone = true
		}
		result.Ends = append(result.Ends, e)
	}
	var metas list[engine.Meta]
	var vars list[engine.Vars]
	for n := r.count(); len(result.Made) < n && r.err == nil; {
		var d pool.Made
		r.made(&d, len(result.Ends))
		if !d.SameMeta {
			d.Meta = metas.next(r, (*reader).meta)
		}
		if !d.SameVars {
			d.Vars = vars.next(r, (*reader).vars)
		}
		result.Made = append(result.Made, d)
	}
	return t, result, nil, r.err
}

func (r *reader) made(d *pool.Made, n int) {
	for of := r.count(); len(d.Of) < of && r.err == nil; {
		i := r.small()
		if i >= n {
			r.fail()
			return
		}
		d.Of = append(d.Of, i)
	}
	flags := r.flags()
	d.SameBody, d.SameMeta, d.SameVars = flags&madeSameBody != 0, flags&madeSameMeta != 0, flags&madeSameVars != 0
	if len(d.Of) == 0 || len(d.Of) > 1 && (d.SameBody || d.SameMeta || d.SameVars) {
		r.fail()
	}
	if !d.SameBody {
		d.Body = r.bytes()
	}
}

// remote converts an error of a worker.
func remote(e *engine.Error, worker string) error {
	e.Err = fmt.Errorf("on worker %s: %w", worker, e.Err)
	if e.Step != "" {
		e.Err = fmt.Errorf("step %s %w", e.Step, e.Err)
		e.Step = "" // the pool's own name is added later
	}
	return e
}
