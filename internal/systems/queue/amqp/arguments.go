package amqp

import (
	"maps"
	"math"
	"strconv"

	"github.com/flowd-io/flowd/schema"
	amqp091 "github.com/rabbitmq/amqp091-go"
)

// Arguments is a config field for the arguments of a declaration or consumer, such as
// x-queue-type: numbers, truth values, texts and lists of them.
type Arguments map[string]any

// UnmarshalConfig reads a mapping.
func (a *Arguments) UnmarshalConfig(d *schema.Decoder, n *schema.Node) {
	all := decoded[schema.Map[argument]](d, n)
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

// DescribeConfig is a mapping of scalars.
func (a *Arguments) DescribeConfig() *schema.Type { return schema.Of(schema.Map[argument]{}) }

// argument is one value. What it is follows from how it is written.
type argument struct{ value any }

// UnmarshalConfig reads a scalar or a list of them.
func (a *argument) UnmarshalConfig(d *schema.Decoder, n *schema.Node) {
	switch n.Kind {
	case schema.BoolNode:
		a.value = decoded[bool](d, n)
	case schema.IntNode:
		a.value = decoded[int64](d, n)
	case schema.FloatNode:
		a.value = decoded[float64](d, n)
	case schema.ListNode:
		v := decoded[[]argument](d, n)
		list := make([]any, len(v))
		for i := range v {
			list[i] = v[i].value
		}
		a.value = list
	default:
		a.text(d, n)
	}
}

// decoded is what a node says, as a T.
func decoded[T any](d *schema.Decoder, n *schema.Node) (v T) {
	d.Decode(n, &v)
	return v
}

// text reads a text. One that a placeholder has replaced by a number is a number.
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

// DescribeConfig is a scalar or a list.
func (a *argument) DescribeConfig() *schema.Type {
	return schema.AnyOf("number, truth value, text or list", int64(0), 0.0, false, "", []string(nil))
}

// Table is a as the client takes it.
func (a Arguments) Table() amqp091.Table { return amqp091.Table(maps.Clone(a)) }

const maxShort = math.MaxUint8 // bytes of a routing key, a property, the name of a header
