package migrate

import (
	"fmt"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/flowd-io/flowd/internal/migrate/bloblang"
)

// stepKinds translates processors whose shape changes. They return steps, or nil and the reason.
var stepKinds map[string]func(t *translator, c *component) ([]*yaml.Node, string)

func fillStepKinds() {
	stepKinds = map[string]func(t *translator, c *component) ([]*yaml.Node, string){
		"mapping": blobl(bloblang.NewDocument), "bloblang": blobl(bloblang.NewDocument), "mutation": blobl(bloblang.InPlace),
		"resource": resource, "branch": branch, "workflow": workflow, "switch": switchSteps, "while": while,
		"for_each": inline, "parallel": inline, "try": inline, "processors": inline,
		"cache": cacheStep, "dedupe": dedupe, "metric": metric,
		"archive": archive, "unarchive": unarchive, "split": splitStep, "bounds_check": bounds, "select_parts": selectParts,
		"noop": func(*translator, *component) ([]*yaml.Node, string) { return []*yaml.Node{}, "" },
		"grok": grok, "parquet_encode": parquet, "parquet_decode": parquetDecode,
		"msgpack": codecStep("msgpack"), "avro": avro, "protobuf": protobuf,
		"schema_registry_decode": registered("decode"), "schema_registry_encode": registered("encode"),
		"string_split": stringSplit, elements: eachElement,
	}
}

// lacking explains components that flowd does not have.
var lacking = map[string]string{
	"processor cached":        "a step cache gets the value, the others follow with `when`, and another one sets it",
	"processor insert_part":   "messages are not added to a batch: aggregate makes one of it",
	"processor sync_response": "an output reply answers a request",
	"processor javascript":    "write it as expressions, or as a program for exec",
	"processor awk":           "write it as expressions, or run awk with exec",
	"processor wasm":          "write it as a program for exec",
	"cache multilevel":        "a cache has one level",
	"input subprocess":        "a program writes into the standard input of flowd, or into a file",
}

// Parts of mappings that only work on a batch, or on failed messages.
var (
	ofBatches = pattern(`\bbatch_(index|size)\(\)|\.from_all\(\)|\.from\(\s*-?\d|\bcontent\(\)\.from`)
	ofErrors  = pattern(`\b(errored|error|error_source_\w+)\(\)`)
	// A mapping that drops failed messages.
	dropsErrors = pattern(`^\s*root\s*=\s*if\s+errored\(\)\s*\{\s*deleted\(\)\s*\}\s*$`)
)

// processors translates a list of processors. `catch` repairs messages that earlier processors of the list have
// failed.
func (t *translator) processors(n *yaml.Node, c ctx) []*yaml.Node {
	var done []*yaml.Node // steps after the last catch
	var all []*yaml.Node
	last := 0 // index in done of the last processor's first step
	list := items(n)
	if c.alone {
		list = t.paired(list)
	}
	for _, item := range list {
		repair, kept, isCatch := t.repair(item, c)
		if !isCatch {
			last = len(done)
			t.unit = 0
			done = append(done, t.processor(item, c)...)
			c.packed = t.arrays("archive", item) || c.packed && !t.arrays("unarchive", item)
			last += t.unit
			t.unit = 0
			continue
		}
		if kept != nil && len(done) == 0 {
			if len(all) > 0 {
				done, all, last = []*yaml.Node{all[len(all)-1]}, all[:len(all)-1], 0
			} else {
				t.says(kept, "nothing before this can fail here: what it repaired is left out")
				continue
			}
		}
		all = append(all, t.guard(done, repair, item, changes(done[:last])))
		done, last = nil, 0
	}
	t.unit = len(all) + last
	if n := len(done); n > 0 && t.pending != "" {
		done[n-1].FootComment, t.pending = join(done[n-1].FootComment, t.pending), ""
	}
	return append(all, done...)
}

