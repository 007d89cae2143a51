package amqp

import (
	"cmp"
	"slices"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/systems/metadata"
	amqp091 "github.com/rabbitmq/amqp091-go"
)

// Describer returns the metadata of deliveries from one queue. It is not safe for concurrent use.
type Describer struct {
	Queue string

	names  []string         // of the last metadata, shared by all metadata with the same names
	last   amqp091.Delivery // without headers
	meta   engine.Meta      // of last
	some   bool             // last and meta are set
	fields []string         // scratch space of Describe
	values []any            // scratch space of Describe
}

// brokers are the headers that the broker sets. They describe the way of a message through queues, so they must not be
// published again: they would mislead the next broker.
var brokers = map[string]bool{
	"x-death": true, "x-delivery-count": true, "x-acquired-count": true, "x-stream-offset": true,
	"x-first-death-exchange": true, "x-first-death-queue": true, "x-first-death-reason": true,
	"x-last-death-exchange": true, "x-last-death-queue": true, "x-last-death-reason": true,
}

// Describe returns the metadata of a delivery. The input's own metadata is queue, exchange, routing_key, redelivered, deaths, the
// properties, and the headers that the broker sets. Outputs pass on all other headers. A header with the name of the input's
// own metadata is called header_NAME, so that a sender can't forge it.
func (s *Describer) Describe(d *amqp091.Delivery) engine.Meta {
	if s.some && len(d.Headers) == 0 && sameMetadata(d, &s.last) {
		return s.meta
	}
	s.fields, s.values = s.fields[:0], s.values[:0]
	s.add("queue", s.Queue)
	s.add("exchange", d.Exchange)
	s.add("routing_key", d.RoutingKey)
	s.add("redelivered", d.Redelivered)
	s.properties(d)
	own := s.headers(d.Headers)
	if !slices.Equal(s.fields, s.names) {
		s.names = slices.Clone(s.fields)
	}
	m := engine.MetaOf(s.names, slices.Clone(s.values), own)
	if s.some = len(d.Headers) == 0; s.some {
		s.last, s.meta = *d, m
		s.last.Body = nil
	}
	return m
}

// sameMetadata reports whether two deliveries without headers have the same metadata.
func sameMetadata(a, b *amqp091.Delivery) bool {
	return a.RoutingKey == b.RoutingKey && a.Exchange == b.Exchange && a.Redelivered == b.Redelivered &&
		a.MessageId == b.MessageId && a.CorrelationId == b.CorrelationId && a.Timestamp.Equal(b.Timestamp) &&
		a.ContentType == b.ContentType && a.ContentEncoding == b.ContentEncoding && a.DeliveryMode == b.DeliveryMode &&
		a.Priority == b.Priority && a.ReplyTo == b.ReplyTo && a.Expiration == b.Expiration &&
		a.Type == b.Type && a.UserId == b.UserId && a.AppId == b.AppId
}

func (s *Describer) add(name string, v any) {
	s.fields, s.values = append(s.fields, name), append(s.values, v)
}

func (s *Describer) properties(d *amqp091.Delivery) {
	for _, p := range [...]struct{ name, value string }{
		{"content_type", d.ContentType}, {"content_encoding", d.ContentEncoding}, {"correlation_id", d.CorrelationId},
		{"reply_to", d.ReplyTo}, {"expiration", d.Expiration}, {"message_id", d.MessageId},
		{"type", d.Type}, {"user_id", d.UserId}, {"app_id", d.AppId},
	} {
		if p.value != "" {
			s.add(p.name, p.value)
		}
	}
	if d.Priority > 0 {
		s.add("priority", int(d.Priority))
	}
	if d.DeliveryMode > 0 {
		s.add("persistent", d.DeliveryMode == amqp091.Persistent)
	}
	if !d.Timestamp.IsZero() {
		s.add("timestamp", d.Timestamp.UTC())
	}
}

