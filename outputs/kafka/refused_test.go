package kafka

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/enginetest"
	"github.com/flowd-io/flowd/internal/testing/kafkatest"
	"github.com/twmb/franz-go/pkg/kerr"
)

// numbered returns n messages, with a number of order keys. Those with the numbers in bad are invalid.
func numbered(n, keys int, bad map[int]bool) *engine.Batch {
	bodies := make([]string, n)
	for i := range bodies {
		text := "good"
		if bad[i] {
			text = "poison"
		}
		bodies[i] = fmt.Sprintf(`{"id": %d, "key": "k%d", "text": "%s %s"}`, i, i%max(keys, 10), text,
			strings.Repeat("x", 200))
	}
	b := enginetest.Batch(bodies...)
	i := 0
	for m := range b.All() {
		if keys > 0 {
			m.Key = fmt.Appendf(nil, "k%d", i%keys)
		}
		i++
	}
	return b
}

// idOf returns the number of a message.
func idOf(t *testing.T, body []byte) (id int) {
	t.Helper()
	if _, err := fmt.Sscanf(string(body), `{"id": %d`, &id); err != nil {
		t.Fatal(err)
	}
	return id
}

// TestARefusedRecordFailsAlone sends more than one batch of records to each partition. Brokers refuse whole batches, and the client also
// fails the records that wait for the partition.
func TestARefusedRecordFailsAlone(t *testing.T) {
	const n, partitions, keys = 3000, 2, 10
	bad := map[int]bool{0: true, 1234: true, 1235: true, 2999: true}
	for _, ordered := range []bool{false, true} {
		for _, why := range []*kerr.Error{kerr.InvalidRecord, kerr.MessageTooLarge, kerr.UnknownServerError} {
			t.Run(fmt.Sprintf("%s, ordered %t", why.Message, ordered), func(t *testing.T) {
				t.Parallel()
				c := kafkatest.Start(t)
				topic := c.Topic(t, partitions)
				c.Refuse(topic, partitions, why, "poison")
				o := opened(t, c, fmt.Sprintf(`"topic": %q, "key": "key", "max_bytes": 20000`, topic))
				order := 0
				if ordered {
					order = keys
				}
				errs, err := sent(t, o, numbered(n, order, bad))
				if err != nil {
					t.Fatal(err)
				}
				shut := map[int]bool{}
				for i, err := range errs {
					behind := ordered && shut[i%keys]
					switch {
					case behind && !errors.Is(err, engine.ErrBehind):
						t.Fatalf("message %d comes after one of its key that was refused: %v", i, err)
					case behind:
					case bad[i]:
						if e := engine.ErrorOf(err, ""); err == nil || e.Class != engine.Rejected {
							t.Fatalf("message %d is refused: got %v", i, err)
						}
						shut[i%keys] = true
					case err != nil:
						t.Fatalf("message %d: %v", i, err)
					}
				}
				arrivedInOrder(t, c, topic, errs, ordered)
			})
		}
	}
}

// arrivedInOrder checks that delivered messages are there once, and failed ones are not. With an order, it checks the order as well.
func arrivedInOrder(t *testing.T, c *kafkatest.Cluster, topic string, errs []error, ordered bool) {
	t.Helper()
	seen, last := map[int]bool{}, map[string]int{}
	for _, r := range c.Read(t, topic) {
		id := idOf(t, r.Value)
		if seen[id] || errs[id] != nil {
			t.Errorf("message %d is there, twice: %t, its error: %v", id, seen[id], errs[id])
		}
		seen[id] = true
		if before := last[string(r.Key)]; ordered && before > id {
			t.Errorf("message %d is after %d", id, before)
		}
		last[string(r.Key)] = id
	}
	for id, err := range errs {
		if err == nil && !seen[id] {
			t.Errorf("message %d is lost", id)
		}
	}
}

// TestNothingOvertakesWhatFailedWithARefusedRecord lets a broker refuse the first batch of a large write while the client still receives
// the rest. Records that failed with the batch are written before those that the client received later.
func TestNothingOvertakesWhatFailedWithARefusedRecord(t *testing.T) {
	t.Parallel()
	for _, known := range []bool{true, false} { // the client requests the partitions of a topic at its first record
		t.Run(fmt.Sprintf("the client knows the topic: %t", known), func(t *testing.T) {
			c := kafkatest.Start(t)
			first, topic := c.Topic(t, 1), c.Topic(t, 1)
			if known {
				topic = first
			}
			c.Refuse(topic, 1, kerr.InvalidRecord, "poison")
			o := opened(t, c, `"topic": "$(meta(\"to\"))", "key": "key"`)
			if errs, err := sent(t, o, to(first, numbered(10, 10, nil))); errors.Join(append(errs, err)...) != nil {
				t.Fatal(errs, err)
			}
			const n = 10_000
			if _, err := sent(t, o, to(topic, numbered(n, 10, map[int]bool{0: true, n / 2: true}))); err != nil {
				t.Fatal(err)
			}
			last, overtaken, arrived := map[string]int{}, 0, 0
			for _, r := range c.Read(t, topic) {
				id := idOf(t, r.Value)
				if known && arrived == 10 { // these were records of the first write
					clear(last)
				}
				if last[string(r.Key)] > id {
					overtaken++
				}
				last[string(r.Key)] = id
				arrived++
			}
			if want := n - n/10; arrived < want || overtaken > 0 {
				t.Errorf("%d messages were overtaken; %d have arrived, want %d", overtaken, arrived, want)
			}
		})
	}
}

// to sets the topic of a batch's messages in their metadata.
func to(topic string, b *engine.Batch) *engine.Batch {
	for m := range b.All() {
		m.Meta = m.Meta.With("to", topic)
	}
	return b
}

// TestRecordsTooLargeForTheTopic checks that they fail alone, even if the topic accepts less than `max_bytes`, so that batches of smaller
// records are refused as well.
func TestRecordsTooLargeForTheTopic(t *testing.T) {
	t.Parallel()
	c := kafkatest.Start(t)
	if err := c.Fake.CreateTopic("small", 1, map[string]string{"max.message.bytes": "1000"}); err != nil {
		t.Fatal(err)
	}
	o := opened(t, c, `"topic": "small", "compression": "none", "key": "key"`)
	b := numbered(100, 10, nil)
	i := 0
	for m := range b.All() {
		if i++; i == 42 {
			m.SetBytes([]byte(`{"id": 41, "key": "k1", "pad": "` + strings.Repeat("x", 2000) + `"}`))
		}
	}
	errs, err := sent(t, o, b)
	if err != nil {
		t.Fatal(err)
	}
	for i, err := range errs {
		e := engine.ErrorOf(err, "")
		switch late := i%10 == 1 && i > 41; {
		case i == 41 && (err == nil || e.Class != engine.Rejected || !strings.Contains(e.Error(), "raise max.message.bytes")):
			t.Errorf("the large one: class %s, %v", e.Class, err)
		case i != 41 && late != errors.Is(err, engine.ErrBehind), i != 41 && !late && err != nil:
			t.Errorf("message %d: %v", i, err)
		}
	}
	arrivedInOrder(t, c, "small", errs, true)
}
