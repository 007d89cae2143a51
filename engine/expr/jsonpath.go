package expr

import (
	"fmt"
	"strings"

	"github.com/ohler55/ojg/jp"

	"github.com/flowd-io/flowd/engine/expr/internal/value"
)

func init() {
	family(func() {
		builtins{{"json_path(any, json_path) list",
			"All values that a JSONPath (RFC 9535) finds, in its order.",
			`json_path({items: [{sku: "a", qty: 1}, {sku: "b", qty: 5}]}, "$.items[?@.qty > 2].sku") → ["b"]`,
			func(f *frame, s *site, args []any) any {
				q, ok := s.ready(1).(*jsonPath)
				if !ok {
					text := args[1].(string)
					if len(text) > maxPattern {
						s.fail("%s(): a path from a message may have at most %d bytes", s.name, maxPattern)
					}
					f.step(s.offset, 100+len(text)*4)
					q = compileJSONPath(s, text)
				}
				return q.find(f, s, args[0])
			}}}.declare("lists and objects", true)
	})
}

var _ = inRole("json_path", value.Text, func(s *site, v any) any { return compileJSONPath(s, v.(string)) })

// jsonPath is a compiled JSONPath.
type jsonPath struct {
	expr jp.Expr
	// power is how cost grows with the size of the value, at worst: it is that size to this power.
	power int
}

func compileJSONPath(s *site, text string) *jsonPath {
	if !strings.HasPrefix(text, "$") {
		s.failFor("begin it with $: $.items[*].sku", "%s() needs a JSONPath, not %s", s.name, s.left(text))
	}
	x, err := jp.ParseString(text)
	if err != nil {
		why, _, _ := strings.Cut(err.Error(), " in ") // without the path, which may be secret
		if strings.HasPrefix(why, "strconv.") {
			why = "a number in it is too large"
		}
		if s.secret[0] {
			why = "it can't be read"
		}
		s.fail("%s(): %s is not a JSONPath: %s", s.name, s.left(text), why)
	}
	// Each way down to all descendants goes through the whole value for each that the one before found, and so does a
	// filter that looks at more than its own element.
	power := max(1, strings.Count(text, ".."))
	for _, behind := range strings.Split(text, "?")[1:] {
		filter := upToBracket(behind)
		if strings.ContainsAny(filter, "$*:?") || strings.Contains(filter, "..") {
			power++
		}
	}
	return &jsonPath{x, power}
}

// upToBracket is text up to the bracket that it does not open.
func upToBracket(text string) string {
	depth := 0
	for i := range len(text) {
		switch text[i] {
		case '[':
			depth++
		case ']':
			if depth--; depth < 0 {
				return text[:i]
			}
		}
	}
	return text
}

// find is what the path finds. It is charged for beforehand, for the library knows no budget.
func (q *jsonPath) find(f *frame, s *site, v any) (found []any) {
	size, cost := sizeOf(v, 0), 1
	for range q.power {
		if cost *= size; cost > f.stepLimit() {
			break
		}
	}
	f.step(s.offset, cost)
	defer func() {
		if r := recover(); r != nil {
			if failed, ok := r.(*failure); ok {
				panic(failed)
			}
			s.fail("%s(): %s", s.name, fmt.Sprint(r))
		}
	}()
	if found = q.expr.Get(v); found == nil {
		found = []any{}
	}
	f.alloc(s.offset, len(found)*elementSize)
	return found
}

// sizeOf is how many values there are in v, with itself.
func sizeOf(v any, depth int) int {
	n := 1
	if depth > value.MaxDepth {
		return n
	}
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			n += sizeOf(e, depth+1)
		}
	case map[string]any:
		for _, e := range v {
			n += sizeOf(e, depth+1)
		}
	}
	return n
}
