package kafka

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/enginetest"
	"github.com/flowd-io/flowd/internal/systems/queue/kafka"
	"github.com/flowd-io/flowd/internal/testing/kafkatest"
	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kgo"
)

// headers returns names and values in turn.
func headers(all ...string) (h []kgo.RecordHeader) {
	for i := 0; i < len(all); i += 2 {
		h = append(h, kgo.RecordHeader{Key: all[i], Value: []byte(all[i+1])})
	}
	return h
}

// metadata returns metadata that steps have set, in order.
func metadata(all ...any) (m engine.Meta) {
	for i := 0; i < len(all); i += 2 {
		m = m.With(all[i].(string), all[i+1])
	}
	return m
}

// TestFieldsOfARecord checks the fields of a record for a message and a configuration. TOPIC is the topic's name.
func TestFieldsOfARecord(t *testing.T) {
	c := kafkatest.Any(t)
	at := time.Date(2026, 1, 2, 3, 4, 5, 6e6, time.UTC)
	tests := []struct {
		name, fields, body string
		meta               engine.Meta
		want               kgo.Record
	}{
		{"metadata are headers, of their kind and in their order", `"topic": "TOPIC"`, "x",
			metadata("z", "text", "n", 7, "ok", true, "at", at, "list", []any{"b", 1, "a"}, "object", map[string]any{"a": 1.5}),
			kgo.Record{Value: []byte("x"), Headers: headers("z", "text", "n", "7", "ok", "true",
				"at", "2026-01-02T03:04:05.006Z", "list", "b", "list", "1", "list", "a", "object", `{"a":1.5}`)}},
		{"the configuration adds headers, of a name that is there, too",
			`"topic": "TOPIC", "headers": {"b": "$(id)", "a": "2"}`, `{"id": 5}`, metadata("a", "1"),
			kgo.Record{Value: []byte(`{"id": 5}`), Headers: headers("a", "1", "b", "5", "a", "2")}},
		{"a key of metadata", `"topic": "TOPIC"`, "x", metadata("key", "k"), kgo.Record{Value: []byte("x"), Key: []byte("k"),
			Headers: headers("key", "k")}},
		{"a key that is a number", `"topic": "TOPIC", "key": "id"`, `{"id": 12}`, engine.Meta{},
			kgo.Record{Value: []byte(`{"id": 12}`), Key: []byte("12")}},
		{"a null key is no key", `"topic": "TOPIC", "key": "id"`, `{"id": null}`, metadata("key", "k"),
			kgo.Record{Value: []byte(`{"id": null}`), Headers: headers("key", "k")}},
		{"a key that is empty is one", `"topic": "TOPIC", "key": "id"`, `{"id": ""}`, engine.Meta{},
			kgo.Record{Value: []byte(`{"id": ""}`), Key: []byte{}}},
		{"a partition", `"topic": "TOPIC", "partition": "p", "key": "p"`, `{"p": 3}`, engine.Meta{},
			kgo.Record{Value: []byte(`{"p": 3}`), Key: []byte("3"), Partition: 3}},
		{"a time as text", `"topic": "TOPIC", "timestamp": "at"`, `{"at": "2026-01-02T04:04:05.006+01:00"}`, engine.Meta{},
			kgo.Record{Value: []byte(`{"at": "2026-01-02T04:04:05.006+01:00"}`), Timestamp: at}},
		{"a time in milliseconds", `"topic": "TOPIC", "timestamp": "at"`, `{"at": 1767323045006}`, engine.Meta{},
			kgo.Record{Value: []byte(`{"at": 1767323045006}`), Timestamp: at}},
		{"a time of metadata", `"topic": "TOPIC", "timestamp": "meta(\"at\")"`, "x", metadata("at", at),
			kgo.Record{Value: []byte("x"), Timestamp: at, Headers: headers("at", "2026-01-02T03:04:05.006Z")}},
		{"a tombstone", `"topic": "TOPIC", "key": "'k'"`, "", metadata("tombstone", true),
			kgo.Record{Key: []byte("k"), Headers: headers("tombstone", "true")}},
		{"an empty value is not a tombstone", `"topic": "TOPIC"`, "", engine.Meta{}, kgo.Record{Value: []byte{}}},
		{"a tombstone with a new payload is not one any more", `"topic": "TOPIC"`, "x", metadata("tombstone", true),
			kgo.Record{Value: []byte("x"), Headers: headers("tombstone", "true")}},
		{"a topic of the message", `"topic": "$(meta(\"to\"))"`, "x", metadata("to", "TOPIC"),
			kgo.Record{Value: []byte("x"), Headers: headers("to", "TOPIC")}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			topic := c.Topic(t, 4)
			b := enginetest.Batch(tt.body)
			for m := range b.All() {
				if m.Meta = tt.meta; strings.Contains(tt.fields, `"to`+`\"`) {
					m.Meta = metadata("to", topic)
					tt.want.Headers = headers("to", topic)
				}
			}
			before := time.Now().Add(-time.Second)
			o := opened(t, c, strings.ReplaceAll(tt.fields, "TOPIC", topic))
			if errs, err := sent(t, o, b); err != nil || errs[0] != nil {
				t.Fatal(err, errs)
			}
			r := c.Read(t, topic)[0]
			if tt.want.Timestamp.IsZero() {
				if r.Timestamp.Before(before) || r.Timestamp.After(time.Now()) {
					t.Errorf("its time is %v, want now", r.Timestamp)
				}
				tt.want.Timestamp = r.Timestamp
			}
			if !strings.Contains(tt.fields, "partition") {
				tt.want.Partition = r.Partition
			}
			w := tt.want
			if diff := cmp.Diff([]any{w.Key, w.Value, w.Partition, w.Timestamp.UTC(), w.Headers},
				[]any{r.Key, r.Value, r.Partition, r.Timestamp.UTC(), r.Headers}); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
		})
	}
}

