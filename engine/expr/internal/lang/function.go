package lang

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

// Func is a function that expressions can call: Func of package expr, where its fields are documented.
type Func struct {
	Name    string
	Doc     string
	Types   []any
	Usage   string
	Scope   string
	Group   string
	Example string
	Call    func(src Source, args ...any) (any, error)
	Values  bool
	Bind    func(d *schema.Decoder) func(src Source, args ...any) (any, error)
}

// Function is a Func, ready to be checked and called.
type Function struct {
	Func
	sigs []signature
	Pure bool // equal arguments give equal results: calls with constants are evaluated when the code is compiled
	Old  bool // a former name, which still works and which docs do not show

	Shallow    bool // it neither goes through a list or object nor makes one
	HoldsBytes bool // it makes lists or objects that may have bytes in them, even if its arguments have none

	// CheckArgs checks, when a call is compiled, constant arguments that depend on each other. May be nil.
	CheckArgs func(s *Site, args []Node)

	// Shortcuts adds shorter ways to the value of a compiled call, and prepares what depends on several arguments. May be nil.
	Shortcuts func(s *Site, call *Node, args []Node)

	// run is the code of a function that comes with flowd. Its arguments have been checked against sigs. Nil: Call is the code.
	run func(f *Frame, s *Site, args []any) any
}

// functions are all functions but the loops, by name. Nothing writes to it after declared.
var functions = map[string]*Function{}

// camel are expr's own names of functions, which work, too.
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

// Rename lets a function go on working under the name that it had.
func Rename(old, name string) {
	f := *functions[name]
	f.Name, f.Old = old, true
	functions[old] = &f
}

// plugins are the functions that were registered: they take the place of those of this package.
var plugins = map[string]*Function{}

// registered are the names that Register has taken.
var registered = map[string]bool{}

// Register adds a function, or replaces one that comes with flowd. It panics when the name is taken. undo is for tests.
func Register(f Func) (undo func()) {
	if f.Name == "" || f.Call == nil && f.Bind == nil {
		panic("expr: a function needs a name and a Call or Bind")
	}
	if registered[f.Name] {
		panic(fmt.Sprintf("expr: function %s is registered twice", f.Name))
	}
	fn := &Function{Func: f}
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
	registered[f.Name] = true
	own, had := functions[f.Name]
	functions[f.Name], plugins[f.Name] = fn, fn
	return func() {
		delete(registered, f.Name)
		delete(plugins, f.Name)
		if delete(functions, f.Name); had {
			functions[f.Name] = own
		}
	}
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

// Functions lists, without aliases, the functions that expressions in a field of these scopes can call, by name.
func Functions(scopes ...string) []Func {
	declared()
	var all []Func
	for _, f := range functions {
		if !f.Old && (f.Scope == "" || slices.Contains(scopes, f.Scope)) {
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
func (f *Function) usage() string {
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
func (f *Function) out() value.Kinds {
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
func (f *Function) foreign() bool {
	out := f.out()
	if f.run == nil { // registered
		return out&(value.Bytes|value.Zone|value.List|value.Object) != 0
	}
	return f.HoldsBytes || out&(value.Bytes|value.Zone) != 0 && out&(value.List|value.Object) == 0
}

// accept checks what is known about arguments; describe says in words what
// argument i is.
func (f *Function) accept(offset int, args []value.Kinds, describe func(i int) string) {
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
		failWith(offset, f.Usage, "%s() takes %s, not %d", f.Name, f.sigs[0].count(), len(args))
	}
	want := f.sigs[best].param(bad)
	if args[bad] == value.Big && want&(value.Int|value.Float) != 0 {
		failWith(offset, largeIntegers, "%s() cannot use %s", f.Name, describe(bad))
	}
	remedy := ""
	switch {
	case args[bad] == value.Nil:
		remedy = ifMissing
	case want == value.Time: // a document has none
		remedy = readsTime
	case want == value.Duration:
		remedy = `duration("1h30m") is a duration`
	}
	failWith(offset, remedy, "%s() needs %s, not %s", f.Name, want, describe(bad))
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
func (f *Function) check(s *Site, args []any) {
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
	f.accept(s.Offset, known, func(i int) string { return s.showOperand(0, args[i]) })
	s.Fail("%s() needs a whole number", f.Name)
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

// Names are the names of all functions that a field of these scopes can call.
func Names(scopes []string) []string {
	var all []string
	for _, f := range Functions(scopes...) {
		all = append(all, f.Name)
	}
	return all
}