// processor translates one processor into steps.
func (t *translator) processor(item *yaml.Node, where ctx) []*yaml.Node {
	t.res.Components.Of++
	before := len(t.res.Notes)
	steps := t.processorSteps(item, where)
	if c, why := t.open("processor", item); why != "" || !inlined[c.key.Value] {
		t.unit = 0
	}
	if !slices.ContainsFunc(t.res.Notes[before:], func(n Note) bool { return n.Kind == Untranslated }) {
		t.res.Components.Whole++
	}
	if len(steps) == 0 { // its comments go to the next step
		t.pending = join(t.pending, missing(commentsOf(item), nil), said(item))
		return steps
	}
	adoptAll(steps, item)
	steps[0].HeadComment, t.pending = join(t.pending, steps[0].HeadComment), ""
	return steps
}

// said returns the comments of a mapping that changes nothing.
func said(item *yaml.Node) string {
	var all []string
	for _, p := range pairsOf(item) {
		if p.value.Kind != yaml.ScalarNode {
			continue
		}
		for line := range strings.Lines(p.value.Value) {
			if line = strings.TrimSpace(line); strings.HasPrefix(line, "#") {
				all = append(all, line)
			}
		}
	}
	return strings.Join(all, "\n")
}

func (t *translator) processorSteps(item *yaml.Node, where ctx) []*yaml.Node {
	c, why := t.open("processor", item)
	if why != "" {
		return []*yaml.Node{t.lost(item, why)}
	}
	c.ctx = where
	if kind := stepKinds[c.key.Value]; kind != nil {
		steps, why := kind(t, c)
		if why != "" {
			return []*yaml.Node{t.lost(item, why)}
		}
		return t.named(c, steps)
	}
	c.entry = components().Processors[c.key.Value]
	switch {
	case c.entry == nil:
		return []*yaml.Node{t.missing(c, lacking["processor "+c.key.Value])}
	case c.entry.Lost != "":
		return []*yaml.Node{t.missing(c, c.entry.Lost)}
	}
	t.fill(c)
	if finish := finishSteps[c.key.Value]; finish != nil {
		steps, why := finish(t, c)
		if why != "" {
			return []*yaml.Node{t.lost(item, why)}
		}
		return append(c.before, steps...)
	}
	return append(c.before, t.close(c))
}

// named gives the label of a processor to its steps, as the name of one step.
func (t *translator) named(c *component, steps []*yaml.Node) []*yaml.Node {
	if c.label == "" || len(steps) == 0 {
		return steps
	}
	one := steps[0]
	if len(steps) > 1 || has(one, "name") {
		one = mapping("steps", list(steps...))
	}
	named := mapping("name", c.label)
	named.Content = append(named.Content, one.Content...)
	named.HeadComment, named.LineComment, named.FootComment = one.HeadComment, one.LineComment, one.FootComment
	return []*yaml.Node{named}
}

// blobl translates a mapping.
func blobl(target bloblang.Target) func(t *translator, c *component) ([]*yaml.Node, string) {
	return func(t *translator, c *component) ([]*yaml.Node, string) {
		return t.blobSteps(c.config.Value, c.config, c.ctx, target, ""), ""
	}
}

func (t *translator) blobSteps(src string, at *yaml.Node, where ctx, target bloblang.Target, this string) []*yaml.Node {
	o := t.blob(where)
	o.Target, o.This = target, this
	steps, notes := bloblang.Steps(src, o)
	t.blobNotes(nil, at, notes) // their comments are at the steps already
	if steps == nil {
		steps = []*yaml.Node{}
	}
	if !where.catch && ofErrors().MatchString(src) && len(steps) > 0 {
		t.differs(steps[0], at, neverFailed)
	}
	return steps
}

const neverFailed = "a message that has failed never gets here: on_error of a step has what is to be done about it"

// resource translates a reference to a processor.
func resource(t *translator, c *component) ([]*yaml.Node, string) {
	label := c.config.Value
	if c.ctx.alone {
		t.inner[label] = true
	}
	if t.use("processor", label) == nil {
		return nil, fmt.Sprintf("the processor %s is not defined in this file", label)
	}
	return []*yaml.Node{short("steps", label)}, ""
}

// inlined are processors that only group others.
var inlined = map[string]bool{"for_each": true, "parallel": true, "try": true, "processors": true}

