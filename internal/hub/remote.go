package hub

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/cluster"
	"github.com/flowd-io/flowd/internal/pool"
)

// remote is the transport of one pool to slots elsewhere.
type remote struct {
	hub      *Hub
	nc       *nats.Conn
	js       jetstream.JetStream
	index    int // among the hub's pools
	name     string
	pipeline string
	lease    time.Duration
	text     []byte // the stage
	hash     string
	pool     *pool.Pool
	log      *slog.Logger
	release  func()

	mu      sync.Mutex         // guards the fields below
	watch   *time.Timer        // of members that are not heard of
	sent    map[uint64]*parcel // by call
	members map[string]*member
	closed  bool
	absent  map[string]time.Time // workers that have gone with jobs: when they were heard of last
	alone   bool                 // jobs wait, and there is no worker
	made    time.Time            // when the queue was
	refused bool                 // what was last put into it
}

// parcel is a call's present try in the work queue.
type parcel struct {
	call *pool.Call
	try  int
	by   string // the worker that has it
	seq  uint64 // in the stream; 0: not stored yet
}

var _ pool.Transport = (*remote)(nil)

// makeQueue makes the work queue, and says when that was.
func (r *remote) makeQueue(ctx context.Context) (made time.Time, err error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	storage := jetstream.MemoryStorage
	if r.hub.conf.Store == "file" {
		storage = jetstream.FileStorage
	}
	stream, err := r.js.CreateOrUpdateStream(ctx, jetstream.StreamConfig{
		Name: cluster.StreamOf(r.name), Description: "jobs of a pool of flowd", Subjects: []string{cluster.AllJobsOf(r.name)},
		Retention: jetstream.WorkQueuePolicy, Storage: storage, Duplicates: 100 * time.Millisecond,
	})
	if err != nil {
		return made, fmt.Errorf("its queue can't be made: %w", err)
	}
	_, err = stream.CreateOrUpdateConsumer(ctx, jetstream.ConsumerConfig{
		Durable: cluster.ConsumerOf(stream.CachedInfo().Created), AckPolicy: jetstream.AckExplicitPolicy, AckWait: r.lease,
		MaxDeliver: -1, MaxAckPending: -1, MaxWaiting: 1 << 16, MaxRequestBatch: 1, MemoryStorage: storage == jetstream.MemoryStorage,
	})
	if err != nil {
		return made, fmt.Errorf("its queue can't be made: %w", err)
	}
	return stream.CachedInfo().Created, nil
}

// restore makes sure, after the connection was lost, that the queue is there; all that
// was in one that is gone is put into it again, and so is all when answers may be lost.
func (r *remote) restore(lost bool) {
	for {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		made, err := r.makeQueue(ctx)
		cancel()
		r.mu.Lock()
		over := r.closed
		if err == nil {
			lost = lost || !made.Equal(r.made)
			r.made = made
		}
		r.mu.Unlock()
		switch {
		case over || r.nc.IsClosed():
			return
		case err == nil:
			if r.hello(); lost {
				r.pool.Relaunch()
			}
			return
		}
		time.Sleep(again)
	}
}

// purgeDead removes the jobs of hubs that are gone: those that do not answer, and not
// after a long outage either.
func (r *remote) purgeDead() {
	ctx, cancel := context.WithTimeout(context.Background(), longOutage)
	defer cancel()
	stream, err := r.js.Stream(ctx, cluster.StreamOf(r.name))
	if err != nil {
		return // nothing is lost: what such jobs come to is dropped
	}
	info, err := stream.Info(ctx, jetstream.WithSubjectFilter(cluster.AllJobsOf(r.name)))
	if err != nil {
		return
	}
	var dead []string
	for subject := range info.State.Subjects {
		if r.silent(ctx, subject) {
			dead = append(dead, subject)
		}
	}
	if len(dead) == 0 {
		return
	}
	time.AfterFunc(longOutage, func() {
		ctx, cancel := context.WithTimeout(context.Background(), longOutage)
		defer cancel()
		for _, subject := range dead {
			if r.silent(ctx, subject) {
				_ = stream.Purge(ctx, jetstream.WithPurgeSubject(subject))
			}
		}
	})
}

// silent says whether the hub of a subject does not answer.
func (r *remote) silent(ctx context.Context, subject string) bool {
	hub := cluster.HubOf(subject)
	if hub == r.hub.id {
		return false
	}
	_, err := r.nc.RequestWithContext(ctx, cluster.ToHub(hub, cluster.GetStage), nil)
	return errors.Is(err, nats.ErrNoResponders)
}

// hello has workers tell of themselves at once.
func (r *remote) hello() { r.down(cluster.Down{Hello: true}) }

func (r *remote) down(d cluster.Down) {
	d.Hub = r.hub.id
	text, _ := json.Marshal(d)
	_ = r.nc.Publish(cluster.DownOf(r.name), text) // one that is closed has nobody to tell
}

