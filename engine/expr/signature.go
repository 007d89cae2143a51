package expr

import (
	"fmt"
	"reflect"
	"strings"

	"github.com/flowd-io/flowd/engine/expr/internal/value"
)

// signature is one way to call a function.
type signature struct {
	in       []value.Kinds
	roles    []*role // of what is in, each or nil
	required int     // the rest of in may be left out
	variadic bool    // the last of in may repeat
	out      value.Kinds
}

// words are the kinds as a usage line names them.
var words = map[string]value.Kinds{
	"text": value.Text, "int": value.Int, "float": value.Float, "number": value.Int | value.Float, "big": value.Big, "bool": value.Bool,
	"list": value.List, "object": value.Object, "time": value.Time, "duration": value.Duration, "zone": value.Zone,
	"bytes": value.Bytes, "nil": value.Nil, "any": value.Any, "value": value.Any &^ value.Nil,
}

// role is what a parameter is for, beside its kind: a pattern, a layout, a key. An argument that is known at load is
// checked then, and what has to be worked out of it is worked out once.
type role struct {
	kinds value.Kinds
	// prepare is what calls need of the argument; it ends the compilation if that can't be right. Nothing is charged.
	prepare func(s *site, v any) any
}

// roles are those that a usage line names in place of a kind.
var roles = map[string]*role{}

// inRole declares a role. Initialisers of variables call it, which run before usage lines are read.
func inRole(name string, k value.Kinds, prepare func(s *site, v any) any) *role {
	if roles[name] != nil {
		panic("expr: two roles are called " + name)
	}
	roles[name] = &role{k, prepare}
	return roles[name]
}

// prepare checks the arguments that are known, and keeps what they become.
func (f *function) prepare(s *site, args []node) {
	if len(f.sigs) != 1 {
		return
	}
	sig := &f.sigs[0]
	for i, a := range args {
		at := min(i, len(sig.roles)-1)
		if at < 0 || sig.roles[at] == nil || !a.konst || a.value == nil {
			continue
		}
		s.prepare(i, len(args), sig.roles[at].prepare(s.argument(a), a.value))
	}
	if f.settle != nil {
		f.settle(s, args)
	}
}

// parseUsage reads a usage line such as "trim(text, [text]) text": what docs
// show is what is checked.
func parseUsage(usage string) signature {
	_, rest, _ := strings.Cut(usage, "(")
	params, out, _ := strings.Cut(rest, ")")
	var s signature
	for _, p := range strings.Split(params, ",") {
		p = strings.TrimSpace(p)
		if p == "" {
			continue
		}
		var name string
		name, s.variadic = strings.CutSuffix(strings.Trim(p, "[]"), "...") // only the last may
		if p[0] != '[' {
			s.required++
		}
		s.in = append(s.in, union(name))
		s.roles = append(s.roles, roles[name])
	}
	s.out = union(strings.TrimSpace(out))
	return s
}

func union(names string) value.Kinds {
	var k value.Kinds
	if r := roles[names]; r != nil {
		return r.kinds
	}
	for _, n := range strings.Split(names, "|") {
		w, ok := words[n]
		if !ok {
			panic("expr: no kind of value is called " + n)
		}
		k |= w
	}
	return k
}

// signatureOf reads the type of a Go function.
func signatureOf(t reflect.Type) signature {
	s := signature{required: t.NumIn(), variadic: t.IsVariadic(), out: value.Any}
	for i := range t.NumIn() {
		in := t.In(i)
		if s.variadic && i == t.NumIn()-1 {
			in = in.Elem()
			s.required--
		}
		s.in = append(s.in, kindsOf(in))
	}
	if t.NumOut() > 0 {
		s.out = kindsOf(t.Out(0))
	}
	return s
}

// kindsOf is what values of a Go type are in an expression.
func kindsOf(t reflect.Type) value.Kinds {
	switch k := value.KindOf(reflect.Zero(t).Interface()); k {
	case value.Time, value.Duration, value.Zone, value.Big, value.Bytes: // their Go kinds say less
		return k
	}
	switch t.Kind() {
	case reflect.String:
		return value.Text
	case reflect.Bool:
		return value.Bool
	case reflect.Float32, reflect.Float64:
		return value.Int | value.Float
	case reflect.Slice, reflect.Array:
		if t.Elem().Kind() == reflect.Uint8 {
			return value.Bytes
		}
		return value.List
	case reflect.Map:
		return value.Object
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return value.Int
	}
	return value.Any
}

// param is what the i-th argument may be, where there are not too many.
func (s *signature) param(i int) value.Kinds { return s.in[min(i, len(s.in)-1)] }

// takes says whether n arguments are neither too many nor too few.
func (s *signature) takes(n int) bool {
	return n >= s.required && (n <= len(s.in) || s.variadic)
}

// count is how many arguments a function takes, in words.
func (s *signature) count() string {
	switch {
	case s.variadic:
		return fmt.Sprintf("at least %s", plural(s.required))
	case s.required == len(s.in):
		return plural(s.required)
	}
	return fmt.Sprintf("%d to %s", s.required, plural(len(s.in)))
}

func plural(n int) string {
	if n == 1 {
		return "1 argument"
	}
	return fmt.Sprintf("%d arguments", n)
}
