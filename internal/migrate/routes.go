package migrate

import (
	"fmt"
	"strings"

	"gopkg.in/yaml.v3"
)

// route is one way to outputs: a batcher, or nothing but the name of an output.
type route struct {
	name    string // of the batcher
	match   string
	more    bool // later batchers see the message, too
	key     string
	batch   *yaml.Node // the policy, as flowd has it
	window  *yaml.Node
	steps   []*yaml.Node
	outputs []string
	head    string // comments above it
}

// composite translates outputs of which one takes a message.
func (t *translator) composite(c *component, wanted, kind string, children []*yaml.Node) route {
	names := list()
	var batch *yaml.Node
	if wanted == c.key.Value {
		wanted = kind
	}
	name := t.name("output", wanted)
	at := len(t.outputs.Content)
	for _, child := range children {
		routes := t.output(child, "")
		if len(routes) != 1 || routes[0].match != "" || len(routes[0].outputs) != 1 {
			names.Content = append(names.Content, scalar("untranslated"))
			t.note(Untranslated, child, fmt.Sprintf("a part of %s is one output, not a switch or a broker", c.key.Value))
			continue
		}
		r := routes[0]
		if r.batch != nil {
			if batch == nil {
				batch = r.batch
			} else {
				t.says(child, "the outputs of "+c.key.Value+" share one batch: that of the first counts")
			}
		}
		if len(r.steps) > 0 {
			put(lookup(t.outputs, r.outputs[0]), "processors", list(r.steps...))
		}
		names.Content = append(names.Content, scalar(r.outputs[0]))
	}
	made := mapping(kind, names)
	key := scalar(name)
	t.outputs.Content = append(t.outputs.Content[:at], append([]*yaml.Node{key, made}, t.outputs.Content[at:]...)...)
	return route{name: name, outputs: []string{name}, batch: batch}
}

// brokerOutputs translates outputs that all, or in turn, take messages.
func (t *translator) brokerOutputs(c *component, wanted string) []route {
	children := items(lookup(c.config, "outputs"))
	pattern := text(c.config, "pattern")
	batch, steps := t.policy(lookup(c.config, "batching"))
	var routes []route
	switch pattern {
	case "round_robin", "greedy":
		r := t.composite(c, wanted, "round_robin", children)
		if pattern == "greedy" {
			r.head = commented("Differs: outputs take messages in turn, not whichever is free first")
			t.note(Differs, c.key, "outputs take messages in turn, not whichever is free first")
		}
		routes = []route{r}
	case "", "fan_out", "fan_out_fail_fast", "fan_out_sequential", "fan_out_sequential_fail_fast":
		routes = t.fanOut(children)
		if strings.Contains(pattern, "sequential") && len(routes) > 0 {
			routes[0].head = commented("Differs: the outputs are written to at the same time, not one after the other")
			t.note(Differs, c.key, "the outputs are written to at the same time, not one after the other")
		}
	default:
		why := fmt.Sprintf("the pattern %s of a broker has no counterpart", pattern)
		return []route{t.addOutput(wanted, t.lost(c.node, why), c.node)}
	}
	if text(c.config, "copies") != "" && text(c.config, "copies") != "1" {
		t.says(c.key, "copies of an output are its concurrency")
	}
	for i := range routes {
		if batch != nil && routes[i].batch == nil {
			routes[i].batch = batch
		}
		routes[i].steps = append(append([]*yaml.Node{}, steps...), routes[i].steps...)
	}
	return routes
}

// fanOut translates outputs that all take each message.
func (t *translator) fanOut(children []*yaml.Node) []route {
	var simple *route // those that need nothing of their own
	var all []route
	for _, child := range children {
		routes := t.output(child, "")
		if len(routes) == 1 && routes[0].plain() {
			if simple == nil {
				all = append(all, routes[0])
				simple = &all[len(all)-1]
				continue
			}
			simple.outputs = append(simple.outputs, routes[0].outputs...)
			simple.head = join(simple.head, routes[0].head)
			continue
		}
		if len(routes) > 1 {
			routes = exclusive(routes)
		}
		simple = nil
		all = append(all, routes...)
	}
	for i := range all {
		if i < len(all)-1 {
			all[i].more = true
		}
	}
	return all
}

// plain says whether a way is an output alone.
func (r route) plain() bool {
	return r.match == "" && r.batch == nil && r.key == "" && r.window == nil && len(r.steps) == 0
}

// exclusive gives each way of a switch a condition that excludes those before, so that others may follow.
func exclusive(routes []route) []route {
	var before []string
	for i, r := range routes {
		parts := []string{}
		if r.match != "" {
			parts = append(parts, brackets(r.match))
		}
		for _, b := range before {
			parts = append(parts, "not "+brackets(b))
		}
		if !r.more && r.match != "" {
			before = append(before, r.match)
		}
		if routes[i].match = strings.Join(parts, " and "); len(parts) == 1 && r.match != "" {
			routes[i].match = r.match
		}
	}
	return routes
}

// brackets puts an expression into brackets, unless it needs none.
func brackets(e string) string {
	if strings.HasPrefix(e, "(") && closing(e[1:]) == len(e)-2 || simplePath().MatchString(e) {
		return e
	}
	return "(" + e + ")"
}

// switchOutputs translates a switch into batchers.
func (t *translator) switchOutputs(c *component) []route {
	cases := lookup(c.config, "cases")
	if cases == nil {
		cases = lookup(c.config, "outputs")
	}
	var all []route
	caught := false
	for _, one := range items(cases) {
		out := lookup(one, "output")
		if out == nil {
			r := t.addOutput("case", t.lost(one, "a case has an output"), one)
			r.match = "true"
			all = append(all, r)
			continue
		}
		check := strings.TrimSpace(text(one, "check"))
		if check == "errored()" {
			t.deadLetter(out)
			continue
		}
		head := mapping()
		condition := ""
		if check != "" {
			if ofErrors().MatchString(check) {
				t.differs(head, lookup(one, "check"),
					"a message that has failed never gets here: it goes where engine.on_failure says")
			}
			condition = t.query(head, lookup(one, "check"), check, ctx{})
		}
		more := text(one, "continue") == "true"
		routes := t.output(out, "")
		for i, r := range routes {
			r.more = r.more || more
			switch {
			case condition == "":
			case r.match == "":
				r.match = condition
			default:
				r.match = brackets(condition) + " and " + brackets(r.match)
			}
			if i == 0 {
				r.head = join(lostComments(without(one, "output"), nil), head.HeadComment, r.head)
			}
			all = append(all, r)
		}
		if condition != "" && len(routes) > 0 && routes[len(routes)-1].match != "" {
			all = append(all, t.nowhere(condition)) // a switch in a switch: what it does not take is dropped
		}
		caught = caught || condition == "" && !more
	}
	if !caught && text(c.config, "strict_mode") != "true" {
		all = append(all, t.nowhere(""))
	}
	if text(c.config, "retry_until_success") == "true" {
		t.says(c.key, "writes are tried again as retry says, then on_failure")
	}
	return all
}

// nowhere is the way of messages that no case takes.
func (t *translator) nowhere(match string) route {
	if lookup(t.outputs, "nowhere") == nil {
		t.names["output nowhere"] = true
		put(t.outputs, "nowhere", mapping("drop", mapping()))
	}
	name := "unmatched"
	return route{name: t.name("batcher", name), match: match, outputs: []string{"nowhere"}}
}
