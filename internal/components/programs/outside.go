package programs

import "sync"

// detached has the goroutine that runs functions for Outside; no channels: Detach was not called.
var detached struct {
	mu    sync.Mutex // held during a call
	calls chan func()
	done  chan struct{}
}

// Detach makes Outside leave the bubbles of testing/synctest that are entered later, for `flowd test`. It is called outside of
// any bubble, while no program runs. Calls after the first have no effect.
var Detach = sync.OnceFunc(func() {
	detached.calls, detached.done = make(chan func()), make(chan struct{})
	go func() {
		for f := range detached.calls {
			f()
			detached.done <- struct{}{}
		}
	}()
})

// Outside calls f. After [Detach], f and the goroutines that it starts run in real time. In a bubble, goroutines that only wait
// for a program would otherwise stop virtual time.
func Outside(f func()) {
	if detached.calls == nil {
		f()
		return
	}
	detached.mu.Lock()
	defer detached.mu.Unlock()
	detached.calls <- f
	<-detached.done
}
