package runtime

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"cmp"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/internal/inside"
	"github.com/flowd-io/flowd/engine/internal/limit"
	"github.com/flowd-io/flowd/engine/internal/retry"
	"github.com/flowd-io/flowd/engine/internal/rules"
)

// limit makes a rate limit, or finds the shared one of its name.
func (b *builder) limit(spec *engine.RateLimit, name string) *limit.Limiter {
	if spec == nil {
		return nil
	}
	l, err := b.limiter(*spec, name)
	b.failed(spec.Place, err)
	if err != nil {
		return nil
	}
	return l
}

// limited calls with, for a keyed limit with a step that parks messages. Limits without a key need no step, since readers
// and writers apply them.
func (b *builder) limited(l *limit.Limiter, name string, with func(engine.Steps)) {
	if l == nil || !l.Keyed() {
		with(nil)
		return
	}
	with(engine.Steps{{Name: "rate_limit of " + name,
		Use: engine.Use(func(engine.Env) (engine.Processor, error) { return limit.Step(l), nil })}})
}

// limitKey identifies a shared limit.
type limitKey struct {
	name, kind, key string
	maxKeys         int
}

// sharedLimit is a limit that pipelines share by name. A reload may change its rate.
type sharedLimit struct {
	*limit.Limiter

	mu   sync.Mutex       // guards the field below
	rate engine.RateLimit // the latest configuration
}

func (l *sharedLimit) configure(spec engine.RateLimit) {
	l.mu.Lock()
	defer l.mu.Unlock()
	was := l.rate
	l.rate = spec
	if was.Messages != 0 && (was.Messages != spec.Messages || was.Per != spec.Per || was.Burst != spec.Burst) {
		l.Change(time.Now(), spec.Messages, spec.Per, spec.Burst, false)
	}
}

// limiter makes a rate limit for a place, or finds the shared one of its name. Named limits only exist in pipelines.
func (b *builder) limiter(spec engine.RateLimit, place string) (*limit.Limiter, error) {
	if b != nil && b.wrong[rules.Placed(spec.Place)] {
		return nil, inside.ErrReported
	}
	if spec.Name == "" {
		if err := valid(&spec); err != nil {
			return nil, err
		}
		return b.kept(limit.NewLimiter(place, spec)), nil
	}
	if spec.Messages != 0 || spec.Per != 0 || spec.Burst != 0 || !spec.Key.IsZero() {
		return nil, fmt.Errorf("rate limit %q is defined elsewhere (give only `name`, or leave it out)", spec.Name)
	}
	if b == nil {
		return nil, fmt.Errorf("there is no rate limit %q: named limits only exist in pipelines", spec.Name)
	}
	shared, ok := b.options.Limits[spec.Name]
	if !ok {
		return nil, fmt.Errorf("there is no rate limit %q (define it under `resources.rate_limits`)", spec.Name)
	}
	if shared.Name != "" {
		return nil,
			fmt.Errorf("rate limit %q is only another name (give it `messages` and `per` under `resources.rate_limits`)", spec.Name)
	}
	if err := valid(&shared); err != nil {
		return nil, fmt.Errorf("rate limit %q: %w", spec.Name, err)
	}
	key := limitKey{spec.Name, shared.Kind, shared.Key.String(), shared.MaxKeys}
	l := engine.Common(b.env.Shared, key, func() *sharedLimit {
		return &sharedLimit{Limiter: limit.NewLimiter(spec.Name, shared)}
	})
	l.configure(shared)
	return b.kept(l.Limiter), nil
}

// kept adds a limit to those that the plan shows.
func (b *builder) kept(l *limit.Limiter) *limit.Limiter {
	if b != nil && !slices.Contains(b.plan.Limits, l) {
		b.plan.Limits = append(b.plan.Limits, l)
	}
	return l
}

// valid returns an error if a rate limit without a name is not valid.
func valid(s *engine.RateLimit) error {
	switch {
	case s.Messages < 1 || s.Per <= 0:
		return errors.New("a rate limit needs `messages` and `per` (or the name of one of `resources.rate_limits`)")
	case s.Burst > 0 && s.Kind != "bucket":
		return errors.New("`burst` is for a bucket: a window lets all of its messages pass at once (add `kind: bucket`, or remove it)")
	}
	return nil
}

// retry resolves the retry of a step or an output: each takes what it omits from the next, and the last one from
// engine.on_failure. nil has no fields.
func (b *builder) retry(from ...*engine.Retry) *retry.Plan {
	from = slices.DeleteFunc(append(from, b.spec.Engine.OnFailure.Retry), func(r *engine.Retry) bool { return r == nil })
	if len(from) == 0 {
		from = append(from, &defaultRetry)
	}
	if !slices.Contains(b.retries, from[0]) {
		b.retries = append(b.retries, from[0])
	}
	r := engine.Inherited(from...)
	p := retry.Plan(r)
	p.Backoff = cmp.Or(p.Backoff, defaultRetry.Backoff)
	p.MaxBackoff = max(p.Backoff, cmp.Or(p.MaxBackoff, defaultRetry.MaxBackoff))
	return &p
}

// defaultRetry applies where no retry is configured. The tags of engine.Retry have the same values.
var defaultRetry = engine.Retry{MaxAttempts: 5, Backoff: 200 * time.Millisecond, MaxBackoff: 30 * time.Second}
