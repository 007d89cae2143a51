package expr

import (
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/flowd-io/flowd/engine/doc"
	"github.com/flowd-io/flowd/engine/expr/internal/value"
)

// writeFunc appends a node's value as doc.Append encodes it. ok is false where the full
// evaluation must decide: an error, or something rare. It has then appended nothing.
type writeFunc func(f *frame, dst []byte) (out []byte, ok bool)

// writer is how to write a node's value: by the shortest way that it has. Nil if
// it has no text.
func (n *node) writer() writeFunc {
	switch {
	case n.write != nil:
		return n.write
	case n.konst:
		return constantWrite(n.value)
	case n.scalar != nil:
		scalar := n.scalar
		return func(f *frame, dst []byte) ([]byte, bool) {
			s, ok := scalar(f.src.Document())
			if !ok {
				return dst, false
			}
			return s.append(dst), s.kind != value.Text || utf8.ValidString(s.text)
		}
	}
	eval := n.eval
	return func(f *frame, dst []byte) ([]byte, bool) {
		v := eval(f)
		if f.foreign && unfit(0, v) != nil {
			return dst, false
		}
		out, err := doc.Append(dst, v)
		return out, err == nil
	}
}

func constantWrite(v any) writeFunc {
	text, err := doc.Append(nil, v)
	if err != nil || unfit(0, v) != nil {
		return nil
	}
	return func(_ *frame, dst []byte) ([]byte, bool) { return append(dst, text...), true }
}

// readWrite writes what is at a path: the text that is there, rewritten.
func readWrite(offset int, p doc.Path) writeFunc {
	return func(f *frame, dst []byte) ([]byte, bool) {
		raw, there, err := f.src.Document().Raw(p)
		if err != nil {
			return dst, false
		}
		if !there {
			return append(dst, "null"...), true
		}
		f.bytes(offset, len(raw), 1)
		return doc.Canonical(dst, raw)
	}
}

// coalesceWrite is l ?? r, where l is a path: whether that is there needs no decoding.
func coalesceWrite(l, r node) writeFunc {
	left, right := l.writer(), r.writer()
	if l.path == nil || right == nil {
		return nil
	}
	path := *l.path
	return func(f *frame, dst []byte) ([]byte, bool) {
		raw, _, err := f.src.Document().Raw(path)
		if k := doc.Kind(raw); err == nil && (k == doc.Missing || k == doc.Null) {
			return right(f, dst)
		}
		return left(f, dst)
	}
}

// choiceWrite is cond ? a : b.
func choiceWrite(cond, a, b node) writeFunc {
	left, right := a.writer(), b.writer()
	if left == nil || right == nil {
		return nil
	}
	return func(f *frame, dst []byte) ([]byte, bool) {
		is := false
		if cond.scalar == nil {
			is = cond.eval(f) == true
		} else {
			c, ok := cond.scalar(f.src.Document())
			if !ok {
				return dst, false
			}
			is = c.is()
		}
		if is {
			return left(f, dst)
		}
		return right(f, dst)
	}
}

// listWrite is [a, b]. It charges as making the list would.
func listWrite(offset int, elems []node) writeFunc {
	writers := make([]writeFunc, len(elems))
	for i := range elems {
		if writers[i] = elems[i].writer(); writers[i] == nil {
			return nil
		}
	}
	return func(f *frame, dst []byte) (out []byte, ok bool) {
		out = append(dst, '[')
		for i, write := range writers {
			if i > 0 {
				out = append(out, ',')
			}
			if out, ok = write(f, out); !ok {
				return dst, false
			}
		}
		f.madeList(offset, len(writers))
		return append(out, ']'), true
	}
}

// objectWrite is {a: x, b: y}, its keys known and sorted beforehand.
func objectWrite(offset int, args []node) writeFunc {
	type member struct {
		key   string
		label []byte
		write writeFunc
	}
	var list []member
	for i := 0; i < len(args); i += 2 {
		key, ok := args[i].value.(string)
		m := member{key, append(doc.AppendString([]byte{','}, key), ':'), args[i+1].writer()}
		if !ok || !args[i].konst || m.write == nil {
			return nil
		}
		list = append(list, m)
	}
	if len(list) == 0 {
		return nil
	}
	slices.SortFunc(list, func(a, b member) int { return strings.Compare(a.key, b.key) })
	return func(f *frame, dst []byte) (out []byte, ok bool) {
		base := len(dst)
		out = dst
		for i := range list {
			if out, ok = list[i].write(f, append(out, list[i].label...)); !ok {
				return dst, false
			}
		}
		out[base] = '{' // in place of the first comma
		f.madeObject(offset, len(list))
		return append(out, '}'), true
	}
}

// encode hands put the value for one encoding: as evaluate gives it, or, where that is shorter, as a [*doc.Text], which
// holds only during the call.
func (p *program) encode(s Source, put func(v any) error) error {
	if p != nil && p.write != nil {
		f := newFrame(s, p.limits)
		out, ok := p.writeTo(f, f.text[:0])
		f.text = out
		if ok {
			err := put(&f.text)
			f.release()
			return err
		}
		f.release()
	}
	v, err := p.evaluate(s)
	if err != nil {
		return err
	}
	return put(v)
}

// writeTo appends the value to dst. A failure is left to evaluate, which reports it.
func (p *program) writeTo(f *frame, dst []byte) (out []byte, ok bool) {
	f.declare(p)
	defer func() {
		if caught(recover()) != nil {
			out, ok = dst, false
		}
	}()
	return p.write(f, dst)
}
