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

// Limits of a check of one document. A step is the check of a value against one schema, or as much other work: some
// hundred nanoseconds. Ordinary documents and schemas need a few steps per value.
const (
	freeSteps    = 1_000_000
	stepsPerByte = 32     // of the document, in addition
	deepest      = 10_000 // nested schemas and values
	betweenLooks = 1 << 12
)

// Limits of a schema from a registry.
const (
	mostSchemas      = 50_000
	mostValues       = 400_000 // in the text of one schema
	mostInstructions = 500_000 // of all regular expressions
	longestPattern   = 64 << 10
)

// ErrGivenUp is the error of a check that would take too many steps.
var ErrGivenUp = errors.New("let the schemas of oneOf and anyOf differ in a const of one property, " +
	"and refer to themselves less often")

// budget bounds a check. Once it is exhausted, all checks fail at once.
type budget struct {
	ctx     context.Context
	steps   int
	look    int // steps left when ctx is checked next
	most    int
	level   int
	stopped error
}

func newBudget(ctx context.Context, size int) budget {
	return budget{ctx: ctx, most: freeSteps + stepsPerByte*size}
}

// spend counts steps. It returns false if the check has ended.
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

// enter records that a schema is checked inside another one.
func (c *checking) enter() bool {
	if c.level++; c.level > deepest && c.stopped == nil {
		c.stopped = fmt.Errorf("%s: the check was given up, schemas lead to each other more than %d times (%w)",
			clip(pointer(c.at)), deepest, ErrGivenUp)
	}
	return c.stopped == nil
}

// question is what a check may ask repeatedly: does a value match a schema?
type question struct {
	n      *node
	list   uintptr // address of a list's or object's items, which identifies its place in the document
	scalar any     // in place of list
	marks  bool
	loud   bool
}

type verdict struct {
	ok    bool
	marks *marks
}

// mostKnown bounds the remembered verdicts.
const mostKnown = 1 << 15

// question returns the key under which the verdict for a value and a schema is remembered. Remembering costs more
// than most checks, so it begins once a check has taken unusually many steps. It avoids exponential time in schemas
// that refer to each other in many ways.
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

// remember stores a verdict.
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

// weigh returns how many steps a whole value takes.
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

// heft returns how many steps a calculation with a number takes. A power of ten counts with all its digits.
func heft(n json.Number) int {
	if _, ok := small(n); ok {
		return 1
	}
	_, power, _ := strings.Cut(strings.ToLower(string(n)), "e")
	digits, _ := strconv.Atoi(power)
	return 1 + (len(n)+max(digits, -digits))/4
}

// instructions returns roughly the length of a regular expression's program. Each copy of a repeated part counts.
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
