// Package limit is the batch step `limit`: it keeps a number of messages of a batch. Start at [Config].
package limit

import (
	"context"

	"github.com/flowd-io/flowd/engine"
)

// Config configures the limit step.
type Config struct {
	Count int    `yaml:"count,main" check:"required,min=1" doc:"Messages to keep from each batch."`
	From  string `yaml:"from" check:"oneof=first|last" doc:"Which ones: the first or the last."`
}

var defaults = Config{From: "first"}

const help = `
Keeps the first messages of each batch, or the last; the others end as filtered.
After sort, this gives a top list.

    batchers:
      all:
        batch: {size: 100, timeout: 1s}
        processors:
          - limit: 10
          - limit: {count: 10, from: last}
        output: out
`

func init() {
	engine.Register(engine.Processors, "limit", help, defaults, build)
}

func build(c Config, _ engine.Env) (engine.Processor, error) { return limit(c), nil }

type limit Config

// Traits reports that the step needs whole batches.
func (limit) Traits() engine.Traits { return engine.Traits{WholeBatches: true} }

// Process drops messages beyond the count.
func (l limit) Process(_ context.Context, b *engine.Batch) error {
	skip := 0
	if l.From == "last" {
		for range b.All() {
			skip++
		}
		skip = max(0, skip-l.Count)
	}
	i := 0
	for m := range b.All() {
		if i < skip || i-skip >= l.Count {
			m.Drop()
		}
		i++
	}
	return nil
}
