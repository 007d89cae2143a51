// Package timing waits for some time: see [Sleep].
package timing

import (
	"context"
	"time"
)

// Sleep waits for d, or until ctx ends, whose error it returns then.
func Sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
	return ctx.Err()
}
