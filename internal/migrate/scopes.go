package migrate

import (
	"fmt"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"
)

// inputBatch says how some of the inputs batch.
type inputBatch struct {
	of     []string
	policy *yaml.Node // nil: they do not batch
}

// inputSteps are steps for some of the inputs, which come before the pipeline's.
type inputSteps struct {
	of    []string
	steps []*yaml.Node
}

// inputsFrom returns the names of the inputs from an index on.
func (t *translator) inputsFrom(at int) (names []string) {
	for i := at; i < len(t.inputs.Content); i += 2 {
		names = append(names, t.inputs.Content[i].Value)
	}
	return names
}

// everyInput names all inputs. A default input has no name.
func (t *translator) everyInput() []string {
	if all := t.inputsFrom(0); len(all) > 0 {
		return all
	}
	return []string{""}
}

// batched records how inputs batch. Batching inside them does not count any more, except for its steps.
func (t *translator) batched(of []string, policy *yaml.Node) {
	if empty(policy) {
		return
	}
	t.unbatched(of)
	own := items(lookup(policy, "processors"))
	switch {
	case len(own) == 0:
	case t.needsBatch(own):
		group := t.batchGroup(policy, own[0])
		put(lookup(group, "group"), "do", list(t.processors(seq(own), ctx{batch: true})...))
		t.front = append(t.front, inputSteps{of, []*yaml.Node{group}})
		if slices.ContainsFunc(own, t.merges) {
			return // the rest is one message
		}
	default:
		t.front = append(t.front, inputSteps{of, t.processors(seq(own), ctx{})})
	}
	t.batches = append(t.batches, inputBatch{of, without(policy, "processors")})
}

// unbatched forgets how inputs batch.
func (t *translator) unbatched(of []string) {
	t.batches = slices.DeleteFunc(t.batches, func(b inputBatch) bool { return slices.Contains(of, b.of[0]) })
}

// merges reports whether a processor reduces the number of messages in a batch.
func (t *translator) merges(n *yaml.Node) bool {
	return slices.ContainsFunc([]string{"archive", "parquet_encode", "select_parts"}, func(kind string) bool {
		c, why := t.open("processor", n)
		return why == "" && (c.key.Value == kind ||
			inlined[c.key.Value] && slices.ContainsFunc(items(c.config), func(n *yaml.Node) bool { return t.merges(n) }))
	})
}

// batchesOf returns the ways in which inputs batch, including none.
func (t *translator) batchesOf(of []string) (all []inputBatch) {
	rest := slices.Clone(of)
	for _, b := range t.batches {
		if slices.Contains(of, b.of[0]) {
			all = append(all, b)
			rest = slices.DeleteFunc(rest, func(name string) bool { return slices.Contains(b.of, name) })
		}
	}
	if len(rest) > 0 || len(all) == 0 {
		all = append(all, inputBatch{of: rest})
	}
	return all
}

// from returns the condition that a message comes from one of some inputs.
func from(of []string) string {
	if len(of) == 1 {
		return "input() == " + quote(of[0])
	}
	var names []string
	for _, name := range of {
		names = append(names, quote(name))
	}
	return "input() in [" + strings.Join(names, ", ") + "]"
}

// scoped returns the steps before the pipeline's, each only for its inputs.
func (t *translator) scoped() (all []*yaml.Node) {
	for _, f := range t.front {
		switch {
		case len(f.of) == len(t.everyInput()):
			all = append(all, f.steps...)
		case len(f.steps) == 1 && !has(f.steps[0], "when"):
			put(f.steps[0], "when", code(from(f.of)))
			all = append(all, f.steps[0])
		case len(f.steps) > 0:
			all = append(all, mapping("steps", list(f.steps...), "when", code(from(f.of))))
		}
	}
	if t.grouped != nil && len(t.groupedOf) > 0 && len(t.groupedOf) < len(t.everyInput()) {
		all = append(all, t.lost(t.grouped.at, "groups are made of what all inputs read, not of one"))
	}
	t.front = nil
	return all
}

// ownSteps records processors of inputs that come before the pipeline.
func (t *translator) ownSteps(of []string, own *yaml.Node) {
	if own == nil || len(items(own)) == 0 {
		return
	}
	before := t.grouped
	steps := t.pipelineOf(own, of)
	if t.grouped != before {
		t.groupedOf = of
	}
	t.front = append(t.front, inputSteps{of, steps})
}

