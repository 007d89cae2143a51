//go:build unix

package cli

import (
	"context"
	"os"
	"os/signal"
	"slices"
	"sync"
	"syscall"
)

// catch starts collecting the signals for operate. It runs before the first message is read, so that no signal is
// lost and SIGHUP does not end the process.
func catch() chan os.Signal {
	caught := make(chan os.Signal, 64)
	signal.Notify(caught, syscall.SIGTSTP, syscall.SIGCONT, syscall.SIGUSR1, syscall.SIGHUP, syscall.SIGTTIN)
	return caught
}

// operate obeys signals until ctx ends: SIGTSTP pauses, SIGCONT resumes, SIGUSR1 drains and stays, SIGHUP reloads,
// SIGTTIN prints what every stage is doing. It queues signals that arrive during a reload, which takes seconds.
func (p *process) operate(ctx context.Context, caught chan os.Signal) {
	var asked asked
	some := make(chan struct{}, 1) // room for one: asked is not empty
	var loop sync.WaitGroup
	defer loop.Wait()
	loop.Go(func() {
		defer signal.Stop(caught)
		for {
			select {
			case <-ctx.Done():
				return
			case s := <-caught:
				asked.add(s)
			}
			select {
			case some <- struct{}{}:
			default:
			}
		}
	})
	for {
		select {
		case <-ctx.Done():
			return
		case <-some:
		}
		for s := asked.next(); s != nil && ctx.Err() == nil; s = asked.next() {
			if err := p.obey(s); err != nil {
				p.log.Error(s.String(), "err", err)
			}
		}
	}
}

func (p *process) obey(s os.Signal) error {
	switch s {
	case syscall.SIGTSTP:
		return p.Pause("")
	case syscall.SIGCONT:
		return p.Resume("")
	case syscall.SIGUSR1:
		return p.Drain("")
	case syscall.SIGHUP:
		return p.Reload()
	case syscall.SIGTTIN:
		p.printStages()
	}
	return nil
}

// asked queues signals in the order of their last arrival. It stays short: it keeps a repeated signal once, and only
// the last of SIGTSTP, SIGCONT and SIGUSR1.
type asked struct {
	mu   sync.Mutex // guards list
	list []os.Signal
}

func (a *asked) add(s os.Signal) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.list = append(slices.DeleteFunc(a.list, func(was os.Signal) bool { return was == s || moves(was) && moves(s) }), s)
}

// next removes and returns the first signal, or nil.
func (a *asked) next() os.Signal {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.list) == 0 {
		return nil
	}
	s := a.list[0]
	a.list = a.list[1:]
	return s
}

// moves reports whether a signal pauses, resumes or drains.
func moves(s os.Signal) bool {
	return s == syscall.SIGTSTP || s == syscall.SIGCONT || s == syscall.SIGUSR1
}
