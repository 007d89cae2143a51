package expr

import (
	_ "github.com/flowd-io/flowd/engine/expr/internal/builtin" // the functions that come with flowd
	"github.com/flowd-io/flowd/engine/expr/internal/builtin/sources"
	"github.com/flowd-io/flowd/engine/expr/internal/lang"
)

// Register adds a function, or replaces one that comes with flowd. It is called from init functions only. It panics when the
// name is taken: that is a mistake of the program's author, seen at start.
func Register(f Func) { lang.Register(f) }

// Scopes are all scopes that functions have, sorted.
func Scopes() []string { return lang.Scopes() }

// Functions lists, without aliases, the functions that expressions in a field of these scopes can call, by name, for docs and
// completion.
func Functions(scopes ...string) []Func { return lang.Functions(scopes...) }

// Canonical is the name under which docs have a function that may be called by an alias, as expr names it.
func Canonical(name string) string { return lang.Canonical(name) }

// Seed makes the random values of this process repeat, for a test of a pipeline; a Seeded source keeps its own. undo ends
// that.
func Seed(n uint64) (undo func()) { return sources.Seed(n) }
