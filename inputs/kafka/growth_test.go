package kafka

import (
	"context"
	"math/rand/v2"
	"sync/atomic"
	"testing"

	"github.com/flowd-io/flowd/engine/enginetest"
	"github.com/flowd-io/flowd/internal/testing/kafkatest"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// TestFetchesFit sends records that compress well, and others that do not. Requests ask for fewer bytes the more memory a byte
// needs.
func TestFetchesFit(t *testing.T) {
	t.Parallel()
	noise := make([]byte, 1_000_000)
	_, _ = rand.NewChaCha8([32]byte{}).Read(noise)
	for _, tt := range []struct {
		name     string
		value    func(i int) []byte
		min, max int32 // bytes that requests ask for
	}{
		{"not compressed", func(i int) []byte { return noise[10_000*i:][:10_000] }, 4 << 20, 8 << 20},
		{"compressed well", func(int) []byte { return make([]byte, 10_000) }, minFetch, 128 << 10},
		{"records smaller than their bookkeeping", func(int) []byte { return nil }, minFetch, 1 << 20},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := kafkatest.Start(t, kfake.SeedTopics(1, "t"))
			var asked atomic.Int32
			c.Fake.ControlKey(int16(kmsg.Fetch), func(r kmsg.Request) (kmsg.Response, error, bool) {
				asked.Store(r.(*kmsg.FetchRequest).MaxBytes)
				c.Fake.KeepControl()
				return nil, nil, false
			})
			client, err := kgo.NewClient(kgo.SeedBrokers(c.Brokers), kgo.ProducerBatchCompression(kgo.GzipCompression()))
			if err != nil {
				t.Fatal(err)
			}
			defer client.Close()
			send := func() {
				var all []*kgo.Record
				for i := range 100 {
					all = append(all, &kgo.Record{Topic: "t", Value: tt.value(i)})
				}
				if err := client.ProduceSync(context.Background(), all...).FirstErr(); err != nil {
					t.Fatal(err)
				}
			}
			m := start(t, config(c, "t"), nil, &enginetest.Sink{})
			defer m.end()
			for sent := 100; sent <= 300; sent += 100 { // the first records change the ratio
				send()
				until(t, "all", func() bool { return len(m.sink.Bodies()) == sent })
			}
			until(t, "a request that fits", func() bool { n := asked.Load(); return n >= tt.min && n <= tt.max })
		})
	}
}
