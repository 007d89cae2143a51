package expr

import (
	"cmp"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"

	"github.com/expr-lang/expr/builtin"

	"github.com/flowd-io/flowd/engine/expr/internal/value"
	"github.com/flowd-io/flowd/schema"
)

// Func is a function that expressions can call.
type Func struct {
	Name  string
	Doc   string
	Types []any  // signatures, as new(func(string) any); none: any arguments
	Usage string // "upper(text) text"; made from Types when empty
	Scope string // "" is everywhere, else only in fields tagged scope:"..."

	Group string // under which docs list it; "" is "message"

	// Example is a call and what it gives, such as `upper("a") → "A"`; several are one a line.
	Example string

	// Call gets the Source that the expression is evaluated on. It may be called
	// from any goroutine and keeps no args. Its error fails the message.
	Call func(src Source, args ...any) (any, error)

	// Values says that Call only returns what expressions have given, bytes included.
	Values bool

	// Bind, where it is set, makes Call for code that a decoder has decoded, of which it takes
	// what the decoder's code shares; see [schema.Shared]. It is asked at load; d is nil for
	// code of a program. Such a function means nothing in another process.
	Bind func(d *schema.Decoder) func(src Source, args ...any) (any, error)
}

// function is a Func, ready to be checked and called.
type function struct {
	Func
	sigs []signature
	pure bool // same arguments, same result: calls with constants are done at load
	old  bool // goes on working under this name, which docs no longer show

	shallow bool // neither goes through a list or object nor makes one
	holds   bool // a list or object that it makes may have bytes in it that its arguments have not

	// settle looks, at load, at arguments whose roles depend on each other; compiled sees each call once it is compiled,
	// prepares what takes several arguments, and adds shorter ways to the call's value. Most functions have neither.
	settle   func(s *site, args []node)
	compiled func(s *site, call *node, args []node)

	// run is a builtin's code; arguments have been checked against sigs. Nil: Call.
	run func(f *frame, s *site, args []any) any
}

// functions are all functions but the loops, by name. Only init functions
// write to it.
var functions = map[string]*function{}

// camel are the functions that expr calls otherwise: such a name goes on working.
var camel = camelNames()

func camelNames() map[string]string {
	names := map[string]string{}
	for _, name := range builtin.Names {
		if snake := snakeOf(name); snake != name {
			names[name] = snake
		}
	}
	return names
}

// snakeOf is indexOf as index_of, and toJSON as to_json.
func snakeOf(name string) string {
	var b []byte
	for i, c := range []byte(name) {
		if 'A' <= c && c <= 'Z' {
			if i > 0 && (name[i-1] < 'A' || name[i-1] > 'Z') {
				b = append(b, '_')
			}
			c += 'a' - 'A'
		}
		b = append(b, c)
	}
	return string(b)
}

// Canonical is the name under which docs have a function that may be called by an alias, as expr names it.
func Canonical(name string) string { return cmp.Or(camel[name], name) }

// nameOf is the name in a usage line.
func nameOf(usage string) string {
	name, _, _ := strings.Cut(usage, "(")
	return name
}

// renamed lets a function go on working under the name that it had.
func renamed(old, name string) {
	f := *functions[name]
	f.Name, f.old = old, true
	functions[old] = &f
}

// plugins are the functions that were registered: they take the place of those of this package.
var plugins = map[string]*function{}

// registered are the names that Register has taken.
var registered = map[string]bool{}

// Register adds a function, or replaces one of expr's own; it is called from
// init functions only. It panics when the name is taken: that is a mistake of
// the program's author, seen at start.
func Register(f Func) {
	if f.Name == "" || f.Call == nil && f.Bind == nil {
		panic("expr: a function needs a name and a Call or Bind")
	}
	if registered[f.Name] {
		panic(fmt.Sprintf("expr: function %s is registered twice", f.Name))
	}
	registered[f.Name] = true
	fn := &function{Func: f}
	for _, t := range f.Types {
		ft := reflect.TypeOf(t)
		if ft != nil && ft.Kind() == reflect.Pointer {
			ft = ft.Elem()
		}
		if ft == nil || ft.Kind() != reflect.Func {
			panic(fmt.Sprintf("expr: function %s: %T is not a signature", f.Name, t))
		}
		fn.sigs = append(fn.sigs, signatureOf(ft))
	}
	fn.Usage = cmp.Or(f.Usage, fn.usage())
	functions[f.Name], plugins[f.Name] = fn, fn
}

// Scopes are all scopes that functions have, sorted.
func Scopes() []string {
	declared()
	var all []string
	for _, f := range functions {
		if f.Scope != "" && !slices.Contains(all, f.Scope) {
			all = append(all, f.Scope)
		}
	}
	slices.Sort(all)
	return all
}

