//go:build unix

package cli

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

// catch takes the signals for operate, other than those that stop, from now on: before the
// first message is read, none is lost and SIGHUP does not end the process.
func catch() chan os.Signal {
	caught := make(chan os.Signal, 8)
	signal.Notify(caught, syscall.SIGTSTP, syscall.SIGCONT, syscall.SIGUSR1, syscall.SIGHUP, syscall.SIGTTIN)
	return caught
}

// operate does what they ask for, until ctx ends: SIGTSTP pauses, SIGCONT resumes, SIGUSR1
// drains and stays, SIGHUP reloads, SIGTTIN prints what every stage is doing.
func (p *process) operate(ctx context.Context, caught chan os.Signal) {
	defer signal.Stop(caught)
	for {
		var s os.Signal
		select {
		case <-ctx.Done():
			return
		case s = <-caught:
		}
		var err error
		switch s {
		case syscall.SIGTSTP:
			err = p.Pause("")
		case syscall.SIGCONT:
			err = p.Resume("")
		case syscall.SIGUSR1:
			err = p.Drain("")
		case syscall.SIGHUP:
			err = p.Reload()
		case syscall.SIGTTIN:
			p.tell()
		}
		if err != nil {
			p.log.Error(s.String(), "err", err)
		}
	}
}
