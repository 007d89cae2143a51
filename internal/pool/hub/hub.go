// Package hub carries the jobs of pools to workers in other processes over NATS, with a server in this process or an
// external one. Start at [Of].
//
// Each pool has a JetStream work queue. Each free slot of a worker pulls one job from it. A worker renews its lease
// of a job until it has answered. If the worker is gone, JetStream redelivers the job to another one. internal/pool
// decides what an answer, or a missing one, means, as for slots of this process.
package hub

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/pool"
	"github.com/flowd-io/flowd/internal/pool/wire"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Hub is this process's end of the cluster. It runs while anyone holds it.
type Hub struct {
	conf *wire.Config
	id   string
	keys keys

	mu    sync.Mutex // guards the fields below; held while the hub starts and stops
	holds int
	srv   *embedded // nil: an external server
	nc    *wire.Conn
	voice *nats.Conn // for answers; with an embedded server, it may only answer
	js    jetstream.JetStream
	log   *slog.Logger

	poolsMu sync.RWMutex // guards the field below
	pools   []*remote    // by index; nil: closed
}

func init() { wire.Hubs = func(shared *engine.Shared) wire.Hub { return Of(shared) } }

// Of returns the hub of a process with `service.cluster`.
func Of(shared *engine.Shared) *Hub {
	conf := wire.Of(shared).Config
	return engine.Common(shared, hubKey{}, func() *Hub { return &Hub{conf: conf, id: wire.NewID(), keys: newKeys()} })
}

type hubKey struct{}

// Hold implements [wire.Hub].
func (h *Hub) Hold(ctx context.Context, owner string, log *slog.Logger) (release func(), err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.holds == 0 {
		h.log = log
		if err := h.start(ctx, owner); err != nil {
			h.stop()
			return nil, fmt.Errorf("service.cluster: %w", err)
		}
	}
	h.holds++
	return sync.OnceFunc(func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		if h.holds--; h.holds == 0 {
			h.stop()
		}
	}), nil
}

func (h *Hub) start(ctx context.Context, owner string) (err error) {
	options := []nats.Option{h.complaints(), nats.DisconnectErrHandler(h.disconnected),
		nats.ReconnectHandler(h.reconnected), nats.ReconnectBufSize(64 << 20)}
	to := wire.Target{URL: "nats://127.0.0.1"}
	if h.conf.URL.IsZero() {
		if h.srv, err = startServer(h.conf, owner, h.log); err != nil {
			return err
		}
		options = append(options, nats.InProcessServer(h.srv))
	} else {
		to.URL, to.Token, to.Credentials = h.conf.URL.Reveal(), h.conf.Token.Reveal(), h.conf.Credentials
		if tls := h.conf.TLS; tls.CA != "" || tls.Cert != "" || tls.ServerName != "" || tls.SkipVerify {
			if to.TLS, err = tls.Config(); err != nil {
				return err
			}
		}
	}
	if h.nc, err = to.Connect("flowd hub "+wire.Name(), options...); err != nil {
		return fmt.Errorf("%s: %w", &to, err)
	}
	if err := h.connected(ctx); err != nil {
		return err
	}
	h.voice = h.nc.Conn
	if h.srv != nil {
		voice, err := to.Connect(voiceName, nats.InProcessServer(h.srv), h.complaints())
		if err != nil {
			return fmt.Errorf("%s: %w", &to, err)
		}
		h.voice = voice.Conn
	}
	if h.js, err = jetstream.New(h.nc.Conn, jetstream.WithPublishAsyncMaxPending(1<<20),
		jetstream.WithPublishAsyncTimeout(10*time.Second),
		jetstream.WithPublishAsyncAckHandler(h.stored), jetstream.WithPublishAsyncErrHandler(h.notStored)); err != nil {
		return err
	}
	for subject, do := range map[string]nats.MsgHandler{
		wire.ToHub(h.id, "*", "*"): h.handleReport, wire.JoinOf("*", "*"): h.join, wire.BeatOf("*", "*"): h.beat,
		wire.ListOf("*"): h.list,
	} {
		sub, err := h.nc.Subscribe(subject, do)
		if err != nil {
			return err
		}
		if err := sub.SetPendingLimits(mostUnread, max(unreadBytes, 4*int(h.conf.MaxPayload))); err != nil {
			return err
		}
	}
	if h.srv != nil {
		h.log.Info("workers may join", "addr", h.srv.Addr().String(), "tls", h.conf.TLS.Cert != "")
	}
	return h.nc.FlushTimeout(10 * time.Second)
}

// Limits of unread messages: the rest of a flood is dropped. Workers resend answers until they are confirmed,
// heartbeats repeat, and leases expire by themselves.
const (
	mostUnread  = 1 << 16
	unreadBytes = 64 << 20
)

