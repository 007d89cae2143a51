package hub

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/flowd-io/flowd/internal/pool/wire"
)

// member is a worker of a pool.
type member struct {
	wire.Beat
	heard time.Time
}

// Handlers of workers' messages. Each subject has one goroutine. Messages that can't be parsed do not come from
// flowd, and are dropped.

// answers sends an answer to the client's own inbox, and nowhere else.
func (h *Hub) answers(msg *nats.Msg, text []byte) {
	_, to := wire.Asker(msg.Subject, msg.Reply)
	if to != "" {
		_ = h.voice.Publish(to, text) // fails if the client is gone
	} else if msg.Reply != "" {
		h.log.Warn("a client asks for an answer to an inbox that is not its own; it gets none")
	}
}

func (h *Hub) respond(msg *nats.Msg, answer any) {
	if text, err := json.Marshal(answer); err == nil {
		h.answers(msg, text)
	}
}

// join gives a worker the configuration of a pool.
func (h *Hub) join(msg *nats.Msg) {
	var j wire.Join
	name := wire.PoolOf(msg.Subject)
	if json.Unmarshal(msg.Data, &j) != nil {
		return
	}
	j.Worker, j.Version = brief(j.Worker), brief(j.Version)
	for _, r := range h.all() {
		if r.name == name {
			h.respond(msg, r.welcome(&j))
			return
		}
	}
	if h.conf.URL.IsZero() { // no other hub could have it
		h.respond(msg, wire.Welcome{})
	}
}

// Limits of what workers report about themselves.
const (
	longestName   = 200  // bytes
	longestReason = 1000 // bytes
	mostSlots     = 1 << 20
)

func brief(name string) string { return cut(name, longestName) }

func cut(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "…"
}

func (r *remote) welcome(j *wire.Join) wire.Welcome {
	if v := wire.Version(); j.Version != v || j.Protocol != wire.Protocol {
		r.refuse(j, time.Now())
		return wire.Welcome{Refused: fmt.Sprintf("the hub runs flowd %s, but this worker runs %s (install the same version)", v, j.Version)}
	}
	r.doubt() // a worker also asks again if it gets no jobs from the queue
	r.mu.Lock()
	defer r.mu.Unlock()
	return wire.Welcome{Hub: r.hub.id, Consumer: wire.ConsumerOf(r.made), Hash: r.hash, Stage: r.text}
}

// stage gives a worker the configuration with a hash.
func (h *Hub) stage(msg *nats.Msg) {
	for _, r := range h.all() {
		if r.hash == string(msg.Data) {
			h.answers(msg, r.text)
			return
		}
	}
	h.answers(msg, nil)
}

// handleReport handles workers' messages to this hub, in each worker's order.
func (h *Hub) handleReport(msg *nats.Msg) {
	switch wire.What(msg.Subject) {
	case wire.Taken:
		h.taken(msg)
	case wire.Returned:
		h.returned(msg)
	case wire.Lacks:
		h.lacks(msg)
	case wire.Answer:
		h.answer(msg)
	case wire.GetStage:
		h.stage(msg)
	}
}

// about returns the attempt that a worker reports on, and its pool, or nil.
func (h *Hub) about(msg *nats.Msg) (t wire.Try, r *remote) {
	if json.Unmarshal(msg.Data, &t) != nil || !h.given(msg, t) {
		return t, nil
	}
	return t, h.poolAt(t.Pool)
}

func (h *Hub) taken(msg *nats.Msg) {
	t, r := h.about(msg)
	awaited := r != nil && r.pool.Taken(t.ID, t.Try)
	switch {
	case awaited:
		from, _ := wire.Asker(msg.Subject, "")
		r.takenBy(t, from)
		h.answers(msg, []byte(wire.Awaited)) // the worker waits for this before it begins
	case msg.Reply != "":
		h.answers(msg, nil)
	case r != nil:
		t = t.Named()
		r.down(wire.Down{Cancel: &t})
	}
}

