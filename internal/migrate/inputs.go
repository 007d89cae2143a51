package migrate

import (
	"fmt"
	"strings"

	"gopkg.in/yaml.v3"
)

// input translates an input, and those inside it, to entries of `inputs`. wanted is the name if it has no label.
func (t *translator) input(n *yaml.Node, wanted string) {
	t.res.Components.Of++
	before := t.untranslated()
	t.inputParts(n, wanted)
	if t.untranslated() == before {
		t.res.Components.Whole++
	}
}

// untranslated returns the number of parts without a counterpart so far.
func (t *translator) untranslated() int {
	n := 0
	for _, note := range t.res.Notes {
		if note.Kind == Untranslated {
			n++
		}
	}
	return n
}

func (t *translator) inputParts(n *yaml.Node, wanted string) {
	c, why := t.open("input", n)
	if why != "" {
		t.addInput(wanted, "", t.lost(n, why), n)
		return
	}
	switch c.key.Value {
	case "broker":
		t.manyInputs(c, items(lookup(c.config, "inputs")))
		return
	case "resource":
		def := t.use("input", c.config.Value)
		if def == nil {
			t.addInput(wanted, c.label, t.lost(n, fmt.Sprintf("the input %s is not defined in this file", c.config.Value)), n)
			return
		}
		if !t.enter("input", c.config.Value) {
			t.addInput(wanted, c.label, t.lost(n, fmt.Sprintf("the input %s refers to itself", c.config.Value)), n)
			return
		}
		t.input(def, c.config.Value)
		t.leave("input", c.config.Value)
		return
	case "batched":
		t.childInput(c, lookup(c.config, "child"), lookup(c.config, "policy"), wanted)
		return
	case "sequence":
		t.sequence(c, wanted)
		return
	case "read_until":
		child := lookup(c.config, "input")
		if child == nil {
			t.addInput(wanted, c.label, t.lost(n, "there is no input to read from"), n)
			return
		}
		made := t.oneInput(child)
		t.lostField(made, pair{c.key, mapping("check", text(c.config, "check"))},
			"reading until a condition holds has no counterpart: an input reads to its end")
		if inner, why := t.open("input", child); why == "" {
			wanted = nameOf(inner, wanted)
		}
		t.addInput(wanted, c.label, made, n)
		return
	}
	t.addInput(nameOf(c, wanted), c.label, t.oneInput(n), n)
}

func nameOf(c *component, wanted string) string {
	if wanted != "" {
		return wanted
	}
	return c.key.Value
}

// childInput translates the one input inside another.
func (t *translator) childInput(c *component, child, policy *yaml.Node, wanted string) {
	if child == nil {
		t.addInput(wanted, c.label, t.lost(c.node, "there is no input in it"), c.node)
		return
	}
	at := len(t.inputs.Content)
	t.input(child, wanted)
	t.batched(t.inputsFrom(at), policy)
	t.ownSteps(t.inputsFrom(at), lookup(c.node, "processors"))
}

// manyInputs translates the inputs of a broker.
func (t *translator) manyInputs(c *component, all []*yaml.Node) {
	if copies := text(c.config, "copies"); copies != "" && copies != "1" {
		t.differs(t.inputs, c.key, "copies of an input are its concurrency: "+copies)
	}
	at := len(t.inputs.Content)
	for _, one := range all {
		t.input(one, "")
	}
	if of := t.inputsFrom(at); len(of) > 0 {
		t.batched(of, lookup(c.config, "batching"))
		first := t.inputs.Content[at]
		first.HeadComment = join(lostComments(c.node, all), first.HeadComment)
		t.ownSteps(of, lookup(c.node, "processors"))
	}
}

// lostComments returns the comments of a node, except those in some of its parts.
func lostComments(n *yaml.Node, parts []*yaml.Node) string {
	var inside []string
	for _, p := range parts {
		inside = append(inside, commentsOf(p)...)
	}
	return missing(commentsOf(n), inside)
}

