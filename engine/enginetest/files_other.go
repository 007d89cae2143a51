//go:build !unix

package enginetest

import "errors"

// limitFiles would bound the size of the files that this process writes.
func limitFiles(int64) error { return errors.ErrUnsupported }
