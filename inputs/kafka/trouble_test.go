package kafka

import (
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/systems/queue/kafka"
	"github.com/google/go-cmp/cmp"
)

// TestTroubleReportsTheOldestError lets two partitions fail, the first of them twice.
func TestTroubleReportsTheOldestError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in := &input{log: slog.New(slog.DiscardHandler), client: &kafka.Client{Link: &kafka.Link{}},
			blocked: map[topicPartition]block{}}
		began := time.Now()
		for _, tp := range []topicPartition{{"a", 1}, {"a", 0}, {"a", 1}} {
			if err := in.blockPartition(tp, errors.New("broken "+tp.String())); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Minute)
		}
		want := &engine.Trouble{Indicator: "partition_blocked", Impact: "nothing is read of a/0, a/1", Cause: "broken a/1",
			Action: "inspect the record at that offset, and skip it with kafka-consumer-groups --reset-offsets", Since: began}
		if diff := cmp.Diff(want, in.Trouble()); diff != "" {
			t.Errorf("-want +got\n%s", diff)
		}
	})
}
