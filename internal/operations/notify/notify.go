// Package notify tells a webhook what becomes of pipelines: service.notify. Start at [Notifier].
package notify

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/expr"
	"github.com/flowd-io/flowd/internal/network/httpx"
	"github.com/flowd-io/flowd/internal/operations/service"
	"github.com/flowd-io/flowd/schema"
)

// The kinds of events.
const (
	Failed   = "failed"    // a pipeline has ended with an error
	Stopped  = "stopped"   // a pipeline has ended without an error
	NotReady = "not_ready" // a pipeline has not been ready for Config.After
	Ready    = "ready"     // a pipeline is ready, at the start or after NotReady
)

// Kinds are all kinds of events.
var Kinds = []string{Failed, Stopped, NotReady, Ready}

// Config says what is sent, and where.
type Config struct {
	On      []string // of Kinds
	After   time.Duration
	Calls   httpx.Calls
	Body    expr.Body     // of the event as a message; zero: the event itself
	Timeout time.Duration // of one request
}

// Event is what is sent, as JSON.
type Event struct {
	Event    string          `json:"event"`
	Pipeline string          `json:"pipeline"`
	Host     string          `json:"host"`
	Time     time.Time       `json:"time"`
	Reason   string          `json:"reason,omitempty"` // of Failed: the error
	Checks   []service.Check `json:"checks,omitempty"` // of NotReady: what /ready says
}

const (
	look     = time.Second      // how often readiness is checked
	most     = 256              // events that wait; more are lost
	longest  = time.Minute      // between two attempts
	giveUp   = 15 * time.Minute // after the first attempt
	goodbye  = 5 * time.Second  // for the events that are left at the end
	firstTry = time.Second      // the first wait
)

// Notifier sends the events of one process, in order. Its methods are safe for concurrent use and never wait for the
// network. A nil Notifier does nothing.
type Notifier struct {
	cfg       Config
	snapshots func() []engine.Snapshot
	secrets   *schema.Secrets
	log       *slog.Logger
	caller    *httpx.Caller
	send      func(ctx context.Context, e Event) error // one attempt
	host      string
	queue     chan Event
}

// New makes a notifier for a process whose pipelines snapshots returns. It reads certificates.
func New(c Config, snapshots func() []engine.Snapshot, secrets *schema.Secrets, log *slog.Logger) (*Notifier, error) {
	n := &Notifier{cfg: c, snapshots: snapshots, secrets: secrets, log: log, queue: make(chan Event, most)}
	n.send = n.post
	n.host, _ = os.Hostname() // "" says as much as an error would
	n.caller = httpx.NewCaller(&n.cfg.Calls, secrets)
	if err := n.caller.Open(false); err != nil {
		return nil, fmt.Errorf("service.notify: %w", err)
	}
	return n, nil
}

// Ended notes that a pipeline has ended. err is nil if it was stopped or its inputs have ended.
func (n *Notifier) Ended(pipeline string, err error) {
	switch {
	case n == nil:
	case err != nil:
		n.add(Event{Event: Failed, Pipeline: pipeline, Reason: n.secrets.Mask(err.Error())})
	default:
		n.add(Event{Event: Stopped, Pipeline: pipeline})
	}
}

// Run watches the pipelines and sends events until ctx ends. Then it sends what is left, for at most a few seconds, and not
// after kill has ended.
func (n *Notifier) Run(ctx, kill context.Context) {
	if n == nil {
		return
	}
	var watching sync.WaitGroup
	watching.Go(func() { n.watch(ctx) })
	var left []Event
	for ctx.Err() == nil {
		select {
		case e := <-n.queue:
			if err := n.deliver(ctx, e); ctx.Err() != nil && err != nil {
				left = append(left, e)
			} else if err != nil {
				n.lost(e, err)
			}
		case <-ctx.Done():
		}
	}
	watching.Wait()
	for len(n.queue) > 0 {
		left = append(left, <-n.queue)
	}
	last, cancel := context.WithTimeout(kill, goodbye)
	defer cancel()
	for _, e := range left {
		if err := n.deliver(last, e); err != nil {
			n.lost(e, err)
		}
	}
	n.caller.Close()
}

