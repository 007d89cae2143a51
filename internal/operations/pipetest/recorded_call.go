package pipetest

import (
	"slices"
	"strconv"
	"strings"

	"github.com/flowd-io/flowd/config"
	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/doc"
	"github.com/flowd-io/flowd/engine/expr"
	"github.com/flowd-io/flowd/internal/operations/difference"
	"github.com/flowd-io/flowd/internal/operations/observe"
)

// call is what a step that calls another system did with a message.
type call struct {
	record observe.Record
	answer config.Answer
	kind   string            // the same for equal answers
	fields map[string]string // of the message as the step got it, with values as JSON
	raw    []byte            // that message
}

// newCall returns the call in a record. before is the payload that the step got, if it is known.
func newCall(r observe.Record, before []byte) call {
	was, err := doc.Decode(before)
	is, also := doc.Decode(r.Payload)
	documents := err == nil && also == nil
	fields := 0
	for _, c := range r.Changes {
		if !strings.HasPrefix(c.Path, "meta(") {
			fields++
		}
	}
	if documents && len(difference.Of("", was, is)) != fields {
		before, was, documents = r.Payload, is, false // a copy of the message was elsewhere meanwhile
	}
	c := call{record: r, fields: map[string]string{}, raw: before}
	flatten("", was, c.fields)
	switch set, ok := added(was, is); {
	case r.Passage == engine.FilteredOut:
		c.answer.Drop = true
	case r.Passage == engine.FailedThere && r.Error != nil:
		c.answer.Error, _, _ = strings.Cut(r.Error.Message, "\n")
		if mockClasses[r.Error.Class] {
			c.answer.Class = string(r.Error.Class)
		}
	case len(r.Changes) == 0:
	case documents && ok:
		c.answer.Set = asJSON(set)
	case also == nil:
		c.answer.JSON = asJSON(is)
	default:
		text := string(r.Payload)
		c.answer.Text = &text
	}
	var names []string
	for _, change := range r.Changes {
		quoted, isMeta := strings.CutPrefix(strings.TrimSuffix(change.Path, ")"), "meta(")
		name, err := strconv.Unquote(quoted)
		if _, there := r.Meta[name]; isMeta && err == nil && there {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	c.answer.Meta = metaValues(r.Meta, names)
	c.kind = kindOf(c.answer)
	return c
}

// mockClasses are the classes that a mock can fail with.
var mockClasses = map[engine.Class]bool{engine.Transient: true, engine.Permanent: true, engine.Auth: true, engine.Rejected: true,
	engine.Timeout: true}

func asJSON(v any) *config.JSON {
	text, err := doc.Append(nil, v)
	if err != nil {
		return nil
	}
	j := config.JSON(text)
	return &j
}

// added returns the fields of is that was does not have with the same value; objects are compared field by field. It is
// false if a field of was is missing.
func added(was, is any) (map[string]any, bool) {
	from, ok := was.(map[string]any)
	to, also := is.(map[string]any)
	if !ok || !also {
		return nil, false
	}
	set := map[string]any{}
	for key := range from {
		if _, there := to[key]; !there {
			return nil, false
		}
	}
	for key, v := range to {
		old, there := from[key]
		if there && len(difference.Of("", old, v)) == 0 {
			continue
		}
		_, both := old.(map[string]any)
		if _, object := v.(map[string]any); both && object {
			below, ok := added(old, v)
			if !ok {
				return nil, false
			}
			v = below
		}
		set[key] = v
	}
	return set, true
}

// flatten collects the fields of a document that are not objects or lists.
func flatten(path string, v any, to map[string]string) {
	switch v := v.(type) {
	case map[string]any:
		for key, item := range v {
			flatten(strings.TrimPrefix(path+"."+key, "."), item, to)
		}
	case []any:
	default:
		if text := difference.Show(v); path != "" {
			if _, err := expr.CompileCond(path+" == "+text, "batch"); err == nil {
				to[path] = text
			}
		}
	}
}

// condition returns a condition that is true for the message of a call: on one field, on all of them if field is "", or on
// the payload if it is not a document.
func (c *call) condition(field string) (expr.Cond, string) {
	var parts []string
	for path, value := range c.fields {
		if field == "" || path == field {
			parts = append(parts, path+" == "+value)
		}
	}
	slices.Sort(parts)
	if len(parts) == 0 {
		parts = []string{"raw() == " + difference.Show(string(c.raw))}
	}
	text := strings.Join(parts, " and ")
	cond, _ := expr.CompileCond(text, "batch") // the parts compile; without a condition, the answer is for all
	return cond, text
}
