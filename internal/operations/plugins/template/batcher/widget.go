// Package widget is a batcher that collects a number of messages.
package widget

import (
	"time"

	"github.com/flowd-io/flowd/engine"
)

// Config is what stands in a pipeline file. The tags are all that lint, `flowd docs` and the JSON Schema need.
type Config struct {
	Count   int           `yaml:"count" check:"min=1" doc:"Send a batch on when it has so many messages."`
	Timeout time.Duration `yaml:"timeout" check:"min=1ms" doc:"Send a batch on when its first message has waited so long."`
}

func init() {
	engine.Register(engine.Batchers, "widget", "Collects messages.", Config{Count: 10, Timeout: time.Second}, newBatcher)
}

func newBatcher(c Config, _ engine.Env) (engine.Batcher, error) { return &batcher{Config: c}, nil }

// batcher needs no lock and no timer: one goroutine calls it, and tells it the time.
type batcher struct {
	Config
	open *engine.Batch // nil if there is no message
	n    int           // messages in it
	due  time.Time
}

// Add moves messages into the open batch.
func (b *batcher) Add(in *engine.Batch, now time.Time, emit engine.Emit) {
	for m := range in.All() {
		if b.open == nil {
			b.open, b.n, b.due = in.Open(), 0, now.Add(b.Timeout)
		}
		b.open.Move(m)
		if b.n++; b.n == b.Count {
			b.send(engine.BySize, emit)
		}
	}
}

// Due returns when Flush should be called.
func (b *batcher) Due() time.Time {
	if b.open == nil {
		return time.Time{}
	}
	return b.due
}

// Flush sends the open batch on: because it is due, or because the pipeline drains or needs room.
func (b *batcher) Flush(now time.Time, why engine.Trigger, n int, emit engine.Emit) {
	if b.open == nil || n == 0 || why == engine.ByTimeout && now.Before(b.due) {
		return
	}
	b.send(why, emit)
}

func (b *batcher) send(why engine.Trigger, emit engine.Emit) {
	full := b.open
	b.open = nil
	emit(full, why)
}
