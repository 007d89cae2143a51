package aws

import (
	"cmp"
	"crypto/rand"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/doc"
	"github.com/flowd-io/flowd/internal/systems/metadata"
)

// mostDigits is how many digits an attribute of type Number may have.
const mostDigits = 38

// mostAttributes is how many attributes a message may have.
const mostAttributes = 10

// Attribute is a message attribute of SQS or SNS.
type Attribute struct {
	Name, Type string // Type is String, Number or Binary, with an optional label as in Number.price
	Text       string
	Binary     []byte
}

// Size returns how many bytes the attribute adds to the size of a message.
func (a *Attribute) Size() int { return len(a.Name) + len(a.Type) + len(a.Text) + len(a.Binary) }

// Attributes returns the metadata of m as attributes, and their size in bytes. It leaves out the metadata that the input has
// set itself, empty values, and names that are not valid for an attribute. A message may have ten attributes. If it has more,
// the context of a trace is left out as far as necessary, and so is the error_* metadata of a dead letter.
func Attributes(m *engine.Message) (all []Attribute, size int, err error) {
	for name, v := range m.Meta.Added() {
		a, ok, err := attribute(names.Out(name), v)
		if err != nil {
			return nil, 0, err
		}
		if ok && slices.ContainsFunc(all, func(b Attribute) bool { return b.Name == a.Name }) {
			return nil, 0, engine.Errorf(engine.Rejected, "two metadata values would be the attribute %s "+
				"(remove one: `meta: {%[1]s: nil}`)", a.Name)
		}
		if ok {
			all = append(all, a)
		}
	}
	all = fewer(all, engine.IsTraceContext)
	if m.Err() != nil {
		all = fewer(all, func(name string) bool { return strings.HasPrefix(name, "error_") })
	}
	if len(all) > mostAttributes {
		return nil, 0, engine.Errorf(engine.Rejected,
			"%d metadata values would be sent, but a message may have %d (remove some: `meta: {NAME: nil}`)", len(all),
			mostAttributes)
	}
	for i := range all {
		size += all[i].Size()
	}
	return all, size, nil
}

// attribute returns a metadata value as an attribute. ok is false if the value is empty or the name is not valid.
func attribute(name string, v any) (a Attribute, ok bool, err error) {
	if !isAttributeName(name) {
		return a, false, nil
	}
	a = Attribute{Name: name, Type: "String"}
	switch v := v.(type) {
	case nil:
	case string:
		if a.Text = v; !Printable(v) {
			a.Type, a.Text, a.Binary = "Binary", "", []byte(v)
		}
	case int:
		a.Type, a.Text = "Number", strconv.Itoa(v)
	case float64:
		a.Type, a.Text = "Number", number(v)
	case time.Time:
		a.Text = v.Format(time.RFC3339Nano)
	case bool:
		a.Text = strconv.FormatBool(v)
	case doc.Number:
		if a.Text = string(v); len(a.Text) <= mostDigits {
			a.Type = "Number"
		}
	default:
		a.Text = metadata.Text(v)
	}
	return a, a.Text != "" || a.Binary != nil, nil
}

// FromReceived returns an outgoing message that repeats a received one, with all its attributes and their types, and its
// group.
func (f FIFO) FromReceived(w *types.Message) (o Outgoing) {
	o.Body = aws.ToString(w.Body)
	o.Size = len(o.Body)
	for _, name := range slices.Sorted(maps.Keys(w.MessageAttributes)) {
		v := w.MessageAttributes[name]
		a := Attribute{Name: name, Type: aws.ToString(v.DataType), Text: aws.ToString(v.StringValue),
			Binary: v.BinaryValue}
		o.Attributes = append(o.Attributes, a)
		o.Size += a.Size()
	}
	system := func(name types.MessageSystemAttributeName) string { return w.Attributes[string(name)] }
	o.Trace = system(types.MessageSystemAttributeNameAWSTraceHeader)
	f.finish(&o, system(types.MessageSystemAttributeNameMessageGroupId), aws.ToString(w.MessageId),
		system(types.MessageSystemAttributeNameMessageDeduplicationId))
	return o
}

// FromMetadata is like [FIFO.FromReceived] for a message of which only payload and metadata are left. What metadata does not
// contain, such as the label of an attribute's type, is lost.
func (f FIFO) FromMetadata(payload []byte, meta map[string]any) (o Outgoing) {
	o.Body = string(payload)
	if !Printable(o.Body) || o.Body == "" {
		o.Err = engine.Errorf(engine.Rejected, "the payload can't be the body of a message: it is empty, or not text")
	}
	o.Size = len(o.Body)
	for _, name := range slices.Sorted(maps.Keys(meta)) {
		if reserved[name] {
			continue
		}
		a, ok, err := attribute(names.Out(name), meta[name])
		if o.Err = cmp.Or(o.Err, err); ok {
			o.Attributes = append(o.Attributes, a)
			o.Size += a.Size()
		}
	}
	text := func(name string) string { s, _ := meta[name].(string); return s }
	o.Trace = text("trace_header")
	f.finish(&o, text("message_group_id"), text("message_id"), text("dedupe_id"))
	return o
}