// sequence translates inputs that are read one after the other.
func (t *translator) sequence(c *component, wanted string) {
	if text(c.config, "sharded_join", "type") != "" && text(c.config, "sharded_join", "type") != "none" {
		t.addInput(wanted, c.label, t.lost(c.node, "inputs are not joined: a state step joins messages by a key"), c.node)
		return
	}
	all := list()
	inside := items(lookup(c.config, "inputs"))
	var policy *yaml.Node
	for _, one := range inside {
		if inner, why := t.open("input", one); why == "" && inner.key.Value == "resource" {
			if def := t.use("input", inner.config.Value); def != nil {
				one = def
			}
		}
		made := t.oneInput(one)
		if t.stepsOf != nil && len(inside) > 1 { // they work on batches, and only for this input
			t.stepsOf = nil
			put(made, "processors", list())
		}
		t.bare(made, one)
		adopt(made, one)
		all.Content = append(all.Content, made)
		if policy != nil && textOf(policy) != textOf(t.policyOf) {
			t.says(c.key, "the inputs of a sequence share one batch: that of the last counts")
		}
		if t.policyOf != nil {
			policy = t.policyOf
		}
	}
	t.policyOf = policy
	at := len(t.inputs.Content)
	t.addInput(nameOf(c, wanted), c.label, mapping("sequence", all), c.node)
	t.ownSteps(t.inputsFrom(at), lookup(c.node, "processors"))
}

// bare reports keys next to the type, which an input inside a sequence can't have.
func (t *translator) bare(made, from *yaml.Node) {
	for _, p := range pairsOf(made)[1:] {
		if p.key.Value == "untranslated" {
			continue
		}
		why := "an input in a sequence has no " + p.key.Value + ": those of the sequence are for all its inputs"
		drop(made, p.key.Value)
		at := pairOf(from, p.key.Value)
		if at.key == nil {
			at = pair{from.Content[0], mapping(p.key.Value, p.value)}
		}
		in := made.Content[1]
		if in.Kind != yaml.MappingNode {
			in = made
		}
		t.lostField(in, at, why)
	}
}

// oneInput translates an input without inner inputs.
func (t *translator) oneInput(n *yaml.Node) *yaml.Node {
	c, why := t.open("input", n)
	if why != "" {
		return t.lost(n, why)
	}
	c.entry = components().Inputs[c.key.Value]
	switch {
	case c.entry == nil:
		return t.missing(c, lacking["input "+c.key.Value])
	case c.entry.Lost != "":
		return t.missing(c, c.entry.Lost)
	}
	t.shared(c)
	t.fill(c)
	t.policyOf, t.stepsOf = nil, nil
	if b := lookup(c.config, "batching"); !empty(b) {
		t.policyOf = b
	} else if b := lookup(c.config, "unordered_processing", "batching"); !empty(b) {
		t.policyOf = b
	}
	t.bulk = t.bulk || !bySingles[c.key.Value] || has(c.config, "batch_size") ||
		strings.HasSuffix(text(c.config, "codec"), "/multipart")
	switch c.key.Value {
	case "sql_select":
		put(c.out, "query", scalar(selection(c)))
		if why := t.withArgs(c); why != "" {
			t.lostField(c.out, pair{scalar("args_mapping"), lookup(c.config, "args_mapping")}, why)
		}
	case "sql_raw":
		if why := t.withArgs(c); why != "" {
			t.lostField(c.out, pair{scalar("args_mapping"), lookup(c.config, "args_mapping")}, why)
		}
	case "csv":
		t.csv(c)
	case "http_client":
		t.statuses(c)
		t.polled(c)
	case "mqtt":
		if text(c.config, "client_id") == "" { // the server keeps nothing for a client without an id
			put(c.out, "session_expiry", code("0s"))
		}
	case "http_server":
		t.reply(c)
	case "aws_s3", "azure_blob_storage", "gcp_cloud_storage":
		if lookup(c.config, "scanner") == nil && lookup(c.config, "codec") == nil {
			put(c.out, "framing", scalar("whole"))
		}
	}
	if text(c.out, "framing") == "whole" && c.entry.To != "http_server" && c.entry.To != "http" {
		put(c.out, "max_record", code("64MiB"))
	}
	made := t.close(c)
	t.inputSteps(c, made)
	if keepsOrder[c.key.Value] && text(t.src.root, "pipeline", "threads") != "1" && !t.ordered {
		t.ordered = true
		t.differs(made, c.key, "messages keep no order unless engine.order_by says which: "+orderBy[c.entry.To])
	}
	return made
}

