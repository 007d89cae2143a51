package amqp

import (
	"maps"
	"math"
	"strconv"

	"github.com/flowd-io/flowd/schema"
	amqp091 "github.com/rabbitmq/amqp091-go"
)

// Arguments is a config field for the arguments of a declaration or consumer, such as x-queue-type. The values are numbers,
// booleans, strings and lists of them.
type Arguments map[string]any

// UnmarshalConfig decodes a mapping.
func (a *Arguments) UnmarshalConfig(d *schema.Decoder, n *schema.Node) {
	all := valueOf[schema.Map[argument]](d, n)
	*a = Arguments{}
	for _, e := range all.Entries() {
		if len(e.Key) > maxShort {
			d.Report(n, schema.Problem{Code: schema.BadValue, Message: "has a name longer than 255 bytes",
				Remedy: "shorten it"})
			continue
		}
		(*a)[e.Key] = e.Value.value
	}
}

// DescribeConfig describes a mapping.
func (a *Arguments) DescribeConfig() *schema.Type { return schema.Of(schema.Map[argument]{}) }

// argument is one value. Its type follows from its YAML syntax.
type argument struct{ value any }

// UnmarshalConfig decodes a scalar or a list.
func (a *argument) UnmarshalConfig(d *schema.Decoder, n *schema.Node) {
	switch n.Kind {
	case schema.BoolNode:
		a.value = valueOf[bool](d, n)
	case schema.IntNode:
		a.value = valueOf[int64](d, n)
	case schema.FloatNode:
		a.value = valueOf[float64](d, n)
	case schema.ListNode:
		v := valueOf[[]argument](d, n)
		list := make([]any, len(v))
		for i := range v {
			list[i] = v[i].value
		}
		a.value = list
	default:
		a.text(d, n)
	}
}

// valueOf decodes a node as a T.
func valueOf[T any](d *schema.Decoder, n *schema.Node) (v T) {
	d.Decode(n, &v)
	return v
}

// text decodes a text. If a placeholder stands for an integer, the value is a number.
func (a *argument) text(d *schema.Decoder, n *schema.Node) {
	text, ok := d.Text(n)
	if !ok {
		return
	}
	a.value = text
	if n.Style == schema.Plain && text != n.Text {
		if v, err := strconv.ParseInt(text, 10, 64); err == nil {
			a.value = v
		}
	}
}

// DescribeConfig describes a scalar or a list.
func (a *argument) DescribeConfig() *schema.Type {
	return schema.AnyOf("number, truth value, text or list", int64(0), 0.0, false, "", []string(nil))
}

// Table returns the arguments for the client library.
func (a Arguments) Table() amqp091.Table { return amqp091.Table(maps.Clone(a)) }

// maxShort is the protocol's limit, in bytes, for routing keys, properties and names of headers.
const maxShort = math.MaxUint8
