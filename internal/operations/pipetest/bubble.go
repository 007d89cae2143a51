package pipetest

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/flowd-io/flowd/internal/components/programs"
)

// errHangs is the error of a bubble that is deadlocked.
var errHangs = errors.New("the pipeline hangs: everything left waits for something that never happens")

// bubble runs f in virtual time. The clock begins at 2000-01-01T00:00:00Z, and advances only while everything waits.
// Goroutines that f leaves behind never run again.
//
// Package synctest needs a *testing.T. A zero one is enough: it prints nothing and registers no flags. The package's
// tests check that this remains true.
func bubble(f func()) (err error) {
	var done atomic.Bool
	defer func() {
		p := recover()
		switch text := fmt.Sprint(p); {
		case p == nil || done.Load():
		case strings.HasPrefix(text, "deadlock:"):
			err = errHangs
		default:
			err = fmt.Errorf("panic: %s", text)
		}
	}()
	programs.Detach()
	synctest.Test(new(testing.T), func(*testing.T) {
		defer func() {
			if p := recover(); p != nil {
				err = fmt.Errorf("panic: %v", p)
			}
			done.Store(true)
		}()
		f()
	})
	return err
}
