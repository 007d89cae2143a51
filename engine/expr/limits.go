package expr

// Every expression is bounded, at load and on each message. Within these limits
// an evaluation ends in about a second at the very worst, on hostile data and a
// careless expression; ordinary ones use a thousandth of it.
const (
	maxSource   = 64 << 10  // bytes of an expression or template, checked before any parsing
	maxTokens   = 20_000    // of one expression: bounds the recursion of the parser
	maxBrackets = 128       // brackets within brackets
	maxNested   = 3         // predicates within predicates
	maxText     = 1 << 20   // bytes of a text that an expression makes
	maxMemory   = 16 << 20  // bytes that one evaluation makes, roughly
	maxSteps    = 1_000_000 // of one evaluation; a step is about 100 ns
	maxPattern  = 4 << 10   // bytes of a regular expression that a message brings
	maxProgram  = 5_000     // instructions of a compiled regular expression

	maxKept = 64 << 10 // bytes of encoded text that a frame keeps room for

	elementSize = 32 // bytes that an element of a list is charged with
	loopSteps   = 16 // steps that a predicate costs before its first element
)
