package migrate

import (
	"fmt"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"
)

// buffer translates the buffer between input and pipeline.
func (t *translator) buffer(b *yaml.Node) {
	for _, p := range pairsOf(b) {
		switch p.key.Value {
		case "none":
		case "memory":
			t.says(p.key, "there is no buffer that acknowledges early: a message is acknowledged when it is delivered")
			if policy := lookup(p.value, "batch_policy"); text(policy, "enabled") == "true" {
				t.batching = without(policy, "enabled")
			}
		case "system_window":
			t.says(p.key, "a window is a batcher: its steps are those behind it")
			t.batching = b
		default:
			t.note(Untranslated, p.key, fmt.Sprintf("a buffer of the type %s has no counterpart", p.key.Value))
			put(t.engine, "untranslated", scalar(fmt.Sprintf("a buffer of the type %s has no counterpart", p.key.Value)))
		}
	}
}

// needsBatch says whether processors work on a whole batch.
func (t *translator) needsBatch(list []*yaml.Node) bool { return slices.ContainsFunc(list, t.ofBatch) }

// ofBatch says whether one does.
func (t *translator) ofBatch(n *yaml.Node) bool {
	c, why := t.open("processor", n)
	if why != "" {
		return false
	}
	if t.windowed() && mentions(n, windowEnd) {
		return true
	}
	switch c.key.Value {
	case "archive", "select_parts", "insert_part", "parquet_encode":
		return true
	case "mapping", "bloblang", "mutation":
		return ofBatches().MatchString(c.config.Value)
	case "resource":
		def := t.defined["processor"][c.config.Value]
		if def == nil || !t.enter("processor", c.config.Value) {
			return false
		}
		defer t.leave("processor", c.config.Value)
		return t.ofBatch(without(def, "label"))
	case "branch", "workflow", "while":
		return false
	case "dedupe":
		return ofBatches().MatchString(text(c.config, "key"))
	case "try", "catch", "for_each", "processors":
		return t.needsBatch(items(c.config))
	case "switch":
		for _, one := range items(c.config) {
			if t.needsBatch(items(lookup(one, "processors"))) || ofBatches().MatchString(text(one, "check")) {
				return true
			}
		}
	}
	return false
}

// steady translates processors without those that make groups of a batch.
func (t *translator) steady(all []*yaml.Node) []*yaml.Node {
	first := slices.IndexFunc(all, t.ofBatch)
	if first < 0 || t.windowed() {
		if first >= 0 {
			head := t.processors(seq(all[:first]), ctx{})
			t.behind = append(t.behind, t.processors(seq(all[first:]), ctx{batch: true})...)
			return head
		}
		return t.processors(seq(all), ctx{})
	}
	last := first
	for i, n := range all {
		if t.ofBatch(n) || isCatch(n) && i > first {
			last = i
		}
	}
	head := t.processors(seq(all[:first]), ctx{})
	policy, steps := t.policy(t.batching)
	body := mapping()
	if policy != nil {
		body = policy
		if text(body, "size") == "0" {
			drop(body, "size")
		}
		if f := lookup(body, "flush"); f != nil {
			drop(body, "flush")
			t.lostField(body, pair{scalar("check"), f}, "a group has no condition that ends it: a batcher has (flush)")
		}
	} else {
		put(body, "timeout", code("1s"))
		t.differs(body, all[first], "the batches of an input are not known here: a group has what comes within its timeout")
	}
	t.batching = nil
	do := append(steps, t.processors(seq(all[first:last+1]), ctx{batch: true})...)
	put(body, "do", list(do...))
	group := short("group", body)
	group.HeadComment, body.HeadComment = body.HeadComment, ""
	return append(append(head, group), t.processors(seq(all[last+1:]), ctx{})...)
}

func isCatch(n *yaml.Node) bool { return has(n, "catch") }

// windowed says whether a buffer makes windows.
func (t *translator) windowed() bool { return has(t.batching, "system_window") }

