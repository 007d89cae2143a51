//go:build unix

package cli

import (
	"context"
	"os"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flowd-io/flowd/engine"
)

// TestSignalsDuringAReloadAreRemembered sends them as the runtime does: what finds no room is lost.
func TestSignalsDuringAReloadAreRemembered(t *testing.T) {
	const hup, stop, cont, usr1, ttin = syscall.SIGHUP, syscall.SIGTSTP, syscall.SIGCONT, syscall.SIGUSR1, syscall.SIGTTIN
	repeat := func(s os.Signal, more ...os.Signal) (all []os.Signal) {
		for range 99 {
			all = append(all, s)
		}
		return append(all, more...)
	}
	tests := []struct {
		name string
		send []os.Signal
		want engine.State
	}{
		{"the last one counts", repeat(ttin, stop, cont), engine.Running},
		{"be it followed by others", append([]os.Signal{cont, stop}, repeat(ttin)...), engine.Paused},
		{"a drain", repeat(cont, usr1, hup, ttin, usr1), engine.Stopped},
		{"a drain, and a reload after it", []os.Signal{ttin, usr1, hup}, engine.Running},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := steer(t, map[string]string{"slow.yaml": slow})
				ctx, end := context.WithCancel(t.Context())
				caught, done := make(chan os.Signal, 8), make(chan struct{})
				go func() { s.operate(ctx, caught); close(done) }()
				time.Sleep(time.Second)
				for _, x := range append([]os.Signal{hup}, tt.send...) {
					select {
					case caught <- x:
					default: // it is lost
					}
					synctest.Wait()
				}
				if x := s.shows("slow"); x.State != engine.Draining {
					t.Errorf("it is %s during the reload", x.State)
				}
				time.Sleep(9 * time.Second)
				if x := s.shows("slow"); x.State != tt.want {
					t.Errorf("it is %s, want %s", x.State, tt.want)
				}
				if n := strings.Count(s.says.String(), "flowd: slow: lanes: "); n != 1 {
					t.Errorf("it was told %d times what goes on:\n%s", n, s.says)
				}
				end()
				<-done
			})
		})
	}
}
