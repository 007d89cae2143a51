package lists

import (
	"fmt"
	"strings"

	"github.com/ohler55/ojg/jp"

	"github.com/flowd-io/flowd/engine/expr/internal/lang"
	"github.com/flowd-io/flowd/engine/expr/internal/value"
)

var jsonPaths = lang.Builtins{
	{"json_path(any, json_path) list",
		"All values that a JSONPath (RFC 9535) finds, in its order.",
		`json_path({items: [{sku: "a", qty: 1}, {sku: "b", qty: 5}]}, "$.items[?@.qty > 2].sku") → ["b"]`,
		func(f *lang.Frame, s *lang.Site, args []any) any {
			q, ok := s.Prepared(1).(*jsonPath)
			if !ok {
				text := args[1].(string)
				if len(text) > lang.MaxPattern {
					s.Fail("%s(): a path from a message may have at most %d bytes", s.Name, lang.MaxPattern)
				}
				f.Step(s.Offset, 100+len(text)*4)
				q = compileJSONPath(s, text)
			}
			return q.find(f, s, args[0])
		}},
}

var _ = lang.Role("json_path", value.Text, func(s *lang.Site, v any) any { return compileJSONPath(s, v.(string)) })

// jsonPath is a compiled JSONPath.
type jsonPath struct {
	expr jp.Expr
	// power says how the cost grows at worst: it is the size of the value to this power.
	power int
}

func compileJSONPath(s *lang.Site, text string) *jsonPath {
	if !strings.HasPrefix(text, "$") {
		s.FailWith("begin it with $: $.items[*].sku", "%s() needs a JSONPath, not %s", s.Name, s.Show(text))
	}
	x, err := jp.ParseString(text)
	if err != nil {
		why, _, _ := strings.Cut(err.Error(), " in ") // without the path, which may be secret
		if strings.HasPrefix(why, "strconv.") {
			why = "a number in it is too large"
		}
		if s.Secret[0] {
			why = "it can't be read"
		}
		s.Fail("%s(): %s is not a JSONPath: %s", s.Name, s.Show(text), why)
	}
	// Each .. goes through all descendants of each value that the part before it found, and so does a filter that looks at more
	// than its own element.
	power := max(1, strings.Count(text, ".."))
	for _, behind := range strings.Split(text, "?")[1:] {
		filter := upToBracket(behind)
		if strings.ContainsAny(filter, "$*:?") || strings.Contains(filter, "..") {
			power++
		}
	}
	return &jsonPath{x, power}
}

// upToBracket is text up to a closing bracket that it does not open.
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

// find is the values that the path finds. It is charged for beforehand, as the library has no budget.
func (q *jsonPath) find(f *lang.Frame, s *lang.Site, v any) (found []any) {
	size, cost := sizeOf(v, 0), 1
	for range q.power {
		if cost *= size; cost > f.StepLimit() {
			break
		}
	}
	f.Step(s.Offset, cost)
	if found = q.get(s, v); found == nil {
		found = []any{}
	}
	f.Alloc(s.Offset, len(found)*lang.ElementSize)
	return found
}

// get is the values that the library finds. A panic in it fails the message.
func (q *jsonPath) get(s *lang.Site, v any) []any {
	defer func() {
		if r := recover(); r != nil {
			s.Fail("%s(): %s", s.Name, fmt.Sprint(r))
		}
	}()
	return q.expr.Get(v)
}

// sizeOf is the number of values in v, including v.
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
