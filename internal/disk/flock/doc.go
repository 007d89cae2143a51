// Package flock lets one process at a time use a file, for as long as the process lives, on systems with file locks.
// Unlike libraries, it locks files that are already open: a file that replaces a locked one is locked before it does.
package flock

import "errors"

// ErrHeld means that another open file holds the lock, in this process or another.
var ErrHeld = errors.New("is locked by another process")
