package lang

import (
	"cmp"

	"github.com/flowd-io/flowd/engine/doc"
	"github.com/flowd-io/flowd/schema"
)

// Limits are what one evaluation may take. Zero fields have their defaults. A step is one operation, one visited element or one
// piece of text, and takes about 100 ns at most.
type Limits struct {
	Memory schema.Size `yaml:"memory" default:"64MiB" check:"min=64KiB" doc:"Bytes that one evaluation may allocate, roughly: what it decodes and copies, its result, and the result as JSON."`
	Steps  int         `yaml:"steps" default:"10000000" check:"min=1000" doc:"Steps that one evaluation may take: each operation, element visited, or piece of text is one. A million take at most a tenth of a second."`
}

func (l *Limits) memory() int { return int(cmp.Or(l.Memory, 64<<20)) }
func (l *Limits) steps() int  { return cmp.Or(l.Steps, 10_000_000) }

// Interrupted is a Source whose evaluations may have to end early.
type Interrupted interface {
	Source
	// Interrupted is the reason to end the evaluation, or nil. It is called about once in a millisecond.
	Interrupted() error
}

// Limits on code, which no configuration changes. Constants are evaluated within the default Limits.
const (
	MaxSource   = 64 << 10 // bytes of an expression or template, checked before any parsing
	maxTokens   = 20_000   // of one expression: bounds the recursion of the parser
	maxBrackets = 128      // brackets within brackets
	MaxNested   = 3        // predicates within predicates
	MaxPattern  = 4 << 10  // bytes of a regular expression from a message
	MaxProgram  = 5_000    // instructions of a compiled regular expression
)

// What evaluations are charged for, and what frames keep for the next evaluation.
const (
	maxKept = 64 << 10 // bytes of the buffer that a frame keeps

	ElementSize = doc.ElementSize // bytes of an element of a list
	loopSize    = 160             // bytes that are charged for each loop, beside its result
	loopSteps   = 16              // steps that a loop costs before its first element
	stretch     = 8 << 10         // steps between looks at the budget
)
