//go:build !unix

package daemon

import (
	"errors"
	"os"
)

func parent(string) Keep { return Keep{} }

func lock(string) (*os.File, error) { return nil, errors.ErrUnsupported }
