package migrate

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"
)

// route is one way to outputs: a batcher, or just the name of an output.
type route struct {
	name    string // of the batcher
	match   string
	more    bool // later batchers see the message, too
	key     string
	batch   *yaml.Node // the policy, in flowd's form
	window  *yaml.Node
	steps   []*yaml.Node
	outputs []string
	head    string // comments above it
	end     end    // where it leads
	whole   bool   // its steps need the batch as the input has made it
	long    bool   // the condition is too long to write
}

// end is where a route leads.
type end int

const (
	toOutputs end = iota
	toNowhere     // messages that no case of a switch takes
	toFailure     // messages that no case of a strict switch takes, if no other route fails them
)

const unmatched = "unmatched"

// composite translates outputs of which one takes each message. Those from index failed on, if that is above 0, also
// take failed messages.
func (t *translator) composite(c *component, wanted, kind string, children []*yaml.Node, failed int) (route,
	[]*yaml.Node) {
	names := list()
	var batch *yaml.Node
	whole := false
	if wanted == c.key.Value {
		wanted = kind
	}
	name := t.name("output", wanted)
	at := len(t.outputs.Content)
	for i, child := range children {
		before := t.forFailed
		t.forFailed = before || failed > 0 && i >= failed
		routes := t.part(child)
		t.forFailed = before
		if len(routes) != 1 || routes[0].match != "" || len(routes[0].outputs) != 1 {
			names.Content = append(names.Content, scalar("untranslated"))
			t.note(Untranslated, child, fmt.Sprintf("a part of %s is one output, not a switch or a broker", c.key.Value))
			continue
		}
		r := routes[0]
		whole = whole || r.whole
		if r.batch != nil {
			if batch == nil {
				batch = r.batch
			} else {
				t.says(child, "the outputs of "+c.key.Value+" share one batch: that of the first counts")
			}
		}
		out := lookup(t.outputs, r.outputs[0])
		if len(r.steps) > 0 {
			put(out, "processors", list(append(slices.Clone(r.steps), items(lookup(out, "processors"))...)...))
			if again, ok := t.whole[r.outputs[0]]; ok { // other references find it here
				again.steps = nil
				t.whole[r.outputs[0]] = again
			}
		}
		names.Content = append(names.Content, scalar(r.outputs[0]))
		if kind == "fallback" && i < len(children)-1 && t.loses(r.outputs[0]) {
			t.says(children[i+1], "outputs behind one that drops what it can't write never get a message: they are left out")
			break
		}
	}
	made := mapping(kind, names)
	key := scalar(name)
	t.outputs.Content = append(t.outputs.Content[:at], append([]*yaml.Node{key, made}, t.outputs.Content[at:]...)...)
	return route{name: name, outputs: []string{name}, batch: batch, whole: whole}, names.Content
}

// brokerOutputs translates outputs that all take each message, or take turns.
func (t *translator) brokerOutputs(c *component, wanted string) []route {
	children := items(lookup(c.config, "outputs"))
	pattern := text(c.config, "pattern")
	batch, steps := t.policy(lookup(c.config, "batching"))
	copies, why := t.copies(c)
	if why != "" {
		return []route{t.addOutput(wanted, t.lost(c.node, why), c.node)}
	}
	var routes []route
	switch pattern {
	case "round_robin", "greedy":
		r, _ := t.composite(c, wanted, "round_robin", children, 0)
		if copies > 1 {
			t.says(c.key, "copies of outputs that take messages in turn are their concurrency")
		}
		if pattern == "greedy" {
			r.head = commented("Differs: outputs take messages in turn, not whichever is free first")
			t.note(Differs, c.key, "outputs take messages in turn, not whichever is free first")
		}
		routes = []route{r}
	case "", "fan_out", "fan_out_fail_fast", "fan_out_sequential", "fan_out_sequential_fail_fast":
		routes = t.fanOut(children, copies)
		if strings.Contains(pattern, "sequential") && len(routes) > 0 {
			routes[0].head = commented("Differs: the outputs are written to at the same time, not one after the other")
			t.note(Differs, c.key, "the outputs are written to at the same time, not one after the other")
		}
	default:
		why := fmt.Sprintf("the pattern %s of a broker has no counterpart", pattern)
		return []route{t.addOutput(wanted, t.lost(c.node, why), c.node)}
	}
	if len(steps) > 0 && slices.ContainsFunc(routes, func(r route) bool { return r.match != "" }) {
		if t.parts > 0 || t.window != nil || t.grouped != nil {
			t.says(c.key, beforeSteps)
		} else { // conditions see the batch after the steps
			policy := lookup(c.config, "batching")
			group := t.batchGroup(policy, policy)
			put(lookup(group, "group"), "do", list(steps...))
			t.steps, steps = append(t.steps, group), nil
			if slices.ContainsFunc(items(lookup(policy, "processors")), t.merges) {
				batch = nil
			}
		}
	}
	for i := range routes {
		if routes[i].end != toOutputs {
			continue
		}
		if batch != nil && routes[i].batch == nil {
			routes[i].batch = batch
		}
		routes[i].steps = append(append([]*yaml.Node{}, steps...), routes[i].steps...)
	}
	return routes
}

