package worker

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/flowd-io/flowd/engine/runtime"
	"github.com/flowd-io/flowd/internal/components/timing"
	"github.com/flowd-io/flowd/internal/pool/wire"
	"github.com/flowd-io/flowd/schema"
	"github.com/nats-io/nats.go"
)

// member is a worker's membership in a pool.
type member struct {
	link  *link
	pool  string
	slots int
	grace time.Duration
	log   *slog.Logger
	known *schema.Secrets // masked in log
	stop  context.Context // ends when no more jobs should be taken
	late  sync.WaitGroup  // answers that their hub has not confirmed yet

	unconfirmed chan struct{} // room for the maximum number of unconfirmed answers

	hello chan struct{} // room for one: a hub has begun to serve the pool

	mu      sync.Mutex // guards the fields below
	stages  map[string]*stage
	running map[key]*job
	hubs    map[string]*presence // by id
	refused string               // why this worker takes no jobs
	refusal string               // the last refusal logged
	hash    string               // of the hub's current configuration

	consumer string // that slots pull from
	joined   bool
	lease    time.Duration
	renewed  time.Time
}

// key identifies an attempt of any hub.
type key struct {
	hub string
	try wire.Try
}

// stage is a pool's configuration, with opened steps.
type stage struct {
	*wire.Stage
	steps *runtime.Apart
	err   error         // why it can't be used
	ready chan struct{} // closed when it is ready, or err is set
	uses  int           // running jobs; guarded by member.mu
	last  time.Time     // last use
}

// mostStages bounds the open stages other than the hub's current one: several pipelines may have pools with the same
// name.
const mostStages = 8

func newMember(l *link, pool string, c Config) *member {
	return &member{
		link: l, pool: pool, slots: c.Slots, grace: c.Grace, log: c.Log.With("pool", pool), known: c.Secrets,
		stages: map[string]*stage{}, running: map[key]*job{}, hubs: map[string]*presence{}, lease: 3 * time.Second,
		hello: make(chan struct{}, 1), unconfirmed: make(chan struct{}, 2*c.Slots),
	}
}

// run takes part in the pool until stop ends. It returns an error if the first hub rejects the worker.
func (m *member) run(stop, kill context.Context) error {
	if _, err := m.link.nc.Subscribe(wire.DownOf(m.pool), m.handleDown); err != nil {
		return err
	}
	if _, err := m.link.nc.Subscribe(wire.HeldOf(m.link.nc.ID, m.pool), m.answerHeld); err != nil {
		return err
	}
	m.stop = stop
	if err := m.join(stop); err != nil {
		return err
	}
	if stop.Err() != nil {
		return nil
	}
	around, done := context.WithCancel(context.WithoutCancel(stop))
	var loops, slots sync.WaitGroup
	loops.Go(func() { m.beats(around) })
	loops.Go(func() { m.renews(around) })
	loops.Go(func() { m.staysJoined(around) })
	for range m.slots {
		slots.Go(func() { m.slot(stop) })
	}
	finish := context.AfterFunc(stop, func() { m.handBack(kill, around) })
	slots.Wait()
	m.late.Wait()
	finish()
	done()
	loops.Wait()
	m.leave()
	if _, fatal := m.link.state(); stop.Err() == nil {
		return fatal
	}
	return nil
}

