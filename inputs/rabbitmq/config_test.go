package rabbitmq

import (
	"strings"
	"testing"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/enginetest"
	"github.com/google/go-cmp/cmp"
)

func TestConfig(t *testing.T) {
	tests := []struct{ name, config, want string }{
		{"the shortest", `{"url": "amqp://localhost", "queue": "q"}`, ""},
		{"several URLs",
			`{"url": ["amqp://a", "amqps://u:p@b:5671/v?heartbeat=30"], "queue": "q", "tls": {"skip_verify": true}}`,
			""},
		{"a declared one",
			`{"url": "amqp://h", "queue": "q", "declare": {"arguments": {"x-queue-type": "quorum", "x-max-length": 5, ` +
				`"x-single-active-consumer": true}, "exchange": {"name": "x", "type": "topic"}, "bindings": [{"routing_key": "a.*"}, {"exchange": ` +
				`"y"}]}}`, ""},
		{"one that the broker names",
			`{"url": "amqp://h", "declare": {"queue": {"exclusive": true, "durable": false}}}`, ""},
		{"no URL", `{"queue": "q"}`, "url: required"},
		{"another scheme", `{"url": "http://h", "queue": "q"}`,
			"does not begin with amqp:// or amqps:// (write amqp://user:password@host:5672/vhost)"},
		{"a bad one of several", `{"url": ["amqp://h", "amqp://:5672"], "queue": "q"}`, "number 2 of them has no host"},
		{"a password that is not escaped", `{"url": "amqp://u:se/cret@h", "queue": "q"}`,
			"is not an AMQP URL (write amqp://user:password@host:5672/vhost; in user, password and vhost write / : @ ? # % as %2F %3A %40 %3F " +
				"%23 %25)"},
		{"a space", `{"url": "amqp://u:se cret@h", "queue": "q"}`, "is not an AMQP URL"},
		{"an invalid port", `{"url": "amqp://h:99999", "queue": "q"}`, "port"},
		{"an unknown parameter", `{"url": "amqp://h?foo=1", "queue": "q"}`, "has an unknown parameter"},
		{"TLS in the URL", `{"url": "amqps://h?cacertfile=x", "queue": "q"}`, "write the section `tls`"},
		{"an unknown mechanism", `{"url": "amqp://h?auth_mechanism=magic", "queue": "q"}`, "unknown auth_mechanism"},
		{"TLS without TLS", `{"url": "amqp://h", "queue": "q", "tls": {"skip_verify": true}}`,
			"write amqps:// (usually on port 5671), or remove `tls`"},
		{"a user without password", `{"url": "amqp://h", "user": "u", "queue": "q"}`,
			"user and password must be set together"},
		{"no queue", `{"url": "amqp://h"}`, "queue: required"},
		{"a queue without a name that is not exclusive", `{"url": "amqp://h", "declare": {}}`,
			"would be a different one after each connection"},
		{"no prefetch", `{"url": "amqp://h", "queue": "q", "prefetch": 0}`, "must be at least 1"},
		{"too much prefetch", `{"url": "amqp://h", "queue": "q", "prefetch": 65536}`, "must be at most 65535"},
		{"an unknown return", `{"url": "amqp://h", "queue": "q", "on_return": "drop"}`,
			"must be one of requeue, requeue_once, reject"},
		{"a binding to nothing", `{"url": "amqp://h", "queue": "q", "declare": {"bindings": [{"routing_key": "x"}]}}`,
			"a binding names no exchange"},
		{"a quorum queue with auto_delete",
			`{"url": "amqp://h", "queue": "q", "declare": {"queue": {"auto_delete": true}, "arguments": {"x-queue-type": "quorum"}}}`,
			"always durable"},
		{"a stream from a time",
			`{"url": "amqp://h", "queue": "q", "consume": {"arguments": {"x-stream-offset": "2026-01-31T12:00:00Z"}}}`,
			""},
		{"a stream from an hour ago",
			`{"url": "amqp://h", "queue": "q", "consume": {"arguments": {"x-stream-offset": "1h"}}}`, ""},
		{"a stream from nowhere",
			`{"url": "amqp://h", "queue": "q", "consume": {"arguments": {"x-stream-offset": "yesterday"}}}`,
			"yesterday is not a position in a stream (write first, last"},
		{"a stream from before its beginning",
			`{"url": "amqp://h", "queue": "q", "consume": {"arguments": {"x-stream-offset": -1}}}`,
			"-1 is not a position in a stream"},
		{"an exclusive stream",
			`{"url": "amqp://h", "queue": "q", "consume": {"exclusive": true, "arguments": {"x-stream-offset": "first"}}}`,
			"a stream can't have exclusive consumers"},
		{"a pattern", `{"url": "amqp://h", "queue": "orders-*", "management": "http://u:p@h:15672"}`, ""},
		{"a name like a pattern", `{"url": "amqp://h", "queue": "what\\?", "declare": {}}`, ""},
		{"a pattern that is not closed", `{"url": "amqp://h", "queue": "orders-["}`,
			"queue: is not a valid pattern of names"},
		{"a pattern to declare", `{"url": "amqp://h", "queue": "orders-*", "declare": {}}`,
			"a pattern matches existing queues"},
		{"management without a pattern, for the delivery limit",
			`{"url": "amqp://h", "queue": "orders", "management": "http://h:15672"}`, ""},
		{"management without a scheme", `{"url": "amqp://h", "queue": "orders-*", "management": "cret:15672"}`,
			"management: is not a URL (write http://HOST:15672"},
		{"a field of another product", `{"url": "amqp://h", "queue": "q", "prefetch_count": 5}`, "write `prefetch`"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := enginetest.Problems(t, engine.Inputs, `{"rabbitmq": `+tt.config+`}`)
			text := strings.Join(got, "\n")
			if tt.want == "" && text != "" || !strings.Contains(text, tt.want) || tt.want != "" && len(got) != 1 {
				t.Errorf("got %q, want one with %q", got, tt.want)
			}
			for _, secret := range []string{"cret", "99999"} {
				if strings.Contains(text, secret) {
					t.Errorf("%q shows a part of the URL", text)
				}
			}
		})
	}
}

