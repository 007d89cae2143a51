package rabbitmq

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/enginetest"
)

func TestConfig(t *testing.T) {
	long := strings.Repeat("x", 256)
	tests := []struct{ name, config, want string }{
		{"to a queue", `{"url": "amqp://h", "routing_key": "q"}`, ""},
		{"to a fanout exchange", `{"url": "amqp://h", "exchange": "x", "declare": {"type": "fanout"}}`, ""},
		{"where data says",
			`{"url": "amqp://h", "routing_key": "$(queue)", "headers": {"a": "$(b)"}, "expiration": "ttl", "priority": "5"}`, ""},
		{"nowhere", `{"url": "amqp://h"}`,
			"there is nowhere to publish to (write `routing_key: QUEUE`, or name an `exchange`)"},
		{"too long a key", `{"url": "amqp://h", "routing_key": "` + long + `"}`, "longer than 255 bytes"},
		{"the default exchange is not made", `{"url": "amqp://h", "routing_key": "q", "declare": {}}`, "always exists"},
		{"an internal exchange takes nothing", `{"url": "amqp://h", "exchange": "x", "declare": {"internal": true}}`,
			"internal"},
		{"a bad URL", `{"url": "localhost:5672", "routing_key": "q"}`, "does not begin with amqp://"},
		{"words of others", `{"url": "amqp://h", "routing_key": "q", "delivery_mode": 2}`, "write `persistent`"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := enginetest.Problems(t, engine.Outputs, `{"rabbitmq": `+tt.config+`}`)
			text := strings.Join(got, "\n")
			if tt.want == "" && text != "" || !strings.Contains(text, tt.want) || tt.want != "" && len(got) != 1 {
				t.Errorf("got %q, want one with %q", got, tt.want)
			}
		})
	}
}

func TestCompose(t *testing.T) {
	tests := []struct{ name, config, payload, want string }{
		{"persistent by default", `"routing_key": "q"`, `{}`, "q 2 0 "},
		{"not persistent", `"routing_key": "q", "persistent": false`, `{}`, "q 1 0 "},
		{"from data", `"routing_key": "q.$(a)", "priority": "p", "expiration": "e"`, `{"a": "b", "p": 7, "e": "1m"}`,
			"q.b 2 7 60000"},
		{"nothing from data", `"routing_key": "q", "priority": "p", "expiration": "e"`, `{}`, "q 2 0 "},
		{"a nil key", `"routing_key": "$(a)"`, `{}`, "expression"},
		{"a key that is too long", `"routing_key": "$(a)"`, `{"a": "` + strings.Repeat("x", 256) + `"}`, "rejected"},
		{"a priority that is none", `"routing_key": "q", "priority": "p"`, `{"p": "high"}`, "rejected"},
		{"one that is too high", `"routing_key": "q", "priority": "p"`, `{"p": 256}`, "rejected"},
		{"a time to live that is none", `"routing_key": "q", "expiration": "e"`, `{"e": "soon"}`, "rejected"},
		{"one that is over", `"routing_key": "q", "expiration": "e"`, `{"e": -1}`, "rejected"},
		{"no document", `"routing_key": "$(a)"`, `x`, "decode"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			o := enginetest.New(t, engine.Outputs, `{"rabbitmq": {"url": "amqp://h", `+tt.config+`}}`).(*output)
			b := enginetest.Batch(tt.payload)
			var got string
			for _, c := range o.compose(b) {
				got = fmt.Sprintf("%s %d %d %s", c.Key, c.Pub.DeliveryMode, c.Pub.Priority, c.Pub.Expiration)
			}
			for m := range b.Ended() {
				got = string(m.Err().Class)
			}
			if got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func TestExpiration(t *testing.T) {
	for v, want := range map[any]string{nil: "", 5: "5", "5": "5", "1.5s": "1500", time.Minute: "60000", 0: "0"} {
		if got, err := expiration(v); got != want || err != nil {
			t.Errorf("%v: got %q, %v, want %q", v, got, err, want)
		}
	}
	for _, v := range []any{-1, 1 << 40, "x", 1.5, true, "-1s"} {
		if got, err := expiration(v); err == nil {
			t.Errorf("%v: got %q", v, got)
		}
	}
}
