package migrate

import (
	"fmt"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"
)

// ofOutput returns the context of an output's steps.
func (t *translator) ofOutput() ctx { return ctx{batch: true, catch: t.forFailed} }

// kind returns the type and configuration of an output, or of the resource that it names.
func (t *translator) kind(n *yaml.Node) (name string, config *yaml.Node) {
	for range 10 {
		c, why := t.open("output", n)
		if why != "" {
			return "", nil
		}
		if c.key.Value != "resource" {
			return c.key.Value, c.config
		}
		if n = t.defined["output"][c.config.Value]; n == nil {
			return "", nil
		}
		n = without(n, "label")
	}
	return "", nil
}

// fallback translates outputs of which each gets what the one before could not write. It skips one that rejects
// everything. Outputs after one that rejects failed messages are dead letters.
func (t *translator) fallback(c *component, wanted string) []route {
	children := items(c.config)
	var all []*yaml.Node
	failed := -1 // index of the output for messages that steps have failed
	for i, child := range children {
		kind, _ := t.kind(child)
		if kind == "reject" && i < len(children)-1 {
			t.res.Components.Of++
			t.res.Components.Whole++
			if mentions(c.config, "fallback_error") {
				t.says(child, "what an output rejects goes to the next one without the reason (fallback_error)")
			}
			continue
		}
		if failed < 0 && !t.rejectsFailed(child) {
			failed = len(all) // at 0 they are written unchanged
			if kind == "reject" {
				failed = 0
			}
		}
		all = append(all, child)
	}
	t.metadata["fallback_error"] = "error_message"
	if len(all) == 1 {
		if wanted == c.key.Value {
			wanted = ""
		}
		return t.output(all[0], wanted)
	}
	r, members := t.composite(c, wanted, "fallback", all, failed)
	lost := slices.ContainsFunc(members, func(n *yaml.Node) bool { return n.Value == "untranslated" })
	if failed > 0 && failed < len(members) && !lost {
		t.rejected(c, r.name, members[failed:])
	}
	return []route{r}
}

// rejectsFailed reports whether an output rejects messages that steps have failed.
func (t *translator) rejectsFailed(n *yaml.Node) bool {
	kind, config := t.kind(n)
	if kind != "switch" {
		return kind == "reject_errored"
	}
	all := items(lookup(config, "cases"))
	if len(all) == 0 || strings.TrimSpace(text(all[0], "check")) != "errored()" || !has(all[0], "output") {
		return false
	}
	first, _ := t.kind(lookup(all[0], "output"))
	return first == "reject"
}

// loses reports whether an output drops everything that it can't write.
func (t *translator) loses(name string) bool {
	all := t.writers(name)
	return len(all) > 0 && !slices.ContainsFunc(all, func(out *yaml.Node) bool {
		return text(out, "on_failure", "then") != "drop"
	})
}

// rejected makes outputs of a fallback the ones for messages that steps have failed.
func (t *translator) rejected(c *component, name string, members []*yaml.Node) {
	dead := members[0].Value
	if len(members) > 1 {
		dead = t.name("output", name+"_failed")
	}
	if t.deadLater != "" {
		if t.deadLater != dead {
			t.says(c.key, fmt.Sprintf("what a step has failed goes to the output %s, wherever it would have gone", t.deadLater))
		}
		return
	}
	made := lookup(t.outputs, dead)
	key := pairOf(t.outputs, dead).key
	if made == nil {
		key = scalar(dead)
		t.outputs.Content = append(t.outputs.Content, key, mapping("fallback", list(copies(members)...)))
	}
	t.differs(key, c.key, "what a step has failed comes here as it was read, with the reason in error_message")
	if t.parts > 0 {
		t.says(c.key, fmt.Sprintf("what a step has failed goes to the output %s alone, wherever it would have gone", dead))
	}
	t.deadLater = dead
}

// writers returns the outputs that finally write for one: its inner outputs or, of a fallback, the last one.
func (t *translator) writers(name string) []*yaml.Node {
	out := lookup(t.outputs, name)
	if out == nil {
		return nil
	}
	if all := items(lookup(out, "fallback")); len(all) > 0 {
		return t.writers(all[len(all)-1].Value)
	}
	all := items(lookup(out, "round_robin"))
	if len(all) == 0 {
		return []*yaml.Node{out}
	}
	var done []*yaml.Node
	for _, one := range all {
		done = append(done, t.writers(one.Value)...)
	}
	return done
}

