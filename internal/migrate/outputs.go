package migrate

import (
	"fmt"
	"slices"

	"gopkg.in/yaml.v3"
)

// output translates an output, and those inside it, to routes and entries of `outputs`.
func (t *translator) output(n *yaml.Node, wanted string) []route {
	t.res.Components.Of++
	before := t.untranslated()
	routes := t.outputParts(n, wanted)
	if t.untranslated() == before {
		t.res.Components.Whole++
	}
	return routes
}

func (t *translator) outputParts(n *yaml.Node, wanted string) []route {
	c, why := t.open("output", n)
	if why != "" {
		return []route{t.addOutput(wanted, t.lost(n, why), n)}
	}
	if c.label != "" {
		wanted = c.label
	}
	if wanted == "" {
		wanted = c.key.Value
	}
	var routes []route
	switch c.key.Value {
	case "switch":
		routes = t.switchOutputs(c)
	case "broker":
		routes = t.brokerOutputs(c, wanted)
	case "fallback", "try":
		routes = t.fallback(c, wanted)
	case "resource":
		def := t.use("output", c.config.Value)
		if def == nil {
			return []route{t.addOutput(wanted, t.lost(n, fmt.Sprintf("the output %s is not defined in this file",
				c.config.Value)), n)}
		}
		if !t.again && t.names["output "+c.config.Value] && lookup(t.outputs, c.config.Value) != nil {
			return []route{t.whole[c.config.Value]}
		}
		if !t.enter("output", c.config.Value) {
			return []route{t.addOutput(wanted, t.lost(n, fmt.Sprintf("the output %s refers to itself", c.config.Value)), n)}
		}
		routes = t.output(def, c.config.Value)
		t.leave("output", c.config.Value)
		if len(routes) == 1 {
			t.whole[c.config.Value] = routes[0]
		}
	case "reject_errored":
		t.rejects = t.rejects || t.parts == 0
		routes = t.output(c.config, wanted)
	case "retry":
		routes = t.retryOutput(c, wanted)
	case "drop_on":
		routes = t.dropOn(c, wanted)
	default:
		return []route{t.leaf(c, wanted)}
	}
	// Steps of an output with inner outputs precede all of them.
	if own := lookup(n, "processors"); own != nil && len(items(own)) > 0 && c.key.Value != "resource" {
		if len(routes) == 1 || t.parts > 0 {
			t.before(own, routes)
		} else {
			t.steps = append(t.steps, t.pipeline(own)...)
		}
	}
	if len(routes) > 0 {
		var inside []*yaml.Node
		for _, p := range pairsOf(t.outputs) {
			inside = append(inside, p.key, p.value)
		}
		for _, r := range routes {
			inside = append(inside, &yaml.Node{HeadComment: r.head})
		}
		routes[0].head = join(lostComments(n, inside), routes[0].head)
	}
	return routes
}

// before puts steps before routes.
func (t *translator) before(own *yaml.Node, routes []route) {
	steps := t.processors(own, t.ofOutput())
	for i := range routes {
		if routes[i].end == toOutputs {
			routes[i].steps = append(slices.Clone(steps), routes[i].steps...)
			routes[i].whole = routes[i].whole || t.needsBatch(items(own))
		}
	}
	if slices.ContainsFunc(routes, func(r route) bool { return r.match != "" }) {
		t.says(own, beforeSteps)
	}
}

// leaf translates an output without inner outputs.
func (t *translator) leaf(c *component, wanted string) route {
	switch c.key.Value {
	case "reject":
		head := mapping()
		why := t.template(head, c.config, c.config.Value, ctx{})
		made := mapping("drop", mapping(), "processors", list(short("fail", why)))
		made.HeadComment = head.HeadComment
		return t.addOutput(wanted, made, c.node)
	case "cache":
		return t.cacheOutput(c, wanted)
	}
	c.entry = components().Outputs[c.key.Value]
	if c.entry == nil || c.entry.Lost != "" {
		why := ""
		if c.entry != nil {
			why = c.entry.Lost
		}
		return t.addOutput(wanted, t.missing(c, why), c.node)
	}
	t.shared(c)
	t.fill(c)
	switch c.key.Value {
	case "sql_insert":
		t.columns(c)
	case "sql_raw":
		if q := lookup(c.out, "query"); q != nil {
			q.Value = numbered(text(c.config, "driver"), q.Value)
		}
		if why := t.withArgs(c); why != "" {
			t.lostField(c.out, pair{scalar("args_mapping"), lookup(c.config, "args_mapping")}, why)
		}
	case "sync_response":
		t.replies = true
	case "kafka", "kafka_franz", "redpanda", "redpanda_common":
		t.partitioned(c)
	case "http_client":
		t.statuses(c)
		if text(c.out, "method") == "POST" {
			drop(c.out, "method")
		}
	}
	batching := lookup(c.config, "batching")
	policy, steps := t.policy(batching)
	own := t.processors(lookup(c.node, "processors"), t.ofOutput())
	all := append(append(append([]*yaml.Node{}, c.before...), own...), steps...)
	r := t.addOutput(wanted, t.close(c), c.node)
	r.batch = policy
	r.whole = policy == nil && !t.forFailed && t.needsBatch(items(lookup(c.node, "processors")))
	if policy != nil || len(steps) > 0 || r.whole {
		r.steps = all
	} else if len(all) > 0 {
		put(lookup(t.outputs, r.outputs[0]), "processors", list(all...))
	}
	return r
}

// columns translates the values that are inserted.
func (t *translator) columns(c *component) {
	names := items(lookup(c.config, "columns"))
	args, why := t.args(c)
	if why == "" && len(args) != len(names) {
		why = fmt.Sprintf("there are %d columns and %d values", len(names), len(args))
	}
	if why != "" {
		t.lostField(c.out, pair{scalar("args_mapping"), lookupOr(c.config, "args_mapping")}, why)
		return
	}
	all := mapping()
	for i, name := range names {
		put(all, name.Value, args[i])
	}
	put(c.out, "columns", all)
}

// cacheOutput translates an output that writes to a cache: a step writes, before an output that drops.
func (t *translator) cacheOutput(c *component, wanted string) route {
	target := text(c.config, "target")
	t.use("cache", target)
	step := mapping()
	key := t.templateExpr(step, lookupOr(c.config, "key"), text(c.config, "key"), ctx{})
	body := mapping("set", target, "key", code(key), "value", code("this"))
	if ttl := text(c.config, "ttl"); ttl != "" {
		put(body, "ttl", code(ttl))
	}
	put(step, "cache", body)
	own := t.processors(lookup(c.node, "processors"), t.ofOutput())
	made := mapping("drop", mapping(), "processors", list(append(own, step)...))
	return t.addOutput(wanted, made, c.node)
}

func (t *translator) addOutput(wanted string, made, from *yaml.Node) route {
	if wanted == "" {
		wanted = "out"
	}
	name := t.name("output", wanted)
	key := scalar(name)
	adopt(made, from)
	key.HeadComment, made.HeadComment = made.HeadComment, ""
	t.outputs.Content = append(t.outputs.Content, key, made)
	return route{name: name, outputs: []string{name}}
}
