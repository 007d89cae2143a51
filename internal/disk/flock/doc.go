// Package flock has files belong to one process at a time, for as long as it lives,
// where the system can do that. It locks files that are open already, as libraries do
// not: what takes the place of a locked file is locked before it does.
package flock

import "errors"

// ErrHeld says that another open file has the lock, in this process or another.
var ErrHeld = errors.New("is locked by another process")