// takenBy records which worker has an attempt.
func (r *remote) takenBy(t wire.Try, worker string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.takes++
	if p := r.sent[t.ID]; p != nil && p.try == t.Try {
		p.by = worker
	}
}

func (h *Hub) returned(msg *nats.Msg) {
	if t, r := h.about(msg); r != nil {
		from, _ := wire.Asker(msg.Subject, "")
		r.returnedBy(t, from)
	}
}

// returnedBy records that a worker has handed back an attempt. It reports whether that worker was the last to take
// it.
func (r *remote) returnedBy(t wire.Try, worker string) bool {
	r.mu.Lock()
	p := r.sent[t.ID]
	its := p != nil && p.try == t.Try && p.by == worker
	if its {
		p.by = ""
	}
	r.mu.Unlock()
	if its {
		r.pool.Returned(t.ID, t.Try)
	}
	return its
}

// lacks handles the answer to [wire.Held]. It needs no keys: the worker has shown them for these attempts.
func (h *Hub) lacks(msg *nats.Msg) {
	var all []wire.Try
	if json.Unmarshal(msg.Data, &all) != nil {
		return
	}
	from, _ := wire.Asker(msg.Subject, "")
	for _, t := range all {
		if r := h.poolAt(t.Pool); r != nil && r.returnedBy(t, from) {
			r.doubt() // its copy is gone
		}
	}
}

// answer handles the outcome of an attempt, and confirms it even if nobody waits for it.
func (h *Hub) answer(msg *nats.Msg) {
	worker := brief(msg.Header.Get(wire.WorkerHeader))
	t, result, failure, err := wire.DecodeAnswer(msg.Data, worker)
	if err != nil {
		h.log.Warn("an answer of a worker can't be read", "worker", worker, "err", err)
		h.answers(msg, nil)
		return
	}
	if !h.given(msg, t) {
		return
	}
	if r := h.poolAt(t.Pool); r != nil {
		r.answered(t)
		r.pool.Answer(t.ID, t.Try, result, failure)
	}
	h.answers(msg, nil)
}

// beat handles a heartbeat.
func (h *Hub) beat(msg *nats.Msg) {
	var b wire.Beat
	name := wire.PoolOf(msg.Subject)
	if json.Unmarshal(msg.Data, &b) != nil || b.Slots < 0 || b.Slots > mostSlots || b.Busy < 0 || b.Busy > b.Slots ||
		b.Lease < 0 {
		return
	}
	b.Name, b.Version, b.Refused = brief(b.Name), brief(b.Version), cut(b.Refused, longestReason)
	from, _ := wire.Asker(msg.Subject, "")
	for _, r := range h.all() {
		if r.name == name {
			r.heard(from, b)
		}
	}
}

// heard records the heartbeat of a connection, which is one worker of the pool. An embedded server limits
// connections, and thereby workers.
func (r *remote) heard(from string, b wire.Beat) {
	r.mu.Lock()
	known := r.members[from]
	if known == nil && len(r.members) >= mostConnections {
		r.mu.Unlock()
		return
	}
	delete(r.absent, from)
	if b.Slots == 0 {
		delete(r.members, from)
	} else {
		r.members[from] = &member{b, time.Now()}
	}
	n := r.able()
	r.mu.Unlock()
	switch {
	case b.Refused != "" && (known == nil || known.Refused != b.Refused):
		r.log.Warn("a worker takes no jobs of the pool", "pool", r.name, "worker", b.Name, "reason", b.Refused)
	case b.Slots == 0 && known != nil:
		r.log.Info("a worker has left the pool", "pool", r.name, "worker", b.Name)
	case b.Slots > 0 && known == nil && b.Refused == "":
		r.log.Info("a worker has joined the pool", "pool", r.name, "worker", b.Name, "slots", b.Slots)
	}
	r.pool.Members(n)
}

