// Package generate generates messages, for tests, benchmarks and timers.
package generate

import (
	"context"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/doc"
	"github.com/flowd-io/flowd/engine/expr"
	"github.com/flowd-io/flowd/internal/components/schedule"
	"github.com/flowd-io/flowd/internal/components/timing"
)

// Config configures the input.
type Config struct {
	Body     expr.Body         `yaml:"body,main" check:"required" scope:"generate" doc:"Payload of each message; counter() and fake(kind) are available in it."`
	Count    int64             `yaml:"count" check:"min=0" doc:"Messages that each instance generates; 0 means no limit."`
	Interval schedule.Schedule `yaml:"interval" doc:"Time between messages: a duration, or a cron expression for when they are due: five fields or @yearly, @monthly, @weekly, @daily or @hourly, in UTC or, as in \"TZ=Europe/Zurich 0 2 * * *\", in a time zone; a time that its clocks skip is left out, one that they show twice comes twice. Without it, they are generated as fast as they are consumed."`
	Seed     int64             `yaml:"seed" doc:"Makes random numbers, IDs and fake() the same in every run."`
}

// Words returns what users of other systems may write, and what to write instead.
func (*Config) Words() map[string]string {
	return map[string]string{"mapping": "write `body`", "message": "write `body`", "every": "write `interval`"}
}

const about = `
Generates messages, as many and as often as you like.

Messages that fell due while none could be consumed are generated late, but only
those of the last second.

    inputs:
      ticks: {generate: {interval: 1s, body: '{"n": counter()}'}}
`

func init() {
	engine.Register(engine.Inputs, "generate", about, Config{}, newInput)
}

type input struct {
	schedule.Wait // for the next message
	cfg           Config
	constant      bool // the body is the same each time

	made int64 // messages

	src  source
	body []byte // of a constant
	due  time.Time

	free  []byte // empty; memory for bodies
	block int    // size of the last such block
	need  int    // what must be free for the next body
}

var _ engine.Scheduled = (*input)(nil)

func newInput(c Config, env engine.Env) (engine.Input, error) {
	in := &input{
		cfg: c,
		// A message has no fields here, so an expression without calls always has the same value.
		constant: !strings.Contains(c.Body.String(), "("),
	}
	in.src.doc.Reset([]byte("{}"), nil)
	in.src.shared = numbersOf(env)
	in.src.counters = engine.CountersOf(env.Shared, env.Pipeline)
	if c.Seed != 0 {
		in.src.rng = rand.New(rand.NewPCG(uint64(c.Seed), uint64(env.Index)))
	} else {
		in.src.rng = rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64()))
	}
	return in, nil
}

// numbering counts the messages of all instances of an input. The first instance of a build starts it again at 1.
type numbering struct{ newest atomic.Pointer[atomic.Int64] }

type numberingKey struct{ pipeline, input string }

func numbersOf(env engine.Env) *atomic.Int64 {
	n := engine.Common(env.Shared, numberingKey{env.Pipeline, env.Name}, func() *numbering { return &numbering{} })
	if env.Index == 0 || n.newest.Load() == nil {
		n.newest.Store(new(atomic.Int64))
	}
	return n.newest.Load()
}

// Read makes the messages that are due, and waits for the first of them.
func (in *input) Read(ctx context.Context, b *engine.Batch) (engine.Acker, error) {
	n := b.Room()
	if in.cfg.Count > 0 {
		n = int(min(int64(n), in.cfg.Count-in.made))
		if n == 0 {
			return nil, engine.ErrEnd
		}
	}
	if !in.cfg.Interval.IsZero() {
		n = in.pace(ctx, n)
	}
	for range n {
		in.add(b)
	}
	if in.cfg.Count > 0 && in.made == in.cfg.Count {
		return nil, engine.ErrEnd // now, because another Read may have to wait for a rate limit
	}
	return nil, ctx.Err()
}

// pace waits until a message is due, and returns how many are, up to most.
func (in *input) pace(ctx context.Context, most int) int {
	now := time.Now()
	if in.due.IsZero() {
		in.due = in.cfg.Interval.First(now)
	}
	if wait := in.due.Sub(now); wait > 0 {
		end := in.Begin(in.due)
		err := timing.Sleep(ctx, wait)
		if end(); err != nil {
			return 0
		}
		now = time.Now()
	} else if -wait > time.Second {
		in.due = in.cfg.Interval.Skip(in.due, now.Add(-time.Second))
	}
	n := 0
	for n < most && !in.due.After(now) {
		in.due = in.cfg.Interval.Next(in.due)
		n++
	}
	return n
}

const (
	firstBlock = 1 << 10 // enough for an input that makes one message a day
	block      = 64 << 10
	small      = 4 << 10 // bodies below share blocks
)

func (in *input) add(b *engine.Batch) {
	in.made++
	if in.constant && in.body != nil {
		b.Add(in.body)
		return
	}
	in.src.n = in.src.shared.Add(1)
	if cap(in.free) < in.need {
		in.block = min(max(2*in.block, firstBlock), block)
		in.free = make([]byte, 0, in.block)
	}
	body, err := in.cfg.Body.AppendBody(in.free, &in.src)
	if err != nil {
		b.Add(nil).Fail(err)
		return
	}
	in.need = min(len(body), small)
	if len(body) <= cap(in.free) {
		in.free = in.free[len(body):cap(in.free)][:0]
	}
	body = body[:len(body):len(body)]
	if in.constant {
		in.body = body
	}
	b.Add(body)
}

// source is what expressions in bodies see.
type source struct {
	doc      doc.Doc
	n        int64         // of the message
	shared   *atomic.Int64 // the last n of all instances
	rng      *rand.Rand
	counters *engine.Counters
}

var (
	_ engine.Counting = (*source)(nil)
	_ expr.Seeded     = (*source)(nil)
)

// Document has no fields.
func (s *source) Document() *doc.Doc { return &s.doc }

// Rand returns random numbers, from the seed if there is one.
func (s *source) Rand() *rand.Rand { return s.rng }

// Number returns the number of the message among those of all instances.
func (s *source) Number() int { return int(s.n) }

// Count counts with the pipeline's messages.
func (s *source) Count(name string) (int, error) { return s.counters.Next(name) }
