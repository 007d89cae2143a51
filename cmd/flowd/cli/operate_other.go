//go:build !unix

package cli

import (
	"context"
	"os"
)

// catch returns nil: this system has no such signals.
func catch() chan os.Signal { return nil }

// operate does nothing: this system has no such signals.
func (p *process) operate(context.Context, chan os.Signal) {}
