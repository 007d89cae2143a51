package kafka

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/expr"
	"github.com/flowd-io/flowd/internal/testing/kafkatest"
	"github.com/flowd-io/flowd/schema"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// TestARefusedRecordDoesNotEndATransaction makes brokers refuse all batches that contain one record. It is dead-lettered in the
// same transaction. All others are written once, and with order_by in the order of their keys.
func TestARefusedRecordDoesNotEndATransaction(t *testing.T) {
	t.Parallel()
	for _, orderBy := range []string{"", `meta("key")`} {
		t.Run("order_by "+orderBy, func(t *testing.T) {
			c := kafkatest.Start(t)
			in, out, dead := c.Topic(t, 2), c.Topic(t, 2), c.Topic(t, 1)
			const n = 2000
			c.Send(t, kafkatest.Numbered(in, 2, 0, n)...)
			c.Refuse(out, 2, kerr.InvalidRecord, `{"id":300}`)
			m := start(t, config(c, in), func(p *engine.Pipeline) {
				relays(c, out)(p)
				p.Outputs = schema.MapOf(
					schema.Entry[engine.OutputSpec]{Key: "out", Value: engine.OutputSpec{Concurrency: 4, Use: output(c, out)}},
					schema.Entry[engine.OutputSpec]{Key: "dead", Value: engine.OutputSpec{Use: output(c, dead)}})
				p.Engine.OnFailure.DeadLetter = "dead"
				if orderBy != "" {
					p.Engine.OrderBy = expr.MustCompile(orderBy)
				}
			}, nil)
			until(t, "all settled", func() bool { return c.Committed(t, "g", in) == n })
			m.end()
			got, last := map[int]int{}, map[string]int{}
			for _, r := range c.Read(t, out) {
				var id int
				if _, err := fmt.Sscanf(string(r.Value), `{"id":%d}`, &id); err != nil {
					t.Fatal(err)
				}
				if got[id]++; orderBy != "" && last[string(r.Key)] > id {
					t.Errorf("%d came after %d", id, last[string(r.Key)])
				}
				last[string(r.Key)] = id
			}
			for id := range n {
				if want := min(1, max(id-300, 300-id)); got[id] != want {
					t.Errorf("%d is there %d times, want %d", id, got[id], want)
				}
			}
			if all := c.Read(t, dead); len(all) != 1 || string(all[0].Value) != `{"id":300}` {
				t.Errorf("%d dead letters", len(all))
			}
		})
	}
}

// TestATransactionThatBrokersAbort lets brokers abort a transaction, such as after its timeout. Its messages do not fail. They are
// read again, and written once.
func TestATransactionThatBrokersAbort(t *testing.T) {
	t.Parallel()
	for _, why := range []*kerr.Error{kerr.InvalidProducerEpoch, kerr.ProducerFenced, kerr.TransactionAbortable} {
		t.Run(why.Message, func(t *testing.T) {
			t.Parallel()
			c := kafkatest.Start(t)
			in, out := c.Topic(t, 2), c.Topic(t, 2)
			const n = 3000
			c.Send(t, kafkatest.Numbered(in, 2, 0, n)...)
			c.Fake.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: out, Err: why, Count: 1})
			m := start(t, config(c, in), func(p *engine.Pipeline) {
				relays(c, out)(p)
				p.Engine.Restart.Backoff = 10 * time.Millisecond
			}, nil)
			until(t, "all settled", func() bool { return c.Committed(t, "g", in) == n })
			m.end()
			once(t, c, out, n)
			if !strings.Contains(m.log.String(), "transaction was aborted") {
				t.Errorf("no transaction was aborted:\n%s", m.log.String())
			}
		})
	}
}
