package amqp

import (
	"bytes"
	"errors"
	"maps"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/google/go-cmp/cmp"
	amqp091 "github.com/rabbitmq/amqp091-go"
)

var someTime = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func TestDescribe(t *testing.T) {
	basics := map[string]any{"queue": "q", "exchange": "x", "routing_key": "k", "redelivered": false}
	with := func(more map[string]any) map[string]any {
		m := maps.Clone(basics)
		maps.Copy(m, more)
		return m
	}
	tests := []struct {
		name       string
		d          amqp091.Delivery
		all, added map[string]any
		attempt    int
	}{
		{"a bare delivery", amqp091.Delivery{}, basics, map[string]any{}, 1},
		{"a redelivery", amqp091.Delivery{Redelivered: true}, with(map[string]any{"redelivered": true}),
			map[string]any{}, 2},
		{
			"properties keep their types", amqp091.Delivery{ContentType: "a/b", MessageId: "7", Priority: 3,
				DeliveryMode: 2, Timestamp: someTime, Expiration: "60"},
			with(map[string]any{"content_type": "a/b", "message_id": "7", "priority": 3, "persistent": true,
				"timestamp": someTime, "expiration": "60"}), map[string]any{}, 1,
		},
		{
			"headers keep their types, and are passed on",
			amqp091.Delivery{Headers: amqp091.Table{
				"i": int64(1), "b": byte(2), "f": float32(1.5), "t": someTime, "s": "x", "raw": []byte("\xff"), "n": nil,
				"ok": true,
				"d":  amqp091.Decimal{Scale: 2, Value: 150}, "l": []any{int32(1), amqp091.Table{"k": "v"}},
			}},
			with(map[string]any{"i": 1, "b": 2, "f": 1.5, "t": someTime, "s": "x", "raw": "\xff", "n": nil, "ok": true,
				"d": 1.5, "l": []any{1, map[string]any{"k": "v"}}}),
			map[string]any{"i": 1, "b": 2, "f": 1.5, "t": someTime, "s": "x", "raw": "\xff", "n": nil, "ok": true, "d": 1.5,
				"l": []any{1, map[string]any{"k": "v"}}}, 1,
		},
		{
			"a header can't replace the metadata of the broker",
			amqp091.Delivery{Headers: amqp091.Table{"routing_key": "forged", "deaths": int64(9), "type": "forged"}},
			with(map[string]any{"header_routing_key": "forged", "header_deaths": 9, "header_type": "forged"}),
			map[string]any{"header_routing_key": "forged", "header_deaths": 9, "header_type": "forged"}, 1,
		},
		{
			"a quorum queue counts", amqp091.Delivery{Redelivered: true,
				Headers: amqp091.Table{"x-delivery-count": int64(4)}},
			with(map[string]any{"redelivered": true, "x-delivery-count": 4}), map[string]any{}, 5,
		},
		{
			"deaths here are attempts, those elsewhere are not",
			amqp091.Delivery{Headers: amqp091.Table{"x-death": []any{
				amqp091.Table{"queue": "retry", "reason": "expired", "count": int64(2)},
				amqp091.Table{"queue": "q", "reason": "rejected", "count": int64(2)},
				amqp091.Table{"queue": "q", "reason": "expired", "count": int64(7)},
			}}},
			with(map[string]any{"deaths": 11, "x-death": []any{
				map[string]any{"queue": "retry", "reason": "expired", "count": 2},
				map[string]any{"queue": "q", "reason": "rejected", "count": 2},
				map[string]any{"queue": "q", "reason": "expired", "count": 7},
			}}), map[string]any{}, 3,
		},
		{"invalid counts in the broker's headers are ignored",
			amqp091.Delivery{Headers: amqp091.Table{"x-death": "x", "x-delivery-count": int64(-1)}},
			with(map[string]any{"x-death": "x", "x-delivery-count": -1}), map[string]any{}, 1},
	}
	s := &Describer{Queue: "q"} // shared by all cases, which it must not mix up
	for range 2 {
		for _, tt := range tests {
			t.Run(tt.name, func(t *testing.T) {
				tt.d.Exchange, tt.d.RoutingKey = "x", "k"
				for range 2 {
					m := s.Describe(&tt.d)
					if diff := cmp.Diff(tt.all, m.Map()); diff != "" {
						t.Errorf("all (-want +got):\n%s", diff)
					}
					if diff := cmp.Diff(tt.added, maps.Collect(m.Added())); diff != "" {
						t.Errorf("added (-want +got):\n%s", diff)
					}
				}
				if got := s.Attempt(&tt.d); got != tt.attempt {
					t.Errorf("attempt %d, want %d", got, tt.attempt)
				}
			})
		}
	}
}

