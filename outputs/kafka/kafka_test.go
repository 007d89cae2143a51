package kafka

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/enginetest"
	"github.com/flowd-io/flowd/internal/systems/queue/kafka"
	"github.com/flowd-io/flowd/internal/testing/kafkatest"
	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kgo"
)

// opened returns an open output, with further fields of its configuration as JSON.
func opened(t *testing.T, c *kafkatest.Cluster, fields string) engine.Output {
	t.Helper()
	return logged(t, c, io.Discard, fields)
}

// logged is like opened, with a log.
func logged(t *testing.T, c *kafkatest.Cluster, log io.Writer, fields string) *output {
	t.Helper()
	o := closed(t, c, fields)
	o.log = slog.New(slog.NewTextHandler(log, nil))
	if err := o.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	return o
}

// closed returns an output that is not open.
func closed(t *testing.T, c *kafkatest.Cluster, fields string) *output {
	t.Helper()
	config := fmt.Sprintf(`{"kafka": {"brokers": %q, %s}}`, strings.Split(c.Brokers, ",")[0], fields)
	o := enginetest.New(t, engine.Outputs, config).(*output)
	t.Cleanup(func() { _ = o.Close(context.WithoutCancel(t.Context())) })
	return o
}

// sent writes messages, and returns their errors and that of the output.
func sent(t *testing.T, o engine.Output, b *engine.Batch) (errs []error, err error) {
	t.Helper()
	all := slices.Collect(b.All())
	err = o.Write(t.Context(), b)
	for _, m := range all {
		if m.Err() != nil {
			errs = append(errs, m.Err())
			continue
		}
		errs = append(errs, nil)
	}
	return errs, err
}

func TestOutput(t *testing.T) {
	c := kafkatest.Start(t)
	topic := c.Topic(t, 2)
	enginetest.Output(t, func(t *testing.T) engine.Output {
		return enginetest.New(t, engine.Outputs, fmt.Sprintf(`{"kafka": {"brokers": %q, "topic": %q}}`, c.Brokers, topic))
	}, `{"a":1}`, "text", `{"b":2}`)
}

func TestAServerThatIsAway(t *testing.T) {
	t.Parallel()
	var c *kafkatest.Cluster
	topic := ""
	enginetest.Remote{
		Reach: func(t *testing.T, wire *enginetest.Wire) func() engine.Output {
			c = kafkatest.Behind(t, wire)
			topic = c.Topic(t, 1)
			return func() engine.Output {
				return enginetest.New(t, engine.Outputs, fmt.Sprintf(`{"kafka": {"brokers": %q, "topic": %q}}`, wire.Address, topic))
			}
		},
		Arrived: func(t *testing.T) (all []string) {
			for _, r := range c.Read(t, topic) {
				all = append(all, string(r.Value))
			}
			return all
		},
		Payloads: []string{"1", "2", "3", "4", "5"},
		Greets:   true,
		Headers: func(t *testing.T) map[string]string {
			all := map[string]string{}
			for _, h := range c.Read(t, topic)[0].Headers {
				all[h.Key] = string(h.Value)
			}
			return all
		},
	}.Run(t)
}

// The hashes are from the tests of the Java client.
func TestKeysGoWhereTheJavaClientSendsThem(t *testing.T) {
	c := kafkatest.Any(t)
	topic := c.Topic(t, 7)
	o := opened(t, c, fmt.Sprintf(`"topic": %q, "key": "id"`, topic))
	want := map[string]int32{}
	var bodies []string
	for key, hash := range map[string]int32{"21": -973932308, "foobar": -790332482, "a-little-bit-long-string": -985981536,
		"a-little-bit-longer-string": -1486304829, "lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
		"abc": 479470107} {
		want[key] = (hash & 0x7fffffff) % 7
		bodies = append(bodies, fmt.Sprintf(`{"id": %q}`, key))
	}
	if errs, err := sent(t, o, enginetest.Batch(bodies...)); err != nil || errors.Join(errs...) != nil {
		t.Fatal(err, errs)
	}
	got := map[string]int32{}
	for _, r := range c.Read(t, topic) {
		got[string(r.Key)] = r.Partition
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

func TestARecordOfKafkaPassesThroughAsItWas(t *testing.T) {
	c := kafkatest.Any(t)
	topic := c.Topic(t, 1)
	headers := []kgo.RecordHeader{{Key: "a", Value: []byte("1")}, {Key: "b", Value: []byte("2")},
		{Key: "a", Value: []byte("3")}, {Key: "topic", Value: nil}}
	source := kafka.RecordsOf("from", 0, []*kgo.Record{{Key: []byte{}, Headers: headers}})
	b := enginetest.Batch("")
	for m := range b.All() {
		m.Meta = engine.MetaFrom(source)
	}
	if errs, err := sent(t, opened(t, c, fmt.Sprintf(`"topic": %q`, topic)), b); err != nil || errs[0] != nil {
		t.Fatal(err, errs)
	}
	r := c.Read(t, topic)[0]
	if diff := cmp.Diff([]any{[]byte{}, []byte(nil), headers}, []any{r.Key, r.Value, r.Headers}); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

func TestARefusedMessageFailsAlone(t *testing.T) {
	c := kafkatest.Any(t)
	topic := c.Topic(t, 1)
	o := opened(t, c, `"topic": "$(topic)", "max_bytes": 2000`)
	b := enginetest.Batch(fmt.Sprintf(`{"topic": %q, "n": 1}`, topic), `{"topic": "not a topic"}`,
		fmt.Sprintf(`{"topic": %q, "pad": %q}`, topic, strings.Repeat("x", 3000)),
		fmt.Sprintf(`{"topic": %q, "n": 2}`, topic))
	i := 0
	for m := range b.All() {
		m.Key = []byte{"aabb"[i]}
		i++
	}
	errs, err := sent(t, o, b)
	if err != nil || errs[0] != nil {
		t.Fatal(err, errs)
	}
	for i := 1; i < 3; i++ {
		if e := engine.ErrorOf(errs[i], engine.Transient); e.Class != engine.Rejected {
			t.Errorf("message %d: class %s, %v", i, e.Class, e)
		}
	}
	if !errors.Is(errs[3], engine.ErrBehind) {
		t.Errorf("after one of its key that has failed: %v", errs[3])
	}
	if got := c.Read(t, topic); len(got) != 1 {
		t.Errorf("%d records are written", len(got))
	}
}
