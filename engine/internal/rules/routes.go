package rules

import (
	"fmt"
	"slices"
	"strings"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/schema"
)

// checkRoutes checks that every message can reach an output, and that every output can get messages.
func (r *checker) checkRoutes() {
	if n := r.find("outputs"); r.spec.Place.Node != nil && (n == nil || n.Kind != schema.MapNode) {
		return // the decoder has complained
	}
	if n := r.find("inputs"); n != nil && n.Kind == schema.MapNode && len(n.Keys) == 0 {
		r.complain(r.key("inputs"), schema.Problem{Code: "no-input", Message: "there is no input",
			Remedy: "write one, such as `inputs: {in: {stdin: {}}}`"})
	}
	if len(r.outputs) == 0 {
		r.complain(r.key("outputs"), schema.Problem{Code: "no-output", Message: "there is no output",
			Remedy: "write one, such as `outputs: {out: {stdout: {}}}`"})
		return
	}
	r.checkComposites()
	dead, members := r.deadLetters(), r.allMembers()
	if r.spec.Batchers.Len() == 0 {
		r.checkOnlyOutput(dead, members)
		return
	}
	used, all := map[string]bool{}, true // all: every batcher names an output
	for name, b := range r.spec.Batchers.All() {
		r.checkBatcher(name, b, used)
		all = all && len(b.Output) > 0
	}
	for _, o := range r.outputs {
		if all && !used[o] && !dead[o] && !members[o] {
			r.complain(r.key("outputs", o), schema.Problem{Code: "unused-output",
				Message: "nothing is ever sent to this output",
				Remedy:  fmt.Sprintf("name it in a batcher (`output: %s`), or remove it", o)})
		}
	}
	r.checkSequence()
}

// checkOnlyOutput checks that a pipeline without batchers has a single output for its messages.
func (r *checker) checkOnlyOutput(dead, members map[string]bool) {
	normal := slices.DeleteFunc(slices.Clone(r.outputs), func(o string) bool { return dead[o] || members[o] })
	switch len(normal) {
	case 0:
		if !slices.ContainsFunc(r.outputs, func(o string) bool { return dead[o] }) {
			return // the outputs form a cycle, which has been reported
		}
		r.complain(r.key("outputs"), schema.Problem{Code: "no-route",
			Message: "every output is a dead letter, so messages have nowhere to go",
			Remedy:  "add an output, or batchers that name one"})
	case 1:
	default:
		var b strings.Builder
		for i, o := range normal {
			match := ""
			if i < len(normal)-1 {
				match = "match: …, "
			}
			fmt.Fprintf(&b, ", to_%s: {%soutput: %s}", o, match, o)
		}
		remedy := ""
		if dead := slices.DeleteFunc(slices.Clone(normal), func(o string) bool { return !deadNames().MatchString(o) }); len(dead) == 1 {
			remedy = fmt.Sprintf("if failed messages go to %s, write `engine: {on_failure: {dead_letter: %[1]s}}`; otherwise ", dead[0])
		}
		r.complain(r.key("outputs", normal[1]), schema.Problem{Code: "no-batchers",
			Message: fmt.Sprintf("there are %d outputs, but no batchers to say which message goes where", len(normal)),
			Remedy: remedy + "write `batchers: {" + b.String()[2:] + "}`, or `batchers: {all: {output: [" + strings.Join(normal,
				", ") + "]}}` to send every message to each"})
	}
}

// checkBatcher checks the outputs that a batcher names, and adds them to used.
func (r *checker) checkBatcher(name string, b engine.BatcherSpec, used map[string]bool) {
	list := r.find("batchers", name, "output")
	for i, o := range b.Output {
		at := r.at("batchers", name, "output").Item(i)
		if list == nil {
			at = r.key("batchers", name, "output")
		}
		r.checkName(at, b.Output, i)
		used[schema.Meant(o, r.outputs)] = true
	}
	if list != nil && list.Kind == schema.ListNode && len(list.Items) == 0 {
		r.complain(r.at("batchers", name, "output"), schema.Problem{Code: "no-output",
			Message: "the batcher names no output", Remedy: schema.Suggest("", r.outputs, "one of `outputs`")})
	}
}

