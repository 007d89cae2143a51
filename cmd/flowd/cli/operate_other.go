//go:build !unix

package cli

import (
	"context"
	"os"
)

// catch has no signals to take on this system.
func catch() chan os.Signal { return nil }

// operate has no signals to wait for.
func (p *process) operate(context.Context, chan os.Signal) {}
