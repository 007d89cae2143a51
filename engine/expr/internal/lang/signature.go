package lang

import (
	"fmt"
	"reflect"
	"strings"

	"github.com/flowd-io/flowd/engine/expr/internal/value"
)

// signature is one way to call a function.
type signature struct {
	in       []value.Kinds
	roles    []*role // of the same parameters; nil for one without a role
	required int     // how many must be given
	variadic bool    // the last of in may repeat
	out      value.Kinds
}

// words are the names of kinds in usage lines.
var words = map[string]value.Kinds{
	"text": value.Text, "int": value.Int, "float": value.Float, "number": value.Int | value.Float, "big": value.Big, "bool": value.Bool,
	"list": value.List, "object": value.Object, "time": value.Time, "duration": value.Duration, "zone": value.Zone,
	"bytes": value.Bytes, "nil": value.Nil, "any": value.Any, "value": value.Any &^ value.Nil,
}

// role is what a parameter is for, beside its kind: a pattern, a layout, a key. A constant argument is checked when the code is
// compiled, and what calls need of it is worked out once.
type role struct {
	kinds value.Kinds
	// prepare is what calls need of the argument. It ends the compilation if the argument is wrong. It charges nothing.
	prepare func(s *Site, v any) any
}

// roles are the roles that usage lines name in place of a kind.
var roles = map[string]*role{}

// Role declares a role. Packages call it while they are initialised, before usage lines are read. [Site.Prepared] has what
// prepare made of an argument.
func Role(name string, k value.Kinds, prepare func(s *Site, v any) any) *role {
	if roles[name] != nil {
		panic("expr: two roles are called " + name)
	}
	roles[name] = &role{k, prepare}
	return roles[name]
}

// prepare checks the constant arguments of a call, and keeps what their roles make of them.
func (f *Function) prepare(s *Site, args []Node) {
	if len(f.sigs) != 1 {
		return
	}
	sig := &f.sigs[0]
	for i, a := range args {
		at := min(i, len(sig.roles)-1)
		if at < 0 || sig.roles[at] == nil || !a.Const || a.Value == nil {
			continue
		}
		s.SetPrepared(i, len(args), sig.roles[at].prepare(s.Argument(a), a.Value))
	}
	if f.CheckArgs != nil {
		f.CheckArgs(s, args)
	}
}

// parseUsage reads a usage line such as "trim(text, [text]) text". Docs show the same line, so they can't differ from what is
// checked.
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
		name, s.variadic = strings.CutSuffix(strings.Trim(p, "[]"), "...") // only the last has these
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

// param is what the i-th argument may be. There are not more arguments than the signature takes.
func (s *signature) param(i int) value.Kinds { return s.in[min(i, len(s.in)-1)] }

// takes says whether a call may have n arguments.
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
