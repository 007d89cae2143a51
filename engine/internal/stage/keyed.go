package stage

import (
	"time"

	"github.com/flowd-io/flowd/engine"
)

// Keyed is the batcher of a route with a key that collects nothing: messages pass on as they come, those of each key in
// a batch of their own.
type Keyed struct{}

// Add parts what has come.
func (Keyed) Add(b *engine.Batch, _ time.Time, emit engine.Emit) {
	var order []*engine.Batch
	of := map[string]*engine.Batch{}
	for m := range b.All() {
		batch := of[m.BatchKey()]
		if batch == nil {
			batch = b.Open()
			of[m.BatchKey()] = batch
			order = append(order, batch)
		}
		batch.Move(m)
	}
	for _, batch := range order {
		emit(batch, engine.ByKey)
	}
}

// Due is never.
func (Keyed) Due() time.Time { return time.Time{} }

// Flush has nothing to send.
func (Keyed) Flush(time.Time, engine.Trigger, int, engine.Emit) {}
