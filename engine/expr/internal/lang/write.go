package lang

import (
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/flowd-io/flowd/engine/doc"
	"github.com/flowd-io/flowd/engine/expr/internal/value"
)

// WriteFunc appends a value as doc.Append encodes it. If ok is false, it has appended nothing, and only the closure of the node
// can decide: an error, or a rare value.
type WriteFunc func(f *Frame, dst []byte) (out []byte, ok bool)

// writer is the shortest way to write the value of a node. It is nil if no document can contain the value.
func (n *Node) writer() WriteFunc {
	switch {
	case n.Write != nil:
		return n.Write
	case n.Const:
		return constantWrite(n.Value)
	case n.Scalar != nil:
		scalar := n.Scalar
		return func(f *Frame, dst []byte) ([]byte, bool) {
			s, ok := scalar(f.src.Document())
			if !ok {
				return dst, false
			}
			return s.append(dst), s.Kind != value.Text || utf8.ValidString(s.Text)
		}
	}
	eval := n.eval
	return func(f *Frame, dst []byte) ([]byte, bool) {
		v := eval(f)
		if f.foreign && unfit(0, v) != nil {
			return dst, false
		}
		out, err := doc.Append(dst, v)
		return out, err == nil
	}
}

func constantWrite(v any) WriteFunc {
	text, err := doc.Append(nil, v)
	if err != nil || unfit(0, v) != nil {
		return nil
	}
	return func(_ *Frame, dst []byte) ([]byte, bool) { return append(dst, text...), true }
}

// readWrite writes the value at a path: its source text in canonical form.
func readWrite(offset int, p doc.Path) WriteFunc {
	return func(f *Frame, dst []byte) ([]byte, bool) {
		raw, there, err := f.src.Document().Raw(p)
		if err != nil {
			return dst, false
		}
		if !there {
			return append(dst, "null"...), true
		}
		f.ChargeBytes(offset, len(raw), 1)
		return doc.Canonical(dst, raw)
	}
}

// coalesceWrite is l ?? r if l is a path: it need not be decoded to see whether it is nil.
func coalesceWrite(l, r Node) WriteFunc {
	left, right := l.writer(), r.writer()
	if l.Path == nil || right == nil {
		return nil
	}
	path := *l.Path
	return func(f *Frame, dst []byte) ([]byte, bool) {
		raw, _, err := f.src.Document().Raw(path)
		if k := doc.Kind(raw); err == nil && (k == doc.Missing || k == doc.Null) {
			return right(f, dst)
		}
		return left(f, dst)
	}
}

// choiceWrite is cond ? a : b.
func choiceWrite(cond, a, b Node) WriteFunc {
	left, right := a.writer(), b.writer()
	if left == nil || right == nil {
		return nil
	}
	return func(f *Frame, dst []byte) ([]byte, bool) {
		is := false
		if cond.Scalar == nil {
			is = cond.eval(f) == true
		} else {
			c, ok := cond.Scalar(f.src.Document())
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

// listWrite is [a, b]. It charges as much as making the list would.
func listWrite(offset int, elems []Node) WriteFunc {
	writers := make([]WriteFunc, len(elems))
	for i := range elems {
		if writers[i] = elems[i].writer(); writers[i] == nil {
			return nil
		}
	}
	return func(f *Frame, dst []byte) (out []byte, ok bool) {
		out = append(dst, '[')
		for i, write := range writers {
			if i > 0 {
				out = append(out, ',')
			}
			if out, ok = write(f, out); !ok {
				return dst, false
			}
		}
		f.ChargeList(offset, len(writers))
		return append(out, ']'), true
	}
}

// objectWrite is {a: x, b: y} with constant keys, which are sorted beforehand.
func objectWrite(offset int, args []Node) WriteFunc {
	type member struct {
		key   string
		label []byte
		write WriteFunc
	}
	var list []member
	for i := 0; i < len(args); i += 2 {
		key, ok := args[i].Value.(string)
		m := member{key, append(doc.AppendString([]byte{','}, key), ':'), args[i+1].writer()}
		if !ok || !args[i].Const || m.write == nil {
			return nil
		}
		list = append(list, m)
	}
	if len(list) == 0 {
		return nil
	}
	slices.SortFunc(list, func(a, b member) int { return strings.Compare(a.key, b.key) })
	return func(f *Frame, dst []byte) (out []byte, ok bool) {
		base := len(dst)
		out = dst
		for i := range list {
			if out, ok = list[i].write(f, append(out, list[i].label...)); !ok {
				return dst, false
			}
		}
		out[base] = '{' // in place of the first comma
		f.ChargeObject(offset, len(list))
		return append(out, '}'), true
	}
}

// Encode hands put the value for one encoding: as Eval gives it, or, where that is shorter, as a [*doc.Text], which
// holds only during the call.
func (p *Program) Encode(s Source, put func(v any) error) error {
	if p != nil && p.write != nil {
		f := NewFrame(s, p.Limits)
		out, ok := p.writeTo(f, f.text[:0])
		f.text = out
		if ok {
			err := put(&f.text)
			f.release()
			return err
		}
		f.release()
	}
	v, err := p.Eval(s)
	if err != nil {
		return err
	}
	return put(v)
}

// writeTo appends the value to dst. A failure is left to Eval, which reports it.
func (p *Program) writeTo(f *Frame, dst []byte) (out []byte, ok bool) {
	f.declare(p)
	defer func() {
		if caught(recover()) != nil {
			out, ok = dst, false
		}
	}()
	return p.write(f, dst)
}
