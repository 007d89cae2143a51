package engine

import (
	"errors"
	"fmt"
	"slices"
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
	key := fmt.Sprintf("limit:%s:%s:%s:%d", spec.Name, shared.Kind, shared.Key.String(), shared.MaxKeys)
	l := e.Shared.Get(key, func() any { return &sharedLimit{Limiter: NewLimiter(spec.Name, shared)} }).(*sharedLimit)
	l.configure(shared)
	return e.kept(l.Limiter), nil
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
