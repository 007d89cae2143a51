// Package notify tells a webhook or a program what becomes of pipelines: service.notify. Start at [Notifier].
package notify

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/expr"
	"github.com/flowd-io/flowd/internal/components/programs"
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

// Config says which events are sent, and where to.
type Config struct {
	On    []string // of Kinds
	After time.Duration
	HTTP  *HTTP // nil: no webhook
	Exec  *Exec // nil: no program
}

// HTTP is a webhook.
type HTTP struct {
	Calls   httpx.Calls
	Body    expr.Body     // of the event as a message; zero: the event itself
	Timeout time.Duration // of one request
}

// Exec is a program that runs for each event.
type Exec struct {
	Command programs.Command
	Timeout time.Duration // of one run
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

// Notifier sends the events of one process, in order. Its methods are safe for concurrent use and never wait for a
// receiver. A nil Notifier does nothing.
type Notifier struct {
	cfg       Config
	snapshots func() []engine.Snapshot
	secrets   *schema.Secrets
	log       *slog.Logger
	host      string
	receivers []*receiver
}

// receiver is where events are sent: the webhook or the program. A receiver that is down does not delay others.
type receiver struct {
	name    string // for the log
	queue   chan Event
	timeout time.Duration                            // of one attempt
	send    func(ctx context.Context, e Event) error // one attempt
	close   func()
}

// New makes a notifier for a process whose pipelines snapshots returns. It reads certificates, and locates the program.
func New(c Config, snapshots func() []engine.Snapshot, secrets *schema.Secrets, log *slog.Logger) (*Notifier, error) {
	n := &Notifier{cfg: c, snapshots: snapshots, secrets: secrets, log: log}
	n.host, _ = os.Hostname() // "" says as much as an error would
	if c.HTTP != nil {
		caller := httpx.NewCaller(&c.HTTP.Calls, secrets)
		if err := caller.Open(false); err != nil {
			return nil, fmt.Errorf("service.notify.http: %w", err)
		}
		post := func(ctx context.Context, e Event) error { return c.HTTP.post(ctx, caller, e) }
		n.receivers = append(n.receivers, &receiver{"http", make(chan Event, most), c.HTTP.Timeout, post, caller.Close})
	}
	if c.Exec != nil {
		p := &programs.Program{Command: c.Exec.Command, Secrets: secrets}
		if err := p.Find(); err != nil {
			return nil, fmt.Errorf("service.notify.exec: %w", err)
		}
		run := func(ctx context.Context, e Event) error { return run(ctx, p, e) }
		n.receivers = append(n.receivers, &receiver{"exec", make(chan Event, most), c.Exec.Timeout, run, func() {}})
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
	last, cancel := context.WithCancel(kill)
	defer cancel()
	complete := make(chan struct{}) // closed when no more events are added
	var sending sync.WaitGroup
	for _, r := range n.receivers {
		sending.Go(func() { n.serve(ctx, last, complete, r) })
	}
	n.watch(ctx)
	close(complete)
	end := time.AfterFunc(goodbye, cancel)
	defer end.Stop()
	sending.Wait()
}

// serve sends the events of one receiver until all of them are sent or lost.
func (n *Notifier) serve(ctx, last context.Context, complete chan struct{}, r *receiver) {
	defer r.close()
	send := func(e Event) {
		if err := r.deliver(ctx, last, e); err != nil {
			n.lost(e, r, err)
		}
	}
	for {
		select {
		case e := <-r.queue:
			send(e)
		case <-complete:
			for len(r.queue) > 0 {
				send(<-r.queue)
			}
			return
		}
	}
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

// add puts an event into the queues if somebody wants to know.
func (n *Notifier) add(e Event) {
	if !slices.Contains(n.cfg.On, e.Event) {
		return
	}
	e.Host, e.Time = n.host, time.Now()
	for _, r := range n.receivers {
		select {
		case r.queue <- e:
		default:
			n.lost(e, r, fmt.Errorf("%d others wait to be sent", most))
		}
	}
}

func (n *Notifier) lost(e Event, r *receiver, err error) {
	n.log.Error("a notification was lost", "event", e.Event, "of", e.Pipeline, "to", r.name, "err", n.secrets.Mask(err.Error()))
}

// deliver tries to send an event until that succeeds, can't succeed, or last ends. The end of ctx cuts a wait short, but not
// an attempt, which might have an effect already.
func (r *receiver) deliver(ctx, last context.Context, e Event) error {
	began, ending := time.Now(), ctx.Done()
	for wait := firstTry; ; wait = min(2*wait, longest) {
		attempt, cancel := context.WithTimeout(last, r.timeout)
		err := r.send(attempt, e)
		cancel()
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
		case <-last.Done():
			return err
		case <-ending:
			ending, wait = nil, firstTry/2 // the next wait is firstTry
		case <-time.After(wait):
		}
	}
}

// post sends a request.
func (h *HTTP) post(ctx context.Context, caller *httpx.Caller, e Event) error {
	body, err := json.Marshal(e)
	if err != nil {
		return engine.WithClass(engine.Permanent, err)
	}
	m := engine.NewBatch(1).Add(body)
	target, header, err := caller.Target(m)
	if err != nil {
		return engine.WithClass(engine.Permanent, err)
	}
	if !h.Body.IsZero() {
		if body, err = h.Body.AppendBody(nil, m); err != nil {
			return engine.WithClass(engine.Permanent, fmt.Errorf("service.notify.http.body: %w", err))
		}
	}
	if header.Get("Content-Type") == "" {
		header.Set("Content-Type", httpx.ContentType(body))
	}
	res, err := caller.Do(ctx, http.MethodPost, target, header, body)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	return httpx.Drain(res)
}

// maxVariable is the longest variable in the environment, in bytes. Linux allows 128 KiB.
const maxVariable = 64 << 10

// run runs the program for an event: its environment has the fields that are text, its standard input has all, as JSON.
func run(ctx context.Context, p *programs.Program, e Event) error {
	all, err := json.Marshal(e)
	if err != nil {
		return engine.WithClass(engine.Permanent, err)
	}
	env := []string{"FLOWD_EVENT=" + e.Event, "FLOWD_PIPELINE=" + e.Pipeline, "FLOWD_HOST=" + e.Host,
		"FLOWD_TIME=" + e.Time.Format(time.RFC3339Nano), "FLOWD_REASON=" + e.Reason}
	for i, v := range env {
		env[i] = strings.ReplaceAll(v[:min(len(v), maxVariable)], "\x00", " ")
	}
	if err = p.Run(ctx, bytes.NewReader(append(all, '\n')), nil, env...); err != nil && ctx.Err() != nil {
		return engine.Errorf(engine.Timeout, "the program was killed, since it did not end in time: %w", ctx.Err())
	}
	return err
}
