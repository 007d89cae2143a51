package hub

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/components/timing"
	"github.com/flowd-io/flowd/internal/pool/wire"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

const (
	auditEvery = 5 * time.Second  // between checks of the queue while attempts wait for longer
	callLimit  = 5 * time.Second  // for requests to NATS
	stalled    = 10 * time.Second // time without a job taken, despite free slots, until the pool is not ready
)

// doubt triggers a check of the queue.
func (r *remote) doubt() {
	select {
	case r.suspect <- struct{}{}:
	default:
	}
}

// keep makes sure, until ctx ends, that the queue exists and holds what it should: NATS servers restart without their
// data, and people delete and purge streams.
func (r *remote) keep(ctx context.Context) {
	pause, failed := time.NewTimer(auditEvery), false
	defer pause.Stop()
	for {
		pause.Reset(auditEvery)
		select {
		case <-ctx.Done():
			return
		case <-r.suspect:
		case <-pause.C:
			if !r.lingers() {
				continue
			}
		}
		if !r.nc.IsConnected() { // checked again after reconnecting
			continue
		}
		switch err := r.audit(ctx); {
		case err == nil && failed:
			failed = false
			r.works()
		case err != nil && ctx.Err() == nil:
			failed = true
			r.fails(err)
			r.doubt()
		}
		pause.Reset(again) // limits checks, however often workers ask
		select {
		case <-ctx.Done():
			return
		case <-pause.C:
		}
	}
}

// lingers reports whether attempts have waited, or been with workers, for so long that their copies may be gone.
func (r *remote) lingers() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range r.sent {
		if !p.kept.IsZero() && time.Since(p.kept) > auditEvery {
			return true
		}
	}
	return false
}

// audit recreates the queue if it is gone, and restores missing jobs.
func (r *remote) audit(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	r.mu.Lock()
	var kept []*parcel // read before the queue is checked
	for _, p := range r.sent {
		if !p.kept.IsZero() {
			kept = append(kept, p)
		}
	}
	r.mu.Unlock()
	there, err := r.listCopies(ctx)
	if errors.Is(err, errNoQueue) {
		if err = r.makeQueue(ctx); err == nil {
			r.log.Warn("the queue of the pool was gone, and is created again", "pool", r.name)
			r.hello()
			there, err = r.listCopies(ctx)
		}
	}
	if err != nil {
		return err
	}
	missing, held := 0, map[string][]wire.Try{} // by worker
	for _, p := range kept {
		t := wire.Try{Pool: r.index, ID: p.call.ID, Try: p.try}
		if there[wire.JobOf(r.name, r.hub.id, t)] > 0 {
			continue
		}
		if by, again := r.misses(p); again {
			missing++
		} else if by != "" {
			held[by] = append(held[by], t)
		}
	}
	for by, all := range held {
		text, _ := json.Marshal(wire.Held{Hub: r.hub.id, Tries: all})
		_ = r.hub.voice.Publish(wire.HeldOf(by, r.name), text) // a closed connection has nobody to ask
	}
	if missing > 0 {
		r.log.Warn("jobs have vanished from the queue of their pool; they are put into it again", "pool", r.name,
			"jobs", missing)
	}
	return nil
}

