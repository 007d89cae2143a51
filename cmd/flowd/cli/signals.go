package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

var errSignal = errors.New("stopped by a signal")

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
		select {
		case s := <-caught:
			fmt.Fprintf(con, "flowd: %v: draining; a second signal stops at once\n", s)
			endStop(errSignal)
		case <-quit:
			return
		}
		select {
		case s := <-caught:
			fmt.Fprintf(con, "flowd: %v again: stopping at once\n", s)
			endKill(errSignal)
		case <-quit:
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
