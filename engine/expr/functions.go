package expr

import (
	_ "github.com/flowd-io/flowd/engine/expr/internal/builtin" // the functions that come with flowd
	"github.com/flowd-io/flowd/engine/expr/internal/builtin/sources"
	"github.com/flowd-io/flowd/engine/expr/internal/lang"
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

	// Example is a call and its value, such as `upper("a") → "A"`; several are one a line.
	Example string

	// Call gets the Source that the expression is evaluated on. It may be called from any goroutine, and must not keep args. Its
	// error fails the message.
	Call func(src Source, args ...any) (any, error)

	// Values says that Call only returns what expressions have given, bytes included.
	Values bool

	// Bind, if it is set, makes Call for code that a decoder has decoded, out of what that decoder shares: see [schema.Shared].
	// It is called at load. d is nil for code that a program compiles. Such a function has no meaning in another process.
	Bind func(d *schema.Decoder) func(src Source, args ...any) (any, error)
}

// Register adds a function, or replaces one that comes with flowd. It is called from init functions only. It panics when the
// name is taken: that is a mistake of the program's author, seen at start.
func Register(f Func) { lang.Register(lang.Func(f)) }

// Scopes are all scopes that functions have, sorted.
func Scopes() []string { return lang.Scopes() }

// Functions lists, without aliases, the functions that expressions in a field of these scopes can call, by name, for docs and
// completion.
func Functions(scopes ...string) []Func {
	var all []Func
	for _, f := range lang.Functions(scopes...) {
		all = append(all, Func(f))
	}
	return all
}

// Canonical is the name under which docs have a function that may be called by an alias, as expr names it.
func Canonical(name string) string { return lang.Canonical(name) }

// Seed makes the random values of this process repeat, for a test of a pipeline; a Seeded source keeps its own. undo ends
// that.
func Seed(n uint64) (undo func()) { return sources.Seed(n) }