// misses handles an attempt without a copy, and reports whether to store it again. If not, by is the worker that has
// it, or "" if nobody awaits it.
func (r *remote) misses(p *parcel) (by string, again bool) {
	r.mu.Lock()
	was := p.kept
	p.kept = time.Time{} // there is nothing to remove
	r.mu.Unlock()
	if r.pool.Vanished(p.call.ID, p.try) {
		return "", true
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	p.kept = was
	return p.by, false
}

// errNoQueue means that the stream is gone, was replaced, or lacks its consumer.
var errNoQueue = errors.New("the queue is gone")

// listCopies returns the sequence numbers of the stored attempts, by subject.
func (r *remote) listCopies(ctx context.Context) (map[string]uint64, error) {
	r.mu.Lock()
	stream, made := r.stream, r.made
	r.mu.Unlock()
	_, err := stream.Consumer(ctx, wire.ConsumerOf(made))
	var info *jetstream.StreamInfo
	if err == nil {
		info, err = stream.Info(ctx, jetstream.WithSubjectFilter(wire.JobsOf(r.name, r.hub.id, r.index)))
	}
	switch {
	case errors.Is(err, jetstream.ErrStreamNotFound), errors.Is(err, jetstream.ErrConsumerNotFound):
		return nil, errNoQueue
	case err != nil:
		return nil, fmt.Errorf("its queue can't be inspected: %w", err)
	case !info.Created.Equal(made):
		return nil, errNoQueue
	}
	return info.State.Subjects, nil
}

// makeQueue makes the work queue if it does not exist.
func (r *remote) makeQueue(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 2*callLimit)
	defer cancel()
	storage := jetstream.MemoryStorage
	if r.hub.conf.Store == "file" {
		storage = jetstream.FileStorage
	}
	config := jetstream.StreamConfig{
		Name: wire.StreamOf(r.name), Description: "jobs of a pool of flowd", Subjects: []string{wire.AllJobsOf(r.name)},
		Retention: jetstream.WorkQueuePolicy, Storage: storage, Duplicates: 100 * time.Millisecond,
	}
	if r.secret != "" { // ignores what clients make the server send to a job's subject
		config.Subjects = []string{wire.AllPutsOf(r.secret, r.name)}
		config.SubjectTransform = &jetstream.SubjectTransformConfig{Source: config.Subjects[0],
			Destination: wire.AllJobsOf(r.name)}
	}
	stream, err := r.js.CreateOrUpdateStream(ctx, config)
	if err != nil {
		return fmt.Errorf("its queue can't be created: %w", err)
	}
	made := stream.CachedInfo().Created
	_, err = stream.CreateOrUpdateConsumer(ctx, jetstream.ConsumerConfig{
		Durable: wire.ConsumerOf(made), AckPolicy: jetstream.AckExplicitPolicy, AckWait: r.lease,
		MaxDeliver: -1, MaxAckPending: -1, MaxWaiting: 1 << 16, MaxRequestBatch: 1,
		MemoryStorage: storage == jetstream.MemoryStorage,
	})
	if err != nil {
		return fmt.Errorf("its queue can't be created: %w", err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stream, r.made = stream, made
	return nil
}

// fails records why jobs can't be stored, and logs it once.
func (r *remote) fails(err error) {
	r.mu.Lock()
	told := r.problem != ""
	r.problem = err.Error()
	r.mu.Unlock()
	if !told {
		r.log.Warn("jobs can't be put into the queue of their pool; flowd keeps retrying", "pool", r.name, "err", err)
	}
}

// works clears the error of fails.
func (r *remote) works() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.problem = ""
}

// stall records since when waiting jobs have not been taken despite free slots.
type stall struct {
	since time.Time // zero: jobs are taken
	takes int       // attempts taken until then
	told  bool
}

// stalls updates the stall. tell is true once when it has lasted too long. r.mu is held.
func (r *remote) stalls(now time.Time) (waiting int, tell bool) {
	idle := 0
	for _, m := range r.members {
		if m.Refused == "" {
			idle += max(0, m.Slots-m.Busy)
		}
	}
	for _, p := range r.sent {
		if p.by == "" {
			waiting++
		}
	}
	s := &r.stall
	switch {
	case waiting == 0 || s.takes != r.takes || idle == 0 && r.problem == "" && r.nc.IsConnected():
		*s = stall{takes: r.takes}
	case s.since.IsZero():
		s.since = now
	case now.Sub(s.since) > stalled && !s.told:
		s.told = true
		return waiting, true
	}
	return waiting, false
}

// trouble returns what keeps jobs from workers that could do them.
func (r *remote) trouble() *engine.Trouble {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.stall.told {
		return nil
	}
	return &engine.Trouble{
		Indicator: "pool_stalled", Since: r.stall.since,
		Impact: "Jobs of pool " + r.name +
			" wait although workers are free; reading stops when the memory for them is used up.",
		Cause: r.cause(),
		Action: "Check the NATS server and its JetStream, and that `flowd pool ls` shows the workers. flowd retries by itself; no restart is " +
			"needed.",
	}
}

// cause returns why jobs are not taken, if known. r.mu is held.
func (r *remote) cause() string {
	switch {
	case !r.nc.IsConnected():
		return "The connection to the NATS server is lost."
	case r.problem != "":
		return "They can't be put into the queue: " + r.problem + "."
	}
	return "They are in the queue " + wire.StreamOf(r.name) +
		" of JetStream, which does not give them to the workers that ask for them."
}

// purgeDead removes the jobs of dead hubs, which do not answer now nor after a lease. A hub that comes back stores
// its jobs again.
func (r *remote) purgeDead(ctx context.Context) {
	r.mu.Lock()
	stream := r.stream
	r.mu.Unlock()
	info, err := stream.Info(ctx, jetstream.WithSubjectFilter(wire.AllJobsOf(r.name)))
	if err != nil {
		return // workers set such jobs aside, too
	}
	hubs := map[string]bool{}
	for subject := range info.State.Subjects {
		if hub, _, ok := wire.TryOf(subject); ok && !hubs[hub] {
			hubs[hub] = r.silent(ctx, hub)
		}
	}
	maps.DeleteFunc(hubs, func(_ string, silent bool) bool { return !silent })
	if len(hubs) == 0 || timing.Sleep(ctx, r.lease) != nil {
		return
	}
	for hub := range hubs {
		if r.silent(ctx, hub) {
			_ = stream.Purge(ctx, jetstream.WithPurgeSubject(wire.JobsOfHub(r.name, hub)))
		}
	}
}

// silent reports whether a hub does not answer.
func (r *remote) silent(ctx context.Context, hub string) bool {
	if hub == r.hub.id {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	_, err := r.nc.RequestWithContext(ctx, wire.ToHub(hub, wire.GetStage, r.nc.ID), nil)
	return errors.Is(err, nats.ErrNoResponders)
}
