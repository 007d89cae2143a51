package widget

import (
	"testing"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/enginetest"
)

func build(t *testing.T) engine.Batcher {
	b, err := newBatcher(Config{Count: 3, Timeout: time.Second}, engine.Env{})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestBatcher is what every batcher must pass.
func TestBatcher(t *testing.T) { enginetest.Batcher(t, build) }

func TestABatchIsSentOnWhenItIsFullOrDue(t *testing.T) {
	b, start := build(t), time.Now()
	var sent []engine.Trigger
	emit := func(_ *engine.Batch, why engine.Trigger) { sent = append(sent, why) }
	b.Add(enginetest.Batch("1", "2", "3", "4"), start, emit)
	b.Flush(b.Due(), engine.ByTimeout, -1, emit)
	if len(sent) != 2 || sent[0] != engine.BySize || sent[1] != engine.ByTimeout || !b.Due().IsZero() {
		t.Errorf("batches were sent for %v, want size, then timeout", sent)
	}
}
