// Package expr compiles expressions and templates over a message. Start at
// [Expr], [Cond] and [Template], which are config fields.
//
// The language is that of github.com/expr-lang/expr, whose parser reads it, with
// other names and stricter types; what it reads becomes closures. A bare identifier is a field of the
// document, whatever it is called, and only what is called is a function. A
// missing field is nil; nil and wrong types are errors everywhere but at ==, !=,
// ?? and in.
package expr

import (
	"fmt"
	"time"

	"github.com/flowd-io/flowd/engine/doc"
	"github.com/flowd-io/flowd/schema"
)

// Source is what an expression reads: a message, or a substitute for one.
type Source interface {
	// Document is the document whose fields identifiers name.
	Document() *doc.Doc
}

// Expr is a compiled expression of any type, and a config field. The zero Expr
// is unset. It is safe for concurrent use.
type Expr struct{ p *program }

// Cond is an expression that yields true or false; anything else is an error.
type Cond struct{ Expr }

// Value is an expression of anything that steps can keep, bytes included, and a config field.
type Value struct{ Expr }

// Eval is that of Expr; it may also give []byte, alone or in a list or map.
func (v *Value) Eval(s Source) (any, error) { return v.value(s) }

// EvalOut is Eval for a value that leaves flowd, of which lists and maps become JSON: these have no []byte in them.
func (v *Value) EvalOut(s Source) (any, error) {
	x, err := v.value(s)
	if _, alone := x.([]byte); alone || err != nil {
		return x, err
	}
	return v.fit(x)
}

// Compile compiles an expression; scopes are those of scoped functions. The error is an *Error.
func Compile(src string, scopes ...string) (Expr, error) {
	p, err := compile(src, &origin{text: src}, scopes, false)
	return Expr{p}, err
}

// CompileCond is Compile for a condition.
func CompileCond(src string, scopes ...string) (Cond, error) {
	e, err := Compile(src, scopes...)
	if err == nil {
		err = e.p.condition()
	}
	if err != nil {
		return Cond{}, err
	}
	return Cond{e}, nil
}

// condition refuses an expression that can't be true or false.
func (p *program) condition() error {
	if p.kinds&kBool == 0 {
		return p.error("a condition must be true or false, but this is " + p.kinds.String())
	}
	return nil
}

// MustCompile is Compile for tests and constants.
func MustCompile(src string, scopes ...string) Expr { return must(Compile(src, scopes...)) }

// MustCond is CompileCond for tests and constants.
func MustCond(src string, scopes ...string) Cond { return must(CompileCond(src, scopes...)) }

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// IsZero says whether the field was left out.
func (e *Expr) IsZero() bool { return e.p == nil }

// String is the source as written, with placeholders in place of their values.
func (e Expr) String() string { return e.origin().text }

// Place is where the expression is in a configuration; zero when a program compiled it.
func (e *Expr) Place() schema.Place { return e.origin().place }

// origin is that of the program; an empty one when the field was left out.
func (e *Expr) origin() *origin {
	if e.p == nil {
		return new(origin)
	}
	return e.p.origin
}

// Warnings are remarks about code that is right but may not do what it looks
// like. Decoding a configuration reports them.
func (e *Expr) Warnings() []*Error {
	if e.p == nil {
		return nil
	}
	return e.p.warnings
}

// errUnset is the error of using an expression that was left out.
var errUnset = &Error{Msg: "there is no expression"}

// Eval is the value: nil, bool, int, float64, doc.Number, string, []any,
// map[string]any, time.Time or time.Duration. The caller does not change it.
// Errors are *Error, or *doc.SyntaxError when the document is none.
func (e *Expr) Eval(s Source) (any, error) {
	v, err := e.value(s)
	if err != nil {
		return nil, err
	}
	return e.fit(v)
}

// fit is v, which e has given, if a document can contain it.
func (e *Expr) fit(v any) (any, error) {
	if t, ok := v.(time.Time); ok {
		if at := doc.Timestamp(t); at.Location() != t.Location() { // to return t itself would allocate
			return at, nil
		}
	}
	if e.p.foreign {
		if f := unfit(e.p.site.offset, v); f != nil {
			return nil, e.p.origin.errorOf(f)
		}
	}
	return v, nil
}

// value is what Eval gives, or bytes.
func (e *Expr) value(s Source) (any, error) {
	if e.p == nil {
		return nil, errUnset
	}
	if e.p.path != nil {
		v, err := s.Document().Get(*e.p.path)
		if err != nil {
			return nil, e.p.origin.errorOf(&failure{err: err, offset: e.p.site.offset})
		}
		return v, nil
	}
	if e.p.scalar != nil {
		if v, ok := e.p.scalar(s.Document()); ok {
			return v.value(), nil
		}
	}
	v, err := e.p.run(s)
	if err == nil && kindOf(v) == kZone {
		return nil, e.p.error("the result is a time zone, which a message can't contain")
	}
	return v, err
}

// error is an error about the program's value.
func (p *program) error(msg string) error {
	return p.origin.errorOf(&failure{offset: p.site.offset, msg: msg})
}

// Path is the path of an expression that is nothing but one: user.name.
func (e *Expr) Path() (doc.Path, bool) {
	if e.p == nil || e.p.path == nil {
		return doc.Path{}, false
	}
	return *e.p.path, true
}

// Fits is nil unless the expression names a field, and the document is one that can't have fields, such as a number or a
// list. To an expression, these are nil; who makes a row or a payload of them asks, so that none is made of nothing. The
// error is a *[doc.ValueError]. A payload that is not a document is left to the evaluation, and a dead letter is made of
// what there is.
func (e *Expr) Fits(s Source) error {
	if e.p == nil || e.p.field == "" {
		return nil
	}
	if m, ok := s.(interface{ DeadLetter() bool }); ok && m.DeadLetter() {
		return nil
	}
	err := s.Document().Object()
	if _, wrong := err.(*doc.ValueError); !wrong { //nolint:errorlint // it is never wrapped
		return nil
	}
	return fmt.Errorf("%s is not a field: %w (split a list first, or guard with `when`)", e.p.field, err)
}

// Test is whether the condition holds.
func (c *Cond) Test(s Source) (bool, error) {
	if c.p == nil {
		return false, errUnset
	}
	if c.p.scalar != nil {
		if v, ok := c.p.scalar(s.Document()); ok && v.kind == kBool {
			return v.is(), nil
		}
	}
	v, err := c.p.run(s)
	if err != nil {
		return false, err
	}
	is, ok := v.(bool)
	if !ok {
		return false, c.p.error("a condition must be true or false, but this is " + c.p.site.left(v))
	}
	return is, nil
}
