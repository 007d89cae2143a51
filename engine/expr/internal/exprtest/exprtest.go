// Package exprtest is for tests of expressions. They evaluate each expression by its shorter ways and without them ([EvalBoth],
// [Agree]), compare tables ([CheckValues], [CheckMistakes]) and measure budgets ([Spend]).
package exprtest

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/flowd-io/flowd/engine/doc"
	_ "github.com/flowd-io/flowd/engine/expr/internal/builtin" // the functions under test
	"github.com/flowd-io/flowd/engine/expr/internal/codetext"
	"github.com/flowd-io/flowd/engine/expr/internal/lang"
	"github.com/flowd-io/flowd/schema"
)

// Message is a Source that is nothing but a document.
type Message struct{ Doc doc.Doc }

// Document is the document.
func (m *Message) Document() *doc.Doc { return &m.Doc }

// NewMessage is a message with a payload.
func NewMessage(payload string) *Message {
	m := &Message{}
	m.Doc.Reset([]byte(payload), nil)
	return m
}

// Sample is a payload that most tests read.
const Sample = `{
	"status": 503, "ratio": 0.5, "whole": 2.0, "big": 18446744073709551616, "max": 9223372036854775807,
	"ok": true, "none": null, "text": "503", "name": "Ann", "word": "héllo", "empty": "",
	"user": {"name": "ann", "tags": ["x", "y"], "in": 1, "not": 2, "odd name": 3, "deep": {"er": true}},
	"items": [{"sku": "a", "qty": 2}, {"sku": "b", "qty": 5}],
	"list": [3, 1, 2], "texts": ["b", "a"], "mixed": [1, "a", null], "nolist": [], "key": "name", "i": 1, "pattern": "^A",
	"type": "order", "count": 7, "len": 8, "date": "2026-01-02", "meta": "m", "error": "e", "filter": "f", "map": {"a": 1},
	"now": "n", "env": "prod", "$env": "dollar", "hash": "h", "let": "l", "and": 9, "null": "field", "this": "inner", "in": "i"
}`

// EvalBoth evaluates src by its shorter ways and without them, and fails the test if the two differ.
func EvalBoth(t testing.TB, src string, m *Message) (any, error) {
	t.Helper()
	v, err := EvalOnce(src, m, false)
	w, plainErr := EvalOnce(src, m, true)
	if !reflect.DeepEqual(ErrorText(err), ErrorText(plainErr)) {
		t.Errorf("%s\nwith shortcuts there is the error\n%v\nwithout\n%v", src, err, plainErr)
	}
	if diff := cmp.Diff(v, w); diff != "" && err == nil {
		t.Errorf("%s: with shortcuts and without differ (-with +without):\n%s", src, diff)
	}
	return v, err
}

// EvalOnce is the value of src, by its shorter ways or, if plain, without them.
func EvalOnce(src string, m *Message, plain bool) (any, error) {
	p, err := Compile(src, plain, "generate")
	if err != nil {
		return nil, err
	}
	return p.Eval(m)
}

// Compile compiles src, with shorter ways to its value or, if plain, without them.
func Compile(src string, plain bool, scopes ...string) (*lang.Program, error) {
	if plain {
		return lang.CompilePlain(src, &codetext.Origin{Text: src}, scopes)
	}
	return lang.Compile(src, &codetext.Origin{Text: src}, scopes)
}

// ErrorText is the text of an error, or "".
func ErrorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// Short is an error on one line.
func Short(err error) string {
	var e *lang.Error
	if errors.As(err, &e) {
		return e.Short()
	}
	return ErrorText(err)
}

// CompileSecret compiles src with the value of a placeholder in place of ${X}.
func CompileSecret(t *testing.T, src, value string) error {
	t.Helper()
	at := strings.Index(src, "${X}")
	c := &codetext.Coder{}
	c.Add(src[:at], 0)
	c.AddPlaceholder(schema.Piece{Text: value, Offset: at, Placeholder: true})
	c.Add(src[at+len("${X}"):], at+len("${X}"))
	_, err := lang.Compile(string(c.Code), &codetext.Origin{Text: src, Runs: c.Runs}, nil)
	return err
}
