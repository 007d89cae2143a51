package mqtt

import (
	"strings"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/systems/metadata"
)

// Names of metadata that a sender can set.
const (
	topicName       = "topic"
	contentType     = "content_type"
	responseTopic   = "response_topic"
	correlationData = "correlation_data"
)

// Records provides the metadata of messages. Metadata about the delivery belongs to the input. Outputs pass on what the sender
// has set.
type Records []Record

// Record is a message without its payload.
type Record struct {
	Topic      string
	ID         uint16
	QoS        byte
	Retain     bool
	Dup        bool
	Properties *Properties
}

// RecordOf returns the record of m.
func RecordOf(m *Message) Record { return Record{m.Topic, m.ID, m.QoS, m.Retain, m.Dup, m.Properties} }

// userNames converts the names of user properties.
var userNames = metadata.Names{Prefix: "property_", Own: reserved}

var names = [...]string{topicName, "qos", "retained", "duplicate", "message_id", "expiry", "payload_format",
	contentType, responseTopic, correlationData}

// deliveryNames is how many of names, from the first, are about the delivery.
const deliveryNames = 7

var _ engine.MetaSource = (*Records)(nil)

// Get implements [engine.MetaSource].
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
	return userValue(p.User, userNames.Out(name))
}

// userValue returns the value of a user property: text, or a list if the sender has set the property several times.
func userValue(all []User, name string) (v any, ok bool) {
	for i := range all {
		switch {
		case all[i].Key != name:
		case !ok:
			v, ok = all[i].Value, true
		default:
			v = appendValue(v, all[i].Value)
		}
	}
	return v, ok && name != ""
}

// appendValue adds a value to one or several earlier values.
func appendValue(before any, text string) any {
	if list, is := before.([]any); is {
		return append(list, text)
	}
	return []any{before, text}
}

// Meta implements [engine.MetaSource].
func (r *Records) Meta(i int) engine.Meta {
	var found []string
	var values []any
	n := 0
	for j, name := range names {
		if v, ok := r.Get(i, name); ok {
			found, values = append(found, name), append(values, v)
		}
		if j == deliveryNames-1 {
			n = len(found)
		}
	}
	if p := (*r)[i].Properties; p != nil {
		found, values = appendUsers(p.User, found, values)
	}
	return engine.MetaOf(found, values, n)
}

// reserved reports whether a name belongs to the delivery or the protocol, so that no user property can have it.
func reserved(name string) bool {
	for _, n := range names {
		if n == name {
			return true
		}
	}
	return false
}

// appendUsers appends the user properties, each name once. Metadata can't have an empty name.
func appendUsers(all []User, names []string, values []any) ([]string, []any) {
	at := make(map[string]int, len(all))
	for _, u := range all {
		i, seen := at[u.Key]
		switch {
		case seen:
			values[i] = appendValue(values[i], u.Value)
		case u.Key != "":
			at[u.Key] = len(values)
			names, values = append(names, userNames.In(u.Key)), append(values, u.Value)
		}
	}
	return names, values
}

// SetProperties sets the properties of a message from metadata that was read with it or that steps have set. Dead letters must
// not be refused, so characters that the protocol does not allow are replaced in them.
func SetProperties(p *Properties, meta engine.Meta, dead bool) {
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
		if dead || strings.HasPrefix(name, "error_") || engine.IsTraceContext(name) {
			text = clean(text)
		}
		p.User = append(p.User, User{Key: name, Value: text})
	}
	for name, v := range meta.Added() {
		if reserved(name) || name == "" || badText(name) != "" {
			continue
		}
		name = userNames.Out(name)
		if list, is := v.([]any); is {
			for _, e := range list {
				add(name, e)
			}
		} else if v != nil {
			add(name, v)
		}
	}
}

// clean replaces the characters of a text that the protocol does not allow.
func clean(s string) string {
	if badText(s) == "" {
		return s
	}
	return strings.Map(func(c rune) rune { // Map turns invalid UTF-8 into U+FFFD
		switch {
		case c == '\n' || c == '\r' || c == '\t':
			return ' '
		case disallowed(c):
			return '\uFFFD'
		}
		return c
	}, s)
}

// CheckProperties returns an error if a property is not valid. Without the check, the library would cut long properties.
func CheckProperties(p *Properties) error {
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
