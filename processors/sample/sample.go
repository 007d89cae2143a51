// Package sample is the processor `sample`: it keeps a fraction of the messages.
// Start at [Config].
package sample

import (
	"context"
	"math"
	"math/rand/v2"
	"sync/atomic"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/expr"
)

// Config configures the sample processor.
type Config struct {
	Fraction float64   `yaml:"fraction,main" check:"required,min=0,max=1" doc:"Fraction of the messages, or of the keys, that is kept: 0.1 is a tenth."`
	Key      expr.Expr `yaml:"key" doc:"Messages with the same key are all kept or all dropped, in every process and at all times. Messages without a key are sampled one by one."`
	Seed     *uint64   `yaml:"seed" doc:"Selects a different set of keys; 0 by default. Without key, it makes the choice repeatable if messages arrive in the same order; by default the choice differs at each start."`
}

// Words returns words of other systems, with what to write instead.
func (c *Config) Words() map[string]string {
	return map[string]string{
		"rate":   "write `fraction`, such as 0.1",
		"ratio":  "write `fraction`",
		"retain": "write `fraction`, such as 0.1",
		"by":     "write `key`",
	}
}

const help = `
Keeps a fraction of the messages, at random; the others end as filtered. With key
it keeps all messages of a fraction of the keys: the choice depends only on the key's
value, so it is the same after a restart and in other pipelines, and a larger fraction
keeps everything that a smaller one keeps.

    - sample: 0.1
    - sample: {fraction: 0.05, key: customer.id}
`

func init() {
	engine.Register(engine.Processors, "sample", help, Config{}, build)
}

func build(c Config, _ engine.Env) (engine.Processor, error) {
	s := &sampler{Config: c, start: rand.Uint64()}
	if c.Seed != nil {
		s.start = *c.Seed
	}
	return s, nil
}

type sampler struct {
	Config
	start uint64 // start of the random sequence that is used without a key
	count atomic.Uint64
}

// Process drops messages that are not in the sample.
func (s *sampler) Process(_ context.Context, b *engine.Batch) error {
	n := s.count.Add(uint64(b.Len())) - uint64(b.Len())
	var text []byte
	for m := range b.All() {
		n++
		draw := mix(s.start + n*golden)
		if !s.Key.IsZero() {
			key, ok, err := s.Key.AppendKey(text[:0], m)
			if err != nil {
				m.Fail(err)
				continue
			}
			if text = key; ok {
				draw = s.hash(key)
			}
		}
		if !s.keeps(draw) {
			m.Drop()
		}
	}
	return nil
}

// keeps reports whether a uniform random number selects its message.
func (s *sampler) keeps(draw uint64) bool {
	return s.Fraction == 1 || draw < uint64(math.Ldexp(s.Fraction, 64))
}

// hash returns the same for equal keys in all versions of flowd: 64-bit FNV-1a, followed by a mixer since the upper bits
// of FNV are poor.
func (s *sampler) hash(key []byte) uint64 {
	sum := uint64(0xcbf29ce484222325)
	for _, c := range key {
		sum = (sum ^ uint64(c)) * 0x100000001b3
	}
	if s.Seed != nil {
		sum ^= mix(*s.Seed)
	}
	return mix(sum)
}

// golden is the step of SplitMix64, and mix its output function.
const golden = 0x9e3779b97f4a7c15

func mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
