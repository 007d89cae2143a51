// Package lang is the language of expressions: it compiles code into closures and evaluates them on messages. It knows no
// function by itself; those that come with flowd are in package builtin, and declare themselves with [Builtins].
//
// [Compile] makes a [Program] of code. It has expr's parser make a syntax tree (parse.go), and turns that into a tree of [Node],
// each with a closure (compile.go, operator.go, logic.go, loop.go, call.go). Many nodes have shorter ways beside the closure,
// which never give another value or error: a [ScalarFunc] reads numbers and short texts without allocations (scalar.go), and a
// [WriteFunc] writes JSON without decoding (write.go). A [Frame] is one evaluation with its budget. A [Site] is a place in the
// code: a value that an operation can't take ends the evaluation there, by a panic that Program catches ([Site.Fail]).
//
// A function is declared by a usage line, which docs show and calls are checked against (signature.go, declare.go). It gets a
// Frame, a Site and its arguments. What an argument is for, such as a pattern, is its [Role]: a constant in that role is checked
// and worked out when the code is compiled.
//
// Package expr has the tests of the language: they see what users see.
package lang