// complaints logs errors that a connection reports asynchronously, such as that it can't keep up.
func (h *Hub) complaints() nats.Option {
	return nats.ErrorHandler(func(_ *nats.Conn, sub *nats.Subscription, err error) {
		on := ""
		if sub != nil {
			on = sub.Subject
		}
		h.log.Warn("the connection of the cluster reports an error", "on", on, "err", err)
	})
}

// connected waits for the connection to an external server.
func (h *Hub) connected(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	changed := h.nc.StatusChanged(nats.CONNECTED, nats.CLOSED)
	for !h.nc.IsConnected() {
		select {
		case <-ctx.Done():
			return fmt.Errorf("the NATS server can't be reached: %w", errors.Join(h.nc.LastError(), ctx.Err()))
		case <-changed:
			if h.nc.IsClosed() {
				return fmt.Errorf("the NATS server refuses the connection: %w", h.nc.LastError())
			}
		}
	}
	return nil
}

func (h *Hub) stop() {
	if h.voice != nil {
		h.voice.Close()
	}
	if h.nc != nil {
		h.nc.Close()
	}
	if h.srv != nil {
		h.srv.stop()
	}
	h.nc, h.voice, h.srv, h.js = nil, nil, nil, nil
}

func (h *Hub) disconnected(_ *nats.Conn, err error) {
	if err != nil {
		h.log.Warn("the connection to the NATS server is lost", "err", err)
	}
}

// reconnected restores what a restarted server has lost.
func (h *Hub) reconnected(*nats.Conn) {
	h.log.Info("the NATS server is back")
	for _, r := range h.all() {
		r.hello()
		r.doubt()
	}
}

// Open implements [wire.Hub].
func (h *Hub) Open(ctx context.Context, policy pool.Policy, stage *wire.Stage, env engine.Env) (*pool.Pool, error) {
	release, err := h.Hold(ctx, "pipeline "+env.Pipeline, env.Log)
	if err != nil {
		return nil, err
	}
	h.mu.Lock()
	r := &remote{hub: h, nc: h.nc, js: h.js, name: policy.Name, secret: h.secret(), pipeline: env.Pipeline,
		lease: stage.Lease, log: env.Log, release: release, suspect: make(chan struct{}, 1), sent: map[uint64]*parcel{},
		refused: map[string]*refusal{}, members: map[string]*member{}, absent: map[string]time.Time{}}
	h.mu.Unlock()
	r.text, r.hash = stage.Sealed()
	if most := int(r.nc.MaxPayload()); len(r.text) > most/2 {
		release()
		return nil,
			fmt.Errorf("the steps of pool %s have %d bytes, too many for jobs of %d (raise service.cluster.max_payload)", r.name, len(r.text), most)
	}
	if err = r.makeQueue(ctx); err != nil {
		release()
		return nil, fmt.Errorf("pool %s: %w", r.name, err)
	}
	p := pool.New(policy, 0, func(p *pool.Pool) pool.Transport { r.pool = p; return r })
	h.poolsMu.Lock()
	r.index = len(h.pools)
	h.pools = append(h.pools, r)
	h.poolsMu.Unlock()
	r.hello()
	background, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var wg sync.WaitGroup
	wg.Go(func() { r.keep(background) })
	if !h.conf.URL.IsZero() {
		wg.Go(func() { r.purgeDead(background) })
	}
	r.end = func() { cancel(); wg.Wait() }
	r.mu.Lock()
	defer r.mu.Unlock()
	r.watch = time.AfterFunc(wire.BeatEvery(r.lease), r.expire)
	return p, nil
}

// Close implements [wire.Hub].
func (h *Hub) Close(ctx context.Context, p *pool.Pool) error {
	for _, r := range h.all() {
		if r.pool != p {
			continue
		}
		p.Close()
		h.poolsMu.Lock()
		h.pools[r.index] = nil
		h.poolsMu.Unlock()
		r.close(ctx)
	}
	return nil
}

// Trouble implements [wire.Hub].
func (h *Hub) Trouble(p *pool.Pool) *engine.Trouble {
	for _, r := range h.all() {
		if r.pool == p {
			return r.trouble()
		}
	}
	return nil
}

// State implements [wire.Hub].
func (h *Hub) State(p *pool.Pool) wire.PoolState {
	for _, r := range h.all() {
		if r.pool == p {
			return r.state()
		}
	}
	return wire.PoolState{}
}

// all returns the open pools.
func (h *Hub) all() []*remote {
	h.poolsMu.RLock()
	defer h.poolsMu.RUnlock()
	return slices.DeleteFunc(slices.Clone(h.pools), func(r *remote) bool { return r == nil })
}

// poolAt returns a pool by its index, or nil.
func (h *Hub) poolAt(i int) *remote {
	h.poolsMu.RLock()
	defer h.poolsMu.RUnlock()
	if i < 0 || i >= len(h.pools) {
		return nil
	}
	return h.pools[i]
}
