package worker

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/pool"
	"github.com/flowd-io/flowd/internal/pool/wire"
	"github.com/nats-io/nats.go"
)

// job is an attempt on a slot.
type job struct {
	*wire.Job
	m      *member
	hub    string
	msg    *nats.Msg
	cancel context.CancelCauseFunc

	done    bool // answered, but not confirmed; guarded by member.mu
	once    sync.Once
	revoked chan struct{} // closed when nobody awaits the answer
}

// Answers to JetStream.
const (
	acked      = "+ACK"
	handedBack = "-NAK"
	inProgress = "+WPI"
	noMore     = "+TERM"
)

func (j *job) ack(what string) { _ = j.m.link.nc.Publish(j.msg.Reply, []byte(what)) } // a lost one is repeated when the lease ends

func (j *job) key() key { return key{j.hub, j.Try.Named()} }

// revoke stops the job without an answer.
func (j *job) revoke() {
	j.once.Do(func() {
		close(j.revoked)
		j.ack(noMore)
		j.cancel(pool.ErrRevoked)
	})
}

// report sends a report on the job to its hub.
func (j *job) report(what string) {
	_ = j.m.link.nc.Publish(wire.ToHub(j.hub, what, j.m.link.nc.ID), j.named())
}

// named encodes the attempt.
func (j *job) named() []byte {
	text, _ := json.Marshal(j.Try)
	return text
}

// pullFor is how long one pull waits at the server.
const pullFor = 30 * time.Second

// slot runs one job after the other until stop ends.
func (m *member) slot(stop context.Context) {
	for stop.Err() == nil {
		if _, fatal := m.link.state(); fatal != nil {
			return
		}
		m.pulls(stop)
	}
}

// pulls takes jobs until stop ends, or the connection is renewed. What the server still delivers for an earlier pull
// is lost, or handed back.
func (m *member) pulls(stop context.Context) {
	again, _ := m.link.state()
	inbox := m.link.nc.NewInbox()
	got := make(chan *nats.Msg, 16)
	sub, err := m.link.nc.ChanSubscribe(inbox, got)
	if err != nil {
		m.pauses(stop, again)
		return
	}
	defer m.endPull(sub, got)
	pull, _ := json.Marshal(map[string]any{"batch": 1, "expires": pullFor})
	for stop.Err() == nil {
		m.mu.Lock()
		refused, from := m.refused != "", wire.PullFrom(m.pool, m.consumer)
		m.mu.Unlock()
		if refused {
			m.pauses(stop, again)
			continue
		}
		_ = m.link.nc.PublishRequest(from, inbox, pull)
		select {
		case <-stop.Done():
		case <-again:
			return
		case <-time.After(pullFor + 5*time.Second):
			return
		case msg := <-got:
			if status := msg.Header.Get("Status"); status == "" {
				m.work(msg)
			} else if status != "408" { // the pool does not exist, or not any more
				m.joinAgain()
				m.pauses(stop, again)
			}
		}
		select {
		case <-again:
			return
		default:
		}
	}
}

func (m *member) isRefused() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.refused != ""
}

func (m *member) pauses(stop context.Context, again <-chan struct{}) {
	select {
	case <-stop.Done():
	case <-again:
	case <-time.After(300 * time.Millisecond):
	}
}

// endPull stops taking jobs, and hands back those that arrived meanwhile.
func (m *member) endPull(sub *nats.Subscription, got chan *nats.Msg) {
	if !m.link.nc.IsConnected() || sub.Drain() != nil {
		return
	}
	for deadline := time.Now().Add(2 * time.Second); ; {
		select {
		case msg := <-got:
			m.giveBack(msg)
		case <-time.After(5 * time.Millisecond):
			if !sub.IsValid() || time.Now().After(deadline) {
				return
			}
		}
	}
}

// giveBack lets another worker have a job that was not begun.
func (m *member) giveBack(msg *nats.Msg) {
	if msg.Header.Get("Status") == "" {
		_ = m.link.nc.Publish(msg.Reply, []byte(handedBack))
	}
}

// work runs a job. It returns when the slot is free again.
func (m *member) work(msg *nats.Msg) {
	ctx, cancel := context.WithCancelCause(context.Background())
	hub, try, ok := wire.TryOf(msg.Subject)
	decoded, err := wire.DecodeJob(msg.Data)
	if try.Key = msg.Header.Get(wire.KeyHeader); !ok || err != nil {
		m.unreadable(msg, hub, try, cmp.Or(err, errNoJob))
		cancel(nil)
		return
	}
	decoded.Try = try
	j := &job{Job: decoded, m: m, hub: hub, msg: msg, cancel: cancel, revoked: make(chan struct{})}
	m.mu.Lock()
	m.running[j.key()] = j
	m.mu.Unlock()
	if !j.begins(ctx) {
		return
	}
	back := make(chan struct{})
	var s *stage
	if s, err = m.stageOf(ctx, j.hub, j.Hash); err != nil {
		j.report(wire.Returned)
		j.ack(handedBack)
		m.forget(j)
		if !m.isRefused() {
			m.pauses(ctx, nil)
		}
		return
	}
	m.use(s, 1)
	go func() {
		defer close(back)
		defer m.use(s, -1)
		j.run(ctx, s)
	}()
	late := time.NewTimer(s.Timeout + patience)
	defer late.Stop()
	select {
	case <-back:
		return
	case <-late.C: // the hub has given the job up, but could not report that
		j.revoke()
	case <-ctx.Done():
	}
	most := s.Timeout
	if context.Cause(ctx) == errHandedBack {
		most = min(most, handingBack)
	}
	select {
	case <-back:
	case <-time.After(most):
		m.log.Warn("a job that nobody is waiting for does not end; its slot continues without it")
		m.forget(j)
	}
}