// TestInvalidMessages checks that a message that can't become a record fails alone, with the right class.
func TestInvalidMessages(t *testing.T) {
	c := kafkatest.Start(t)
	topic := c.Topic(t, 2)
	tests := []struct {
		name, fields, body string
		class              engine.Class
		says               string
	}{
		{"text that is not a time", `"timestamp": "at"`, `{"at": "yesterday"}`, engine.Rejected,
			"timestamp is yesterday, which is neither a time nor a number of milliseconds since 1970"},
		{"a partition that is not a number", `"partition": "p"`, `{"p": "1"}`, engine.Rejected,
			"partition is 1, which is not"},
		{"a negative partition", `"partition": "p"`, `{"p": -1}`, engine.Rejected, "partition is -1, which is not"},
		{"a partition that the topic does not have", `"partition": "p"`, `{"p": 2}`, engine.Rejected, "has no partition 2"},
		{"a topic that can't be", `"topic": "$(to)"`, `{"to": "a b"}`, engine.Rejected, `"a b" is not a valid topic name`},
		{"a key that can't be evaluated", `"key": "p + 1"`, `{"p": "x"}`, engine.Expression, ""},
		{"a header that can't be evaluated", `"headers": {"h": "$(p + 1)"}`, `{"p": "x"}`, engine.Expression, ""},
		{"too large", `"max_bytes": 2000`, `{"pad": "` + strings.Repeat("x", 2000) + `"}`, engine.Rejected,
			"more than `max_bytes`, which is 2000"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if !strings.Contains(tt.fields, `"topic"`) {
				tt.fields = fmt.Sprintf(`"topic": %q, `, topic) + tt.fields
			}
			errs, err := sent(t, opened(t, c, tt.fields), enginetest.Batch(tt.body))
			if err != nil {
				t.Fatal(err)
			}
			if e := engine.ErrorOf(errs[0], ""); errs[0] == nil || e.Class != tt.class || !strings.Contains(e.Error(), tt.says) {
				t.Errorf("class %q: %v; want %q: %s", e.Class, errs[0], tt.class, tt.says)
			}
		})
	}
}

// TestADeadLetterHasItsPositionOnce checks that a dead letter has its position once, even if it was a dead letter before. Then it
// is the last position.
func TestADeadLetterHasItsPositionOnce(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 6e6, time.UTC)
	source := kafka.RecordsOf("orders-dead", 2, []*kgo.Record{{Offset: 7, Timestamp: at, Headers: headers("tenant", "t",
		"original_topic", "orders", "original_offset", "1", "original_topic", "older", "original_price", "5")}})
	b := enginetest.Batch("x")
	o := enginetest.New(t, engine.Outputs, `{"kafka": {"brokers": "localhost", "topic": "dead"}}`).(*output)
	for m := range b.All() {
		m.Meta = engine.MetaFrom(source)
		m.Fail(errors.New("no"))
		var r kgo.Record
		if err := o.fill(&r, m); err != nil {
			t.Fatal(err)
		}
		want := headers("tenant", "t", "original_price", "5", "original_topic", "orders-dead", "original_partition", "2",
			"original_offset", "7", "original_timestamp", "2026-01-02T03:04:05.006Z")
		if diff := cmp.Diff(want, r.Headers); diff != "" {
			t.Errorf("-want +got\n%s", diff)
		}
	}
}

func TestPayloadsOfAllKinds(t *testing.T) {
	c := kafkatest.Any(t)
	topic := c.Topic(t, 1)
	o := enginetest.New(t, engine.Outputs, fmt.Sprintf(`{"kafka": {"brokers": %q, "topic": %q}}`, c.Brokers, topic))
	enginetest.Carries(t, o, func(t *testing.T, _ int) (all [][]byte) {
		for _, r := range c.Read(t, topic) {
			all = append(all, r.Value) // nil is a tombstone
		}
		return all
	})
}
