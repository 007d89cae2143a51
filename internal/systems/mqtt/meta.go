package mqtt

import (
	"strings"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/systems/metadata"
)

// The names of metadata.
const (
	topicName       = "topic"
	contentType     = "content_type"
	responseTopic   = "response_topic"
	correlationData = "correlation_data"
)

// Records are messages, as the source of their metadata. The input's own are facts of the delivery; what the sender has
// set, outputs pass on.
type Records []Record

// Record is what is known of a message besides its payload.
type Record struct {
	Topic      string
	ID         uint16
	QoS        byte
	Retain     bool
	Dup        bool
	Properties *Properties
}

// RecordOf is what is known of a message.
func RecordOf(m *Message) Record { return Record{m.Topic, m.ID, m.QoS, m.Retain, m.Dup, m.Properties} }

// sent are the names of user properties as metadata.
var sent = metadata.Names{Prefix: "property_", Own: reserved}

var names = [...]string{topicName, "qos", "retained", "duplicate", "message_id", "expiry", "payload_format",
	contentType, responseTopic, correlationData}

// own is how many of the names, the first, are those of the delivery.
const own = 7

var _ engine.MetaSource = (*Records)(nil)

// Get is a value of message i.
func (r *Records) Get(i int, name string) (any, bool) {
	m := &(*r)[i]
	switch name {
	case topicName:
		return m.Topic, true
	case "qos":
		return int(m.QoS), true
	case "retained":
		return m.Retain, true
	case "duplicate":
		return m.Dup, true
	case "message_id":
		return int(m.ID), m.ID > 0
	}
	p := m.Properties
	if p == nil {
		return nil, false
	}
	switch name {
	case "expiry":
		if p.MessageExpiry != nil {
			return int(*p.MessageExpiry), true
		}
		return nil, false
	case "payload_format":
		if p.PayloadFormat != nil {
			return map[bool]string{true: "text", false: "bytes"}[*p.PayloadFormat == 1], true
		}
		return nil, false
	case contentType:
		return p.ContentType, p.ContentType != ""
	case responseTopic:
		return p.ResponseTopic, p.ResponseTopic != ""
	case correlationData:
		return string(p.CorrelationData), len(p.CorrelationData) > 0
	}
	return userValue(p.User, sent.Out(name))
}

// userValue is what a sender has set by a name: text, or a list where it has set several.
func userValue(all []User, name string) (v any, ok bool) {
	for i := range all {
		switch {
		case all[i].Key != name:
		case !ok:
			v, ok = all[i].Value, true
		default:
			v = andValue(v, all[i].Value)
		}
	}
	return v, ok && name != ""
}

// andValue is a value with one more.
func andValue(before any, text string) any {
	if list, is := before.([]any); is {
		return append(list, text)
	}
	return []any{before, text}
}

// Meta is all of message i.
func (r *Records) Meta(i int) engine.Meta {
	var found []string
	var values []any
	n := 0
	for at, name := range names {
		if v, ok := r.Get(i, name); ok {
			found, values = append(found, name), append(values, v)
		}
		if at == own-1 {
			n = len(found)
		}
	}
	if p := (*r)[i].Properties; p != nil {
		found, values = users(p.User, found, values)
	}
	return engine.MetaOf(found, values, n)
}

// reserved says that a name is one of the delivery or of the protocol, which no sender's property can have.
func reserved(name string) bool {
	for _, n := range names {
		if n == name {
			return true
		}
	}
	return false
}

// users adds the user properties that can be metadata, each name once.
func users(all []User, names []string, values []any) ([]string, []any) {
	at := make(map[string]int, len(all))
	for _, u := range all {
		i, seen := at[u.Key]
		switch {
		case seen:
			values[i] = andValue(values[i], u.Value)
		case u.Key != "":
			at[u.Key] = len(values)
			names, values = append(names, sent.In(u.Key)), append(values, u.Value)
		}
	}
	return names, values
}

// Passed sets the properties that go along with a message from where it was read, or that steps have set as metadata.
// Those of a dead letter, which must get through, lose what the protocol can't carry.
func Passed(p *Properties, meta engine.Meta, dead bool) {
	if v, ok := meta.Get(contentType); ok {
		if p.ContentType = metadata.Text(v); dead {
			p.ContentType = clean(p.ContentType)
		}
	}
	if v, ok := meta.Get(responseTopic); ok {
		if topic := metadata.Text(v); BadTopic(topic) == "" {
			p.ResponseTopic = topic
		}
	}
	if v, ok := meta.Get(correlationData); ok {
		p.CorrelationData = []byte(metadata.Text(v))
	}
	add := func(name string, v any) {
		text := metadata.Text(v)
		if dead || strings.HasPrefix(name, "error_") {
			text = clean(text)
		}
		p.User = append(p.User, User{Key: name, Value: text})
	}
	for name, v := range meta.Added() {
		if reserved(name) || name == "" || badText(name) != "" {
			continue
		}
		name = sent.Out(name)
		if list, is := v.([]any); is {
			for _, one := range list {
				add(name, one)
			}
		} else if v != nil {
			add(name, v)
		}
	}
}

// clean is a text as the protocol can carry it.
func clean(s string) string {
	if badText(s) == "" {
		return s
	}
	return strings.Map(func(c rune) rune { // what is not UTF-8 becomes U+FFFD
		switch {
		case c == '\n' || c == '\r' || c == '\t':
			return ' '
		case disallowed(c):
			return '\uFFFD'
		}
		return c
	}, s)
}

// Check is what is wrong with a message's properties, or nil: the library would cut what is too long.
func Check(p *Properties) error {
	for _, f := range []struct{ what, text string }{{"content_type", p.ContentType}, {"response_topic", p.ResponseTopic}} {
		if problem := badText(f.text); problem != "" {
			return engine.Errorf(engine.Rejected, "%s %s", f.what, problem)
		}
	}
	if p.ResponseTopic != "" {
		if problem := BadTopic(p.ResponseTopic); problem != "" {
			return engine.Errorf(engine.Rejected, "response_topic %s", problem)
		}
	}
	if len(p.CorrelationData) > longest {
		return engine.Errorf(engine.Rejected, "correlation_data is longer than 65535 bytes")
	}
	for _, u := range p.User {
		if problem := badText(u.Value); problem != "" {
			return engine.Errorf(engine.Rejected, "user property %.40q %s (change it with a step `meta`, as in "+
				"`meta: {NAME: to_base64(meta(\"NAME\"))}`, or remove it with `meta: {NAME: nil}`)", u.Key, problem)
		}
	}
	return nil
}