// join waits for a hub with the pool, and prepares its configuration.
func (m *member) join(stop context.Context) error {
	ask, _ := json.Marshal(wire.Join{Protocol: wire.Protocol, Version: wire.Version(), Worker: wire.Name()})
	told := false
	for stop.Err() == nil {
		again, fatal := m.link.state()
		if fatal != nil {
			return fatal
		}
		ctx, cancel := context.WithTimeout(stop, 2*time.Second)
		msg, err := m.link.nc.RequestWithContext(ctx, wire.JoinOf(m.pool, m.link.nc.ID), ask)
		cancel()
		var w wire.Welcome
		if err == nil {
			err = json.Unmarshal(msg.Data, &w)
		}
		switch {
		case err == nil && w.Refused != "":
			return fmt.Errorf("pool %s at %s: %s", m.pool, &m.link.to, w.Refused)
		case err == nil && w.Hub != "":
			m.hears(w.Hub, "")
			s := m.prepare(stop, w.Hash, w.Stage)
			if s.err != nil {
				return fmt.Errorf("pool %s at %s: %w", m.pool, &m.link.to, s.err)
			}
			if m.changed(w.Hash, w.Consumer) {
				m.log.Info("joined the pool", "hub", m.link.to.String(), "slots", m.slots, "config",
					w.Hash[:min(12, len(w.Hash))])
			}
			return nil
		case !told && m.link.nc.IsConnected() && (err == nil || errors.Is(err, nats.ErrNoResponders)):
			told = true
			m.log.Info("the hub has no such pool yet; waiting for it", "hub", m.link.to.String())
		}
		select {
		case <-stop.Done():
		case <-again:
		case <-time.After(500 * time.Millisecond):
		}
	}
	return nil
}

// staysJoined asks again when there may be another hub or configuration.
func (m *member) staysJoined(ctx context.Context) {
	for {
		again, _ := m.link.state()
		var later <-chan time.Time
		if m.isRefused() { // what was missing may exist now
			later = time.After(5 * time.Second)
		}
		select {
		case <-ctx.Done():
			return
		case <-again:
		case <-m.hello:
		case <-later:
		}
		if err := m.join(ctx); err != nil && m.refuses(err) {
			m.log.Error("this worker takes no more jobs of the pool", "err", err)
		}
		m.sendBeat()
	}
}

// joinAgain makes staysJoined ask.
func (m *member) joinAgain() {
	select {
	case m.hello <- struct{}{}:
	default:
	}
}

// refuses records why this worker takes no jobs, and reports whether the reason is new.
func (m *member) refuses(why error) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	was := m.refusal
	m.refused, m.refusal = why.Error(), why.Error()
	return was != m.refused
}

// changed records the hub's current configuration.
func (m *member) changed(hash, consumer string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	was := m.hash
	m.hash, m.consumer = hash, consumer
	return was != hash
}

// prepare builds the steps of a stage, once.
func (m *member) prepare(ctx context.Context, hash string, text []byte) *stage {
	m.mu.Lock()
	if s := m.stages[hash]; s != nil {
		m.mu.Unlock()
		if <-s.ready; s.err == nil {
			m.takes(s)
			return s
		}
		m.mu.Lock()
	}
	s := &stage{ready: make(chan struct{})}
	m.stages[hash] = s
	if len(m.stages) > 1 {
		m.log.Info("the pool's configuration has changed", "config", hash[:min(12, len(hash))])
	}
	m.mu.Unlock()
	defer close(s.ready)
	if s.Stage, s.err = wire.Unseal(text, hash); s.err == nil {
		if s.steps, s.err = s.Build(m.pool, m.log, m.known); s.err == nil {
			s.err = s.steps.Open(context.WithoutCancel(ctx))
		}
	}
	m.takes(s)
	return s
}

// takes makes a stage the current one, or refuses jobs if it failed.
func (m *member) takes(s *stage) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.joined, m.refused = true, ""; s.err != nil {
		m.refused = s.err.Error()
		return
	}
	m.lease, s.last = s.Lease, time.Now()
	m.prune(s)
}

// prune closes steps that are no longer needed. m.mu is held.
func (m *member) prune(keep *stage) {
	for len(m.stages) > mostStages {
		oldest := ""
		for hash, s := range m.stages {
			if s != keep && s.uses == 0 && s.steps != nil && (oldest == "" || s.last.Before(m.stages[oldest].last)) {
				oldest = hash
			}
		}
		if oldest == "" {
			return
		}
		gone := m.stages[oldest]
		delete(m.stages, oldest)
		go m.shut(gone)
	}
}

func (m *member) shut(s *stage) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	if err := s.steps.Close(ctx); err != nil {
		m.log.Warn("closing the steps", "err", err)
	}
}

