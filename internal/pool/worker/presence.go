package worker

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/flowd-io/flowd/internal/pool/wire"
)

// presence is what a worker knows about a hub. Several hubs may share a pool: slots must not waste time on jobs of a
// hub that is gone.
type presence struct {
	name   string    // host and process
	heard  time.Time // last sign of life
	silent time.Time // since when it is considered gone; zero: it is not
}

const (
	patience  = 3 * time.Second  // time without a sign of life, if the lease is shorter
	forgotten = 10 * time.Minute // time after which a silent hub is forgotten
)

// hears records a sign of life of a hub.
func (m *member) hears(hub, name string) {
	m.mu.Lock()
	h := m.hubs[hub]
	if h == nil {
		h = &presence{}
		m.hubs[hub] = h
	}
	back := !h.silent.IsZero()
	h.heard, h.silent = time.Now(), time.Time{}
	if name != "" {
		h.name = name
	}
	name = h.name
	m.mu.Unlock()
	if back {
		m.log.Info("a hub of the pool is back", "hub", name, "id", hub)
	}
}

// misses records that nobody receives messages to a hub.
func (m *member) misses(hub string) {
	m.mu.Lock()
	h := m.hubs[hub]
	if h == nil {
		for id, other := range m.hubs {
			if !other.silent.IsZero() && time.Since(other.silent) > forgotten {
				delete(m.hubs, id)
			}
		}
		h = &presence{}
		m.hubs[hub] = h
	}
	m.silences(hub, h)
	m.mu.Unlock()
}

// silences considers a hub gone. m.mu is held.
func (m *member) silences(hub string, h *presence) {
	if h.silent.IsZero() {
		h.silent = time.Now()
		m.log.Warn("a hub of the pool is away; its jobs are set aside", "hub", cmp.Or(h.name, "unknown"), "id", hub)
	}
}

// silence returns since when a hub is considered gone (zero: it is not), and whether anything is known about it.
// Nothing is known if this worker was cut off meanwhile.
func (m *member) silence(hub string) (since time.Time, known bool) {
	connected, up := m.link.since()
	m.mu.Lock()
	defer m.mu.Unlock()
	h := m.hubs[hub]
	if h != nil && h.heard.Before(connected) && h.silent.Before(connected) {
		delete(m.hubs, hub)
		h = nil
	}
	if h == nil || !up {
		return time.Time{}, false
	}
	if time.Since(h.heard) > max(m.lease, patience) {
		m.silences(hub, h)
	}
	return h.silent, true
}

// setAside delays a job of a silent hub so that it does not block others: until its lease ends, in case the hub comes
// back, and then for good. A hub that comes back later notices that, and stores the job again.
func (j *job) setAside(since time.Time) {
	j.m.mu.Lock()
	left := j.m.lease - time.Since(since)
	j.m.mu.Unlock()
	if left < 0 {
		j.ack(noMore)
	} else {
		j.later(max(left, 100*time.Millisecond))
	}
	j.m.forget(j)
}

// asks sends a request to a hub. The answer shows whether the hub is there.
func (m *member) asks(ctx context.Context, within time.Duration, hub string, msg *nats.Msg) (*nats.Msg, error) {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	answer, err := m.link.nc.RequestMsgWithContext(ctx, msg)
	switch {
	case err == nil:
		m.hears(hub, "")
	case errors.Is(err, nats.ErrNoResponders):
		m.misses(hub)
	}
	return answer, err
}

// isAwaited asks the hub whether to begin the job. If the hub does not answer, the job is set aside.
func (j *job) isAwaited(ctx context.Context, known bool) bool {
	answer, err := j.m.asks(ctx, confirmWithin, j.hub,
		&nats.Msg{Subject: wire.ToHub(j.hub, wire.Taken, j.m.link.nc.ID), Data: j.named()})
	if err == nil && string(answer.Data) == wire.Awaited {
		return true
	}
	if err != nil { // it may have answered yes: then nobody has taken the job
		j.report(wire.Returned)
	}
	since, _ := j.m.silence(j.hub)
	switch {
	case err == nil:
		j.ack(noMore)
		j.m.forget(j)
	case !since.IsZero():
		j.setAside(since)
	case known: // the hub is busy
		j.ack(handedBack)
		j.m.pauses(ctx, nil)
		j.m.forget(j)
	default:
		j.m.misses(j.hub)
		j.setAside(time.Now())
	}
	return false
}