// copies returns how many copies of its outputs a broker has, or why that can't be translated.
func (t *translator) copies(c *component) (n int, why string) {
	const most = 100 // of all brokers
	given := text(c.config, "copies")
	if given == "" || given == "1" {
		return 1, ""
	}
	n, err := strconv.Atoi(given)
	if err != nil || n < 1 {
		return 0, "the number of copies of a broker is not known here"
	}
	if t.copied += n * len(items(lookup(c.config, "outputs"))); t.copied > most {
		return 0, "these are too many copies to write one by one"
	}
	return n, ""
}

// fanOut translates outputs that all take each message, a number of times.
func (t *translator) fanOut(children []*yaml.Node, times int) []route {
	var all [][]route
	simple := false // the last one needs nothing of its own
	for i := range len(children) * times {
		if i == len(children) { // a copy is not a component of the file
			defer func(done Done) { t.res.Components, t.again = done, false }(t.res.Components)
			t.again = true
		}
		routes := t.part(children[i%len(children)])
		if len(routes) == 1 && routes[0].plain() && !routes[0].more {
			if simple {
				r := &all[len(all)-1][0]
				r.outputs = append(r.outputs, routes[0].outputs...)
				r.head = join(r.head, routes[0].head)
				continue
			}
			simple = true
		} else {
			simple = false
		}
		all = append(all, routes)
	}
	var done []route
	for i, routes := range all {
		switch {
		case i < len(all)-1:
			routes = goingOn(routes, false)
		case i > 0:
			routes = complete(routes)
		}
		done = append(done, routes...)
	}
	return done
}

// part translates one of several outputs, which does not share steps with the others.
func (t *translator) part(n *yaml.Node) []route {
	t.parts++
	defer func() { t.parts-- }()
	return t.output(n, "")
}

// plain reports whether a route is just an output.
func (r route) plain() bool {
	return r.end == toOutputs && r.match == "" && !r.long && !r.whole && r.batch == nil && r.key == "" &&
		r.window == nil && len(r.steps) == 0
}

// brackets adds brackets to an expression if needed.
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
	strict := text(c.config, "strict_mode") == "true"
	var all []route
	caught := false
	for _, one := range items(cases) {
		if caught {
			t.says(one, "cases after one without a check are never reached: they are left out")
			break
		}
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
		if check != "" && check != "true" {
			if ofErrors().MatchString(check) {
				t.differs(head, lookup(one, "check"),
					"a message that has failed never gets here: it goes where engine.on_failure says")
			}
			condition = t.query(head, lookup(one, "check"), check, ctx{})
		}
		routes := t.part(out)
		switch more := text(one, "continue") == "true"; {
		case more:
			routes = goingOn(routes, strict)
		case condition == "":
			caught = true
		default:
			routes = complete(routes) // later cases don't get messages of this one
		}
		for i, r := range under(condition, routes) {
			if i == 0 {
				r.head = join(lostComments(without(one, "output"), nil), head.HeadComment, r.head)
			}
			all = append(all, r)
		}
	}
	if !caught && !strict {
		all = append(all, route{name: unmatched, end: toNowhere})
	}
	if text(c.config, "retry_until_success") == "true" {
		t.says(c.key, "writes are tried again as retry says, then on_failure")
	}
	return all
}
