package redispubsub

import (
	"fmt"
	"testing"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/enginetest"
	"github.com/flowd-io/flowd/internal/testing/redistest"
	goredis "github.com/redis/go-redis/v9"
)

func TestOutput(t *testing.T) {
	key := redistest.Key(t)
	sub := redistest.Client(t, redistest.URL(t)).Subscribe(t.Context(), key+"1", key+"2")
	defer sub.Close()
	for range 2 {
		if _, err := sub.Receive(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	enginetest.Output(t, func(t *testing.T) engine.Output {
		return enginetest.New(t, engine.Outputs,
			fmt.Sprintf(`{"redis_pubsub": {"url": %q, "channel": "%s$(to)"}}`, redistest.URL(t), key))
	}, `{"to":1}`, `{"to":2}`, `{"to":"nobody"}`)
	for _, want := range []string{"1", "2"} {
		m, err := sub.ReceiveMessage(t.Context())
		if err != nil || m.Channel != key+want {
			t.Errorf("got %v, %v", m, err)
		}
	}
}

func TestAServerThatIsAway(t *testing.T) {
	t.Parallel()
	url := redistest.URL(t)
	payloads := []string{"1", "2", "3", "4", "5"}
	var came <-chan *goredis.Message
	enginetest.Remote{
		Reach: func(t *testing.T, wire *enginetest.Wire) func() engine.Output {
			key := redistest.Key(t)
			sub := redistest.Client(t, url).Subscribe(t.Context(), key)
			t.Cleanup(func() { sub.Close() })
			if _, err := sub.Receive(t.Context()); err != nil {
				t.Fatal(err)
			}
			came = sub.Channel()
			return func() engine.Output {
				return enginetest.New(t, engine.Outputs, fmt.Sprintf(`{"redis_pubsub": {"url": %q, "channel": %q}}`, wire.Over(url), key))
			}
		},
		Arrived: func(*testing.T) (all []string) {
			for len(all) == 0 || all[len(all)-1] != payloads[len(payloads)-1] {
				all = append(all, (<-came).Payload)
			}
			return all
		},
		Payloads: payloads,
		Greets:   true,
	}.Run(t)
}

func TestPayloadsOfAllKinds(t *testing.T) {
	key := redistest.Key(t)
	sub := redistest.Client(t, redistest.URL(t)).Subscribe(t.Context(), key)
	defer sub.Close()
	if _, err := sub.Receive(t.Context()); err != nil {
		t.Fatal(err)
	}
	o := enginetest.New(t, engine.Outputs, fmt.Sprintf(`{"redis_pubsub": {"url": %q, "channel": %q}}`, redistest.URL(t), key))
	enginetest.Carries(t, o, func(t *testing.T, n int) (all [][]byte) {
		for range n {
			m, err := sub.ReceiveMessage(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, []byte(m.Payload))
		}
		return all
	})
}