// checkName checks the i-th of a list of outputs, which is written at a place.
func (r *checker) checkName(at schema.Place, names []string, i int) {
	switch name := names[i]; {
	case slices.Contains(names[:i], name):
		r.complain(at, schema.Problem{Code: "repeated-output",
			Message: fmt.Sprintf("the output %q is given twice", name), Remedy: "name it once"})
	case !slices.Contains(r.outputs, name):
		r.complain(at, r.unknownOutput(name))
	}
}

func (r *checker) unknownOutput(name string) schema.Problem {
	return schema.Problem{Code: "unknown-output", Message: fmt.Sprintf("there is no output %q", name),
		Remedy: schema.Suggest(name, r.outputs, fmt.Sprintf("add %q to `outputs`", name))}
}

// checkSequence checks that every batcher can get messages. Batchers are tried in the order in which they are written,
// those without `match` last, until one without `continue` takes the message.
func (r *checker) checkSequence() {
	var tried []schema.Entry[engine.BatcherSpec]
	entries := r.spec.Batchers.Entries()
	for _, last := range []bool{false, true} {
		for _, e := range entries {
			if r.hasMatch(e.Key) != last {
				tried = append(tried, e)
			}
		}
	}
	taker, catchAll := "", false // takes every message that reaches it
	for _, e := range tried {
		match := constant(e.Value.Match.String())
		all := !r.hasMatch(e.Key) || match == "true"
		switch {
		case match == "false":
			r.complain(r.at("batchers", e.Key, "match"), schema.Problem{Code: "never-matches",
				Message: "this condition is never true, so the batcher takes nothing",
				Remedy:  "remove the batcher, or correct the condition"})
		case taker != "":
			remedy := fmt.Sprintf("put it before %q, or give %q a `match`, or `continue: true`", taker, taker)
			if !r.hasMatch(e.Key) {
				remedy = fmt.Sprintf("give one of the two a `match`, or %q `continue: true`", taker)
			}
			r.complain(r.key("batchers", e.Key), schema.Problem{Code: "unreachable-batcher",
				Message: fmt.Sprintf("no message ever arrives here: %q takes all of them first", taker),
				Remedy:  remedy})
		}
		catchAll = catchAll || all
		if all && !e.Value.Continue && taker == "" {
			taker = e.Key
		}
		r.checkBatchKey(e.Key, e.Value)
	}
	if !catchAll {
		r.complain(r.key("batchers"), schema.Problem{Code: "no-catch-all", Warning: true,
			Message: "a message that no batcher matches fails with class unrouted",
			Remedy:  "add a batcher without `match`; to discard such messages, give it an output `drop: {}`"})
	}
}

// hasMatch says whether a batcher has a condition. It looks at the nodes, since a condition that does not compile counts.
func (r *checker) hasMatch(batcher string) bool {
	if r.spec.Place.Node == nil {
		b, _ := r.spec.Batchers.Get(batcher)
		return !b.Match.IsZero()
	}
	match := r.find("batchers", batcher, "match")
	return match != nil && match.Kind != schema.NullNode
}

// constant is the value of a condition that is a constant, as "true" or "false"; "" for other conditions.
func constant(condition string) string {
	text := strings.TrimSpace(condition)
	for strings.HasPrefix(text, "(") && strings.HasSuffix(text, ")") {
		text = strings.TrimSpace(text[1 : len(text)-1])
	}
	switch text {
	case "true", "not false", "!false":
		return "true"
	case "false", "not true", "!true":
		return "false"
	}
	return ""
}

// checkBatchKey warns of a batch key that separates messages with equal order keys.
func (r *checker) checkBatchKey(name string, b engine.BatcherSpec) {
	order := r.spec.Engine.OrderBy
	if order.IsZero() || r.spec.Engine.Unordered() || b.Key.IsZero() || order.String() == b.Key.String() {
		return
	}
	r.complain(r.at("batchers", name, "key"), schema.Problem{Code: "order-parted", Warning: true,
		Message: fmt.Sprintf(
			"messages with equal `order_by` (%s) may get different batch keys, and batches with different keys are not ordered", order.String()),
		Remedy: "use the same expression for both if their order matters"})
}
