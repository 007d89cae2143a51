package config

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/schema"
)

// routes checks that every message has a way out and every output a way in.
func (c *checker) routes() {
	outputs := c.names("outputs")
	if n := c.root.Lookup("outputs"); n == nil || n.Kind != schema.MapNode {
		return // the decoder has complained
	}
	if n := c.root.Lookup("inputs"); n != nil && n.Kind == schema.MapNode && len(n.Keys) == 0 {
		c.complainKey([]string{"inputs"}, schema.Problem{Code: "no-input", Message: "there is no input", Remedy: "write one, such as `inputs: {in: {stdin: {}}}`"})
	}
	if len(outputs) == 0 {
		c.complainKey([]string{"outputs"}, schema.Problem{Code: "no-output", Message: "there is no output", Remedy: "write one, such as `outputs: {out: {stdout: {}}}`"})
		return
	}
	c.composites()
	dead, members := c.deadLetters(), c.members()
	if len(c.names("batchers")) == 0 {
		c.withoutBatchers(outputs, dead, members)
		return
	}
	used, all := map[string]bool{}, true // all batchers say where they send
	for name, b := range c.spec.Batchers.All() {
		c.batcher(name, b, outputs, used)
		all = all && len(b.Output) > 0
	}
	for _, o := range outputs {
		if all && !used[o] && !dead[o] && !members[o] {
			c.complainKey([]string{"outputs", o}, schema.Problem{Code: "unused-output", Message: "nothing is ever sent to this output", Remedy: fmt.Sprintf("name it in a batcher (`output: %s`), or remove it", o)})
		}
	}
	c.order()
}

// withoutBatchers checks that it is clear which output takes the messages.
func (c *checker) withoutBatchers(outputs []string, dead, members map[string]bool) {
	normal := slices.DeleteFunc(slices.Clone(outputs), func(o string) bool { return dead[o] || members[o] })
	switch len(normal) {
	case 0:
		if !slices.ContainsFunc(outputs, func(o string) bool { return dead[o] }) {
			return // they are members of each other, which has been said
		}
		c.complainKey([]string{"outputs"}, schema.Problem{Code: "no-route", Message: "every output is a dead letter, so messages have nowhere to go", Remedy: "add an output, or batchers that name one"})
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
		c.complainKey([]string{"outputs", normal[1]}, schema.Problem{Code: "no-batchers",
			Message: fmt.Sprintf("there are %d outputs, but no batchers to say which message goes where", len(normal)),
			Remedy:  "write `batchers: {" + b.String()[2:] + "}`, or `batchers: {all: {output: [" + strings.Join(normal, ", ") + "]}}` to send every message to each"})
	}
}

// batcher checks the outputs that a batcher names.
func (c *checker) batcher(name string, b engine.BatcherSpec, outputs []string, used map[string]bool) {
	at := find(c.root, "batchers", name, "output")
	for i, o := range b.Output {
		n, path := at, join("batchers", name)+".output"
		if at != nil && at.Kind == schema.ListNode && i < len(at.Items) {
			n, path = at.Items[i], path+"["+strconv.Itoa(i)+"]"
		}
		if n == nil {
			n = keyAt(c.root, []string{"batchers", name})
		}
		switch {
		case slices.Contains(b.Output[:i], o):
			c.report(problemAt(n, schema.Problem{Path: path, Code: "repeated-output", Message: fmt.Sprintf("the output %q is given twice", o), Remedy: "name it once"}))
		case !slices.Contains(outputs, o):
			c.report(problemAt(n, unknownOutput(path, o, outputs)))
		}
		used[meant(o, outputs)] = true
	}
	if at != nil && at.Kind == schema.ListNode && len(at.Items) == 0 {
		c.complain([]string{"batchers", name, "output"}, schema.Problem{Code: "no-output", Message: "the batcher names no output", Remedy: didYouMean("", outputs, "one of `outputs`")})
	}
}

// meant is the name among those known that a name most likely means, or itself.
func meant(name string, known []string) string {
	if near := schema.Nearest(name, known); near != "" && !slices.Contains(known, name) {
		return near
	}
	return name
}

func unknownOutput(path, name string, outputs []string) schema.Problem {
	return schema.Problem{Path: path, Code: "unknown-output", Message: fmt.Sprintf("there is no output %q", name), Remedy: didYouMean(name, outputs, fmt.Sprintf("add %q to `outputs`", name))}
}

// order checks which batchers can ever see a message: they are tried in the
// order written, those without match last, until one without `continue` takes it.
func (c *checker) order() {
	var tried []schema.Entry[engine.BatcherSpec]
	entries := c.spec.Batchers.Entries()
	for _, last := range []bool{false, true} {
		for _, e := range entries {
			if c.hasMatch(e.Key) != last {
				tried = append(tried, e)
			}
		}
	}
	taker, catchAll := "", false // takes every message that reaches it
	for _, e := range tried {
		path := []string{"batchers", e.Key}
		match := constant(e.Value.Match.String())
		all := !c.hasMatch(e.Key) || match == "true"
		switch {
		case match == "false":
			c.complain(append(path, "match"), schema.Problem{Code: "never-matches", Message: "this condition is never true, so the batcher takes nothing", Remedy: "remove the batcher, or correct the condition"})
		case taker != "":
			remedy := fmt.Sprintf("put it before %q, or give %q a `match`, or `continue: true`", taker, taker)
			if !c.hasMatch(e.Key) {
				remedy = fmt.Sprintf("give one of the two a `match`, or %q `continue: true`", taker)
			}
			c.complainKey(path, schema.Problem{Code: "unreachable-batcher", Message: fmt.Sprintf("no message ever arrives here: %q takes all of them first", taker), Remedy: remedy})
		}
		catchAll = catchAll || all
		if all && !e.Value.Continue && taker == "" {
			taker = e.Key
		}
		c.keys(e.Key, e.Value)
	}
	if !catchAll {
		c.complainKey([]string{"batchers"}, schema.Problem{Code: "no-catch-all", Warning: true, Message: "a message that no batcher matches fails with class unrouted", Remedy: "add a batcher without `match`; to discard such messages, give it an output `drop: {}`"})
	}
}

// hasMatch goes by the nodes: a condition that does not compile is one all the same.
func (c *checker) hasMatch(batcher string) bool {
	match := find(c.root, "batchers", batcher, "match")
	return match != nil && match.Kind != schema.NullNode
}

// constant is "true" or "false" for a condition that is nothing else.
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

// keys warns of a batch key that parts what order_by holds together.
func (c *checker) keys(name string, b engine.BatcherSpec) {
	order := c.spec.Engine.OrderBy
	if order.IsZero() || b.Key.IsZero() || order.String() == b.Key.String() {
		return
	}
	c.complain([]string{"batchers", name, "key"}, schema.Problem{Code: "order-parted", Warning: true,
		Message: fmt.Sprintf("messages with equal `order_by` (%s) may get different keys here; between batches of different keys there is no order", order.String()),
		Remedy:  "use the same expression for both if their order matters"})
}