// stageOf returns the stage with a hash, and requests it from the hub if it is new.
func (m *member) stageOf(ctx context.Context, hub, hash string) (*stage, error) {
	m.mu.Lock()
	s := m.stages[hash]
	if s != nil {
		s.last = time.Now()
	}
	m.mu.Unlock()
	if s == nil {
		msg, err := m.asks(ctx, 5*time.Second, hub,
			&nats.Msg{Subject: wire.ToHub(hub, wire.GetStage, m.link.nc.ID), Data: []byte(hash)})
		if err != nil || len(msg.Data) == 0 {
			return nil, fmt.Errorf("the hub does not send the pool's configuration: %w", cmp.Or(err, errGone))
		}
		if s = m.prepare(ctx, hash, msg.Data); s.err != nil {
			m.log.Error("this worker takes no more jobs of the pool", "err", s.err)
		}
		m.sendBeat()
	}
	<-s.ready
	return s, s.err
}

var errGone = errors.New("it has a different one by now")

// handleDown handles messages of hubs to all workers of a pool.
func (m *member) handleDown(msg *nats.Msg) {
	var d wire.Down
	if json.Unmarshal(msg.Data, &d) != nil {
		return
	}
	m.hears(d.Hub, d.Host)
	if d.Hello {
		m.joinAgain()
	}
	if t := d.Cancel; t != nil {
		m.mu.Lock()
		j := m.running[key{d.Hub, t.Named()}]
		m.mu.Unlock()
		if j != nil {
			j.revoke()
		}
	}
}

// answerHeld reports attempts that a hub believes this worker has, but it has not.
func (m *member) answerHeld(msg *nats.Msg) {
	var h wire.Held
	if json.Unmarshal(msg.Data, &h) != nil {
		return
	}
	m.mu.Lock()
	lacking := slices.DeleteFunc(h.Tries, func(t wire.Try) bool { return m.running[key{h.Hub, t.Named()}] != nil })
	m.mu.Unlock()
	if len(lacking) > 0 {
		text, _ := json.Marshal(lacking)
		_ = m.link.nc.Publish(wire.ToHub(h.Hub, wire.Lacks, m.link.nc.ID), text) // the hub asks again
	}
}

// beats sends heartbeats periodically.
func (m *member) beats(ctx context.Context) {
	for {
		m.sendBeat()
		m.mu.Lock()
		every := wire.BeatEvery(m.lease)
		m.mu.Unlock()
		if timing.Sleep(ctx, every) != nil {
			return
		}
	}
}

// sendBeat sends a heartbeat.
func (m *member) sendBeat() {
	m.mu.Lock()
	if !m.joined {
		m.mu.Unlock()
		return
	}
	b := wire.Beat{Name: wire.Name(), Version: wire.Version(), Slots: m.slots, Refused: m.refused}
	if len(m.running) > 0 {
		b.Lease = time.Since(m.renewed)
	}
	for _, j := range m.running {
		if !j.done {
			b.Busy++
		}
	}
	m.mu.Unlock()
	m.beat(b)
}

func (m *member) beat(b wire.Beat) {
	text, _ := json.Marshal(b)
	_ = m.link.nc.Publish(wire.BeatOf(m.pool, m.link.nc.ID), text) // the next one follows
}

// renews renews the leases of all jobs.
func (m *member) renews(ctx context.Context) {
	for {
		m.mu.Lock()
		every := m.lease / 3
		all := slices.Collect(maps.Values(m.running))
		m.renewed = time.Now()
		m.mu.Unlock()
		for _, j := range all {
			j.ack(inProgress)
		}
		if timing.Sleep(ctx, every) != nil {
			return
		}
	}
}

// handBack stops running jobs at the end of the grace period, or when kill ends, unless all jobs finish before.
func (m *member) handBack(kill, around context.Context) {
	select {
	case <-around.Done():
		return
	case <-kill.Done():
	case <-time.After(m.grace):
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, j := range m.running {
		j.cancel(errHandedBack)
	}
}

var errHandedBack = errors.New("the worker ends")

// leave sends the last heartbeat and closes the steps.
func (m *member) leave() {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	if m.link.nc.IsConnected() {
		m.beat(wire.Beat{Name: wire.Name()})
		_ = m.link.nc.FlushWithContext(ctx)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, s := range m.stages {
		if s.steps != nil {
			m.shut(s)
		}
	}
}
