package config

import (
	"encoding/base64"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/flowd-io/flowd/config/yamltext"
	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/schema"
)

// Update is the outcome of a test, to be written into the file as its expectation.
type Update struct {
	Test     int                 // index
	Outputs  map[string][]Batch  // by output whose expectation differs: what arrived, per write
	Fates    *Fates              // nil: unchanged
	Acks     map[int]ExpectedAck // by message whose acknowledgement differs
	Failures []ExpectedFailure   // nil: unchanged
}

// Batch is the content of one write.
type Batch struct {
	Trigger  string
	Key      string // as JSON; "": no key
	Messages []Came
}

// Came is a message that arrived at an output.
type Came struct {
	Body []byte
	Err  *ExpectedError // of a dead letter
}

// Rewrite returns the file with the expectations of its tests replaced, and everything else unchanged. It checks that
// the result means what it should.
func (l Loaded) Rewrite(updates []Update) (before, after string, err error) {
	data, err := os.ReadFile(l.File)
	if err != nil {
		return "", "", err
	}
	e, err := yamltext.Edit(l.File, data)
	if err != nil {
		return "", "", err
	}
	for _, u := range updates {
		if err := u.write(e); err != nil {
			return "", "", fmt.Errorf("test %q: %w (change it by hand)", l.file.spec.Tests[u.Test].Name, err)
		}
	}
	after, err = applied(e)
	return string(data), after, err
}

// applied returns the edited file, after a check that its tests are valid.
func applied(e *yamltext.Editor) (string, error) {
	after, root, err := e.Apply()
	if err != nil {
		return "", err
	}
	d := schema.NewDecoder(func(string) (string, bool, error) { return "1", true, nil })
	var tests []Test
	d.Decode(root.Lookup("tests"), &tests)
	for _, p := range d.Problems() {
		if !p.Warning {
			return "", fmt.Errorf("the file can't be rewritten safely (change it by hand): %s", p)
		}
	}
	return after, nil
}

// write replaces the expectations of the test.
func (u Update) write(e *yamltext.Editor) error {
	test := e.Root().Get("tests").Item(u.Test)
	if !test.Get("name").Exists() {
		return yamltext.ErrShared
	}
	if u.Outputs != nil {
		expect, err := newExpect(test.Get("expect"), u.Outputs)
		if err != nil {
			return err
		}
		if err := e.Set(test, "expect", expect); err != nil {
			return err
		}
	}
	if u.Fates != nil {
		if err := e.Set(test, "fates", u.Fates.value()); err != nil {
			return err
		}
	}
	if u.Acks != nil {
		old, acks := test.Get("acks"), yamltext.List()
		acks.CommentsOf(old)
		for i := 0; old.Item(i).Exists(); i++ {
			value := old.Item(i)
			if ack, differs := u.Acks[i]; differs {
				value = ack.value()
				value.CommentsOf(old.Item(i))
			}
			acks.Append(value)
		}
		if err := e.Set(test, "acks", acks); err != nil {
			return err
		}
	}
	if u.Failures != nil {
		return e.Set(test, "failures", failuresValue(u.Failures))
	}
	return nil
}

// newExpect returns `expect` with the outputs replaced that differ.
func newExpect(old yamltext.Value, came map[string][]Batch) (yamltext.Value, error) {
	expect := yamltext.Mapping()
	expect.CommentsOf(old)
	for name, value := range old.Pairs() {
		writes, differs := came[name.Text()]
		if differs && len(writes) == 0 {
			continue
		}
		if differs {
			var err error
			if value, err = outputValue(value, writes); err != nil {
				return expect, err
			}
		}
		expect.Append(name, value)
	}
	for _, name := range slices.Sorted(maps.Keys(came)) {
		if old.Get(name).Exists() || len(came[name]) == 0 {
			continue
		}
		value, err := outputValue(yamltext.Value{}, came[name])
		if err != nil {
			return expect, err
		}
		expect.Append(yamltext.Text(name), value)
	}
	return expect, nil
}

