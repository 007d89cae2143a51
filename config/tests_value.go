package config

import (
	"encoding/base64"
	"fmt"
	"slices"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/doc"
	"github.com/flowd-io/flowd/engine/expr"
	"github.com/flowd-io/flowd/internal/components/fields"
	"github.com/flowd-io/flowd/schema"
)

// InputOf returns a message that an input of a test reads.
func InputOf(payload []byte, meta engine.Meta, input string) TestInput {
	text := base64.StdEncoding.EncodeToString(payload)
	var entries []schema.Entry[JSON]
	for name, v := range meta.All() {
		if value, err := doc.Append(nil, v); err == nil { // what no JSON can express is left out
			entries = append(entries, schema.Entry[JSON]{Key: name, Value: value})
		}
	}
	return TestInput{Body: Body{Base64: &text}, Meta: schema.MapOf(entries...), Input: input}
}

// JSON is any value, written in YAML or JSON.
type JSON = fields.Document

// Mock replaces the work of a step in a test. The first answer whose condition holds applies.
type Mock []Answer

// Answer is what a mocked step does with a message.
type Answer struct {
	Match expr.Cond        `yaml:"match" doc:"Only messages for which this is true get this answer."`
	Set   *JSON            `yaml:"set" doc:"Fields that the step sets; objects are merged."`
	JSON  *JSON            `yaml:"json" oneof:"body,optional" doc:"The new payload, as a document."`
	Text  *string          `yaml:"text" oneof:"body,optional" doc:"The new payload, as text."`
	Meta  schema.Map[JSON] `yaml:"meta" doc:"Metadata that the step sets."`
	Drop  bool             `yaml:"drop" doc:"The step drops the message."`
	Error string           `yaml:"error" doc:"The step fails with this text."`
	Class string           `yaml:"class" check:"oneof=transient|permanent|auth|rejected|expression|decode|timeout|late|panic" doc:"Class of the failure; permanent by default."`
}

// CheckConfig rejects contradictions.
func (a *Answer) CheckConfig(report func(path, message, remedy string)) {
	switch {
	case a.Set != nil && (*a.Set)[0] != '{':
		report("set", "fields are a mapping", "write `set: {FIELD: VALUE}`")
	case a.Class != "" && a.Error == "":
		report("class", "there is a class, but no error", "add `error: TEXT`")
	case a.Error != "" && a.Drop:
		report("drop", "a message can't both fail and be dropped", "keep one of error and drop")
	}
}

// UnmarshalConfig decodes an answer or a list of answers.
func (m *Mock) UnmarshalConfig(d *schema.Decoder, n *schema.Node) {
	*m = nil
	answers := []*schema.Node{n}
	if n.Kind == schema.ListNode {
		answers = n.Items
	}
	for _, item := range answers {
		*m = append(*m, readAnswer(d, item))
	}
}

// readAnswer decodes an answer, or its short form: the fields that it sets.
func readAnswer(d *schema.Decoder, n *schema.Node) (a Answer) {
	var own, fields []string
	answerKeys := schema.Of(Answer{}).Keys() // a full answer has these keys; a document has others
	for _, k := range n.Keys {
		if slices.Contains(answerKeys, k.Text) {
			own = append(own, k.Text)
		} else {
			fields = append(fields, k.Text)
		}
	}
	switch {
	case n.Kind != schema.MapNode:
		d.Report(n, schema.Problem{Code: schema.WrongKind, Message: "expected a mapping, got " + n.Kind.String(),
			Remedy: "write the fields that the step sets, {error: TEXT}, {drop: true}, or {} for a step that does nothing"})
	case len(own) > 0 && len(fields) > 0:
		d.Report(n, schema.Problem{Code: schema.BadValue,
			Message: fmt.Sprintf("%q says what the step does, %q is a field of the document", own[0], fields[0]),
			Remedy:  "put all fields of the document into `set: {…}`"})
	case len(fields) > 0:
		a.Set = new(JSON)
		d.Decode(n, a.Set)
	default:
		d.Decode(n, &a)
	}
	return a
}

// DescribeConfig describes an answer, fields, or a list.
func (*Mock) DescribeConfig() *schema.Type {
	return schema.AnyOf("answer or list of answers", Answer{}, map[string]*schema.Node(nil), []*schema.Node(nil))
}