// batchGroup returns a group for batch steps, with the size of a policy, or nil.
func (t *translator) batchGroup(policy, at *yaml.Node) *yaml.Node {
	var body *yaml.Node
	if policy != nil {
		body, _ = t.policy(without(policy, "processors"))
	}
	if body == nil {
		body = mapping("timeout", code("1s"))
		t.differs(body, at, "the batches of an input are not known here: a group has what comes within its timeout")
	}
	if text(body, "size") == "0" {
		drop(body, "size")
	}
	if f := lookup(body, "flush"); f != nil {
		drop(body, "flush")
		t.lostField(body, pair{scalar("check"), f}, "a group has no condition that ends it: a batcher has (flush)")
	}
	group := short("group", body)
	group.HeadComment, body.HeadComment = body.HeadComment, ""
	return group
}

// byInput adds the batches of the inputs to routes whose outputs have none of their own.
func (t *translator) byInput(routes []route) []route {
	all := t.batchesOf(t.everyInput())
	grouped := t.grouped != nil && len(t.behind) > 0
	whole := grouped || len(t.behind) > 0
	asked := grouped
	for _, r := range routes {
		whole = whole || r.whole || len(r.steps) > 0
		asked = asked || r.end == toOutputs && r.batch == nil
	}
	if !asked {
		return routes
	}
	differs := func(b inputBatch) bool { return textOf(b.policy) != textOf(all[0].policy) }
	if !whole && !slices.ContainsFunc(all, differs) {
		all = all[:1] // it does not matter whose messages share a write
	}
	var done []route
	for i, b := range all {
		ways := routes
		if i < len(all)-1 {
			ways = under(from(b.of), complete(routes))
		}
		for _, r := range ways {
			if r.end == toOutputs && (r.batch == nil || grouped) {
				if r.batch != nil {
					t.differs(mapping(), t.grouped.at, batchOfGroups)
					r.head = join(r.head, commented("Differs: "+batchOfGroups))
				}
				head := ""
				r.batch, head = t.batchOf(b.policy, grouped, r.whole)
				r.head = join(head, r.head)
			}
			if i > 0 && r.end == toOutputs {
				r.name = fmt.Sprintf("%s_%d", r.name, i+1)
			}
			done = append(done, r)
		}
	}
	return done
}

const (
	batchOfGroups = "groups are written one by one: there the batch of the output had several"
	batchOfKey    = "a batch has as many messages of one key; there it had those of a key among as many of all"
)

// batchOf returns a policy of inputs in flowd's form, with a comment, for steps that work on the batches or on groups
// of them.
func (t *translator) batchOf(policy *yaml.Node, grouped, whole bool) (batch *yaml.Node, head string) {
	batch, _ = t.policy(policy)
	at := lookupOr(t.src.root, "output")
	if grouped {
		at = t.grouped.at
	}
	switch {
	case batch == nil && !grouped && !whole:
	case batch == nil && !t.bulk && !slices.ContainsFunc(t.steps, splits):
		batch = mapping("size", code("1")) // as the input does
	case batch == nil:
		batch = mapping("size", code("0"), "timeout", code("1s"))
		why := "the batches of an input are not known here: one has what comes within its timeout"
		t.note(Differs, at, why)
		head = commented("Differs: " + why)
	case grouped && (text(batch, "size") != "0" || has(batch, "bytes") || has(batch, "flush")):
		t.note(Differs, at, batchOfKey)
		head = commented("Differs: " + batchOfKey)
	}
	return batch, head
}

// splits reports whether a step splits messages.
func splits(n *yaml.Node) bool {
	return n.Kind == yaml.MappingNode && has(n, "split") || slices.ContainsFunc(n.Content, splits)
}

// textOf returns a node as text, to compare it.
func textOf(n *yaml.Node) string {
	if n == nil {
		return ""
	}
	data, err := yaml.Marshal(n)
	if err != nil {
		return err.Error()
	}
	return string(data)
}

// bySingles are inputs that read single messages unless they are configured to batch.
var bySingles = map[string]bool{"stdin": true, "file": true, "csv": true, "http_server": true, "http_client": true,
	"generate": true, "aws_s3": true, "aws_sqs": true, "gcp_cloud_storage": true, "azure_blob_storage": true,
	"amqp_0_9": true, "kafka": true, "mqtt": true, "nats": true, "nats_jetstream": true, "redis_list": true,
	"redis_pubsub": true, "redis_streams": true, "sql_select": true, "sql_raw": true, "subprocess": true}