// outputValue returns what arrived at one output, in the form of the old expectation.
func outputValue(old yamltext.Value, writes []Batch) (yamltext.Value, error) {
	inBatches := old.Get("batches").Exists()
	list := yamltext.List()
	for _, w := range writes {
		messages := list
		if inBatches {
			messages = yamltext.List()
		}
		for _, came := range w.Messages {
			messages.Append(came.value())
		}
		if !inBatches {
			continue
		}
		batch := yamltext.Mapping()
		if w.Trigger != "" {
			batch.Append(yamltext.Text("trigger"), yamltext.Text(w.Trigger))
		}
		if w.Key != "" {
			key, err := schema.ParseJSON(w.Key)
			if err != nil {
				return list, err
			}
			batch.Append(yamltext.Text("key"), jsonValue(key))
		}
		batch.Append(yamltext.Text("messages"), messages)
		list.Append(batch)
	}
	anyOrder := old.Get("any_order")
	if !inBatches && !anyOrder.Exists() {
		return list, nil
	}
	all := yamltext.Mapping()
	if anyOrder.Exists() {
		all.Append(yamltext.Text("any_order"), anyOrder)
	}
	name := "messages"
	if inBatches {
		name = "batches"
	}
	all.Append(yamltext.Text(name), list)
	return all, nil
}

// value returns a message: objects and lists as such, other payloads as text, and the error of a dead letter.
func (c Came) value() yamltext.Value {
	pairs := []yamltext.Value{yamltext.Text("text"), literal(string(c.Body))}
	if !utf8.Valid(c.Body) || strings.ContainsFunc(string(c.Body), yamltext.Forbidden) {
		pairs = []yamltext.Value{yamltext.Text("base64"), yamltext.Text(base64.StdEncoding.EncodeToString(c.Body))}
	}
	if text := strings.TrimSpace(string(c.Body)); strings.HasPrefix(text, "{") || strings.HasPrefix(text, "[") {
		if n, err := schema.ParseJSON(text); err == nil {
			pairs = []yamltext.Value{yamltext.Text("json"), jsonValue(n)}
		}
	}
	if c.Err != nil {
		pairs = append(pairs, yamltext.Text("error"), yamltext.Mapping(c.Err.pairs()...))
	}
	return yamltext.Mapping(pairs...).OneLine()
}

// literal returns a text without placeholders.
func literal(s string) yamltext.Value { return yamltext.Text(strings.ReplaceAll(s, "${", "$${")) }

// jsonValue returns a JSON value in YAML.
func jsonValue(n *schema.Node) yamltext.Value {
	v := yamltext.List()
	switch n.Kind {
	case schema.MapNode:
		v = yamltext.Mapping()
	case schema.ListNode:
	case schema.TextNode:
		return literal(n.Text)
	default:
		return yamltext.Plain(n.Text) // JSON and YAML spell it alike
	}
	for i, item := range n.Items {
		if n.Kind == schema.MapNode {
			v.Append(yamltext.Text(n.Keys[i].Text))
		}
		v.Append(jsonValue(item))
	}
	return v.OneLine()
}

func (f *Fates) value() yamltext.Value {
	v := yamltext.Mapping()
	for _, fate := range []engine.Fate{engine.Delivered, engine.Filtered, engine.DeadLettered, engine.Dropped,
		engine.Returned} {
		if n := f.Of(fate); n > 0 {
			v.Append(yamltext.Text(fate.String()), yamltext.Plain(strconv.FormatInt(n, 10)))
		}
	}
	return v.OneLine()
}

// pairs returns the keys and values of an error.
func (e ExpectedError) pairs() (pairs []yamltext.Value) {
	for _, pair := range [][2]string{{"class", e.Class}, {"place", e.Place}, {"message", e.Message}} {
		if pair[1] != "" {
			pairs = append(pairs, yamltext.Text(pair[0]), literal(pair[1]))
		}
	}
	return pairs
}

// value returns an acknowledgement: the fate, or a mapping if there is more.
func (a ExpectedAck) value() yamltext.Value {
	pairs := a.pairs()
	if a.Delay != nil {
		pairs = append([]yamltext.Value{yamltext.Text("delay"), yamltext.Text(a.Delay.String())}, pairs...)
	}
	if len(pairs) == 0 {
		return yamltext.Text(a.Fate)
	}
	return yamltext.Mapping(append([]yamltext.Value{yamltext.Text("fate"), yamltext.Text(a.Fate)}, pairs...)...).OneLine()
}

func failuresValue(failures []ExpectedFailure) yamltext.Value {
	list := yamltext.List()
	for _, f := range failures {
		pairs := f.pairs()
		if f.Fate != "" {
			pairs = append(pairs, yamltext.Text("fate"), literal(f.Fate))
		}
		if f.Count > 1 {
			pairs = append(pairs, yamltext.Text("count"), yamltext.Plain(strconv.FormatInt(f.Count, 10)))
		}
		list.Append(yamltext.Mapping(pairs...).OneLine())
	}
	return list
}