// finish sets the group of a message and checks its limits. In a FIFO queue, the message id becomes the deduplication id:
// with the original deduplication id, the queue would drop a message that it contained less than five minutes ago.
func (f FIFO) finish(o *Outgoing, group, id, dedupe string) {
	if n := len(o.Attributes); n > mostAttributes && o.Err == nil {
		o.Err = engine.Errorf(engine.Rejected, "%d metadata values would be sent, but a message may have %d", n,
			mostAttributes)
	}
	o.Err = cmp.Or(o.Err, Fits(o.Size, MaxMessage))
	if o.Group = group; !f.On {
		return
	}
	o.Dedupe = cmp.Or(id, dedupe, rand.Text())
	o.Group = cmp.Or(group, "default")
	o.Lanes[1] = "group " + o.Group
}

// fewer removes attributes that may be left out, the last first, until the number of attributes is within the limit.
func fewer(all []Attribute, optional func(name string) bool) []Attribute {
	for i := len(all) - 1; i >= 0 && len(all) > mostAttributes; i-- {
		if optional(all[i].Name) {
			all = slices.Delete(all, i, i+1)
		}
	}
	return all
}

// isAttributeName reports whether the services accept a name of an attribute.
func isAttributeName(name string) bool {
	if !consistsOf(name, inNames+".", 256) || name[0] == '.' || name[len(name)-1] == '.' || strings.Contains(name, "..") {
		return false
	}
	low := strings.ToLower(name)
	return !strings.HasPrefix(low, "aws.") && !strings.HasPrefix(low, "amazon.")
}

// Printable reports whether all characters of a text are allowed in a body or an attribute of type String, which are those
// that XML allows.
func Printable(text string) bool {
	if !utf8.ValidString(text) {
		return false
	}
	for _, r := range text {
		if r < 0x20 && r != '\t' && r != '\n' && r != '\r' || r == 0xFFFE || r == 0xFFFF {
			return false
		}
	}
	return true
}

// Body returns the payload of m as the body of a message, which must be text and not empty.
func Body(m *engine.Message) (string, error) {
	body := string(m.Bytes())
	switch {
	case body == "":
		return "", engine.Errorf(engine.Rejected,
			"the payload is empty, but a message needs a body (filter such messages out, or set a payload)")
	case !Printable(body):
		return "", engine.Errorf(engine.Rejected,
			"the payload has bytes that a message must not contain (write `encode: base64` before the output)")
	}
	return body, nil
}

// Fits returns an error if size, in bytes, is more than most.
func Fits(size, most int) error {
	if size > most {
		return engine.Errorf(engine.Rejected,
			"the message has %d bytes with its attributes, more than the allowed %d "+
				"(write `compress: gzip` and `encode: base64` before the output, or store it elsewhere and send a reference)", size, most)
	}
	return nil
}

// Value returns the metadata value of an attribute: a Number as int or float64 if that is exact, a Binary as a string of its
// bytes, and anything else as text. A label of the type, as in Number.price, is ignored.
func Value(kind, text string, binary []byte) any {
	kind, _, _ = strings.Cut(kind, ".")
	switch kind {
	case "Binary":
		return string(binary)
	case "Number":
		if n, err := strconv.Atoi(text); err == nil {
			return n
		}
		if f, err := strconv.ParseFloat(text, 64); err == nil && !math.IsInf(f, 0) && !math.IsNaN(f) &&
			(f != 0 || doc.SpellsZero(text)) && (significant(text) <= 15 || number(f) == text) {
			return f
		}
	}
	return text
}

// number returns the shortest text of a float.
func number(f float64) string {
	if math.Abs(f) < 1e15 {
		return strconv.FormatFloat(f, 'f', -1, 64)
	}
	return strconv.FormatFloat(f, 'g', -1, 64)
}

// significant counts the significant digits of a number.
func significant(text string) (n int) {
	mantissa, _, _ := strings.Cut(strings.ToLower(text), "e")
	for _, r := range strings.TrimLeft(mantissa, "+-0.") {
		if r >= '0' && r <= '9' {
			n++
		}
	}
	return n
}

// Delay returns the delay that an output's expression `delay` has evaluated to. v is a duration, the text of one, a number
// of seconds, or the time at which the delay ends. nil means no delay.
func Delay(v any, now time.Time, most time.Duration) (time.Duration, error) {
	var d time.Duration
	switch v := v.(type) {
	case nil:
		return 0, nil
	case time.Duration:
		d = v
	case int:
		d = time.Duration(min(max(v, 0), math.MaxInt32)) * time.Second
	case float64:
		d = time.Duration(min(max(v, 0), math.MaxInt32) * float64(time.Second))
	case time.Time:
		d = v.Sub(now)
	case string:
		var err error
		if d, err = time.ParseDuration(v); err != nil {
			return 0, fmt.Errorf("delay: %q is not a duration such as 90s (write one, a number of seconds, or a time)",
				v)
		}
	default:
		return 0, fmt.Errorf("delay: %T is not a duration (write one such as 90s, a number of seconds, or a time)", v)
	}
	if d > most {
		return 0,
			fmt.Errorf("delay: %v is more than the %v that a queue can delay a message (let a retry or a scheduled job wait instead)",
				d.Round(time.Second), most)
	}
	return max(0, d), nil
}
