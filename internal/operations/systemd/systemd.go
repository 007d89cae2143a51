// Package systemd tells systemd what a process is doing: ready, reloading, stopping, alive. Outside of a unit with
// Type=notify it does nothing. Start at [Notifier].
package systemd

import (
	"context"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/operations/service"
)

// Notifier sends the notifications of one process. Its methods may be called from several goroutines at once. The zero
// value is not usable: see [New].
type Notifier struct {
	snapshots func() []engine.Snapshot
	log       *slog.Logger

	mu     sync.Mutex // guards the fields below; held while a notification is sent, so that they keep their order
	ready  bool
	status string
	failed bool // the last notification could not be sent
}

// New makes a notifier for a process whose pipelines snapshots returns.
func New(snapshots func() []engine.Snapshot, log *slog.Logger) *Notifier {
	return &Notifier{snapshots: snapshots, log: log}
}

// look is how often the state of a process that is not ready yet is looked at.
const look = 100 * time.Millisecond

// Run reports until ctx ends: READY=1 once [service.Ready] holds, STATUS= when it changes, and WATCHDOG=1
// twice per WatchdogSec while [service.Live] holds. At the end it sends STOPPING=1, after READY=1 if that was not sent: a
// process that has ended before it was ready has not failed.
func (n *Notifier) Run(ctx context.Context) {
	if os.Getenv("NOTIFY_SOCKET") == "" {
		return
	}
	var feed <-chan time.Time // nil: there is no watchdog
	watchdog, err := daemon.SdWatchdogEnabled(false)
	if err != nil {
		n.log.Warn("systemd's watchdog is not fed (correct WatchdogSec in the unit)", "error", err)
	}
	if watchdog > 0 {
		t := time.NewTicker(watchdog / 2)
		defer t.Stop()
		feed = t.C
		n.feed()
	}
	tick := time.NewTicker(look)
	defer tick.Stop()
	for {
		if n.report(n.snapshots()) {
			tick.Reset(time.Second)
		}
		select {
		case <-ctx.Done():
			n.stopping()
			return
		case <-feed:
			n.feed()
		case <-tick.C:
		}
	}
}

// feed tells the watchdog that the process is alive, if it is.
func (n *Notifier) feed() {
	if service.Live(n.snapshots()).Status != "ok" {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.send(daemon.SdNotifyWatchdog)
}

func (n *Notifier) stopping() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.ready {
		n.send(daemon.SdNotifyReady)
	}
	n.send(daemon.SdNotifyStopping)
}

// report sends what has changed: that the process is ready for the first time, which it returns, and what is wrong with it.
func (n *Notifier) report(all []engine.Snapshot) (becameReady bool) {
	status := strconv.Itoa(len(all)) + " pipelines"
	if len(all) == 1 {
		status = "1 pipeline"
	}
	health := service.Ready(all)
	if len(health.Checks) > 0 {
		c := health.Checks[0]
		status += ", " + strings.TrimSpace(c.Pipeline+" "+c.Component) + ": " + c.Indicator
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	var lines []string
	if becameReady = !n.ready && health.Status == "ok"; becameReady {
		n.ready = true
		lines = append(lines, daemon.SdNotifyReady)
	}
	if status != n.status {
		n.status = status
		lines = append(lines, "STATUS="+status)
	}
	if len(lines) > 0 {
		n.send(lines...)
	}
	return becameReady
}

// Reload tells systemd that the process reloads; the returned function, that it has finished. A process that is not ready
// yet tells nothing: it goes on starting, with other pipelines.
func (n *Notifier) Reload() (finished func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.ready {
		return func() {}
	}
	n.send(daemon.SdNotifyReloading, daemon.SdNotifyMonotonicUsec())
	return func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.send(daemon.SdNotifyReady)
	}
}

// send sends the lines of one notification; n.mu is held. A fault is logged once until it has passed: systemd acts on
// notifications that do not arrive, and operators need the reason.
func (n *Notifier) send(lines ...string) {
	_, err := daemon.SdNotify(false, strings.Join(lines, "\n"))
	if err != nil && !n.failed {
		n.log.Warn("systemd could not be notified", "notification", lines[0], "error", err)
	}
	n.failed = err != nil
}
