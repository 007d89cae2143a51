package engine

import "context"

// Runner runs inner steps: those of `each`, for example. It is safe for
// concurrent use.
//
// Run runs the steps over b, which the caller has made with [NewBatch]. Splits and merges
// are carried out in place: afterwards b.All yields the results, in order, and b.Ended what
// was dropped or has failed. A step that parks a message fails it. The error is that of
// ctx.
type Runner interface {
	Run(ctx context.Context, b *Batch) error
}
