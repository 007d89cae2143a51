package nats

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/systems/metadata"
	client "github.com/nats-io/nats.go"
)

// Place says where a message was read, according to the subject to which it is acknowledged.
type Place struct {
	Stream, Consumer string
	Sequence         uint64    // in the stream
	Delivery         uint64    // sequence of the delivery in the consumer
	Deliveries       int       // of this message, from 1
	Pending          uint64    // messages that the consumer has not delivered yet
	At               time.Time // when the stream has stored the message
}

// PlaceOf parses the subject to which a message is acknowledged:
// $JS.ACK.[DOMAIN.ACCOUNT.]STREAM.CONSUMER.DELIVERIES.SEQUENCE.DELIVERY.TIME.PENDING[.TOKEN].
func PlaceOf(reply string) (p Place, ok bool) {
	rest, ok := strings.CutPrefix(reply, "$JS.ACK.")
	if !ok {
		return p, false
	}
	var all [10]string // strings.Split would allocate for each message
	t := all[:0]
	for more := true; more && len(t) < len(all); {
		var token string
		token, rest, more = strings.Cut(rest, ".")
		t = append(t, token)
	}
	switch {
	case len(t) == 7:
	case len(t) >= 9:
		t = t[2:9]
	default:
		return p, false
	}
	p.Stream, p.Consumer = t[0], t[1]
	var n [5]uint64
	for i := range n {
		v, err := strconv.ParseUint(t[2+i], 10, 63)
		if err != nil {
			return p, false
		}
		n[i] = v
	}
	p.Deliveries, p.Sequence, p.Delivery, p.Pending = int(n[0]), n[1], n[2], n[4]
	p.At = time.Unix(0, int64(n[3])).UTC()
	return p, true
}

// Arrivals provides the metadata of messages.
type Arrivals struct{ All []*client.Msg }

var _ engine.MetaSource = (*Arrivals)(nil)

// reserved has the names of the input's own metadata. No header can have them, so that a sender can't forge it.
var reserved = []string{"subject", "reply", "stream", "consumer", "sequence", "delivery", "deliveries", "pending",
	"timestamp"}

// names converts the names of headers.
var names = metadata.Names{Prefix: "header_", Own: func(name string) bool { return slices.Contains(reserved, name) }}

// nameOf returns the metadata name of a header. OpenTelemetry's propagators for NATS write Traceparent, as HTTP libraries do.
func nameOf(header string) string {
	for _, name := range engine.TraceContext {
		if strings.EqualFold(name, header) {
			return name
		}
	}
	return names.In(header)
}

// Get implements [engine.MetaSource].
func (s *Arrivals) Get(i int, name string) (any, bool) {
	m := s.All[i]
	switch name {
	case "subject":
		return m.Subject, true
	case "reply":
		_, stored := PlaceOf(m.Reply)
		return m.Reply, m.Reply != "" && !stored
	}
	if slices.Contains(reserved, name) {
		p, ok := PlaceOf(m.Reply)
		if !ok {
			return nil, false
		}
		switch name {
		case "stream":
			return p.Stream, true
		case "consumer":
			return p.Consumer, true
		case "sequence":
			return int(p.Sequence), true
		case "delivery":
			return int(p.Delivery), true
		case "deliveries":
			return p.Deliveries, true
		case "pending":
			return int(p.Pending), true
		}
		return p.At, true
	}
	if engine.IsTraceContext(name) {
		return headerValue(traceHeader(m.Header, name))
	}
	return headerValue(m.Header[names.Out(name)])
}

// traceHeader returns the values of a header in any case.
func traceHeader(h client.Header, name string) []string {
	if values := h[name]; values != nil {
		return values
	}
	for sent, values := range h {
		if strings.EqualFold(sent, name) {
			return values
		}
	}
	return nil
}

// headerValue returns the value of a header, or a list if it has several.
func headerValue(all []string) (any, bool) {
	switch len(all) {
	case 0:
		return nil, false
	case 1:
		return all[0], true
	}
	list := make([]any, len(all))
	for i, v := range all {
		list[i] = v
	}
	return list, true
}

// Meta implements [engine.MetaSource].
func (s *Arrivals) Meta(i int) engine.Meta {
	var found []string
	var values []any
	for _, name := range reserved {
		if v, ok := s.Get(i, name); ok {
			found, values = append(found, name), append(values, v)
		}
	}
	owned := len(found)
	h := s.All[i].Header
	for _, header := range sortedNames(h) {
		name := nameOf(header)
		if slices.Contains(found[owned:], name) {
			continue
		}
		if v, ok := s.Get(i, name); ok {
			found, values = append(found, name), append(values, v)
		}
	}
	return engine.MetaOf(found, values, owned)
}

func sortedNames(h client.Header) []string {
	names := make([]string, 0, len(h))
	for name := range h {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// Headers returns metadata as headers, except the input's own metadata. A list becomes several values of one header. Headers that
// the server interprets (Nats-…) are left out, since they would have another meaning in another stream.
func Headers(m engine.Meta) client.Header {
	var h client.Header
	for name, v := range m.Added() {
		if name = names.Out(name); isServerHeader(name) || !validHeader(name) {
			continue
		}
		if h == nil {
			h = client.Header{}
		}
		if all, several := v.([]any); several {
			for _, v := range all {
				h[name] = append(h[name], metadata.Text(v))
			}
			continue
		}
		h[name] = append(h[name], metadata.Text(v))
	}
	return h
}

// CheckValues returns an error of class rejected if a header has a line break, which the client would replace by a space. In
// error_* headers that does no harm, since they are for people, nor in the context of a trace, which is not valid anyway.
func CheckValues(h client.Header) error {
	for name, all := range h {
		if strings.HasPrefix(name, "error_") || engine.IsTraceContext(name) {
			continue
		}
		for _, v := range all {
			if strings.ContainsAny(v, "\r\n") {
				return engine.Errorf(engine.Rejected, "metadata %s has a line break, which a header can't have (remove it with a "+
					"step `meta`: `meta: {%[1]s: nil}`)", name)
			}
		}
	}
	return nil
}

// isServerHeader reports whether the server interprets a header.
func isServerHeader(name string) bool {
	return len(name) >= 5 && strings.EqualFold(name[:5], "nats-") || name == "Status" || name == "Description"
}

// validHeader reports whether a name is valid for a header.
func validHeader(name string) bool {
	for i := range len(name) {
		if c := name[i]; c <= ' ' || c == ':' || c >= 0x7f {
			return false
		}
	}
	return name != ""
}

// CheckHeader returns what is wrong with the name of a header, or "".
func CheckHeader(name string) string {
	if validHeader(name) {
		return ""
	}
	return fmt.Sprintf("%q is not a valid header name", name)
}

// origins is the metadata that says where a message was read.
var origins = [...]string{"subject", "stream", "sequence", "timestamp"}

// AddOrigin adds headers that say where a dead letter was read. It replaces those of an earlier failure.
func AddOrigin(h client.Header, m engine.Meta) client.Header {
	if _, ok := m.Get("subject"); !ok {
		return h
	}
	if h == nil {
		h = client.Header{}
	}
	for _, name := range origins {
		delete(h, "original_"+name)
		if v, ok := m.Get(name); ok {
			h["original_"+name] = []string{metadata.Text(v)}
		}
	}
	return h
}
