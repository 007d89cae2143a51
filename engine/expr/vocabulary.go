package expr

import (
	"github.com/flowd-io/flowd/engine/expr/internal/builtin/sources"
	"github.com/flowd-io/flowd/engine/expr/internal/lang"
)

type (
	// Source is what an expression reads: a message, or a substitute for one. Its Document is the one whose fields identifiers
	// name.
	Source = lang.Source

	// Interrupted is a Source whose evaluations may have to end early: Interrupted says why, or nil. It is called about once
	// in a millisecond.
	Interrupted = lang.Interrupted

	// Seeded is a Source with random numbers of its own, such as those of a seed: its Rand. One goroutine uses it.
	Seeded = sources.Seeded

	// Limits are what one evaluation may take: Memory in bytes, and Steps. Zero fields have their defaults.
	Limits = lang.Limits

	// Error is an expression that failed, at load or on a message: Expr is its source as written, Offset the place of the
	// failing part in it, Msg what is wrong, Remedy what to write instead, or "", and Pos the place in a file, if there is one.
	Error = lang.Error

	// Call is a call of a registered function in code: whoever loads a configuration looks up the names that are arguments.
	Call = lang.Call

	// Arg is an argument of a Call.
	Arg = lang.Arg

	// Calls are calls of registered functions; those in arguments come before the call around them. The calls of all
	// expressions and templates that a decoder has decoded are its shared value of this type: see [schema.Shared].
	Calls = lang.Calls
)
