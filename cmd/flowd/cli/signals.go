package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"
)

var errSignal = errors.New("stopped by a signal")

// sameSignal is how long a repeated signal counts as one: GNU timeout, for instance, signals a process and then its group.
const sameSignal = 100 * time.Millisecond

// signals returns two contexts. The first SIGTERM or SIGINT, or the end of ctx, ends stop; a second signal ends kill.
// Until release is called, SIGPIPE does not end the process: a closed stdout becomes an error of the output, and
// messages in flight are settled.
func signals(ctx context.Context, con *console) (stop, kill context.Context, release func()) {
	stop, endStop := context.WithCancelCause(ctx)
	kill, endKill := context.WithCancelCause(context.WithoutCancel(ctx))
	caught := make(chan os.Signal, 2)
	pipe := make(chan os.Signal, 1)
	signal.Notify(caught, syscall.SIGTERM, syscall.SIGINT)
	signal.Notify(pipe, syscall.SIGPIPE) // child processes would inherit Ignore

	ended, quit := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		var first os.Signal
		select {
		case first = <-caught:
			fmt.Fprintf(con, "flowd: %v: draining; a second signal stops at once\n", first)
			endStop(errSignal)
		case <-quit:
			return
		}
		for began := time.Now(); ; {
			select {
			case s := <-caught:
				if s == first && time.Since(began) < sameSignal {
					continue
				}
				fmt.Fprintf(con, "flowd: %v again: stopping at once\n", s)
				endKill(errSignal)
			case <-quit:
			}
			return
		}
	}()
	return stop, kill, func() {
		signal.Stop(caught)
		signal.Stop(pipe)
		close(quit)
		<-ended
		endStop(nil)
		endKill(nil)
	}
}
