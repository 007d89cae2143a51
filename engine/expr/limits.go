package expr

import (
	"cmp"

	"github.com/flowd-io/flowd/engine/doc"
	"github.com/flowd-io/flowd/schema"
)

// Limits are what one evaluation may take; zero fields have their defaults. A step is
// one operation, or the way through an element or a piece of text: 100 ns at most, more
// or less.
type Limits struct {
	Memory schema.Size `yaml:"memory" default:"64MiB" check:"min=64KiB" doc:"Bytes that one evaluation may allocate, roughly: what it decodes and copies, its result, and the result as JSON."`
	Steps  int         `yaml:"steps" default:"10000000" check:"min=1000" doc:"Steps that one evaluation may take: each operation, element visited, or piece of text is one. A million take at most a tenth of a second."`
}

func (l *Limits) memory() int { return int(cmp.Or(l.Memory, 64<<20)) }
func (l *Limits) steps() int  { return cmp.Or(l.Steps, 10_000_000) }

// Interrupted is a Source whose evaluations may have to end early.
type Interrupted interface {
	Source
	// Interrupted is why, or nil. It is asked about once in a millisecond.
	Interrupted() error
}

// What is bounded at load, whatever the configuration says. Constants are worked out
// within the default limits.
const (
	maxSource   = 64 << 10 // bytes of an expression or template, checked before any parsing
	maxTokens   = 20_000   // of one expression: bounds the recursion of the parser
	maxBrackets = 128      // brackets within brackets
	maxNested   = 3        // predicates within predicates
	maxPattern  = 4 << 10  // bytes of a regular expression that a message brings
	maxProgram  = 5_000    // instructions of a compiled regular expression
)

// How evaluations are charged, and what frames keep for the next one.
const (
	maxKept = 64 << 10 // bytes of encoded text that a frame keeps room for

	elementSize = doc.ElementSize // bytes of an element of a list
	loopSize    = 160             // bytes that are charged for each loop, beside what it makes
	loopSteps   = 16              // steps that a loop costs before its first element
	stretch     = 8 << 10         // steps between checks whether to continue
)