// tryHeader names a try in what JetStream is given.
const tryHeader = "Flowd-Try"

// Launch puts a try into the work queue.
func (r *remote) Launch(c *pool.Call, try int) {
	r.mu.Lock()
	if !r.pool.Awaits(c, try) { // what was faster than this has revoked it
		r.mu.Unlock()
		return
	}
	if c.Data == nil {
		c.Data = cluster.Pack(slices.Collect(c.Jobs.All()))
	}
	packed := c.Data.([]byte)
	r.sent[c.ID] = &parcel{call: c, try: try}
	r.mu.Unlock()
	job := cluster.Job{Hash: r.hash, Try: cluster.Try{Pool: r.index, ID: c.ID, Try: try}}
	data := job.Encode(packed)
	if most := r.nc.MaxPayload(); int64(len(data)) > most-cluster.HeaderRoom {
		r.pool.Cancel(c, engine.Errorf(engine.Rejected, "pool %s: the job has %d bytes with its metadata, and the cluster carries %d (raise %s)", r.name, len(data), most-cluster.HeaderRoom, r.raise()))
		return
	}
	msg := &nats.Msg{Subject: cluster.JobsOf(r.name, r.hub.id, r.index), Data: data, Header: nats.Header{tryHeader: {
		fmt.Sprint(r.index, c.ID, try),
	}}}
	if _, err := r.js.PublishMsgAsync(msg); err != nil {
		r.notStored(job.Try, err)
	}
}

// raise says where more than the cluster carries is allowed.
func (r *remote) raise() string {
	if !r.hub.conf.URL.IsZero() {
		return "max_payload of the NATS server"
	}
	return "service.cluster.max_payload"
}

// tried is the try that a message for JetStream is about, and its pool.
func (h *Hub) tried(msg *nats.Msg) (t cluster.Try, r *remote) {
	if _, err := fmt.Sscan(msg.Header.Get(tryHeader), &t.Pool, &t.ID, &t.Try); err != nil {
		return t, nil
	}
	return t, h.poolAt(t.Pool)
}

// stored takes note of where a try lies.
func (h *Hub) stored(_ jetstream.JetStream, msg *nats.Msg, ack *jetstream.PubAck) {
	t, r := h.tried(msg)
	if r == nil {
		return
	}
	r.mu.Lock()
	p := r.sent[t.ID]
	here := p != nil && p.try == t.Try
	if here {
		p.seq = ack.Sequence
	}
	r.refused = false
	r.mu.Unlock()
	if !here {
		r.remove(ack.Sequence) // in vain where it is answered already
	}
}

// notStored is told that a try could not be put into the queue.
func (h *Hub) notStored(_ jetstream.JetStream, msg *nats.Msg, err error) {
	if t, r := h.tried(msg); r != nil {
		r.notStored(t, err)
	}
}

// again is the pause before a job that could not be stored is put there again.
const again = 500 * time.Millisecond

func (r *remote) notStored(t cluster.Try, err error) {
	r.mu.Lock()
	told := r.refused
	r.refused = true
	r.mu.Unlock()
	if !told {
		r.log.Warn("jobs can't be put into the queue of their pool; it is tried again and again", "pool", r.name, "err", err)
	}
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

// Revoke takes a try out of the queue, or stops the worker that has it.
func (r *remote) Revoke(c *pool.Call, try int) {
	r.mu.Lock()
	seq := uint64(0)
	if p := r.sent[c.ID]; p != nil && p.try == try {
		seq = p.seq
		delete(r.sent, c.ID)
	}
	r.mu.Unlock()
	if seq > 0 {
		r.remove(seq)
	}
	r.down(cluster.Down{Cancel: &cluster.Try{Pool: r.index, ID: c.ID, Try: try}})
}

// remove deletes a message of the stream, which may be gone already.
func (r *remote) remove(seq uint64) {
	request, _ := json.Marshal(map[string]any{"seq": seq, "no_erase": true})
	_ = r.nc.PublishRequest("$JS.API.STREAM.MSG.DELETE."+cluster.StreamOf(r.name), r.nc.NewInbox(), request)
}

// answered takes note that a try needs no more care.
func (r *remote) answered(t cluster.Try) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if p := r.sent[t.ID]; p != nil && p.try == t.Try {
		delete(r.sent, t.ID)
	}
}

// close forgets the pool, when all its calls have ended.
func (r *remote) close(ctx context.Context) {
	r.mu.Lock()
	r.closed = true
	r.watch.Stop()
	r.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	if stream, err := r.js.Stream(ctx, cluster.StreamOf(r.name)); err == nil {
		_ = stream.Purge(ctx, jetstream.WithPurgeSubject(cluster.JobsOf(r.name, r.hub.id, r.index)))
	}
	r.release()
}