// inline translates processors that only group others: all steps work on single messages.
func inline(t *translator, c *component) ([]*yaml.Node, string) {
	list := c.config
	if c.key.Value == "parallel" {
		list = lookup(c.config, "processors")
	}
	steps := t.processors(list, c.ctx)
	t.unit = min(t.unit, max(0, len(steps)-1)) // index of the last one's first step
	if steps == nil {
		steps = []*yaml.Node{}
	}
	return steps, ""
}

// while translates a loop.
func while(t *translator, c *component) ([]*yaml.Node, string) {
	inner := c.ctx
	inner.alone = true
	n := mapping()
	when := t.query(n, lookupOr(c.config, "check"), text(c.config, "check"), c.ctx)
	do := t.processors(lookup(c.config, "processors"), inner)
	body := mapping("when", code(when), "do", list(do...))
	if loops := text(c.config, "max_loops"); loops != "" && loops != "0" {
		put(body, "max", code(loops))
	} else {
		put(body, "max", code("1000000"))
	}
	put(n, "while", body)
	hoist(n, do)
	steps := []*yaml.Node{n}
	if text(c.config, "at_least_once") == "true" {
		steps = append(t.processors(lookup(c.config, "processors"), inner), n)
	}
	return steps, ""
}

// switchSteps translates a switch over processors.
func switchSteps(t *translator, c *component) ([]*yaml.Node, string) {
	cases := c.config
	if inner := lookup(cases, "cases"); inner != nil {
		cases = inner
	}
	all := list()
	list := items(cases)
	for i, one := range list {
		made := mapping()
		if check := text(one, "check"); strings.TrimSpace(check) != "" {
			if !c.ctx.catch && ofErrors().MatchString(check) {
				t.differs(made, lookup(one, "check"), neverFailed)
			}
			put(made, "when", code(t.query(made, lookup(one, "check"), check, c.ctx)))
		}
		var do []*yaml.Node
		for j := i; j < len(list); j++ {
			do = append(do, t.processors(lookup(list[j], "processors"), c.ctx)...)
			if text(list[j], "fallthrough") != "true" {
				break
			}
		}
		if len(do) == 0 {
			do = append(do, short("let", mapping("handled", code("true"))))
		}
		put(made, "do", &yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq", Content: do})
		adopt(made, one)
		all.Content = append(all.Content, made)
		if !has(made, "when") && i < len(list)-1 {
			t.says(one, "cases after one without a check are never reached: they are left out")
			break
		}
	}
	if len(all.Content) == 0 {
		return []*yaml.Node{}, ""
	}
	if len(all.Content) == 1 && !has(all.Content[0], "when") {
		return lookup(all.Content[0], "do").Content, ""
	}
	return []*yaml.Node{short("switch", all)}, ""
}

func (t *translator) branch(config *yaml.Node, label string, where ctx) []*yaml.Node {
	inner := where
	inner.alone = true
	body, step := mapping(), mapping()
	var do []*yaml.Node
	steps := lookup(config, "processors")
	all := t.paired(items(steps))
	if request := lookup(config, "request_map"); request != nil && strings.TrimSpace(request.Value) != "" {
		do = t.request(body, request, len(all) > 0 && has(all[0], elements), where)
	}
	do = append(do, t.processors(steps, inner)...)
	if joins(all) {
		t.differs(step, config, "the steps run for each message, not once for a batch of them")
	}
	var after []*yaml.Node
	if result := lookup(config, "result_map"); result == nil || strings.TrimSpace(result.Value) == "" {
		do = append(do, short("filter", code("false"))) // the message continues unchanged
	} else {
		do, after = t.result(body, result, do, label, where)
	}
	if len(do) == 0 {
		return after
	}
	into := lookup(body, "into")
	for i := 0; i+1 < len(body.Content); i += 2 {
		if body.Content[i].Value == "into" {
			body.Content = slices.Delete(body.Content, i, i+2)
			break
		}
	}
	put(body, "do", list(do...))
	if into != nil {
		put(body, "into", into)
	}
	put(step, "branch", body)
	hoist(step, do)
	step.HeadComment, body.HeadComment = join(step.HeadComment, body.HeadComment), ""
	return append([]*yaml.Node{step}, after...)
}
