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
				t.batched(t.everyInput(), without(policy, "enabled"))
			}
		case "system_window":
			t.says(p.key, "a window is a batcher: its steps are those behind it")
			t.window = lookup(b, "system_window")
		default:
			t.note(Untranslated, p.key, fmt.Sprintf("a buffer of the type %s has no counterpart", p.key.Value))
			put(t.engine, "untranslated", scalar(fmt.Sprintf("a buffer of the type %s has no counterpart", p.key.Value)))
		}
	}
}

// windowed reports whether the batches are windows.
func (t *translator) windowed() bool { return t.window != nil }

// needsBatch reports whether some processor works on a whole batch.
func (t *translator) needsBatch(list []*yaml.Node) bool { return slices.ContainsFunc(list, t.ofBatch) }

// ofBatch reports whether a processor works on a whole batch.
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

// steady translates processors for some inputs, except those that group a batch.
func (t *translator) steady(all []*yaml.Node, of []string) []*yaml.Node {
	first := slices.IndexFunc(all, t.ofBatch)
	if first < 0 || t.window != nil {
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
	done := t.processors(seq(all[:first]), ctx{})
	batches := t.batchesOf(of)
	do := t.processors(seq(all[first:last+1]), ctx{batch: true})
	for _, b := range batches {
		group := t.batchGroup(b.policy, all[first])
		put(lookup(group, "group"), "do", list(copies(do)...))
		if len(batches) > 1 {
			put(group, "when", code(from(b.of)))
		}
		done = append(done, group)
	}
	if slices.ContainsFunc(all[first:last+1], t.merges) {
		t.unbatched(of)
	}
	return append(done, t.processors(seq(all[last+1:]), ctx{})...)
}

func isCatch(n *yaml.Node) bool { return has(n, "catch") }

// group translates a processor that splits a batch by a value or by conditions. Later steps work on the parts.
func (t *translator) group(c *component, at *yaml.Node, rest []*yaml.Node) {
	t.res.Components.Of++
	t.grouped = &grouping{at: at}
	if len(t.behind) > 0 {
		t.behind = append(t.behind, t.lost(at, "the steps before it see all messages of a window; here, those of one key"))
	} else {
		t.res.Components.Whole++
	}
	if c.key.Value == "group_by_value" {
		head := mapping()
		key := text(c.config, "value")
		if t.windowed() { // all messages of a batch have the same end
			key = endOfWindow().ReplaceAllString(key, "")
		}
		if !t.windowed() || strings.Contains(key, "${!") {
			t.grouped.key = t.templateExpr(head, lookupOr(c.config, "value"), key, ctx{})
		}
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
	t.behind = append(t.behind, t.processors(seq(rest), ctx{batch: true})...)
}

var endOfWindow = pattern(`\$\{!\s*(?:(?:meta|metadata)\(\s*"` + windowEnd + `"\s*\)|@` + windowEnd + `)\s*\}`)

// grouping says how batches are split.
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

// parted gives each route a batcher per part of a group_by.
func (t *translator) parted(g *grouping, routes []route) []route {
	var all []route
	for i, p := range g.parts {
		for _, r := range under(p.match, complete(routes)) {
			if r.end == toOutputs {
				r.steps = append(append([]*yaml.Node{}, p.steps...), r.steps...)
				r.head = join(p.head, r.head)
				r.name = fmt.Sprintf("%s_%d", r.name, i+1)
			}
			all = append(all, r)
		}
	}
	return append(all, routes...)
}

// windows translates a buffer of windows.
func (t *translator) windows(n *yaml.Node) *yaml.Node {
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
