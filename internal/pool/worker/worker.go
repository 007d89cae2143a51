// Package worker runs the steps of pools for hubs in other processes: flowd worker. Start at [Run]. A [member] is a
// worker's membership in one pool of one cluster, and has slots.
package worker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/flowd-io/flowd/internal/pool/wire"
	"github.com/flowd-io/flowd/schema"
)

// Config configures a worker.
type Config struct {
	Join  []wire.Target
	Pools []string
	Slots int           // per pool and hub
	Grace time.Duration // time for jobs to finish at the end
	Log   *slog.Logger

	Secrets *schema.Secrets // collects the secrets of the steps, which Log masks
}

// Run works until stop ends, and then finishes its jobs. It hands back unfinished ones when kill ends, or after the
// grace period. It returns an error if a hub rejects this worker at the start.
func Run(stop, kill context.Context, c Config) error {
	stop, end := context.WithCancel(stop)
	defer end()
	var members []*member
	var links []*link
	defer func() {
		for _, l := range links {
			l.nc.Close()
		}
	}()
	for i := range c.Join {
		l := &link{to: c.Join[i], log: c.Log, again: make(chan struct{})}
		if err := l.connect(); err != nil {
			return refusal(&l.to, err)
		}
		links = append(links, l)
		for _, name := range c.Pools {
			members = append(members, newMember(l, name, c))
		}
	}
	var all sync.WaitGroup
	refused := make([]error, len(members))
	for i, m := range members {
		all.Go(func() {
			if refused[i] = m.run(stop, kill); refused[i] != nil {
				end()
			}
		})
	}
	all.Wait()
	return cmp.Or(refused...)
}

// link is a connection to a cluster.
type link struct {
	to  wire.Target
	log *slog.Logger
	nc  *wire.Conn

	mu    sync.Mutex
	again chan struct{} // closed and replaced when the connection is renewed
	fatal error         // the hub rejects this worker
	told  bool          // the missing connection was logged
	made  time.Time     // when the connection was last made
}

func (l *link) connect() (err error) {
	l.nc, err = l.to.Connect("flowd worker "+wire.Name(),
		nats.ConnectHandler(func(*nats.Conn) { l.connected() }),
		nats.ReconnectHandler(func(*nats.Conn) { l.connected() }),
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) { l.disconnected(err) }),
		nats.ReconnectErrHandler(func(_ *nats.Conn, err error) { l.disconnected(err) }),
		nats.ClosedHandler(func(nc *nats.Conn) { l.closed(nc.LastError()) }),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
			l.log.Warn("the hub reports an error", "hub", l.to.String(), "err", err)
		}),
	)
	return err
}

func (l *link) connected() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.told, l.made = false, time.Now()
	close(l.again)
	l.again = make(chan struct{})
	l.log.Info("connected", "hub", l.to.String())
}

func (l *link) disconnected(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.told && err != nil {
		l.told = true
		l.log.Warn("there is no connection to the hub; flowd keeps retrying", "hub", l.to.String(), "err", err)
	}
}

// closed is called when the connection is given up: the hub has rejected it twice.
func (l *link) closed(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err == nil || errors.Is(err, nats.ErrConnectionClosed) {
		err = errors.New("the connection is closed")
	}
	l.fatal = refusal(&l.to, err)
	close(l.again)
	l.again = make(chan struct{})
}

// refusal returns why a hub can't be used, with a remedy if there is one.
func refusal(to *wire.Target, err error) error {
	if errors.Is(err, nats.ErrAuthorization) || errors.Is(err, nats.ErrAuthExpired) ||
		errors.Is(err, nats.ErrAuthRevoked) {
		return fmt.Errorf("%s refuses this worker: %w (give its token in FLOWD_TOKEN or --token-file)", to, err)
	}
	if errors.Is(err, nats.ErrNoServers) {
		return fmt.Errorf("%s: nothing answers there (a flowd with service.cluster.listen set does)", to)
	}
	return fmt.Errorf("%s: %w", to, err)
}

// since returns when the connection was made, and whether it is up.
func (l *link) since() (made time.Time, up bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.made, !l.told
}

// state returns a channel that is closed when the connection is renewed, and the error if it never will be.
func (l *link) state() (again <-chan struct{}, fatal error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.again, l.fatal
}
