package hub

import (
	"context"
	"encoding/json"
	"errors"
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

// remote is the transport of one pool to slots in other processes.
type remote struct {
	hub      *Hub
	nc       *wire.Conn
	js       jetstream.JetStream
	index    int // among the hub's pools
	name     string
	secret   string // in the subjects for storing jobs; "" with an external server
	pipeline string
	lease    time.Duration
	text     []byte // the stage
	hash     string
	pool     *pool.Pool
	log      *slog.Logger
	release  func()
	suspect  chan struct{} // room for one: check the queue
	end      func()        // stops the background goroutines and waits for them

	mu      sync.Mutex         // guards the fields below
	watch   *time.Timer        // for workers without heartbeats
	sent    map[uint64]*parcel // by call
	members map[string]*member // by connection
	closed  bool
	absent  map[string]time.Time // workers that are gone with jobs, with the time of their last heartbeat
	alone   bool                 // jobs wait, and there is no worker
	stream  jetstream.Stream
	made    time.Time // when the stream was made
	problem string    // why jobs can't be stored, or ""
	takes   int       // attempts begun by slots
	stall   stall
	ticked  time.Time           // last run of expire
	refused map[string]*refusal // workers of another version, by name
}

// parcel is a call's current attempt in the work queue.
type parcel struct {
	call *pool.Call
	try  int
	by   string    // connection of the worker that has it
	kept time.Time // when its copy was stored; zero: not yet
}

var _ pool.Transport = (*remote)(nil)

// hello makes workers report at once.
func (r *remote) hello() { r.down(wire.Down{Hello: true}) }

func (r *remote) down(d wire.Down) {
	d.Hub, d.Host = r.hub.id, wire.Name()
	text, _ := json.Marshal(d)
	_ = r.nc.Publish(wire.DownOf(r.name), text) // fails if the connection is closed
}

// Launch stores an attempt in the work queue.
func (r *remote) Launch(c *pool.Call, try int) {
	r.mu.Lock()
	if !r.pool.Awaits(c, try) { // a faster event has revoked it
		r.mu.Unlock()
		return
	}
	if c.Data == nil {
		c.Data = wire.Pack(slices.Collect(c.Jobs.All()))
	}
	packed := c.Data.([]byte)
	if p := r.sent[c.ID]; p == nil || p.try != try { // otherwise it could not be stored, but a worker may have it
		r.sent[c.ID] = &parcel{call: c, try: try}
	}
	r.mu.Unlock()
	job := wire.Job{Hash: r.hash, Try: wire.Try{Pool: r.index, ID: c.ID, Try: try}}
	data := job.Encode(packed)
	if most := r.nc.MaxPayload(); int64(len(data)) > most-wire.HeaderRoom {
		r.pool.Cancel(c, engine.Errorf(engine.Rejected,
			"pool %s: the job has %d bytes with its metadata, but the cluster allows %d (raise %s)", r.name, len(data),
			most-wire.HeaderRoom, r.raise()))
		return
	}
	msg := &nats.Msg{Subject: r.putSubject(job.Try), Data: data,
		Header: nats.Header{once: {"0"}, wire.KeyHeader: {r.hub.keys.keyOf(job.Try)}}}
	if _, err := r.js.PublishMsgAsync(msg); err != nil {
		r.notStored(job.Try, err)
	}
}

// once makes the stream store an attempt only if it has no copy yet: if a confirmation is missing, the first copy may
// or may not be stored.
const once = jetstream.ExpectedLastSubjSeqHeader

// putSubject returns the subject on which to store an attempt.
func (r *remote) putSubject(t wire.Try) string {
	if r.secret == "" {
		return wire.JobOf(r.name, r.hub.id, t)
	}
	return wire.PutOf(r.secret, r.name, r.hub.id, t)
}

// raise says which setting limits the payload.
func (r *remote) raise() string {
	if !r.hub.conf.URL.IsZero() {
		return "max_payload of the NATS server"
	}
	return "service.cluster.max_payload"
}

// tried returns the attempt in a message to JetStream, and its pool.
func (h *Hub) tried(msg *nats.Msg) (t wire.Try, r *remote) {
	_, t, ok := wire.TryOf(msg.Subject)
	if !ok {
		return t, nil
	}
	return t, h.poolAt(t.Pool)
}

// stored records that an attempt is in the stream.
func (h *Hub) stored(_ jetstream.JetStream, msg *nats.Msg, _ *jetstream.PubAck) {
	t, r := h.tried(msg)
	if r == nil {
		return
	}
	r.mu.Lock()
	p := r.sent[t.ID]
	here := p != nil && p.try == t.Try
	if here {
		p.kept = time.Now()
	}
	r.problem = ""
	r.mu.Unlock()
	if !here {
		r.remove(t) // has no effect if it is already answered
	}
}

// notStored handles an attempt that could not be stored, or is stored already.
func (h *Hub) notStored(js jetstream.JetStream, msg *nats.Msg, err error) {
	api, ok := errors.AsType[*jetstream.APIError](err)
	if ok && (api.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequence ||
		api.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequenceConstant) {
		h.stored(js, msg, nil)
		return
	}
	if t, r := h.tried(msg); r != nil {
		r.notStored(t, err)
	}
}

// again is the pause before a retry.
const again = 500 * time.Millisecond

func (r *remote) notStored(t wire.Try, err error) {
	r.fails(err)
	r.doubt()
	time.AfterFunc(again, func() {
		r.mu.Lock()
		p := r.sent[t.ID]
		here := !r.closed && p != nil && p.try == t.Try
		r.mu.Unlock()
		if here {
			r.Launch(p.call, t.Try)
		}
	})
}

// Revoke removes an attempt from the queue, or stops the worker that has it.
func (r *remote) Revoke(c *pool.Call, try int) {
	t := wire.Try{Pool: r.index, ID: c.ID, Try: try}
	r.mu.Lock()
	kept := false
	if p := r.sent[c.ID]; p != nil && p.try == try {
		kept = !p.kept.IsZero()
		delete(r.sent, c.ID)
	}
	r.mu.Unlock()
	if kept {
		r.remove(t)
	}
	r.down(wire.Down{Cancel: &t})
}

// remove removes an attempt from the stream, if it is still there.
func (r *remote) remove(t wire.Try) {
	request, _ := json.Marshal(map[string]any{"filter": wire.JobOf(r.name, r.hub.id, t)})
	_ = r.nc.PublishRequest("$JS.API.STREAM.PURGE."+wire.StreamOf(r.name), r.nc.NewInbox(), request)
}

// answered records that an attempt is finished.
func (r *remote) answered(t wire.Try) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if p := r.sent[t.ID]; p != nil && p.try == t.Try {
		delete(r.sent, t.ID)
	}
}

// close forgets the pool, once all its calls have ended.
func (r *remote) close(ctx context.Context) {
	r.mu.Lock()
	r.closed = true
	r.watch.Stop()
	r.mu.Unlock()
	r.end()
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	_ = r.stream.Purge(ctx, jetstream.WithPurgeSubject(wire.JobsOf(r.name, r.hub.id, r.index)))
	r.release()
}
