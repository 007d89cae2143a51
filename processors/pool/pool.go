// Package pool is the processor `pool`: it runs steps on a pool of workers, in this process or elsewhere. Package
// internal/pool manages jobs, and its hub and worker carry them to other processes.
package pool

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/components/inner"
	"github.com/flowd-io/flowd/internal/pool"
	"github.com/flowd-io/flowd/internal/pool/wire"
	"github.com/flowd-io/flowd/schema"
)

// Config configures the pool processor.
type Config struct {
	Name       string        `yaml:"name" check:"required" doc:"Name of the pool: letters, digits, _ and -. Workers join it by its name."`
	Workers    workers       `yaml:"workers" check:"required" doc:"Slots in this process, or remote."`
	Lease      time.Duration `yaml:"lease" check:"min=100ms" doc:"Time without a heartbeat after which a remote worker loses its jobs, and after which a worker drops the jobs of a hub. It does not apply to slots in this process."`
	Timeout    time.Duration `yaml:"timeout" check:"min=1ms" doc:"Time limit for one attempt of a job after a worker has taken it, and for a job's wait while the pool has no worker; engine.timeout by default."`
	Retries    int           `yaml:"retries" check:"min=-1" doc:"Attempts after the first; -1 means no limit."`
	RetryOn    []string      `yaml:"retry_on" check:"oneof=lost|timeout|error" doc:"Which failures are retried: lost (the worker is gone), timeout, error (a step failed the message)."`
	MaxPending int           `yaml:"max_pending" check:"min=1" doc:"Jobs that wait for workers or are being processed at once; further messages wait in this process."`
	Do         wire.Steps    `yaml:"do" check:"required" doc:"The steps."`
}

// workers is the number of slots in this process; 0: workers are elsewhere.
type workers int

// UnmarshalConfig decodes a number or `remote`.
func (w *workers) UnmarshalConfig(d *schema.Decoder, n *schema.Node) {
	if n.Kind == schema.TextNode {
		switch text, ok := d.Text(n); {
		case !ok:
			return
		case text == "remote":
			*w = remote
			return
		case strings.Trim(text, "0123456789") != "":
			d.Report(n, schema.Problem{Code: schema.BadValue,
				Message: fmt.Sprintf("%q is not a valid number of workers", text),
				Remedy:  "write a number, for slots in this process, or remote"})
			return
		}
	}
	if d.Decode(n, (*int)(w)) && *w < 1 {
		d.Report(n, schema.Problem{Code: schema.BadValue, Message: "must be at least 1"})
	}
}

const remote workers = -1

// MarshalText formats the number.
func (w workers) MarshalText() ([]byte, error) {
	if w == remote {
		return []byte("remote"), nil
	}
	return strconv.AppendInt(nil, int64(w), 10), nil
}

// DescribeConfig describes a number or remote.
func (w *workers) DescribeConfig() *schema.Type {
	return schema.AnyOf("number or remote", 1, schema.Words{"remote"})
}

// Traits reports that the pool itself handles timeout and retries.
func (Config) Traits() engine.Traits { return engine.Traits{TriesItself: true} }

// CheckConfig reports an invalid name.
func (c *Config) CheckConfig(report func(path, message, remedy string)) {
	if !wire.GoodName(c.Name) {
		report("name", fmt.Sprintf("%q is not a valid pool name", c.Name), "write letters, digits, _ and -")
	}
}

// Words returns words of other systems, with what to write instead.
func (*Config) Words() map[string]string {
	return map[string]string{"size": "write `workers`", "slots": "write `workers`", "concurrency": "write `workers`",
		"steps": "write `do`", "processors": "write `do`",
		"max_attempts": "write `retries`, which does not count the first attempt",
		"retry":        "write `retries` and `retry_on`; or `retry` on the step, beside `pool`"}
}