var errNoJob = errors.New("it is not from a hub")

// unreadableTries is how often workers try to read a job, since one of them may know its version.
const unreadableTries = 10

// unreadable hands back a job that this worker can't read: it comes from another version, or from another program.
// The job is redelivered a few times, for workers that know its version. Then the worker reports it to the hub, if
// there is one, and removes it.
func (m *member) unreadable(msg *nats.Msg, hub string, t wire.Try, why error) {
	j := &job{m: m, hub: hub, msg: msg, Job: &wire.Job{Try: t}}
	if about, err := msg.Metadata(); err == nil && about.NumDelivered < unreadableTries {
		m.log.Warn("a job can't be read; it is handed back", "hub", hub, "err", why)
		m.giveBack(msg)
		return
	}
	m.log.Error("a job can't be read; it is removed from the queue", "hub", hub, "err", why)
	if t.Key != "" {
		answer := wire.EncodeAnswer(t, nil, engine.Errorf(engine.Decode, "the job can't be read: %w", why))
		_, _ = m.asks(context.Background(), confirmWithin, hub, j.answering(answer)) // otherwise the hub notices that the job is gone
	}
	j.ack(noMore)
}

// later redelivers a job after a pause.
func (j *job) later(pause time.Duration) {
	delay, _ := json.Marshal(map[string]time.Duration{"delay": pause})
	j.ack(handedBack + " " + string(delay))
}

// begins reports to the hub that the job is taken. A job that another worker has had may not be awaited any more.
// Only the hub knows, if it is there.
func (j *job) begins(ctx context.Context) bool {
	since, known := j.m.silence(j.hub)
	if !since.IsZero() {
		j.setAside(since)
		return false
	}
	if about, err := j.msg.Metadata(); known && err == nil && about.NumDelivered == 1 {
		j.report(wire.Taken)
		return true
	}
	return j.isAwaited(ctx, known)
}

// handingBack is how long a job that is handed back may take to end.
const handingBack = 2 * time.Second

func (m *member) use(s *stage, n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s.uses += n
}

func (m *member) forget(j *job) {
	j.cancel(nil)
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.running[j.key()] == j {
		delete(m.running, j.key())
	}
}

// run runs the job and sends the answer.
func (j *job) run(ctx context.Context, s *stage) {
	result, err := j.result(ctx, s)
	switch context.Cause(ctx) {
	case pool.ErrRevoked:
		j.m.forget(j)
		return
	case errHandedBack:
		if err != nil || result.Failure() != nil { // the time may have run out
			j.report(wire.Returned)
			j.ack(handedBack)
			j.m.forget(j)
			return
		}
	}
	answer := wire.EncodeAnswer(j.Try, result, err)
	if most := j.m.link.nc.MaxPayload(); most > 0 && int64(len(answer)) > most-wire.HeaderRoom {
		err = engine.Errorf(engine.Rejected,
			"the answer has %d bytes with its metadata, but the cluster allows %d (raise service.cluster.max_payload of the hub)", len(answer),
			most-wire.HeaderRoom)
		answer = wire.EncodeAnswer(j.Try, nil, err)
	}
	j.m.unconfirmed <- struct{}{}
	j.m.mu.Lock()
	j.done = true
	j.m.mu.Unlock()
	j.m.late.Go(func() { j.answer(answer, sync.OnceFunc(func() { <-j.m.unconfirmed })) })
}

func (j *job) result(ctx context.Context, s *stage) (*pool.Result, error) {
	b, err := j.Messages()
	if err != nil {
		return nil, err
	}
	return pool.Run(ctx, s.steps.Runner, slices.Collect(b.All()))
}

const (
	confirmWithin = 2 * time.Second  // before an answer is resent
	keepAnswers   = 15 * time.Second // for a hub that is not there
)

// answer resends the answer until the hub confirms it, and renews its lease. The slot continues meanwhile and, while
// the hub is away, so do others: release is called then, or at the end.
func (j *job) answer(answer []byte, release func()) {
	defer release()
	defer j.m.forget(j)
	ended := j.m.stop.Done()
	for gone := time.Now().Add(keepAnswers); ; {
		_, err := j.m.asks(context.Background(), confirmWithin, j.hub, j.answering(answer))
		if err == nil {
			j.ack(acked)
			return
		}
		if since, _ := j.m.silence(j.hub); !since.IsZero() {
			release()
		}
		select {
		case <-ended:
			ended = nil
			if soon := time.Now().Add(confirmWithin); soon.Before(gone) {
				gone = soon
			}
		default:
		}
		if errors.Is(err, nats.ErrConnectionClosed) || time.Now().After(gone) {
			j.m.log.Warn("an answer is dropped: its hub is away", "err", err)
			j.ack(noMore)
			return
		}
		select {
		case <-j.revoked:
			return
		case <-time.After(300 * time.Millisecond):
		}
	}
}

// answering returns the message with an answer.
func (j *job) answering(answer []byte) *nats.Msg {
	return &nats.Msg{Subject: wire.ToHub(j.hub, wire.Answer, j.m.link.nc.ID), Data: answer,
		Header: nats.Header{wire.WorkerHeader: {wire.Name()}}}
}