// names converts the names of headers.
var names = metadata.Names{Prefix: "header_", Own: func(name string) bool { return reserved[name] }}

// reserved has the names of metadata that no header can have.
var reserved = map[string]bool{
	"queue": true, "exchange": true, "routing_key": true, "redelivered": true, "deaths": true,
	"content_type": true, "content_encoding": true, "correlation_id": true, "reply_to": true, "expiration": true,
	"message_id": true,
	"type":       true, "user_id": true, "app_id": true, "priority": true, "persistent": true, "timestamp": true,
}

// headers adds the broker's headers and then the others, both sorted. It returns how many fields, from the first, are the
// input's own.
func (s *Describer) headers(h amqp091.Table) (own int) {
	if len(h) == 0 {
		return len(s.fields)
	}
	if n := deaths(h, ""); n > 0 {
		s.add("deaths", n)
	}
	all := make([]string, 0, len(h))
	for name := range h {
		all = append(all, name)
	}
	slices.SortFunc(all, func(a, b string) int {
		if brokers[a] != brokers[b] {
			if brokers[a] {
				return -1
			}
			return 1
		}
		return cmp.Compare(a, b)
	})
	own = len(s.fields)
	for _, name := range all {
		s.add(names.In(name), fromTable(h[name], 0))
		if brokers[name] {
			own++
		}
	}
	return own
}

// Attempt returns the number of a delivery from the queue, from 1. A quorum queue counts its deliveries. Other queues only say
// whether a message is redelivered, which counts as 2. In addition, it counts how often the message was rejected in this queue
// and came back through a dead-letter exchange.
func (s *Describer) Attempt(d *amqp091.Delivery) int {
	n := 1
	if count, ok := number(d.Headers["x-delivery-count"]); ok {
		n += count
	} else if d.Redelivered {
		n++
	}
	return n + deaths(d.Headers, s.Queue)
}

// deaths counts how often a message was dead-lettered, in any queue if queue is "". Otherwise, it counts only this queue, and
// leaves out that the message has expired there.
func deaths(h amqp091.Table, queue string) (n int) {
	list, _ := h["x-death"].([]any)
	for _, v := range list {
		death, _ := v.(amqp091.Table)
		if queue != "" && (death["queue"] != queue || death["reason"] == "expired") {
			continue
		}
		if count, ok := number(death["count"]); ok {
			n += count
		}
	}
	return n
}

// StreamOffset returns the offset of a delivery in its stream.
func StreamOffset(d *amqp091.Delivery) (offset int, ok bool) {
	return number(d.Headers["x-stream-offset"])
}

// number returns the integer in a header. ok is false if the value is not an integer or is negative.
func number(v any) (int, bool) {
	n, ok := fromTable(v, 0).(int)
	return n, ok && n >= 0
}

// deepest limits the nesting of lists and tables in headers.
const deepest = 32

// fromTable converts the value of a header to metadata.
func fromTable(v any, depth int) any {
	if depth > deepest {
		return nil
	}
	switch v := v.(type) {
	case []byte:
		return string(v)
	case int64:
		return int(v)
	case int32:
		return int(v)
	case int16:
		return int(v)
	case int8:
		return int(v)
	case byte:
		return int(v)
	case uint16:
		return int(v)
	case uint32:
		return int(v)
	case float32:
		return float64(v)
	case amqp091.Decimal:
		return decimal(v)
	case time.Time:
		return v.UTC()
	case []any:
		list := make([]any, len(v))
		for i := range v {
			list[i] = fromTable(v[i], depth+1)
		}
		return list
	case amqp091.Table:
		m := make(map[string]any, len(v))
		for name, value := range v {
			m[name] = fromTable(value, depth+1)
		}
		return m
	}
	return v // nil, bool, int, float64, string
}

func decimal(d amqp091.Decimal) float64 {
	f := float64(d.Value)
	for range d.Scale {
		f /= 10
	}
	return f
}