const help = `
Runs steps on a pool of workers: a number of slots in this process or, with workers:
remote, other processes that join it, on this machine or others. Use it for slow steps;
the other steps continue meanwhile.

    processors:
      - pool:
          name: embed
          workers: remote
          timeout: 30s
          do:
            - exec: {command: [./model]}

    service:
      cluster: {listen: "127.0.0.1:5019"}

On other machines: flowd worker --join HOST:5019 --pool embed --slots 4. Workers get the
steps from this process, and need no file of their own. Each free slot takes one job: a
message or, in batch steps and groups, a whole batch. It comes back edited, filtered or
failed, with its metadata; a batch may also come back split or merged.

If nothing is heard from a worker for a lease, its job is given to another. retries limits
how often a job is retried, in the cases that retry_on names; an error of a step is
returned as it is, with its class. A job that is given up fails its message, as in any
step. A retry on the step, beside pool, starts over.

Order by key is preserved: the next message of a key waits for the one before.

Steps that keep state between messages or use resources can't run remotely: cache, dedupe,
geoip, metric, rate_limit, state, and decode and encode with a registry. Neither can expressions
with env(), counter() or lookup() (a let can send their values along), or with functions that only
this build has; workers must run the same version of flowd.
`

var defaults = Config{Lease: 3 * time.Second, Retries: 2, RetryOn: []string{pool.Lost, pool.TimedOut}, MaxPending: 4096}

func init() { engine.Register(engine.Processors, "pool", help, defaults, build) }

// notRemote lists steps that do not work in another process, with what to do instead.
var notRemote = map[string]string{
	"pool":  "write one pool after the other",
	"cache": "write it beside the pool", "dedupe": "write it before the pool",
	"metric": "write it after the pool", "rate_limit": "write it before the pool",
	"state": "write it beside the pool",
	"geoip": "write it before or after the pool",
}

func build(c Config, env engine.Env) (engine.Processor, error) {
	s := &step{whole: env.Whole, waits: env.Whole || env.Inside}
	policy := pool.Policy{Name: c.Name, Timeout: c.Timeout, Retries: c.Retries, RetryOn: c.RetryOn,
		MaxPending: c.MaxPending}
	if policy.Timeout == 0 {
		policy.Timeout = max(env.Timeout, time.Millisecond)
	}
	process := wire.Of(env.Shared)
	if c.Workers == remote && !process.Rehearsal {
		used, err := c.Do.Steps.Check(env)
		if err != nil {
			return nil, err
		}
		for _, name := range used {
			if remedy := notRemote[name]; remedy != "" {
				return nil, fmt.Errorf("%s can't run in another process (%s)", name, remedy)
			}
		}
		if c.Do.Bound != "" {
			return nil, fmt.Errorf("%s() can't be called in another process (keep its value in a `let` before the pool: vars go with the message)",
				c.Do.Bound)
		}
		if process.Config == nil {
			return nil,
				errors.New("there is no address for workers to join (write `service: {cluster: {listen: 127.0.0.1:" +
					wire.Port + "}}`)")
		}
		stage, err := c.Do.Stage(env.Whole, env.Timeout)
		if err != nil {
			return nil, err
		}
		stage.Lease, stage.Timeout = c.Lease, policy.Timeout
		if s.hub, err = wire.HubOf(env.Shared); err != nil {
			return nil, err
		}
		s.start = func(ctx context.Context) (err error) {
			s.pool, err = s.hub.Open(ctx, policy, stage, env)
			return err
		}
		return s, nil
	}
	slots := int(c.Workers)
	if c.Workers == remote {
		slots = 1
	}
	steps, used, err := c.Do.Steps.BuildNamed(env)
	if err != nil {
		return nil, err
	}
	if c.Retries != 0 && slices.Contains(used, "dedupe") {
		return nil,
			errors.New("dedupe would drop the second attempt of a message as a duplicate (write it before the pool, or set `retries: 0`)")
	}
	if slices.Contains(used, "state") {
		return nil, errors.New("state can't tell which attempt of a message counts (write it before or after the pool)")
	}
	s.slots = slots
	s.start = func(context.Context) error {
		s.pool = pool.New(policy, slots, func(p *pool.Pool) pool.Transport { return pool.NewLocal(p, steps, slots) })
		return nil
	}
	return s, nil
}