// keepsOrder are inputs whose order of messages may matter.
var keepsOrder = map[string]bool{"kafka": true, "kafka_franz": true, "redpanda": true, "redpanda_common": true,
	"nats_jetstream": true, "mqtt": true, "redis_streams": true, "postgres_cdc": true, "pg_stream": true}

// orderBy maps flowd's inputs to the key of their messages.
var orderBy = map[string]string{"kafka": `meta("key")`, "nats": `meta("subject")`, "mqtt": `meta("topic")`,
	"redis_stream": "a field of theirs", "postgres_cdc": `meta("key")`}

// shared adds the settings of the section redpanda for components without brokers.
func (t *translator) shared(c *component) {
	if t.connected == nil || !strings.HasPrefix(c.key.Value, "redpanda") || has(c.config, "seed_brokers") {
		return
	}
	config := *c.config
	config.Content = nil
	for _, p := range pairsOf(t.connected) {
		if p.key.Value == "seed_brokers" || p.key.Value == "tls" || p.key.Value == "sasl" || p.key.Value == "client_id" {
			config.Content = append(config.Content, p.key, p.value)
		}
	}
	config.Content = append(config.Content, c.config.Content...)
	config.Kind = yaml.MappingNode
	c.config = &config
}

func (t *translator) csv(c *component) {
	options := mapping()
	if d := text(c.config, "delimiter"); d != "" && d != "," {
		put(options, "delimiter", scalar(d))
	}
	if text(c.config, "parse_header_row") == "false" {
		put(options, "header", code("false"))
	}
	if len(options.Content) == 0 {
		put(c.out, "framing", scalar("csv"))
		return
	}
	put(c.out, "framing", mapping("csv", options))
}

// reply moves the reply of an output sync_response to the http_server.
func (t *translator) reply(c *component) {
	if !has(c.config, "address") {
		t.ownPort(c)
	}
	if r := lookup(c.config, "sync_response", "status"); r != nil && r.Value != "200" {
		t.lostField(c.out, pair{scalar("sync_response"), lookup(c.config, "sync_response")},
			"the status of an answer is that of an output reply: status")
	}
	if h := lookup(c.config, "sync_response", "headers"); !empty(h) {
		t.lostField(c.out, pair{scalar("sync_response"), lookup(c.config, "sync_response")},
			"the headers of an answer are those of an output reply: headers")
	}
}

// inputSteps puts the processors of an input into it or, if necessary, before the pipeline's.
func (t *translator) inputSteps(c *component, made *yaml.Node) {
	own := lookup(c.node, "processors")
	if own == nil || len(items(own)) == 0 {
		return
	}
	if t.needsBatch(items(own)) || len(items(lookup(t.policyOf, "processors"))) > 0 {
		t.stepsOf = own
		return
	}
	if steps := t.processors(own, ctx{}); len(steps) > 0 {
		put(made, "processors", list(steps...))
	}
}

func (t *translator) addInput(wanted, label string, made, from *yaml.Node) {
	name := wanted
	if label != "" {
		name = label
	}
	if name == "" {
		name = "in"
	}
	key := scalar(t.name("input", name))
	policy, own := t.policyOf, t.stepsOf
	t.policyOf, t.stepsOf = nil, nil
	t.batched([]string{key.Value}, policy)
	t.ownSteps([]string{key.Value}, own)
	adopt(made, from)
	key.HeadComment, made.HeadComment = made.HeadComment, ""
	t.inputs.Content = append(t.inputs.Content, key, made)
}
