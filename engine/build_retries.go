package engine

import (
	"cmp"
	"slices"
)

// retry resolves what is configured for a step or an output.
func (b *builder) retry(own *Retry) *retryPlan {
	r := cmp.Or(own, b.spec.Engine.OnFailure.Retry, &defaultRetry)
	if !slices.Contains(b.retries, r) {
		b.retries = append(b.retries, r)
	}
	if all := b.spec.Engine.OnFailure.Retry; own != nil && all != nil {
		full := own.Over(*all)
		r = &full
	}
	p := retryPlan(*r)
	p.Backoff = cmp.Or(p.Backoff, defaultRetry.Backoff)
	p.MaxBackoff = max(p.Backoff, cmp.Or(p.MaxBackoff, defaultRetry.MaxBackoff))
	return &p
}
