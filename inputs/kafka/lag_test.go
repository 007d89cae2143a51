package kafka

import (
	"testing"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/enginetest"
	"github.com/flowd-io/flowd/internal/testing/kafkatest"
	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kgo"
)

// progress returns the progress of a member's input as its pipeline reports it.
func (m *member) progress() engine.Progress {
	for _, in := range m.plan.Snapshot().Inputs { // none until the pipeline runs
		if in.Progress != nil {
			return *in.Progress
		}
	}
	return engine.Progress{}
}

// shows waits until the member reports these positions.
func (m *member) shows(want ...engine.Position) {
	m.t.Helper()
	var got []engine.Position
	defer func() {
		if m.t.Failed() {
			m.t.Logf("it shows %+v, want %+v", got, want)
		}
	}()
	until(m.t, "the positions", func() bool {
		got = m.progress().Positions
		return cmp.Equal(want, got)
	})
}

// TestLagGrowsWhileNothingIsFetched blocks the first messages, so that fetching pauses. The lag includes messages sent after that,
// although they are not read.
func TestLagGrowsWhileNothingIsFetched(t *testing.T) {
	t.Parallel()
	c := kafkatest.Any(t)
	topic := c.Topic(t, 2)
	cfg := config(c, topic)
	block := make(chan struct{})
	m := start(t, cfg, func(p *engine.Pipeline) { p.Engine.MaxReplay = 2 }, &enginetest.Sink{Block: block})
	c.Send(t, kafkatest.Numbered(topic, 2, 0, 10)...)
	until(t, "both are read", func() bool {
		at := m.progress().Positions
		return len(at) == 2 && at[0].Read > 0 && at[1].Read > 0
	})
	c.Send(t, kafkatest.Numbered(topic, 2, 0, 3000)...)
	until(t, "the ends", func() bool {
		at := m.progress().Positions
		return at[0].End == 1505 && at[1].End == 1505
	})
	for _, at := range m.progress().Positions {
		if at.Settled != 0 || at.Lag() != 1505 || at.Read >= 1505 {
			t.Errorf("got %+v with lag %d, want nothing settled and not all read", at, at.Lag())
		}
	}
	close(block)
	m.shows(engine.Position{Name: topic + "/0", Settled: 1505, Read: 1505, End: 1505},
		engine.Position{Name: topic + "/1", Settled: 1505, Read: 1505, End: 1505})
}

// TestCommittedOffsetsAreKnownBeforeReading restarts with a partition without new messages, and one that was never read.
func TestCommittedOffsetsAreKnownBeforeReading(t *testing.T) {
	t.Parallel()
	c := kafkatest.Any(t)
	topic := c.Topic(t, 2)
	cfg := config(c, topic)
	c.Send(t, &kgo.Record{Topic: topic, Partition: 1, Value: []byte("a")},
		&kgo.Record{Topic: topic, Partition: 1, Value: []byte("b")})
	first := start(t, cfg, nil, &enginetest.Sink{})
	none := engine.Position{Name: topic + "/0", Settled: -1}
	all := engine.Position{Name: topic + "/1", Settled: 2, Read: 2, End: 2}
	first.shows(none, all)
	first.end()
	again := start(t, cfg, nil, &enginetest.Sink{})
	again.shows(none, all)
	if n := len(again.sink.Bodies()); n != 0 {
		t.Errorf("%d messages were read again", n)
	}
	if lag := none.Lag(); lag != 0 {
		t.Errorf("an unknown position has lag %d", lag)
	}
}

// TestMovesAreCounted moves one of two partitions to a second member while one of its messages is in flight.
func TestMovesAreCounted(t *testing.T) {
	t.Parallel()
	c := kafkatest.Start(t)
	topic := c.Topic(t, 2)
	cfg := config(c, topic)
	cfg.RevokeTimeout = 0
	c.Send(t, kafkatest.Numbered(topic, 2, 0, 2)...)
	block := make(chan struct{})
	a := start(t, cfg, nil, &enginetest.Sink{Block: block})
	until(t, "both in flight", func() bool { return a.plan.Snapshot().Messages == 2 })
	b := start(t, cfg, nil, &enginetest.Sink{})
	until(t, "the move", func() bool { return a.progress().Revoked > 0 })
	if p := a.progress(); p.Revoked != 1 || p.TakenAway != 1 || len(p.Positions) != 1 {
		t.Errorf("got %+v, want one partition revoked, one message taken away, one partition left", p)
	}
	close(block)
	b.end()
	if p := b.in.Progress(); p.Revoked != 0 || len(p.Positions) != 0 {
		t.Errorf("a member that has ended reports %+v", p)
	}
}
