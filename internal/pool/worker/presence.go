package worker

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/flowd-io/flowd/internal/pool/wire"
)

// presence is what a worker knows of a hub. Several may share a pool: one that is gone must
// not hold up the slots, which would do its jobs in vain.
type presence struct {
	name   string    // host and process
	heard  time.Time // when it gave a sign of life
	silent time.Time // since when it is taken for gone; zero: it is not
}

const (
	patience  = 3 * time.Second  // without a sign of life, where the lease is shorter
	forgotten = 10 * time.Minute // after which nothing is remembered of a silent hub
)

// hears takes note of a sign of life of a hub.
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

// misses records that nobody listens to messages to a hub.
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

// silences takes a hub for gone; m.mu is held.
func (m *member) silences(hub string, h *presence) {
	if h.silent.IsZero() {
		h.silent = time.Now()
		m.log.Warn("a hub of the pool is away; its jobs are set aside", "hub", cmp.Or(h.name, "unknown"), "id", hub)
	}
}

// silence says since when a hub is taken for gone (zero: it is not), and whether
// anything is known of it: nothing is where this worker was cut off itself since.
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

// setAside moves a job of a hub that is away out of the way of others: until its lease is
// over, in case the hub comes back, and then for good. A hub that comes back later sees
// that, and puts the job into the queue once more.
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

// asks sends a hub a request. Whether it is there shows in the answer.
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

// isAwaited has the hub say whether to begin with the job. Where it does not answer,
// the job is set aside.
func (j *job) isAwaited(ctx context.Context, known bool) bool {
	answer, err := j.m.asks(ctx, confirmWithin, j.hub,
		&nats.Msg{Subject: wire.ToHub(j.hub, wire.Taken, j.m.link.nc.ID), Data: j.named()})
	if err == nil && string(answer.Data) == wire.Awaited {
		return true
	}
	if err != nil { // it may have answered that it is: then nobody has taken it after all
		j.tell(wire.Returned)
	}
	since, _ := j.m.silence(j.hub)
	switch {
	case err == nil:
		j.ack(noMore)
		j.m.forget(j)
	case !since.IsZero():
		j.setAside(since)
	case known: // it is busy
		j.ack(handedBack)
		j.m.pauses(ctx, nil)
		j.m.forget(j)
	default:
		j.m.misses(j.hub)
		j.setAside(time.Now())
	}
	return false
}
