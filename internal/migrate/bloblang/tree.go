package bloblang

import "fmt"

// Mapping is a parsed mapping: statements, in order. A mapping that is a single expression, short for `root = …`, is
// one assignment to the root.
type Mapping struct {
	Statements []Statement

	maps     map[string]*namedMap // defined by the mapping
	comments []comment            // in the order of the text
	src      *source
}

type namedMap struct {
	name       string
	pos        int
	statements []Statement
	src        *source
	imported   map[string]*namedMap // other definitions of the file that it comes from, by name
}

// Statement is one of let, meta, assign, branches, define and imports.
type Statement interface{ at() span }

// span is a part of the text, from a byte to another.
type span struct{ from, to int }

func (s span) at() span { return s }

type (
	// let is `let name = value`.
	let struct {
		span
		name  string
		value node
	}
	// setMeta is `meta name = value`, or `meta = value` if all is set.
	setMeta struct {
		span
		name  string
		all   bool
		value node
	}
	// assign is `root.path = value`; an empty path is the root itself.
	assign struct {
		span
		path  []string
		value node
	}
	// branches is `if … { … } else if … { … } else { … }`.
	branches struct {
		span
		cases []branch
	}
	// define is `map name { … }`.
	define struct {
		span
		name string
	}
	// imports is `import "path"`, or `from "path"` if whole.
	imports struct {
		span
		path  string
		whole bool
	}
)

type branch struct {
	span
	when node // nil: else
	do   []Statement
}

// node is an expression.
type node interface{ pos() int }

// place is where a node begins, in bytes.
type place int

func (p place) pos() int { return int(p) }

type (
	// literal is nil, a bool, an int64, a float64 or a string.
	literal struct {
		place
		value any
	}
	// placeholder is `${NAME:default}` outside a text.
	placeholder struct {
		place
		text string
	}
	list struct {
		place
		items []node
	}
	object struct {
		place
		keys, values []node
	}
	this     struct{ place }
	root     struct{ place }
	variable struct {
		place
		name string
	}
	// metaRef is `@name`, or `@` if all is meant.
	metaRef struct {
		place
		name string
		all  bool
	}
	// named is the parameter of an enclosing lambda.
	named struct {
		place
		name string
	}
	field struct {
		place
		of   node
		name string
	}
	// call is a function, or a method if it has a receiver.
	call struct {
		place
		of   node
		name string
		args []argument
		end  int
	}
	// within is `x.(body)`, in which `this` is x.
	within struct {
		place
		of, body node
	}
	lambda struct {
		place
		param string // _: unnamed, and `this` keeps its meaning
		body  node
	}
	unary struct {
		place
		op string
		of node
	}
	binary struct {
		place
		op          string
		left, right node
	}
	// ifElse has one more value than conditions if there is an else.
	ifElse struct {
		place
		whens, values []node
	}
	match struct {
		place
		subject node // nil: this
		cases   []matchCase
	}
)

type matchCase struct {
	when, value node // when is nil for _
}

type argument struct {
	name  string // or empty
	value node
}

// comment is the text behind #, trimmed.
type comment struct {
	span
	text string
	own  bool // the comment is alone on its line
}

// SyntaxError says where and why a mapping is invalid.
type SyntaxError struct {
	Line, Column int // from 1
	Problem      string
}

func (e *SyntaxError) Error() string {
	return fmt.Sprintf("line %d, column %d: %s", e.Line, e.Column, e.Problem)
}
