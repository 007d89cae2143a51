package migrate

import (
	"fmt"

	"gopkg.in/yaml.v3"
)

// output translates an output, and those inside it, into ways to outputs and entries of `outputs`.
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
		routes = []route{t.composite(c, wanted, "fallback", items(c.config))}
	case "resource":
		def := t.use("output", c.config.Value)
		if def == nil {
			return []route{t.addOutput(wanted, t.lost(n, fmt.Sprintf("the output %s is not defined in this file",
				c.config.Value)), n)}
		}
		if t.names["output "+c.config.Value] && lookup(t.outputs, c.config.Value) != nil {
			return []route{{name: c.config.Value, outputs: []string{c.config.Value}}}
		}
		if !t.enter("output", c.config.Value) {
			return []route{t.addOutput(wanted, t.lost(n, fmt.Sprintf("the output %s refers to itself", c.config.Value)), n)}
		}
		routes = t.output(def, c.config.Value)
		t.leave("output", c.config.Value)
	case "reject_errored":
		routes = t.output(c.config, wanted)
	case "retry":
		routes = t.retryOutput(c, wanted)
	case "drop_on":
		routes = t.dropOn(c, wanted)
	default:
		return []route{t.leaf(c, wanted)}
	}
	// Steps of an output that holds others come before all of them.
	if own := lookup(n, "processors"); own != nil && len(items(own)) > 0 && c.key.Value != "resource" {
		if len(routes) == 1 {
			routes[0].steps = append(t.processors(own, ctx{batch: true}), routes[0].steps...)
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

// leaf translates an output that holds no others.
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
	own := t.processors(lookup(c.node, "processors"), ctx{batch: true})
	all := append(append(append([]*yaml.Node{}, c.before...), own...), steps...)
	r := t.addOutput(wanted, t.close(c), c.node)
	r.batch = policy
	if policy != nil || len(steps) > 0 {
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

// cacheOutput translates an output that writes to a cache: a step does, in front of an output that keeps nothing.
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
	own := t.processors(lookup(c.node, "processors"), ctx{batch: true})
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

// retryOutput translates an output that is tried again.
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
	if len(routes) == 1 && len(routes[0].outputs) == 1 {
		if out := lookup(t.outputs, routes[0].outputs[0]); out != nil && !has(out, "fallback") && !has(out, "round_robin") {
			put(out, "retry", lookup(c.common, "retry"))
			return routes
		}
	}
	t.says(c.key, "each of the outputs is tried again by itself")
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
	for _, r := range routes {
		out := lookup(t.outputs, r.outputs[0])
		if text(c.config, "error") == "true" {
			put(out, "retry", mapping("max_attempts", code("1")))
			put(out, "on_failure", mapping("then", "drop"))
		}
		for _, name := range []string{"back_pressure", "error_patterns"} {
			if v := lookup(c.config, name); !empty(v) {
				t.lostField(out, pair{scalar(name), v}, name+" of drop_on has no counterpart: messages that wait are kept")
			}
		}
	}
	return routes
}

// deadLetter makes an output the one that takes what has failed.
func (t *translator) deadLetter(n *yaml.Node) {
	routes := t.output(n, "")
	if len(routes) != 1 || !routes[0].plain() || len(routes[0].outputs) != 1 || t.deadLater != "" {
		t.note(Untranslated, n, "one output takes what has failed, without a batch: engine.on_failure.dead_letter")
		put(t.engine, "untranslated", scalar("one output takes what has failed, without a batch: on_failure.dead_letter"))
		return
	}
	t.deadLater = routes[0].outputs[0]
}