func TestTakesBack(t *testing.T) {
	tests := []struct {
		name, config string
		want         engine.TakesBack
	}{
		{"a queue settles each message", ``, engine.TakesOne},
		{"a stream keeps a position", `, "consume": {"arguments": {"x-stream-offset": "first"}}`, engine.TakesPosition},
		{"so does one that is declared", `, "declare": {"arguments": {"x-queue-type": "stream"}}`,
			engine.TakesPosition},
		{"messages that are acknowledged early can't be returned", `, "early_ack": true`, engine.TakesNothing},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			in := enginetest.New(t, engine.Inputs,
				`{"rabbitmq": {"url": "amqp://h", "queue": "q"`+tt.config+`}}`).(*input)
			if got := in.Traits().TakesBack; got != tt.want {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
}

func TestArgumentsKeepTheirTypes(t *testing.T) {
	in := enginetest.New(t, engine.Inputs,
		`{"rabbitmq": {"url": "amqp://h", "queue": "q", "consume": {"arguments": {"a": 1, "b": "1", "c": true, "d": 1.5, `+
			`"e": ["x", 2]}}}}`).(*input)
	want := map[string]any{"a": int64(1), "b": "1", "c": true, "d": 1.5, "e": []any{"x", int64(2)}}
	if diff := cmp.Diff(want, map[string]any(in.cfg.Consume.Arguments)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestAPatternHasTheTraitsOfItsQueues(t *testing.T) {
	p := enginetest.New(t, engine.Inputs,
		`{"rabbitmq": {"url": "amqp://h", "queue": "orders-*", "early_ack": true}}`).(*pattern)
	if got := p.Traits(); got.TakesBack != engine.TakesNothing || !got.AcksEarly {
		t.Errorf("got %+v", got)
	}
	if p.cfg.EarlyAck = false; p.Traits().TakesBack != engine.TakesOne {
		t.Errorf("got %+v", p.Traits())
	}
}
