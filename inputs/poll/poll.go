// Package poll reads from several sources at once and divides the free slots of the
// pipeline among them. Start at [input]: deal.go decides which source may read, source.go
// is the goroutine of one source, listing.go finds sources by a pattern.
package poll

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/flowd-io/flowd/engine/polling"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/schema"
)

// Config configures the input.
type Config struct {
	Strategy   polling.Name           `yaml:"strategy" doc:"Which source gets free slots: weighted_round_robin, strict_priority, or a strategy that a Go program registers."`
	EmptyPause time.Duration          `yaml:"empty_pause" check:"min=0" doc:"How long to leave a source alone that had no messages. A source that immediately answers that it has none is asked at most ten times a second in any case."`
	Refresh    time.Duration          `yaml:"refresh" check:"min=1s" doc:"How often sources that select their queues by a pattern look for new ones."`
	Sources    schema.Map[sourceSpec] `yaml:"sources" check:"required,nonempty" doc:"Sources by name: an input and its weight each."`
}

type sourceSpec struct {
	Use    engine.Plugin[engine.Input] `yaml:",variant"`
	Weight int                         `yaml:"weight" check:"min=1,max=1000" default:"1" doc:"Share of the slots, or rank, depending on the strategy."`
}

// Words returns what users of other systems may write, and what to write instead.
func (*Config) Words() map[string]string {
	return map[string]string{"queues": "write `sources`", "polling_strategy": "write `strategy`",
		"delay": "write `empty_pause`", "inputs": "write `sources`"}
}

// Traits says how many messages all sources give together.
func (c Config) Traits() (t engine.Traits) {
	for _, s := range c.Sources.All() {
		n := engine.TraitsOf(s.Use.Config).Unsettled
		if n == 0 {
			return engine.Traits{}
		}
		t.Unsettled += n
	}
	return t
}

// Polling is the part of the configuration that determines the order.
func (c Config) Polling() polling.Plan {
	p := polling.Plan{Strategy: c.Strategy, EmptyPause: c.EmptyPause}
	for name, s := range c.Sources.All() {
		p.Sources = append(p.Sources, &polling.Source{Name: name, Weight: max(1, s.Weight)})
	}
	return p
}

const about = `
Reads from several sources at once and divides free slots among them.

Each source has its own poller, so one that waits a long time for a message does not
hold up the others. A source reads only when the strategy gives it some of the
pipeline's free slots (engine.max_in_flight): with few free slots, the strategy decides
what is read; with many, all sources read as fast as they can.

weighted_round_robin gives slots in turn, smoothly and in proportion to weight: with
weights 3 and 1, the order is a a b a. strict_priority gives all slots to the source
with the highest weight that has messages; among equal weights, to the one written
first. A source that had no messages, or has not answered for a few times as long as
usual (20 to 250ms), does not hold up lower ones. flowd simulate prints the order.

A source that fails is restarted alone, after a back-off; the others continue. A source
whose input selects queues by a pattern includes all that match; it looks for new ones
every refresh.

A source can be any input that flowd reads from, but not one that others push to. All
must take messages back in the same way.

Metadata: source, the name of the source, and the metadata of its input.

    inputs:
      work:
        poll:
          empty_pause: 10s
          sources:
            critical: {weight: 3, file: {path: critical.ndjson, follow: true}}
            bulk: {weight: 1, file: {path: bulk.ndjson, follow: true}}
`

func init() {
	engine.Register(engine.Inputs, "poll", about, Config{Strategy: weighted, Refresh: time.Minute}, newInput)
}

func newInput(c Config, env engine.Env) (engine.Input, error) {
	strategy, err := c.Strategy.New(env)
	if err != nil {
		return nil, err
	}
	in := newPoll(strategy, env)
	in.pause, in.refresh = c.EmptyPause, cmp.Or(c.Refresh, time.Minute)
	var errs []error
	for name, spec := range c.Sources.All() {
		own := env
		own.Name = env.Name + "." + name
		own.Log = env.Log.With("source", name)
		part, err := spec.Use.Build(own)
		if err == nil {
			err = in.add(name, max(1, spec.Weight), part)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("source %s: %w", name, err))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return in, nil
}

// add adds a source.
func (in *input) add(name string, weight int, part engine.Input) error {
	t := engine.TraitsOf(part)
	switch {
	case t.Follows != "":
		return errors.New("it ends with its writers, so it can't be polled (give it its own entry in `inputs`)")
	case t.Ahead:
		return errors.New("it reads ahead by itself, so it can't be polled (give it its own entry in `inputs`)")
	case t.Pushed:
		return errors.New("messages are pushed to it, so it can't be polled (give it its own entry in `inputs`)")
	}
	if first := len(in.sources)+len(in.listings) == 0; first {
		in.traits = engine.Traits{TakesBack: t.TakesBack, AcksEarly: t.AcksEarly, Delays: t.Delays, OrderBy: t.OrderBy}
	}
	switch {
	case t.TakesBack != in.traits.TakesBack:
		return fmt.Errorf("its source takes back %s, the first one %s: what becomes of failed messages differs "+
			"(give it an entry of `inputs` of its own)", taking[t.TakesBack], taking[in.traits.TakesBack])
	case t.AcksEarly != in.traits.AcksEarly:
		return errors.New("it differs from the first source in early_ack (give it its own entry in `inputs`)")
	}
	in.traits.Delays = min(in.traits.Delays, t.Delays)
	in.traits.OrderBy = cmp.Or(in.traits.OrderBy, t.OrderBy)
	if l, ok := part.(engine.Lister); ok {
		in.listings = append(in.listings, &listing{name: name, weight: weight, lister: l, at: len(in.sources)})
		return nil
	}
	in.insert(len(in.sources), in.newSource(name, name, weight, part))
	return nil
}

var taking = map[engine.TakesBack]string{engine.TakesNothing: "nothing", engine.TakesOne: "single messages",
	engine.TakesPosition: "a position"}

// Traits returns what all sources take back and when they get results, the longest delay of a message that all of them support, and
// the order of the first source that keeps one.
func (in *input) Traits() engine.Traits { return in.traits }

// opened calls Open, if there is one, with a deadline, and turns a panic into an error.
func opened(ctx context.Context, part engine.Input) error {
	if o, ok := part.(engine.Opener); ok {
		return within(ctx, o.Open)
	}
	return nil
}

func closed(ctx context.Context, part engine.Input) error {
	if c, ok := part.(engine.Closer); ok {
		return within(ctx, c.Close)
	}
	return nil
}

// callTime is the deadline of a call other than Read.
const callTime = 30 * time.Second

func within(ctx context.Context, call func(context.Context) error) (err error) {
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	defer recovered(&err)
	return call(ctx)
}

func recovered(err *error) {
	if p := recover(); p != nil {
		*err = engine.Errorf(engine.Panicked, "panic: %v", p)
	}
}
