package amqp

import (
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
)

func TestReturnedMessagesAreRecognisedByTheirContent(t *testing.T) {
	now := time.Now()
	sent := func(key, body string, h amqp091.Table) *Outgoing {
		return &Outgoing{Key: key, Pub: amqp091.Publishing{Body: []byte(body), Headers: h}}
	}
	back := returns{
		{RoutingKey: "k", Body: []byte("a")},
		{RoutingKey: "k", Body: []byte("a")},
		{RoutingKey: "k", Body: []byte("h"), Headers: amqp091.Table{"n": int64(1), "t": now.Truncate(time.Second)}},
	}
	for i, tt := range []struct {
		c    *Outgoing
		want bool
	}{
		{sent("other", "a", nil), false},
		{sent("k", "a", amqp091.Table{"n": int64(1)}), false},
		{sent("k", "a", nil), true},
		{sent("k", "a", nil), true},
		{sent("k", "a", nil), false}, // both were removed
		{sent("k", "h", amqp091.Table{"n": int64(1), "t": now}), true},
	} {
		if got := back.remove(tt.c); got != tt.want {
			t.Errorf("%d: got %v, want %v", i, got, tt.want)
		}
	}
}