// group translates what parts a batch by a value or by conditions: what follows works on the parts.
func (t *translator) group(c *component, at *yaml.Node, rest []*yaml.Node) {
	t.res.Components.Of++
	t.res.Components.Whole++
	t.grouped = &grouping{at: at}
	if c.key.Value == "group_by_value" {
		head := mapping()
		key := text(c.config, "value")
		t.grouped.key = t.templateExpr(head, lookupOr(c.config, "value"), key, ctx{})
		t.grouped.head = head.HeadComment
	} else {
		for _, one := range items(c.config) {
			head := mapping()
			part := part{match: t.query(head, lookupOr(one, "check"), text(one, "check"), ctx{})}
			part.head = join(lostComments(without(one, "processors"), nil), head.HeadComment)
			part.steps = t.processors(lookup(one, "processors"), ctx{batch: true})
			t.grouped.parts = append(t.grouped.parts, part)
		}
	}
	t.grouped.head = join(lostComments(without(at, c.key.Value), nil), t.grouped.head)
	t.behind = t.processors(seq(rest), ctx{batch: true})
}

// grouping is how batches are parted.
type grouping struct {
	at    *yaml.Node
	key   string
	head  string
	parts []part
}

type part struct {
	match, head string
	steps       []*yaml.Node
}

// inputBatch is the batch of the inputs, for all outputs without one.
func (t *translator) inputBatch() *yaml.Node {
	if t.batching == nil || t.windowed() {
		return nil
	}
	batch, steps := t.policy(t.batching)
	t.behind = append(append([]*yaml.Node{}, steps...), t.behind...)
	return batch
}

// parted gives each way one batcher for each part of a group_by.
func (t *translator) parted(g *grouping, routes []route) []route {
	var all []route
	for _, r := range routes {
		for i, p := range g.parts {
			one := r
			one.match = p.match
			if r.match != "" {
				one.match = brackets(p.match) + " and " + brackets(r.match)
			}
			one.steps = append(append([]*yaml.Node{}, p.steps...), r.steps...)
			one.head = join(p.head, r.head)
			one.name = fmt.Sprintf("%s_%d", r.name, i+1)
			all = append(all, one)
		}
	}
	return append(all, routes...)
}

// window translates a buffer of windows.
func (t *translator) window(n *yaml.Node) *yaml.Node {
	w := mapping("every", code(text(n, "size")))
	for _, p := range [][2]string{{"slide", "slide"}, {"offset", "offset"}, {"allowed_lateness", "lateness"}} {
		if v := text(n, p[0]); v != "" {
			put(w, p[1], code(v))
		}
	}
	at := lookup(n, "timestamp_mapping")
	if at != nil && strings.TrimSpace(at.Value) != "root = now()" {
		put(w, "time", code(t.query(w, at, at.Value, ctx{})))
		if len(t.steps) > 0 {
			t.differs(w, at, "the time is read behind the steps in front of the window; there, before all steps")
		}
	} else {
		drop(w, "lateness")
	}
	return w
}

// policy translates a batching policy: the batch, and the steps for it.
func (t *translator) policy(n *yaml.Node) (batch *yaml.Node, steps []*yaml.Node) {
	if empty(n) {
		return nil, nil
	}
	batch = mapping()
	size := text(n, "count")
	if size != "" && size != "0" {
		put(batch, "size", code(size))
	}
	if b := text(n, "byte_size"); b != "" && b != "0" {
		put(batch, "bytes", code(b))
	}
	period := text(n, "period")
	if period != "" {
		put(batch, "timeout", code(period))
	}
	if check := text(n, "check"); strings.TrimSpace(check) != "" {
		put(batch, "flush", code(t.query(batch, lookup(n, "check"), check, ctx{})))
	}
	steps = t.processors(lookup(n, "processors"), ctx{batch: true})
	switch {
	case len(batch.Content) == 0:
		return nil, steps
	case lookup(batch, "size") == nil:
		put(batch, "size", code("0"))
	}
	if period == "" {
		t.differs(batch, n, "a batch that is not full leaves after a second (timeout), or when flowd needs room")
	}
	adopt(batch, without(n, "processors"))
	return batch, steps
}
