package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

// Limiter is the rate limit that a step's configuration asks for: one of
// `resources.rate_limits`, shared by all who name it, or one of the step's own. It is
// refused where messages can't wait.
func (e Env) Limiter(spec RateLimit) (*Limiter, error) {
	if e.builder != nil && e.builder.inner {
		return nil, errors.New("messages can't wait inside another step (write this under the pipeline's `processors`, or use the `rate_limit` of an input or output)")
	}
	return e.limiter(spec, "step "+e.Name)
}

// limiter is Limiter for a place.
func (e Env) limiter(spec RateLimit, place string) (*Limiter, error) {
	if e.builder != nil && e.builder.wrong[placed(spec.Place)] {
		return nil, errReported
	}
	if spec.Name == "" {
		if err := spec.valid(); err != nil {
			return nil, err
		}
		return e.kept(NewLimiter(place, spec)), nil
	}
	if spec.Messages != 0 || spec.Per != 0 || spec.Burst != 0 || !spec.Key.IsZero() {
		return nil, fmt.Errorf("rate limit %q is defined elsewhere (give `name` alone, or leave it out)", spec.Name)
	}
	if e.builder == nil {
		return nil, fmt.Errorf("there is no rate limit %q: those with names belong to pipelines", spec.Name)
	}
	shared, ok := e.builder.options.Limits[spec.Name]
	if !ok {
		return nil, fmt.Errorf("there is no rate limit %q (define it under `resources.rate_limits`)", spec.Name)
	}
	if shared.Name != "" {
		return nil, fmt.Errorf("rate limit %q is only another name (give it `messages` and `per` under `resources.rate_limits`)", spec.Name)
	}
	if err := shared.valid(); err != nil {
		return nil, fmt.Errorf("rate limit %q: %w", spec.Name, err)
	}
	key := limitKey{spec.Name, shared.Kind, shared.Key.String(), shared.MaxKeys}
	l := Common(e.Shared, key, func() *sharedLimit { return &sharedLimit{Limiter: NewLimiter(spec.Name, shared)} })
	l.configure(shared)
	return e.kept(l.Limiter), nil
}

// limitKey is what makes a shared limit another one.
type limitKey struct {
	name, kind, key string
	maxKeys         int
}

// sharedLimit is a limit that pipelines share by name. A reload may change its rate.
type sharedLimit struct {
	*Limiter

	mu   sync.Mutex // guards the field below
	rate RateLimit  // as it was configured last
}

func (l *sharedLimit) configure(spec RateLimit) {
	l.mu.Lock()
	defer l.mu.Unlock()
	was := l.rate
	l.rate = spec
	if was.Messages != 0 && (was.Messages != spec.Messages || was.Per != spec.Per || was.Burst != spec.Burst) {
		l.Change(time.Now(), spec.Messages, spec.Per, spec.Burst, false)
	}
}

// kept takes down the limits of a plan, for operators.
func (e Env) kept(l *Limiter) *Limiter {
	if e.builder != nil && !slices.Contains(e.builder.plan.limits, l) {
		e.builder.plan.limits = append(e.builder.plan.limits, l)
	}
	return l
}

// valid says what is wrong with a rate limit that has no name.
func (s *RateLimit) valid() error {
	switch {
	case s.Messages < 1 || s.Per <= 0:
		return errors.New("a rate limit needs `messages` and `per` (or the name of one of `resources.rate_limits`)")
	case s.Burst > 0 && s.Kind != "bucket":
		return errors.New("`burst` is for a bucket: a window lets all of its messages pass at once (add `kind: bucket`, or remove it)")
	}
	return nil
}

// limit makes a rate limit, or finds the shared one of its name.
func (b *builder) limit(spec *RateLimit, name string) *Limiter {
	if spec == nil {
		return nil
	}
	l, err := b.named(name).limiter(*spec, name)
	b.failed(spec.Place, err)
	if err != nil {
		return nil
	}
	return l
}

// limited calls with, with the step that parks messages for a keyed limit, or
// with none: an unkeyed one is kept where messages are read or written.
func (b *builder) limited(l *Limiter, name string, with func(Steps)) {
	if l == nil || !l.Keyed() {
		with(nil)
		return
	}
	with(Steps{{Name: "rate_limit of " + name, Use: Use(func(Env) (Processor, error) { return limitStep{l}, nil })}})
}

// LimitStep makes the step that keeps a rate limit: messages whose time has not come
// wait beside the lanes.
func LimitStep(l *Limiter) Processor { return limitStep{l} }

type limitStep struct{ limit *Limiter }

// Process lets those messages wait whose time has not come.
func (s limitStep) Process(_ context.Context, b *Batch) error {
	now := time.Now()
	pass := 0 // at once, without a look at each
	if !s.limit.Keyed() {
		for range b.All() {
			pass++
		}
		pass = s.limit.Take(now, pass)
	}
	var buf []byte
	for m := range b.All() {
		if pass > 0 {
			pass--
			continue
		}
		key, ok, err := s.limit.AppendKey(buf[:0], m)
		if err != nil {
			m.Fail(err)
			continue
		}
		buf = key
		if !ok {
			key = nil
		}
		if wait := s.limit.Reserve(now, key); wait > 0 {
			m.Delay(wait)
		}
	}
	return nil
}

// pause waits for d; false: ctx ended before.
func pause(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
