package expr

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/flowd-io/flowd/engine/doc"
	"github.com/flowd-io/flowd/engine/expr/internal/exprtest"
	"github.com/flowd-io/flowd/engine/expr/internal/lang"
	"github.com/flowd-io/flowd/schema"
)

var errSource = errors.New("no topic")

// init registers functions as a plugin would.
func init() {
	Register(Func{Name: "test_meta", Doc: "A value of the source.", Types: []any{new(func(string) any)},
		Call: func(src Source, args ...any) (any, error) {
			if args[0] == "none" {
				return nil, errSource
			}
			return src.(*exprtest.Message).Doc.Bytes()[0:1], nil
		}})
	Register(Func{Name: "test_batch", Scope: "batch", Types: []any{new(func() int)},
		Call: func(Source, ...any) (any, error) { return int64(5), nil }})
	Register(Func{Name: "test_any", Call: func(_ Source, args ...any) (any, error) {
		switch args[0] {
		case 0:
			return uint64(1 << 63), nil
		case 1:
			return float32(0.5), nil
		case 2:
			return map[string]int{"a": 1}, nil
		case 3:
			return []time.Duration{time.Second}, nil
		case 4:
			return struct{}{}, nil
		case 5:
			return []byte{0xff}, nil
		case 6:
			return (*int)(nil), nil
		}
		return args[1:], nil
	}})
	Register(Func{Name: "test_bound", Types: []any{new(func() any)},
		Bind: func(d *schema.Decoder) func(Source, ...any) (any, error) {
			if d == nil {
				return func(Source, ...any) (any, error) { return nil, nil }
			}
			shared := schema.Shared[shared](d)
			return func(Source, ...any) (any, error) { return shared.value, nil }
		}})
	Register(Func{Name: "test_typed", Types: []any{new(func(int, float64, ...string) bool),
		new(func(time.Time) string)},
		Call: func(_ Source, args ...any) (any, error) { return len(args) > 2, nil }})
}

func TestRegisteredFunctions(t *testing.T) {
	tests := []struct {
		name, src string
		want      any
		err       string
	}{
		{"a call gets the source", `test_meta("topic")`, "{", ""},
		{"its arguments are checked", `test_meta(status)`, nil, `test_meta() needs text, not number 503`},
		{"its error fails the message", `test_meta("none")`, nil, `test_meta(): no topic`},
		{"results are made ordinary: uint64", `test_any(0)`, doc.Number("9223372036854775808"), ""},
		{"float32", `test_any(1)`, 0.5, ""},
		{"a map", `test_any(2)`, object{"a": 1}, ""},
		{"a slice", `test_any(3)`, list{time.Second}, ""},
		{"a struct is refused", `test_any(4)`, nil, `test_any() returned a struct {}, which a message can't contain`},
		{"bytes that are no text", `test_any(5)`, nil, `test_any() returned bytes that are not text`},
		{"a nil pointer is nil", `test_any(6)`, nil, ""},
		{"any arguments", `len(test_any(9, nil, status))`, 2, ""},
		{"variadic and typed", `test_typed(1, 1, "a", "b")`, true, ""},
		{"a whole float is an int", `test_typed(whole, 0.5)`, false, ""},
		{"another signature", `test_typed(now())`, false, ""},
		{"no signature", `test_typed("a")`, nil, `test_typed() needs time, not text "a" (parse_time(text) reads a time)`},
	}
	m := exprtest.NewMessage(exprtest.Sample)
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got, err := exprtest.EvalBoth(t, test.src, m)
			if exprtest.Short(err) != test.err {
				t.Fatalf("%s: got error %q, want %q", test.src, exprtest.Short(err), test.err)
			}
			if diff := cmp.Diff(got, test.want); diff != "" {
				t.Errorf("%s (-got +want):\n%s", test.src, diff)
			}
		})
	}
	_, err := exprtest.EvalBoth(t, `test_meta("none")`, m)
	if !errors.Is(err, errSource) {
		t.Errorf("got %v, want an error that wraps what the function said", err)
	}
}

// shared is the value that test_bound reads.
type shared struct{ value any }

func TestBoundFunctionsReadWhatTheirDecoderShares(t *testing.T) {
	var fields [2]field
	for i := range fields {
		d := schema.NewDecoder(nil)
		if !d.Decode(scalarNode([]string{"expr", "template"}[i], []string{`test_bound() + 1`, `$(test_bound())`}[i]),
			&fields[i]) {
			t.Fatal(d.Problems())
		}
		schema.Shared[shared](d).value = i + 7 // set later, as when a later section of a file sets it
	}
	if v, err := fields[0].Expr.Eval(exprtest.NewMessage(exprtest.Sample)); v != 8 || err != nil {
		t.Errorf("got %v, %v, want 8", v, err)
	}
	if text, err := fields[1].Template.Text(exprtest.NewMessage(exprtest.Sample)); text != "8" || err != nil {
		t.Errorf("got %q, %v, want 8", text, err)
	}
	if v, err := exprtest.EvalBoth(t, `test_bound()`, exprtest.NewMessage(exprtest.Sample)); v != nil || err != nil {
		t.Errorf("code of a program: got %v, %v, want nothing", v, err)
	}
	if calls := fields[0].Expr.Calls(); len(calls) != 1 || !calls[0].Bound {
		t.Errorf("got %+v, want one call that is bound", calls)
	}
}