// able returns the number of workers that take jobs. r.mu is held.
func (r *remote) able() (n int) {
	for _, m := range r.members {
		if m.Refused == "" {
			n++
		}
	}
	return n
}

// expire forgets workers without heartbeats, gives up their jobs when the lease ends, and logs when jobs wait for a
// worker or for another reason. It also sends this hub's heartbeat.
func (r *remote) expire() {
	r.down(wire.Down{})
	_, waiting := r.pool.Counts()
	every, now := wire.BeatEvery(r.lease), time.Now()
	r.mu.Lock()
	r.awakes(now, every)
	var gone []string
	for id, m := range r.members {
		if time.Since(m.heard) > 3*every {
			delete(r.members, id)
			r.absent[id] = m.heard
			gone = append(gone, m.Name)
		}
	}
	lost := r.overdue()
	n := r.able()
	alone := n == 0 && waiting > 0
	told := r.alone
	stuck, tell := r.stalls(now)
	cause := r.cause()
	if r.alone = alone; !r.closed {
		r.watch.Reset(every)
	}
	r.mu.Unlock()
	for _, t := range lost {
		r.pool.Lost(t.ID, t.Try)
	}
	for _, name := range gone {
		r.log.Warn("a worker of the pool is no longer heard from", "pool", r.name, "worker", name)
	}
	if alone && !told {
		r.log.Warn("jobs wait, but the pool has no workers", "pool", r.name, "jobs", waiting, "remedy",
			"flowd worker --join HOST:PORT --pool "+r.name)
	}
	if tell {
		r.log.Warn("jobs wait although workers of the pool are free", "pool", r.name, "jobs", stuck, "cause", cause)
	}
	r.pool.Members(n)
}

// awakes handles a gap in which this hub was suspended or cut off: then its workers were not silent, and they have
// considered the hub gone. r.mu is held.
func (r *remote) awakes(now time.Time, every time.Duration) {
	late := !r.ticked.IsZero() && now.Sub(r.ticked) > max(r.lease, 2*every)
	if r.ticked = now; late {
		r.doubt()
	}
	if !late && r.nc.IsConnected() {
		return
	}
	for _, m := range r.members {
		m.heard = now
	}
	for id := range r.absent {
		r.absent[id] = now
	}
}

// overdue returns the attempts of workers that have been gone for a lease. r.mu is held. JetStream redelivers them to
// other workers, if there are any.
func (r *remote) overdue() (lost []wire.Try) {
	for id, heard := range r.absent {
		if time.Since(heard) <= r.lease {
			continue
		}
		delete(r.absent, id)
		for call, p := range r.sent {
			if p.by == id {
				p.by = ""
				lost = append(lost, wire.Try{ID: call, Try: p.try})
			}
		}
	}
	return lost
}

// list answers with all pools.
func (h *Hub) list(msg *nats.Msg) {
	answer := wire.Pools{Hub: h.id, Host: wire.Name(), Version: wire.Version()}
	for _, r := range h.all() {
		answer.Pools = append(answer.Pools, r.state())
	}
	h.respond(msg, answer)
}

func (r *remote) state() wire.PoolState {
	s := wire.PoolState{Name: r.name, Pipeline: r.pipeline, Hash: r.hash[:12], Lease: r.lease, Members: []wire.Member{}}
	s.InFlight, s.Waiting = r.pool.Counts()
	r.mu.Lock()
	defer r.mu.Unlock()
	for id, m := range r.members {
		s.Members = append(s.Members, wire.Member{
			Worker: r.hub.keys.alias(id), Name: m.Name, Version: m.Version, Slots: m.Slots, Busy: m.Busy,
			LeaseAge: m.Lease, Heard: time.Since(m.heard), Refused: m.Refused,
		})
	}
	slices.SortFunc(s.Members, func(a, b wire.Member) int { return strings.Compare(a.Name+a.Worker, b.Name+b.Worker) })
	return s
}
