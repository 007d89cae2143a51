package lang

import (
	"fmt"
	"time"

	"github.com/flowd-io/flowd/engine/doc"
	"github.com/flowd-io/flowd/engine/expr/internal/value"
	"github.com/flowd-io/flowd/schema"
)

// The methods in this file take a nil program, which stands for an expression that a configuration leaves out.

// errUnset is the error of evaluating an expression that was left out.
var errUnset error = &Error{Msg: "there is no expression"}

// Text is the source as written, with placeholders in place of their values.
func (p *Program) Text() string {
	if p == nil {
		return ""
	}
	return p.origin.Text
}

// Place is where the expression is in a configuration; zero when a program compiled it.
func (p *Program) Place() schema.Place {
	if p == nil {
		return schema.Place{}
	}
	return p.origin.Place
}

// Warnings are remarks about code that is valid but may not do what it looks like.
func (p *Program) Warnings() []*Error {
	if p == nil {
		return nil
	}
	return p.warnings
}

// Calls are the calls of registered functions.
func (p *Program) Calls() Calls {
	if p == nil {
		return nil
	}
	return p.calls
}

// Reads returns the fields of the document that the code reads by constant paths.
func (p *Program) Reads() []doc.Path {
	if p == nil {
		return nil
	}
	return p.reads
}

// ReadsDocument reports whether the code reads a field of the document by its name.
func (p *Program) ReadsDocument() bool { return p.field != "" }

// ConstantText returns the text that the code always gives; ok is false if it gives anything else.
func (p *Program) ConstantText() (text string, ok bool) {
	if !p.Const || p.kinds != value.Text {
		return "", false
	}
	v, err := p.run(nil)
	text, ok = v.(string)
	return text, ok && err == nil
}

// CheckCondition refuses an expression that can't be true or false.
func (p *Program) CheckCondition() error {
	if p.kinds&value.Bool == 0 {
		return p.error("a condition must be true or false, but this is " + p.kinds.String())
	}
	return nil
}

// CheckValue refuses an expression whose value no document can contain, whatever the message.
func (p *Program) CheckValue() error {
	if p.unfit == nil {
		return nil
	}
	return errorOf(p.origin, p.unfit)
}

// Eval is the value, if a document can contain it.
func (p *Program) Eval(s Source) (any, error) {
	v, err := p.EvalAny(s)
	if err != nil {
		return nil, err
	}
	return p.fit(v)
}

// EvalOut is a value that leaves flowd: bytes alone, or what a document can contain.
func (p *Program) EvalOut(s Source) (any, error) {
	v, err := p.EvalAny(s)
	if _, alone := v.([]byte); alone || err != nil {
		return v, err
	}
	return p.fit(v)
}

// fit is v, a value of p, if a document can contain it.
func (p *Program) fit(v any) (any, error) {
	if t, ok := v.(time.Time); ok {
		if at := doc.Timestamp(t); at.Location() != t.Location() { // v has t already; to return t would allocate
			return at, nil
		}
	}
	if p.foreign {
		if f := unfit(p.site.Offset, v); f != nil {
			return nil, errorOf(p.origin, f)
		}
	}
	return v, nil
}

// EvalAny is the value, which may be bytes or have bytes in it.
func (p *Program) EvalAny(s Source) (any, error) {
	if p == nil {
		return nil, errUnset
	}
	if p.path != nil {
		v, err := s.Document().Get(*p.path)
		if err != nil {
			return nil, errorOf(p.origin, &failure{err: err, offset: p.site.Offset})
		}
		return v, nil
	}
	if p.scalar != nil {
		if v, ok := p.scalar(s.Document()); ok {
			return v.value(), nil
		}
	}
	v, err := p.run(s)
	if err == nil && value.KindOf(v) == value.Zone {
		return nil, p.error("the result is a time zone, which a message can't contain")
	}
	return v, err
}

// error is an error about the program's value.
func (p *Program) error(msg string) error {
	return errorOf(p.origin, &failure{offset: p.site.Offset, msg: msg})
}

// Path is the path of an expression that only reads one.
func (p *Program) Path() (doc.Path, bool) {
	if p == nil || p.path == nil {
		return doc.Path{}, false
	}
	return *p.path, true
}

// Fits is an error if the expression names a field, and the document can't have fields.
func (p *Program) Fits(s Source) error {
	if p == nil || p.field == "" {
		return nil
	}
	if m, ok := s.(interface{ DeadLetter() bool }); ok && m.DeadLetter() {
		return nil
	}
	err := s.Document().Object()
	if _, wrong := err.(*doc.ValueError); !wrong { //nolint:errorlint // it is never wrapped
		return nil
	}
	return fmt.Errorf("%s is not a field: %w (split a list first, or guard with `when`)", p.field, err)
}

// Test is whether a condition holds.
func (p *Program) Test(s Source) (bool, error) {
	if p == nil {
		return false, errUnset
	}
	if p.scalar != nil {
		if v, ok := p.scalar(s.Document()); ok && v.Kind == value.Bool {
			return v.is(), nil
		}
	}
	v, err := p.run(s)
	if err != nil {
		return false, err
	}
	is, ok := v.(bool)
	if !ok {
		return false, p.error("a condition must be true or false, but this is " + p.site.Show(v))
	}
	return is, nil
}
