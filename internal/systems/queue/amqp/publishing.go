package amqp

import (
	"fmt"
	"strconv"
	"time"

	"github.com/flowd-io/flowd/engine"
	amqp091 "github.com/rabbitmq/amqp091-go"
)

// mostHeaders limits the headers of a message, in bytes. Together with the other properties they must fit into one frame, or the
// broker closes the connection. In practice, brokers accept frames of 128 KiB or more.
const mostHeaders = 96 << 10

// maySetHeader reports whether metadata may set a header. CC and BCC are excluded, since they are further routing keys: only the
// configuration decides where a message goes.
func maySetHeader(name string) bool {
	return !brokers[name] && name != "CC" && name != "BCC"
}

// Fill sets the properties and headers of p from metadata. Metadata with the name of a property sets the property, whether or
// not an input has set it. Other metadata becomes headers, except that of the input. Headers that p already has are kept. The
// error has class rejected.
func Fill(p *amqp091.Publishing, meta engine.Meta) error {
	for name, v := range meta.All() {
		if err := setProperty(p, name, v); err != nil {
			return err
		}
	}
	for name, v := range meta.Added() {
		if reserved[name] {
			continue
		}
		name = names.Out(name)
		if _, set := p.Headers[name]; set || !maySetHeader(name) {
			continue
		}
		if p.Headers == nil {
			p.Headers = amqp091.Table{}
		}
		p.Headers[name] = toTable(v, 0)
	}
	return CheckPublishing(p)
}

// setProperty sets the property with this name, if there is one. Metadata can't set expiration, user_id and persistent: only the
// configuration can.
func setProperty(p *amqp091.Publishing, name string, v any) error {
	var to *string
	switch name {
	case "content_type":
		to = &p.ContentType
	case "content_encoding":
		to = &p.ContentEncoding
	case "correlation_id":
		to = &p.CorrelationId
	case "reply_to":
		to = &p.ReplyTo
	case "message_id":
		to = &p.MessageId
	case "type":
		to = &p.Type
	case "app_id":
		to = &p.AppId
	case "priority":
		if n, ok := v.(int); ok && n >= 0 && n <= 255 {
			p.Priority = uint8(n)
			return nil
		}
		return wrongType(name, v, "a number from 0 to 255")
	case "timestamp":
		return setTimestamp(p, v)
	default:
		return nil
	}
	switch v := v.(type) {
	case string:
		*to = v
	case int:
		*to = strconv.Itoa(v)
	case nil:
	default:
		return wrongType(name, v, "text")
	}
	return nil
}

func setTimestamp(p *amqp091.Publishing, v any) error {
	switch v := v.(type) {
	case time.Time:
		p.Timestamp = v
		return nil
	case int: // seconds, as in AMQP
		p.Timestamp = time.Unix(int64(v), 0)
		return nil
	case string:
		if t, err := time.Parse(time.RFC3339, v); err == nil {
			p.Timestamp = t
			return nil
		}
	case nil:
		return nil
	}
	return wrongType("timestamp", v, "a time")
}

func wrongType(name string, v any, want string) error {
	return engine.Errorf(engine.Rejected, "metadata %s is %T, but the property must be %s", name, v, want)
}

// CheckPublishing returns an error if a message exceeds the limits of the protocol. The client library would close the
// connection for it.
func CheckPublishing(p *amqp091.Publishing) error {
	for _, f := range [...]struct{ name, value string }{
		{"content_type", p.ContentType}, {"content_encoding", p.ContentEncoding}, {"correlation_id", p.CorrelationId},
		{"reply_to", p.ReplyTo},
		{"expiration", p.Expiration}, {"message_id", p.MessageId}, {"type", p.Type}, {"app_id", p.AppId},
	} {
		if err := CheckShort(f.name, f.value); err != nil {
			return err
		}
	}
	size := 0
	for name, v := range p.Headers {
		if err := CheckShort(fmt.Sprintf("the name of header %.40q", name), name); err != nil {
			return err
		}
		size += len(name) + sizeOf(v)
	}
	if size > mostHeaders {
		return engine.Errorf(engine.Rejected, "the headers have %d bytes, more than the %d that fit into a frame", size,
			mostHeaders)
	}
	return nil
}

// CheckShort returns an error if a text is longer than the protocol's short strings. what is its name in the error.
func CheckShort(what, text string) error {
	if len(text) > maxShort {
		return engine.Errorf(engine.Rejected, "%s has %d bytes, more than the allowed 255", what, len(text))
	}
	return nil
}

// toTable converts metadata to the value of a header.
func toTable(v any, depth int) any {
	if depth > deepest {
		return nil
	}
	switch v := v.(type) {
	case nil, bool, string, float64, time.Time:
		return v
	case int:
		return int64(v)
	case []any:
		list := make([]any, len(v))
		for i := range v {
			list[i] = toTable(v[i], depth+1)
		}
		return list
	case map[string]any:
		t := make(amqp091.Table, len(v))
		for name, value := range v {
			if len(name) <= maxShort {
				t[name] = toTable(value, depth+1)
			}
		}
		return t
	}
	return fmt.Sprint(v)
}

// sizeOf returns an upper bound of the encoded size of a value of toTable, in bytes.
func sizeOf(v any) int {
	const fixed = 16 // type, length, and a number or time
	switch v := v.(type) {
	case string:
		return fixed + len(v)
	case []any:
		n := fixed
		for _, e := range v {
			n += sizeOf(e)
		}
		return n
	case amqp091.Table:
		n := fixed
		for name, e := range v {
			n += len(name) + sizeOf(e)
		}
		return n
	}
	return fixed
}