func TestDescribeAllocatesNothingForEqualDeliveries(t *testing.T) {
	s, d := &Describer{Queue: "q"}, &amqp091.Delivery{Exchange: "x", RoutingKey: "k", ContentType: "a/b",
		DeliveryMode: 2}
	if n := testing.AllocsPerRun(100, func() { s.Describe(d) }); n > 0 {
		t.Errorf("%v allocations a message, want 0", n)
	}
}

func TestFill(t *testing.T) {
	received := (&Describer{Queue: "q"}).Describe(&amqp091.Delivery{
		RoutingKey: "k", ContentType: "a/b", MessageId: "7", Priority: 3, Timestamp: someTime, Expiration: "60", UserId: "u",
		CorrelationId: "c",
		Headers: amqp091.Table{"tenant": "t1", "n": int64(1), "priority": "high", "raw": []byte("\xff"), "x-death": []any{},
			"CC":  []any{"elsewhere"},
			"BCC": []any{"elsewhere"}},
	})
	long := strings.Repeat("x", 256)
	tests := []struct {
		name string
		meta engine.Meta
		want amqp091.Publishing
		err  string
	}{
		{
			"received metadata is passed on, except what the broker has set and what affects routing", received,
			amqp091.Publishing{ContentType: "a/b", MessageId: "7", Priority: 3, Timestamp: someTime, CorrelationId: "c",
				Headers: amqp091.Table{"tenant": "t1", "n": int64(1), "priority": "high", "raw": "\xff"}}, "",
		},
		{
			"metadata that steps have set", engine.Meta{}.With("type", "order").With("priority", 9).With("deep",
				map[string]any{"l": []any{1, 1.5, nil, someTime}}),
			amqp091.Publishing{Type: "order", Priority: 9,
				Headers: amqp091.Table{"deep": amqp091.Table{"l": []any{int64(1), 1.5, nil, someTime}}}}, "",
		},
		{"a time as text", engine.Meta{}.With("timestamp", "2026-01-02T03:04:05Z"), amqp091.Publishing{Timestamp: someTime},
			""},
		{"a property of the wrong type", engine.Meta{}.With("content_type", []any{}), amqp091.Publishing{},
			"metadata content_type is []interface {}, but the property must be text"},
		{"a priority out of range", engine.Meta{}.With("priority", 256), amqp091.Publishing{},
			"a number from 0 to 255"},
		{"a property that is too long", engine.Meta{}.With("message_id", long), amqp091.Publishing{},
			"message_id has 256 bytes"},
		{"the name of a header that is too long", engine.Meta{}.With(long, 1), amqp091.Publishing{},
			"has 256 bytes, more than the allowed 255"},
		{"headers that do not fit into a frame", engine.Meta{}.With("h", strings.Repeat("x", 100<<10)), amqp091.Publishing{},
			"the headers have"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var p amqp091.Publishing
			err := Fill(&p, tt.meta)
			if tt.err != "" {
				if err == nil || !strings.Contains(err.Error(), tt.err) || ClassOf(err) != engine.Rejected {
					t.Errorf("error %v, want one of class rejected with %q", err, tt.err)
				}
				return
			}
			if diff := cmp.Diff(tt.want, p); err != nil || diff != "" {
				t.Errorf("error %v (-want +got):\n%s", err, diff)
			}
			if err := p.Headers.Validate(); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestDeepHeadersAreCut(t *testing.T) {
	var v any = "end"
	for range 1000 {
		v = []any{v}
	}
	m := (&Describer{}).Describe(&amqp091.Delivery{Headers: amqp091.Table{"deep": v}})
	depth := 0
	for got, _ := m.Get("deep"); ; depth++ {
		list, ok := got.([]any)
		if !ok {
			break
		}
		got = list[0]
	}
	if depth != deepest+1 {
		t.Errorf("got %d levels, want %d", depth, deepest+1)
	}
}

func TestExplain(t *testing.T) {
	tests := []struct {
		name  string
		err   error
		class engine.Class
		want  string
	}{
		{"a wrong password", amqp091.ErrCredentials, engine.Auth,
			"doing: the broker refuses the login (check user and password, and that this user may log in from here)"},
		{"a missing queue", &amqp091.Error{Code: 404, Reason: "NOT_FOUND - no queue 'q' in vhost '/'", Server: true},
			engine.Transient,
			"doing: the broker says 404 NOT_FOUND - no queue 'q' in vhost '/' (create it, or write `declare`)"},
		{"no permission", &amqp091.Error{Code: 403, Reason: "ACCESS_REFUSED - access to queue 'q' refused",
			Server: true}, engine.Auth, "set_permissions"},
		{"no permission for a topic", &amqp091.Error{Code: 403,
			Reason: "ACCESS_REFUSED - access to topic 'k' in exchange 'x' refused", Server: true}, engine.Rejected,
			"set_topic_permissions"},
		{"another queue of that name", &amqp091.Error{Code: 406,
			Reason: "PRECONDITION_FAILED - inequivalent arg 'durable'", Server: true}, engine.Transient,
			"change `declare` to match the broker"},
		{"a lost connection", &amqp091.Error{Code: 501, Reason: "EOF"}, engine.Transient,
			"doing: the connection was lost: EOF"},
		{"a known error stays", engine.Errorf(engine.Timeout, "late"), engine.Timeout, "late"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := Explain(tt.err, "doing")
			if ClassOf(got) != tt.class || !strings.Contains(got.Error(), tt.want) || !errors.Is(got, tt.err) {
				t.Errorf("got %s: %v, want %s: %s", ClassOf(got), got, tt.class, tt.want)
			}
		})
	}
}

// sink is a network connection that counts writes.
type sink struct {
	net.Conn
	bytes.Buffer
	writes int
	err    error
	closed bool
}

func (s *sink) Write(p []byte) (int, error) {
	if s.err != nil {
		return 0, s.err
	}
	s.writes++
	return s.Buffer.Write(p)
}
func (s *sink) Read(p []byte) (int, error)       { return s.Buffer.Read(p) }
func (s *sink) SetWriteDeadline(time.Time) error { return nil }
func (s *sink) Close() error                     { s.closed = true; return nil }

func TestWire(t *testing.T) {
	s := &sink{}
	w := &wire{Conn: s}
	write := func(text string) {
		t.Helper()
		if n, err := w.Write([]byte(text)); err != nil || n != len(text) {
			t.Fatalf("wrote %d bytes: %v", n, err)
		}
	}
	write("a")
	w.hold()
	write("b")
	write("c")
	if s.writes != 1 {
		t.Errorf("%d writes while held, want only the one before", s.writes)
	}
	large := strings.Repeat("x", wireBuffer)
	write(large)
	if s.writes != 2 {
		t.Errorf("%d writes, want another when the buffer is full", s.writes)
	}
	write("d")
	if err := w.release(); err != nil || s.writes != 3 || s.String() != "abc"+large+"d" {
		t.Errorf("err %v, %d writes, %d bytes", err, s.writes, s.Len())
	}
	s.err = errors.New("gone")
	w.hold()
	write("e")
	if err := w.release(); !errors.Is(err, s.err) || !s.closed {
		t.Errorf("release: %v, closed %v", err, s.closed)
	}
	if _, err := w.Write([]byte("f")); !errors.Is(err, s.err) {
		t.Errorf("a write after that: %v", err)
	}
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{"amqp://", "amqp://u:p@h:5672/v?heartbeat=3", "amqps://[::1]:1/%2F",
		"amqp://h?heartbeat=70000", "amqp://@:@/", "amqp://h/?", "amqp://u:s%zz@h"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, url string) {
		uri, err := parse(url)
		if err != nil && (remedyOf(err) == "" || len(err.Error()) > 100) {
			t.Errorf("%q: %v (%s)", url, err, remedyOf(err))
		}
		if err == nil && (uri.Host == "" || uri.Port == 0) {
			t.Errorf("%q gave %+v", url, uri)
		}
		heartbeatOf(url, time.Second)
	})
}
