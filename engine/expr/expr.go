// Package expr compiles expressions and templates over a message. Start at [Expr], [Cond] and [Template], which are
// config fields. Plugins add functions with [Register].
//
// The language is that of github.com/expr-lang/expr, whose parser reads it, with other names and stricter types; closures take
// the place of its compiler. A bare identifier is a field of the document, whatever it is called, and only what is called is a
// function. A missing field is nil; nil and wrong types are errors everywhere but at ==, !=, ?? and in.
//
// This package is what other packages see: fields of configurations (expr.go, template.go, body.go), how they are read
// (config.go, params.go, traps.go), and the words that they share with plugins (vocabulary.go). What is behind it is internal,
// each package above what it uses:
//
//	builtin/…  the functions that come with flowd, by family
//	lang       the language: code into closures, and their evaluation
//	hints      what to write instead of what other languages write
//	codetext   code as text: placeholders, quotes, comments, brackets
//	value      kinds of values, their order and equality
//	calendar   times, durations, layouts, zones
//	fake       made-up data
//	memo       what was worked out for earlier messages
//	exprtest   for tests
package expr

import (
	"github.com/flowd-io/flowd/engine/doc"
	"github.com/flowd-io/flowd/engine/expr/internal/codetext"
	"github.com/flowd-io/flowd/engine/expr/internal/lang"
	"github.com/flowd-io/flowd/engine/expr/internal/value"
	"github.com/flowd-io/flowd/schema"
)

// Expr is a compiled expression of any type, and a config field. The zero Expr is unset. It is safe for concurrent use.
type Expr struct{ p *lang.Program }

// Cond is an expression that yields true or false; anything else is an error.
type Cond struct{ Expr }

// Value is an expression of anything that steps can keep, bytes included, and a config field.
type Value struct{ Expr }

// Compile compiles an expression; scopes are those of scoped functions. The error is an *Error.
func Compile(src string, scopes ...string) (Expr, error) {
	p, err := lang.Compile(src, &codetext.Origin{Text: src}, scopes)
	return Expr{p}, err
}

// CompileCond is Compile for a condition.
func CompileCond(src string, scopes ...string) (Cond, error) {
	e, err := Compile(src, scopes...)
	if err == nil {
		err = e.p.CheckCondition()
	}
	if err != nil {
		return Cond{}, err
	}
	return Cond{e}, nil
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
func (e Expr) String() string { return e.p.Text() }

// Place is where the expression is in a configuration; zero when a program compiled it.
func (e *Expr) Place() schema.Place { return e.p.Place() }

// Warnings are remarks about code that is valid but may not do what it looks like. Decoding a configuration reports them.
func (e *Expr) Warnings() []*Error { return e.p.Warnings() }

// Calls are the calls of registered functions in the expression. The caller does not change them.
func (e *Expr) Calls() Calls { return e.p.Calls() }

// Eval is the value: nil, bool, int, float64, doc.Number, string, []any, map[string]any, time.Time or time.Duration. The
// caller does not change it. Errors are *Error, or *doc.SyntaxError when the payload is not a valid document.
func (e *Expr) Eval(s Source) (any, error) { return e.p.Eval(s) }

// Eval is that of Expr; it may also give []byte, alone or in a list or map.
func (v *Value) Eval(s Source) (any, error) { return v.p.EvalAny(s) }

// EvalOut is Eval for a value that leaves flowd, of which lists and maps become JSON: these have no []byte in them.
func (v *Value) EvalOut(s Source) (any, error) { return v.p.EvalOut(s) }

// Test is whether the condition holds.
func (c *Cond) Test(s Source) (bool, error) { return c.p.Test(s) }

// Path is the path of an expression that is nothing but one, such as user.name.
func (e *Expr) Path() (doc.Path, bool) { return e.p.Path() }

// Reads are the fields of the document that the expression reads by constant paths, such as user.name, in the order in which
// they are written. The caller does not change them.
func (e *Expr) Reads() []doc.Path { return e.p.Reads() }

// Fits is nil unless the expression names a field, and the document can't have fields because it is, say, a number or a
// list. Expressions read nil from such a document. Outputs that make a row or a payload of fields ask first, so that they
// do not write one without values. The error is a *[doc.ValueError]. A payload that is not a document is left to the
// evaluation, and a dead letter is made of what there is.
func (e *Expr) Fits(s Source) error { return e.p.Fits(s) }

// AppendKey appends a canonical text of the value: equal values, and only those, give equal text. It is JSON: text in
// quotes, 1 and 1.0 alike, keys sorted. ok is false for nil.
func (e *Expr) AppendKey(dst []byte, s Source) (key []byte, ok bool, err error) {
	return e.p.AppendKey(dst, s)
}

// PeekKey is AppendKey for a document that is checked later: see [doc.Doc.Peek]. ok is false if the key is nil, or can't be
// known yet.
func (e *Expr) PeekKey(dst []byte, s Source) (key []byte, ok bool) { return e.p.PeekKey(dst, s) }

// AppendBody appends the value as a payload: text as it is, anything else as JSON.
func (e *Expr) AppendBody(dst []byte, s Source) ([]byte, error) { return e.p.AppendBody(dst, s) }

// Encode hands put the value for one encoding: as Eval gives it, or, where that is shorter, as a [*doc.Text], which holds
// only during the call. Errors are those of Eval, else what put returns. Functions that the expression calls may be called
// in another order, and once more before an error.
func (e *Expr) Encode(s Source, put func(v any) error) error { return e.p.Encode(s, put) }

// Order compares two values that Eval gave, as < and > do: two numbers, texts, times or durations. ok is false for all
// others.
func Order(a, b any) (c int, ok bool) { return value.Order(a, b) }
