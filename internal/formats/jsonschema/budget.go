package jsonschema

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"regexp/syntax"
	"strconv"
	"strings"
)

// What a check of one document may take. A step is a value that is looked at by one schema, or as much other work: some
// hundred nanoseconds. Documents and schemas that are not made to take long need a few steps a value.
const (
	freeSteps    = 1_000_000
	stepsPerByte = 32     // of the document, in addition
	deepest      = 10_000 // schemas in schemas, and in values of the document
	betweenLooks = 1 << 12
)

// What a schema of a registry may take.
const (
	mostSchemas      = 50_000
	mostValues       = 400_000 // in the text of one
	mostInstructions = 500_000 // of all regular expressions
	longestPattern   = 64 << 10
)

// ErrGivenUp is the error of a check that would take too many steps.
var ErrGivenUp = errors.New("let the schemas of oneOf and anyOf differ in a const of one property, " +
	"and refer to themselves less often")

// budget bounds a check. Once it has stopped, all checks fail at once.
type budget struct {
	ctx     context.Context
	steps   int
	look    int // how many steps there are when ctx is asked again
	most    int
	level   int
	stopped error
}

func newBudget(ctx context.Context, size int) budget {
	return budget{ctx: ctx, most: freeSteps + stepsPerByte*size}
}

// spend counts steps. False: the check has ended.
func (c *checking) spend(steps int) bool {
	if c.steps += steps; c.steps >= c.look {
		c.review()
	}
	return c.stopped == nil
}

func (c *checking) review() {
	c.look = c.steps + betweenLooks
	switch {
	case c.stopped != nil:
	case c.steps > c.most:
		c.stopped = fmt.Errorf("%s: the check was given up after %d steps, the limit for a document of its size (%w)",
			clip(pointer(c.at)), c.most, ErrGivenUp)
	case c.ctx.Err() != nil:
		c.stopped = context.Cause(c.ctx)
	}
}

// enter notes that a schema is looked at inside of another one.
func (c *checking) enter() bool {
	if c.level++; c.level > deepest && c.stopped == nil {
		c.stopped = fmt.Errorf("%s: the check was given up, schemas lead to each other more than %d times (%w)",
			clip(pointer(c.at)), deepest, ErrGivenUp)
	}
	return c.stopped == nil
}

// question is what a check may ask again and again: does a value match a schema?
type question struct {
	n      *node
	list   uintptr // where the items of a list or an object are: each is at one place of the document
	scalar any     // instead
	marks  bool
	loud   bool
}

type verdict struct {
	ok    bool
	marks *marks
}

// mostKnown bounds how many verdicts a check remembers.
const mostKnown = 1 << 15

// question is what asks whether a value matches a schema, if its answer may be remembered. That costs more than most
// answers do: it begins when a check has taken more steps than an ordinary one. It takes the exponent out of schemas
// that lead to one another in many ways.
func (c *checking) question(n *node, v any, m *marks) (q question, ok bool) {
	if c.steps < c.most/16 || c.of.scoped || !n.deep {
		return q, false
	}
	q = question{n: n, marks: m != nil, loud: c.loud}
	switch v.(type) {
	case []any, map[string]any:
		q.list = reflect.ValueOf(v).Pointer()
		return q, true
	}
	q.scalar = v
	return q, !c.loud // the same value at another place is another finding
}

// remember keeps a verdict.
func (c *checking) remember(q question, ok bool, m *marks) {
	if c.stopped != nil || len(c.known) == mostKnown {
		return
	}
	if c.known == nil {
		c.known = map[question]verdict{}
	}
	if !ok {
		m = nil
	}
	c.known[q] = verdict{ok, m}
}

// weigh is how many steps it takes to look at a value as a whole.
func weigh(v any) int {
	sum := 1
	switch v := v.(type) {
	case json.Number:
		return heft(v)
	case string:
		return 1 + len(v)/64
	case []any:
		for _, item := range v {
			sum += weigh(item)
		}
	case map[string]any:
		for key, item := range v {
			sum += weigh(item) + 1 + len(key)/64
		}
	}
	return sum
}

// heft is how many steps it takes to calculate with a number: a power of ten is as long as if it were written out.
func heft(n json.Number) int {
	if _, ok := small(n); ok {
		return 1
	}
	_, power, _ := strings.Cut(strings.ToLower(string(n)), "e")
	digits, _ := strconv.Atoi(power)
	return 1 + (len(n)+max(digits, -digits))/4
}

// instructions is how long the program of a regular expression is, about: each of its copies of a repeated part counts.
func instructions(re *syntax.Regexp) int {
	sum := 1
	switch re.Op {
	case syntax.OpLiteral:
		return len(re.Rune)
	case syntax.OpRepeat:
		return 1 + instructions(re.Sub[0])*max(re.Min, re.Max, 1)
	}
	for _, part := range re.Sub {
		sum += instructions(part)
	}
	return sum
}
