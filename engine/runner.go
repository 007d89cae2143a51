package engine

import "context"

// Runner runs inner steps, such as those of `each`. It is safe for concurrent use.
//
// Run runs the steps over b, which the caller has made with [NewBatch]. Afterwards b.All yields the results in order,
// with splits and merges carried out, and b.Ended yields the messages that were dropped or have failed. A message that a
// step parks fails. Run returns the error of ctx.
type Runner interface {
	Run(ctx context.Context, b *Batch) error
}
