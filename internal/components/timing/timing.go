// Package timing waits: see [Sleep].
package timing

import (
	"context"
	"time"
)

// Sleep waits for d. If ctx ends first, it returns its error.
func Sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
	return ctx.Err()
}