// writersOf returns the writers of several routes, without those that write nothing.
func (t *translator) writersOf(routes []route) (all []*yaml.Node) {
	for _, r := range routes {
		for _, name := range r.outputs {
			for _, out := range t.writers(name) {
				if !has(out, "drop") && !slices.Contains(all, out) {
					all = append(all, out)
				}
			}
		}
	}
	return all
}

// retryOutput translates an output with retries.
func (t *translator) retryOutput(c *component, wanted string) []route {
	child := lookup(c.config, "output")
	if child == nil {
		return []route{t.addOutput(wanted, t.lost(c.node, "there is no output in it"), c.node)}
	}
	if wanted == "retry" {
		wanted = ""
	}
	routes := t.output(child, wanted)
	c.entry = &entry{Fields: fields{"max_retries": {Use: "max_retries"}, "backoff.initial_interval": {Use: "backoff"},
		"backoff.max_interval": {Use: "max_backoff"}, "backoff.max_elapsed_time": {Use: "max_age"}, "output": {Skip: true}}}
	t.fill(c)
	if lookup(c.common, "retry", "max_attempts") == nil {
		putAt(c.common, "retry.max_attempts", code("0"))
	}
	retry := lookup(c.common, "retry")
	kind, _ := t.kind(child)
	all := t.writersOf(routes)
	if kind == "fallback" || kind == "try" {
		t.says(c.key, "only the last output of a fallback is tried again so: the others are not when it has failed")
	} else if len(all) > 1 {
		t.says(c.key, "each of the outputs is tried again by itself")
	}
	for _, out := range all {
		own := lookup(out, "retry")
		switch {
		case own == nil:
			put(out, "retry", plainComments(retry))
		case text(retry, "max_attempts") == "0":
			put(own, "max_attempts", code("0"))
		default:
			t.says(c.key, "the attempts of an output with a retry of its own are not multiplied")
		}
	}
	return routes
}

// dropOn translates an output whose failures are dropped.
func (t *translator) dropOn(c *component, wanted string) []route {
	child := lookup(c.config, "output")
	if child == nil {
		return []route{t.addOutput(wanted, t.lost(c.node, "there is no output in it"), c.node)}
	}
	if wanted == "drop_on" {
		wanted = ""
	}
	routes := t.output(child, wanted)
	for i, out := range t.writersOf(routes) {
		if text(c.config, "error") == "true" {
			if own := lookup(out, "retry"); own == nil {
				put(out, "retry", mapping("max_attempts", code("1"), "max_age", code("1ms")))
			} else if lookup(own, "max_age") == nil {
				t.says(c.key, "while an output can't be reached at all, messages are not dropped but wait: max_age ends that")
			}
			put(out, "on_failure", mapping("then", "drop"))
		}
		for _, name := range []string{"back_pressure", "error_patterns"} {
			if v := lookup(c.config, name); !empty(v) && i == 0 {
				t.lostField(out, pair{scalar(name), v}, name+" of drop_on has no counterpart: messages that wait are kept")
			}
		}
	}
	return routes
}

// deadLetter makes an output the dead letter.
func (t *translator) deadLetter(n *yaml.Node) {
	if kind, _ := t.kind(n); kind == "reject" { // without a dead letter, a message goes back or is dropped
		t.res.Components.Of++
		t.res.Components.Whole++
		t.rejects = true
		return
	}
	t.forFailed = true
	defer func() { t.forFailed = false }()
	routes := t.part(n)
	if len(routes) != 1 || !routes[0].plain() || len(routes[0].outputs) != 1 || t.deadLater != "" {
		t.note(Untranslated, n, "one output takes what has failed, without a batch: engine.on_failure.dead_letter")
		put(t.engine, "untranslated", scalar("one output takes what has failed, without a batch: on_failure.dead_letter"))
		return
	}
	t.deadLater = routes[0].outputs[0]
}
