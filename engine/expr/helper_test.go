package expr

import (
	"errors"
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/flowd-io/flowd/engine/doc"
	"github.com/flowd-io/flowd/engine/expr/internal/codetext"
)

// message is a Source that is nothing but a document.
type message struct{ d doc.Doc }

func (m *message) Document() *doc.Doc { return &m.d }

func msg(payload string) *message {
	m := &message{}
	m.d.Reset([]byte(payload), nil)
	return m
}

// order is a document that most tests read.
const sample = `{
	"status": 503, "ratio": 0.5, "whole": 2.0, "big": 18446744073709551616, "max": 9223372036854775807,
	"ok": true, "none": null, "text": "503", "name": "Ann", "word": "héllo", "empty": "",
	"user": {"name": "ann", "tags": ["x", "y"], "in": 1, "not": 2, "odd name": 3, "deep": {"er": true}},
	"items": [{"sku": "a", "qty": 2}, {"sku": "b", "qty": 5}],
	"list": [3, 1, 2], "texts": ["b", "a"], "mixed": [1, "a", null], "nolist": [], "key": "name", "i": 1, "pattern": "^A",
	"type": "order", "count": 7, "len": 8, "date": "2026-01-02", "meta": "m", "error": "e", "filter": "f", "map": {"a": 1},
	"now": "n", "env": "prod", "$env": "dollar", "hash": "h", "let": "l", "and": 9, "null": "field", "this": "inner", "in": "i"
}`

// runBoth evaluates src both ways, by shortcuts and without them, and makes sure
// that they agree.
func runBoth(t testing.TB, src string, m *message) (any, error) {
	t.Helper()
	v, err := evalOnce(src, m, false)
	w, plainErr := evalOnce(src, m, true)
	if !reflect.DeepEqual(errorText(err), errorText(plainErr)) {
		t.Errorf("%s\nwith shortcuts there is the error\n%v\nwithout\n%v", src, err, plainErr)
	}
	if diff := cmp.Diff(v, w); diff != "" && err == nil {
		t.Errorf("%s: with shortcuts and without differ (-with +without):\n%s", src, diff)
	}
	return v, err
}

func evalOnce(src string, m *message, plain bool) (any, error) {
	p, err := compileWith(src, plain, "generate")
	if err != nil {
		return nil, err
	}
	return p.evaluate(m)
}

// compileWith compiles src, with the shorter ways to its value or, if plain, without.
func compileWith(src string, plain bool, scopes ...string) (*program, error) {
	if plain {
		return compilePlain(src, &codetext.Origin{Text: src}, scopes)
	}
	return compile(src, &codetext.Origin{Text: src}, scopes)
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// short is an error on one line.
func short(err error) string {
	var e *Error
	if errors.As(err, &e) {
		return e.Short()
	}
	return errorText(err)
}