// watch adds an event when a pipeline becomes ready, or stops being ready.
func (n *Notifier) watch(ctx context.Context) {
	tick := time.NewTicker(look)
	defer tick.Stop()
	pipelines := map[string]*readiness{}
	for {
		all := n.snapshots()
		failing := map[string][]service.Check{}
		for _, c := range service.Ready(all).Checks {
			failing[c.Pipeline] = append(failing[c.Pipeline], c)
		}
		for _, s := range all {
			if s.State == engine.Stopped {
				delete(pipelines, s.Pipeline) // Ended has added an event
				continue
			}
			p := pipelines[s.Pipeline]
			if p == nil {
				p = &readiness{since: time.Now()}
				pipelines[s.Pipeline] = p
			}
			if kind := p.next(len(failing[s.Pipeline]) == 0, n.cfg.After); kind != "" {
				n.add(Event{Event: kind, Pipeline: s.Pipeline, Checks: n.masked(failing[s.Pipeline])})
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// readiness is what is known of one pipeline.
type readiness struct {
	told  string    // the last event
	ready bool      // at the last look
	since time.Time // when it was not ready for the first time
}

// next returns the event that a look at the pipeline leads to, or "".
func (r *readiness) next(ready bool, after time.Duration) (kind string) {
	if r.ready && !ready {
		r.since = time.Now()
	}
	switch r.ready = ready; {
	case ready && r.told != Ready:
		kind = Ready
	case !ready && r.told != NotReady && time.Since(r.since) >= after:
		kind = NotReady
	default:
		return ""
	}
	r.told = kind
	return kind
}

func (n *Notifier) masked(checks []service.Check) []service.Check {
	checks = slices.Clone(checks)
	for i := range checks {
		checks[i].Error = n.secrets.Mask(checks[i].Error)
	}
	return checks
}

// add puts an event into the queue if somebody wants to know.
func (n *Notifier) add(e Event) {
	if !slices.Contains(n.cfg.On, e.Event) {
		return
	}
	e.Host, e.Time = n.host, time.Now()
	select {
	case n.queue <- e:
	default:
		n.lost(e, fmt.Errorf("%d others wait to be sent", most))
	}
}

func (n *Notifier) lost(e Event, err error) {
	n.log.Error("a notification was lost", "event", e.Event, "of", e.Pipeline, "err", n.secrets.Mask(err.Error()))
}

// deliver tries to send an event until that succeeds, can't succeed, or ctx ends.
func (n *Notifier) deliver(ctx context.Context, e Event) error {
	began := time.Now()
	for wait := firstTry; ; wait = min(2*wait, longest) {
		err := n.send(ctx, e)
		if err == nil {
			return nil
		}
		why, _ := errors.AsType[*engine.Error](err)
		if why != nil {
			wait = max(wait, why.Delay)
		}
		hopeless := why != nil && (why.Class == engine.Rejected || why.Class == engine.Permanent || why.Class == engine.Auth)
		if hopeless || time.Since(began)+wait > giveUp {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(wait):
		}
	}
}

// post makes one attempt.
func (n *Notifier) post(ctx context.Context, e Event) error {
	ctx, cancel := context.WithTimeout(ctx, n.cfg.Timeout)
	defer cancel()
	body, err := json.Marshal(e)
	if err != nil {
		return engine.WithClass(engine.Permanent, err)
	}
	m := engine.NewBatch(1).Add(body)
	target, header, err := n.caller.Target(m)
	if err != nil {
		return engine.WithClass(engine.Permanent, err)
	}
	if !n.cfg.Body.IsZero() {
		if body, err = n.cfg.Body.AppendBody(nil, m); err != nil {
			return engine.WithClass(engine.Permanent, fmt.Errorf("service.notify.http.body: %w", err))
		}
	}
	if header.Get("Content-Type") == "" {
		header.Set("Content-Type", httpx.ContentType(body))
	}
	res, err := n.caller.Do(ctx, http.MethodPost, target, header, body)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	return httpx.Drain(res)
}
