package programs

import (
	"context"
	"errors"
	"os/exec"
	"time"
)

// Grace is how long a program may take to end after it was asked to.
const Grace = 2 * time.Second

// Wait waits until a program that was set up by [Program.Prepare] has ended and its output is copied. It reaps the program's
// orphans meanwhile, and then ends everything that the program has left behind. It returns the error of [exec.Cmd.Wait],
// which [Program.Describe] describes.
func Wait(cmd *exec.Cmd, mark string) error {
	stop := reaping(cmd.Process.Pid)
	err := cmd.Wait()
	stop()
	if errors.Is(err, exec.ErrWaitDelay) {
		_ = Kill(cmd.Process) // other processes hold its output open
	}
	EndFamily(cmd.Process.Pid, mark)
	return err
}

// reaping reaps orphans of a program periodically until stop is called.
func reaping(pid int) (stop func()) {
	const every = 10 * time.Second
	end, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case <-end:
				return
			case <-time.After(every):
				ReapFamily(pid)
			}
		}
	}()
	return func() { close(end); <-ended }
}

// Stop ends a program: it calls ask, which closes the program's input or calls [Terminate], and then calls kill if done is
// not closed after [Grace], or when ctx ends. It returns when done is closed. If it is closed already, Stop does nothing. If
// not even kill helps, because the program hangs inside the system, Stop gives up after another Grace.
func Stop(ctx context.Context, done <-chan struct{}, ask, kill func()) {
	select {
	case <-done: // its process id may already be that of another process
		return
	default:
	}
	ask()
	wait := time.NewTimer(Grace)
	defer wait.Stop()
	select {
	case <-done:
		return
	case <-wait.C:
	case <-ctx.Done():
	}
	kill()
	wait.Reset(Grace)
	select {
	case <-done:
	case <-wait.C:
	}
}
