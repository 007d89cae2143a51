// Package batch is the batcher `batch`: it gathers messages into batches of a limited size and age. Start at
// [Config]. batcher.Add is the whole policy.
package batch

import (
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/expr"
	"github.com/flowd-io/flowd/schema"
)

// Config configures the batch batcher.
type Config struct {
	Size    int           `yaml:"size" check:"min=0" doc:"Messages in a batch; 0 means no limit."`
	Bytes   schema.Size   `yaml:"bytes" check:"min=0" doc:"Bytes of payload in a batch: it leaves before a message that would exceed them, and a larger message goes alone. 0 means no limit."`
	Timeout time.Duration `yaml:"timeout" check:"min=1ms" doc:"Time after a batch's first message at which the batch leaves even if it is not full."`
	Flush   expr.Cond     `yaml:"flush" doc:"A message for which this is true completes its batch."`
	MaxKeys int           `yaml:"max_keys" check:"min=0" doc:"Maximum number of open batches. Beyond it, the least recently used one leaves. With 0, only engine.max_in_flight limits them."`
}

// Traits reports the intended number of messages per batch.
func (c Config) Traits() engine.Traits { return engine.Traits{Size: c.Size} }

// Words returns words of other systems, with what to write instead.
func (c *Config) Words() map[string]string {
	return map[string]string{
		"count":      "write `size`",
		"batch_size": "write `size`",
		"byte_size":  "write `bytes`",
		"period":     "write `timeout`",
		"check":      "write `flush`",
		"condition":  "write `flush`",
	}
}

var defaults = Config{Size: 500, Timeout: time.Second}

const doc = `
Collects messages into batches, one open batch per value of key.

A batch leaves when it has size messages or bytes of payload, when its first
message has waited for timeout, after a message for which flush is true, when
max_keys forces it out, at the end of the input or of a drain, and early when
the pipeline runs out of room (engine.max_in_flight).

    batchers:
      archive:
        key: customer.country
        batch: {size: 500, bytes: 5MiB, timeout: 2s}
        output: lake
`

func init() {
	engine.Register(engine.Batchers, "batch", doc, defaults, build)
}

func build(c Config, _ engine.Env) (engine.Batcher, error) {
	return newBatcher(c, (*engine.Message).BatchKey), nil
}