type step struct {
	slots int  // in this process; 0: workers are elsewhere
	whole bool // a job is a whole batch
	waits bool // Process waits for answers, where messages can't park
	start func(context.Context) error
	hub   wire.Hub // nil: slots in this process
	pool  *pool.Pool
}

var (
	_ engine.Opener   = (*step)(nil)
	_ engine.Closer   = (*step)(nil)
	_ engine.Traited  = (*step)(nil)
	_ engine.Troubled = (*step)(nil)
	_ engine.Pooled   = (*step)(nil)
)

// Traits returns the traits of the configuration.
func (*step) Traits() engine.Traits { return Config{}.Traits() }

// Trouble reports a pool whose workers don't receive its jobs.
func (s *step) Trouble() *engine.Trouble {
	if s.hub == nil {
		return nil
	}
	return s.hub.Trouble(s.pool)
}

// Pool returns the state of the jobs and workers.
func (s *step) Pool() (x engine.PoolState) {
	if s.hub == nil {
		x.Slots = s.slots
		x.InFlight, x.Waiting = s.pool.Counts()
		x.InFlight = min(x.InFlight, x.Slots) // others wait for a slot
		return x
	}
	of := s.hub.State(s.pool)
	x.InFlight, x.Waiting = of.InFlight, of.Waiting
	for _, m := range of.Members {
		x.Slots += m.Slots
		x.Workers = append(x.Workers, engine.WorkerState{Name: m.Name, Version: m.Version, Slots: m.Slots, Busy: m.Busy, Heard: m.Heard,
			Refused: m.Refused})
	}
	return x
}

// Open makes the pool. For the first remote pool, it starts to listen.
func (s *step) Open(ctx context.Context) error { return s.start(ctx) }

// Close ends jobs that nobody waits for any more.
func (s *step) Close(ctx context.Context) error {
	if s.hub != nil {
		return s.hub.Close(ctx, s.pool)
	}
	s.pool.Close()
	return nil
}

// Process hands messages to the pool. If they can't park, it waits for them.
func (s *step) Process(ctx context.Context, b *engine.Batch) error {
	of := slices.Collect(b.All())
	switch {
	case len(of) == 0:
	case s.whole:
		r, err := s.wait(ctx, s.submit(of))
		if err != nil {
			return err
		}
		r.All(b, of)
	case s.waits:
		var answers []*answer
		for i := range of {
			answers = append(answers, s.submit(of[i:i+1]))
		}
		for i, a := range answers {
			if r, err := s.wait(ctx, a); err != nil {
				of[i].Fail(err)
			} else if err := r.One(of[i]); err != nil {
				of[i].Fail(err)
			}
		}
	default:
		for i := range of {
			s.park(of[i : i+1])
		}
	}
	return nil
}

// park continues the only message of a job when the job is done.
func (s *step) park(of []*engine.Message) {
	jobs := frozen(of)
	resume := of[0].Park()
	s.pool.Submit(jobs, func(r *pool.Result, err error) {
		resume(func(m *engine.Message) error {
			if err != nil {
				return err
			}
			return r.One(m)
		})
	})
}

// answer is the outcome of a call.
type answer struct {
	call *pool.Call
	done chan struct{}
	r    *pool.Result
	err  error
}

func (s *step) submit(of []*engine.Message) *answer {
	a := &answer{done: make(chan struct{})}
	a.call = s.pool.Submit(frozen(of), func(r *pool.Result, err error) {
		a.r, a.err = r, err
		close(a.done)
	})
	return a
}

func (s *step) wait(ctx context.Context, a *answer) (*pool.Result, error) {
	select {
	case <-ctx.Done():
		s.pool.Cancel(a.call, context.Cause(ctx))
	case <-a.done:
	}
	<-a.done
	return a.r, a.err
}

// frozen copies messages into a batch that nothing changes.
func frozen(of []*engine.Message) *engine.Batch {
	b := inner.Copy(of)
	inner.Freeze(b)
	return b
}
