package exprtest

import (
	"encoding/json"
	"errors"
	"math"
	"reflect"
	"strings"

	"pgregory.net/rapid"

	"github.com/flowd-io/flowd/engine/doc"
	"github.com/flowd-io/flowd/engine/expr/internal/lang"
	"github.com/flowd-io/flowd/engine/expr/internal/value"
)

// outcome is the value or the error as text. It fails the test if it is not one that users may get.
func outcome(t rapid.TB, p *lang.Program, m *Message) string {
	v, err := p.Eval(m)
	var exprErr *lang.Error
	var syntax *doc.SyntaxError
	switch {
	case errors.As(err, &syntax):
		return err.Error()
	case errors.As(err, &exprErr):
		if strings.Contains(exprErr.Msg, "interface conversion") || strings.Contains(exprErr.Msg, "runtime error") ||
			strings.Contains(exprErr.Msg, "cannot evaluate") {
			t.Errorf("got Go's own error: %v", err)
		}
		if strings.Contains(exprErr.Msg, "takes too long") || strings.Contains(exprErr.Msg, "MiB") {
			return "limit" // the place differs by a step
		}
		return err.Error()
	case err != nil:
		t.Fatalf("got a %T: %v", err, err)
	}
	if f, ok := v.(float64); ok && (math.IsInf(f, 0) || math.IsNaN(f)) {
		t.Errorf("got %v", f)
	}
	if value.KindOf(v) == value.Any {
		t.Errorf("got a %T", v)
	}
	key, _, err := p.AppendKey(nil, m)
	return string(key) + ErrorText(err)
}

// Agree compiles src with shorter ways and without, and compares all that users can see.
func Agree(t rapid.TB, src string, m *Message) (compiled bool) {
	direct, err := Compile(src, false)
	plain, plainErr := Compile(src, true)
	if ErrorText(err) != ErrorText(plainErr) {
		t.Fatalf("%s\ncompiles with %v\nand without shortcuts with %v", src, err, plainErr)
	}
	if err != nil {
		return false
	}
	if got, want := outcome(t, direct, m), outcome(t, plain, m); got != want {
		t.Fatalf("%s\nshortcuts: %s\nplain:    %s", src, got, want)
	}
	for form, write := range map[string]func(*lang.Program, *Message) string{"encoded": Encoded, "in a template": inTemplate,
		"as a body": asBody} {
		got, want := write(direct, m), write(plain, m)
		if got != want && (!strings.Contains(src, "walk") || !sameDocument(got, want)) { // only shortcuts of walk() keep the order
			t.Fatalf("%s, %s\nshortcuts: %s\nplain:    %s", src, form, got, want)
		}
	}
	if direct.CheckCondition() != nil {
		return true
	}
	is, err := direct.Test(m)
	was, plainErr := plain.Test(m)
	if is != was || ErrorText(err) != ErrorText(plainErr) {
		t.Fatalf("%s\nTest: %v %v\nplain:%v %v", src, is, err, was, plainErr)
	}
	return true
}

// sameDocument reports whether two texts are JSON that differs only in the order of fields.
func sameDocument(a, b string) bool {
	decode := func(text string) (v any, err error) {
		d := json.NewDecoder(strings.NewReader(text))
		d.UseNumber()
		err = d.Decode(&v)
		return v, err
	}
	x, err := decode(a)
	y, otherErr := decode(b)
	return err == nil && otherErr == nil && reflect.DeepEqual(x, y)
}

// Encoded is the value as Encode gives it, or the error.
func Encoded(p *lang.Program, m *Message) string {
	var out []byte
	err := p.Encode(m, func(v any) (err error) {
		out, err = doc.Append(nil, v)
		return err
	})
	return string(out) + limitless(err)
}

func asBody(p *lang.Program, m *Message) string {
	out, err := p.AppendBody([]byte("before "), m)
	return string(out) + limitless(err)
}

func inTemplate(p *lang.Program, m *Message) string {
	out, err := lang.TemplateOf(p).Append(nil, m)
	return string(out) + limitless(err)
}

// limitless is the text of an error. The place where a budget ends differs by a step, so it is left out.
func limitless(err error) string {
	if text := ErrorText(err); !strings.Contains(text, "engine.limits.expression") {
		return text
	}
	return "limit"
}