// Functions lists, without aliases, what expressions in a field of these scopes can call, by
// name, for docs and completion.
func Functions(scopes ...string) []Func {
	declared()
	var all []Func
	for _, f := range functions {
		if !f.old && (f.Scope == "" || slices.Contains(scopes, f.Scope)) {
			all = append(all, f.Func)
		}
	}
	for name, l := range loops {
		if !registered[name] {
			all = append(all, Func{Name: name, Group: "lists and objects", Usage: l.usage, Doc: l.doc, Example: l.example})
		}
	}
	slices.SortFunc(all, func(a, b Func) int { return cmp.Compare(a.Name, b.Name) })
	return all
}

// usage is a line such as "hash(text) text", for functions that gave Go types.
func (f *function) usage() string {
	if len(f.sigs) == 0 {
		return f.Name + "(...)"
	}
	s := f.sigs[0]
	params := make([]string, len(s.in))
	for i, k := range s.in {
		params[i] = strings.ReplaceAll(k.String(), " or ", "|")
		if s.variadic && i == len(s.in)-1 {
			params[i] += "..."
		}
	}
	return fmt.Sprintf("%s(%s) %s", f.Name, strings.Join(params, ", "), strings.ReplaceAll(s.out.String(), " or ", "|"))
}

// out is what the function can return.
func (f *function) out() value.Kinds {
	if len(f.sigs) == 0 {
		return value.Any
	}
	var k value.Kinds
	for i := range f.sigs {
		k |= f.sigs[i].out
	}
	return k
}

// foreign says whether the function makes bytes, a time zone, or something with these in it. What only hands on parts of
// its arguments does not.
func (f *function) foreign() bool {
	out := f.out()
	if f.run == nil { // registered
		return out&(value.Bytes|value.Zone|value.List|value.Object) != 0
	}
	return f.holds || out&(value.Bytes|value.Zone) != 0 && out&(value.List|value.Object) == 0
}

// accept checks what is known about arguments; describe says in words what
// argument i is.
func (f *function) accept(offset int, args []value.Kinds, describe func(i int) string) {
	if len(f.sigs) == 0 {
		return
	}
	best := -1 // the signature that got furthest
	bad := -1
	for i := range f.sigs {
		s := &f.sigs[i]
		if !s.takes(len(args)) {
			continue
		}
		at := s.misfit(args)
		if at < 0 {
			return
		}
		if at > bad {
			best, bad = i, at
		}
	}
	if best < 0 {
		failFor(offset, f.Usage, "%s() takes %s, not %d", f.Name, f.sigs[0].count(), len(args))
	}
	want := f.sigs[best].param(bad)
	if args[bad] == value.Big && want&(value.Int|value.Float) != 0 {
		failFor(offset, largeIntegers, "%s() cannot use %s", f.Name, describe(bad))
	}
	remedy := ""
	if args[bad] == value.Nil {
		remedy = ifMissing
	}
	failFor(offset, remedy, "%s() needs %s, not %s", f.Name, want, describe(bad))
}

// misfit is the first argument that can't be right, or -1.
func (s *signature) misfit(args []value.Kinds) int {
	for i, k := range args {
		want := s.param(i)
		if want&value.Int != 0 {
			want |= value.Float // a whole float will do; the value is checked on each call
		}
		if want&k == 0 {
			return i
		}
	}
	return -1
}

// check is accept for the values of a call. It also turns whole floats into
// integers where the function takes nothing else.
func (f *function) check(s *site, args []any) {
	for i := range f.sigs {
		if f.sigs[i].admit(args) {
			return
		}
	}
	if len(f.sigs) == 0 {
		return
	}
	known := make([]value.Kinds, len(args))
	for i, a := range args {
		known[i] = value.KindOf(a)
	}
	f.accept(s.offset, known, func(i int) string { return s.show(0, args[i]) })
	s.fail("%s() needs a whole number", f.Name)
}

func (s *signature) admit(args []any) bool {
	if !s.takes(len(args)) {
		return false
	}
	for i, a := range args {
		want := s.param(i)
		if value.KindOf(a)&want != 0 {
			continue
		}
		whole, ok := a.(float64)
		if want&value.Int == 0 || !ok || whole != math.Trunc(whole) || math.Abs(whole) >= 1<<62 {
			return false
		}
		args[i] = int(whole)
	}
	return true
}

// names are the names of all functions that a field of these scopes can call.
func names(scopes []string) []string {
	var all []string
	for _, f := range Functions(scopes...) {
		all = append(all, f.Name)
	}
	return all
}
