// Package flock has files belong to one process at a time, for as long as it lives,
// where the system can do that.
package flock

import "errors"

// ErrHeld says that another open file has the lock, in this process or another.
var ErrHeld = errors.New("is locked by another process")