func TestRegisterReplacesExprsOwn(t *testing.T) {
	for _, name := range []string{"count", "get", "upper"} {
		undo := lang.Register(lang.Func{Name: name, Types: []any{new(func(string) int)},
			Call: func(_ Source, args ...any) (any, error) { return len(args[0].(string)), nil }})
		if v, err := exprtest.EvalBoth(t, name+`("abc")`, exprtest.NewMessage(exprtest.Sample)); v != 3 || err != nil {
			t.Errorf("%s: got %v, %v, want 3", name, v, err)
		}
		if _, err := Compile(name + `(5)`); exprtest.Short(err) != name+`() needs text, not number 5` {
			t.Errorf("%s: got %v, want an error about its own argument", name, err)
		}
		undo()
	}
}

func TestScopes(t *testing.T) {
	e, err := Compile(`test_batch() + 1`, "output", "batch")
	if err != nil {
		t.Fatal(err)
	}
	if v, err := e.Eval(exprtest.NewMessage(exprtest.Sample)); v != 6 || err != nil {
		t.Errorf("got %v, %v, want 6", v, err)
	}
	t.Cleanup(lang.Register(lang.Func{Name: "test_answer", Scope: "answer", Call: func(Source, ...any) (any, error) { return 42, nil }}))
	_, err = Compile(`test_answer()`)
	if want := `test_answer() cannot be called here, only where there is an answer`; exprtest.Short(err) != want {
		t.Errorf("got %q, want %q", exprtest.Short(err), want)
	}
	_, err = Compile(`test_batch()`)
	if want := `test_batch() cannot be called here, only where there is a batch`; exprtest.Short(err) != want {
		t.Errorf("got %q, want %q", exprtest.Short(err), want)
	}
	_, err = CompileTemplate(`a$(test_batch())`)
	if want := `test_batch() cannot be called here, only where there is a batch`; exprtest.Short(err) != want {
		t.Errorf("got %q, want %q", exprtest.Short(err), want)
	}
}

func TestRegisterPanicsOnMistakes(t *testing.T) {
	call := func(Source, ...any) (any, error) { return nil, nil }
	tests := []struct {
		name string
		f    Func
	}{
		{"a name that is taken", Func{Name: "test_meta", Call: call}},
		{"no name", Func{Call: call}},
		{"no code", Func{Name: "test_new"}},
		{"a type that is no function", Func{Name: "test_new", Call: call, Types: []any{5}}},
		{"a type that is nil", Func{Name: "test_new", Call: call, Types: []any{nil}}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			defer func() {
				if recover() == nil {
					t.Error("got no panic")
				}
			}()
			Register(test.f)
		})
	}
}

func TestFunctions(t *testing.T) {
	usage := map[string]string{}
	last := ""
	for _, f := range Functions("batch") {
		if f.Name <= last {
			t.Errorf("%s comes behind %s", f.Name, last)
		}
		last = f.Name
		usage[f.Name] = f.Usage
		if !strings.HasPrefix(f.Usage, f.Name+"(") {
			t.Errorf("usage of %s is %q", f.Name, f.Usage)
		}
		if f.Doc == "" && !strings.HasPrefix(f.Name, "test_") {
			t.Errorf("%s has no docs", f.Name)
		}
	}
	for name, want := range map[string]string{
		"upper":      "upper(text) text",
		"filter":     "filter(list, predicate) list",
		"get":        "get(any, text|int) any",
		"test_batch": "test_batch() number",
		"test_typed": "test_typed(number, number, text...) true/false",
		"test_any":   "test_any(...)",
	} {
		if usage[name] != want {
			t.Errorf("usage of %s is %q, want %q", name, usage[name], want)
		}
	}
	for _, f := range Functions() {
		if f.Name == "test_batch" {
			t.Error("a scoped function is listed without its scope")
		}
	}
}

func TestClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := MustCompile(`now()`)
		before, _ := e.Eval(exprtest.NewMessage(`{}`))
		time.Sleep(time.Hour)
		after, _ := e.Eval(exprtest.NewMessage(`{}`))
		if got := after.(time.Time).Sub(before.(time.Time)); got != time.Hour {
			t.Errorf("an hour later now() is %v later", got)
		}
	})
}

func TestUUIDsDiffer(t *testing.T) {
	e := MustCompile(`uuid()`)
	a, _ := e.Eval(exprtest.NewMessage(`{}`))
	b, _ := e.Eval(exprtest.NewMessage(`{}`))
	if a == b || len(a.(string)) != 36 || a.(string)[14] != '4' {
		t.Errorf("got %v and %v", a, b)
	}
}

func TestBrokenDocuments(t *testing.T) {
	var syntax *doc.SyntaxError
	for _, src := range []string{`a`, `a > 1`, `not a`, `any([1], # == this.a)`, `upper(a)`, `this`} {
		for _, plain := range []bool{false, true} {
			_, err := exprtest.EvalOnce(src, exprtest.NewMessage(`{"a": `), plain)
			if !errors.As(err, &syntax) {
				t.Errorf("%s: got %v, want a *doc.SyntaxError", src, err)
			}
		}
	}
	e := MustCompile(`test_any(1)`)
	if _, err := e.Eval(exprtest.NewMessage(`no JSON`)); err != nil {
		t.Errorf("an expression without fields read the document: %v", err)
	}
}
