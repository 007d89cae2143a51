package schema

import (
	"fmt"
	"maps"
	"slices"
	"sync"
)

// The codes of this package's problems. They are stable, since scripts match them.
const (
	BadPlaceholder        = "bad-placeholder"
	BadValue              = "bad-value"
	DuplicateKey          = "duplicate-key"
	MissingChoice         = "missing-choice"
	MissingType           = "missing-type"
	Pending               = "pending"
	PlaceholderInKey      = "placeholder-in-key"
	Required              = "required"
	TooDeep               = "too-deep"
	TwoChoices            = "two-choices"
	TwoTypes              = "two-types"
	UnknownField          = "unknown-field"
	UnknownType           = "unknown-type"
	UnresolvedPlaceholder = "unresolved-placeholder"
	WrongKind             = "wrong-kind"
)

// Code is a kind of problem.
type Code struct {
	Name string // "unknown-field"
	Doc  string // one sentence
}

var codes = struct {
	mu sync.Mutex
	by map[string]string
}{by: map[string]string{
	BadPlaceholder:        "A ${…} is not closed or names nothing; a literal ${ is written $${.",
	BadValue:              "A value is of the right kind, but not one that the field can take.",
	DuplicateKey:          "A mapping has the same key twice; only the first one counts.",
	MissingChoice:         "A mapping must have one of several keys and has none.",
	MissingType:           "A component has no type key, so its type is not known.",
	Pending:               "A field is known, but this version does not act on it: remove it.",
	PlaceholderInKey:      "Placeholders are replaced in values only, never in keys.",
	Required:              "A field without a default is missing.",
	TooDeep:               "The configuration is nested deeper than flowd reads.",
	TwoChoices:            "A mapping has two keys of which only one is allowed.",
	TwoTypes:              "A component has two type keys; only one is allowed.",
	UnknownField:          "A key is not known here; keys are never silently ignored.",
	UnknownType:           "No plugin of this name is part of this flowd.",
	UnresolvedPlaceholder: "A ${…} names something that is not set or cannot be read.",
	WrongKind:             "A value is of the wrong kind, such as a list where text belongs.",
}}

// AddCode registers the code of a problem. Packages call it during initialization. It panics if the code exists.
func AddCode(name, doc string) {
	codes.mu.Lock()
	defer codes.mu.Unlock()
	if _, taken := codes.by[name]; taken {
		panic(fmt.Sprintf("schema: code %q is added twice", name))
	}
	codes.by[name] = doc
}

// Codes returns all codes, sorted by name.
func Codes() []Code {
	codes.mu.Lock()
	defer codes.mu.Unlock()
	all := make([]Code, 0, len(codes.by))
	for _, name := range slices.Sorted(maps.Keys(codes.by)) {
		all = append(all, Code{name, codes.by[name]})
	}
	return all
}
