package hub

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/pool"
	"github.com/flowd-io/flowd/internal/pool/wire"
	"github.com/flowd-io/flowd/internal/pool/worker"
	"github.com/flowd-io/flowd/internal/testing/steptest"
	_ "github.com/flowd-io/flowd/processors/set"
	"github.com/flowd-io/flowd/schema"
	"github.com/nats-io/nats.go"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// gates hold up messages in workers, by their payloads.
var gates sync.Map // of chan struct{}

// entered is called for each message that reaches a gate.
var entered = make(chan string, 1000)

func init() {
	engine.Register(engine.Processors, "test_gate", "Waits.", struct{}{},
		func(struct{}, engine.Env) (engine.Processor, error) {
			return engine.ProcessorFunc(func(ctx context.Context, m *engine.Message) error {
				body := string(m.Bytes())
				entered <- body
				if gate, ok := gates.Load(body); ok {
					select {
					case <-gate.(chan struct{}):
					case <-ctx.Done():
						return context.Cause(ctx)
					}
				}
				m.SetBytes([]byte(strings.ToUpper(body)))
				return nil
			}), nil
		})
}

// holdUp holds up a payload until open is called.
func holdUp(t *testing.T, body string) (open func()) {
	c := make(chan struct{})
	gates.Store(body, c)
	open = sync.OnceFunc(func() { gates.Delete(body); close(c) })
	t.Cleanup(open)
	return open
}

// site is a hub with one pool.
type site struct {
	t    *testing.T
	conf *wire.Config
	hub  *Hub
	pool *pool.Pool
}

func newSite(t *testing.T, conf wire.Config, policy pool.Policy) *site {
	t.Helper()
	if conf.Listen == "" {
		conf.Listen = "127.0.0.1:0"
	}
	conf.MaxPayload = max(conf.MaxPayload, 1<<16)
	s := &site{t: t, conf: &conf}
	shared := &engine.Shared{}
	wire.Of(shared).Config = s.conf
	s.hub = Of(shared)
	s.pool = s.open(policy)
	t.Cleanup(s.close)
	return s
}

func (s *site) open(policy pool.Policy) *pool.Pool {
	s.t.Helper()
	policy.Name, policy.MaxPending = "p", max(policy.MaxPending, 100)
	policy.Timeout = max(policy.Timeout, time.Hour)
	var steps wire.Steps
	steptest.Decode(s.t, `[{"test_gate": {}}]`, &steps)
	stage, err := steps.Stage(false, time.Hour)
	if err != nil {
		s.t.Fatal(err)
	}
	stage.Lease, stage.Timeout = time.Second, policy.Timeout
	p, err := s.hub.Open(context.Background(), policy, stage,
		engine.Env{Log: slog.New(slog.DiscardHandler), Pipeline: "test"})
	if err != nil {
		s.t.Fatal(err)
	}
	return p
}

func (s *site) close() {
	if err := s.hub.Close(context.Background(), s.pool); err != nil {
		s.t.Error(err)
	}
}

// work starts a worker at an address, and returns how to end it: finishing, or at once.
func (s *site) work(addr string, slots int) (stop, kill func()) {
	stopping, noMore := context.WithCancel(context.Background())
	killing, now := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		c := worker.Config{Join: []wire.Target{{URL: addr, Token: s.conf.Token.Reveal()}}, Pools: []string{"p"},
			Slots: slots, Grace: time.Hour, Log: slog.New(slog.DiscardHandler)}
		if err := worker.Run(stopping, killing, c); err != nil {
			s.t.Error(err)
		}
	}()
	stop = func() { noMore(); <-ended }
	kill = func() { now(); stop() }
	s.t.Cleanup(kill)
	return stop, kill
}

// call submits a job of one message and returns where its end arrives.
func call(p *pool.Pool, body string) (*pool.Call, <-chan string) {
	jobs := engine.NewBatch(1)
	jobs.Add([]byte(body)).Ref = 1
	end := make(chan string, 2)
	return p.Submit(jobs, func(r *pool.Result, err error) {
		switch {
		case err != nil:
			end <- "error: " + err.Error()
		case r.Ends[0].Err != nil:
			end <- "failed: " + r.Ends[0].Err.Error()
		default:
			end <- string(r.Made[0].Body)
		}
	}), end
}

func want(t *testing.T, end <-chan string, text string) {
	t.Helper()
	if got := <-end; !strings.Contains(got, text) {
		t.Errorf("got %q, want %q", got, text)
	}
}

// comes waits until a message has arrived at a worker.
func comes(t *testing.T, body string) {
	t.Helper()
	for got := range entered {
		if got == body {
			return
		}
	}
}

// wantNothingLeft waits until the queue is empty, and looks at what the hub remembers.
func (s *site) wantNothingLeft() {
	s.t.Helper()
	for _, r := range s.hub.all() {
		for {
			stream, err := r.js.Stream(s.t.Context(), wire.StreamOf(r.name))
			if err != nil {
				s.t.Fatal(err)
			}
			if stream.CachedInfo().State.Msgs == 0 {
				break
			}
		}
		r.mu.Lock()
		if len(r.sent) != 0 {
			s.t.Errorf("%d jobs are still remembered", len(r.sent))
		}
		r.mu.Unlock()
		if taken, waiting := r.pool.Counts(); taken+waiting != 0 {
			s.t.Errorf("%d calls are taken, %d wait", taken, waiting)
		}
	}
}

// stored waits until all jobs of a pool are in the queue.
func (s *site) stored(index int) {
	for r, all := s.hub.all()[index], false; !all; {
		r.mu.Lock()
		all = len(r.sent) > 0
		for _, p := range r.sent {
			all = all && !p.kept.IsZero()
		}
		r.mu.Unlock()
	}
}

func TestWorkersAnswer(t *testing.T) {
	s := newSite(t, wire.Config{Token: schema.NewSecret("hush")}, pool.Policy{MaxPending: 100})
	var ends []<-chan string
	for i := range 200 {
		_, end := call(s.pool, fmt.Sprintf("a%03d", i))
		ends = append(ends, end)
	}
	s.work(s.hub.srv.Addr().String(), 2)
	s.work(s.hub.srv.Addr().String(), 3)
	for i, end := range ends {
		want(t, end, fmt.Sprintf("A%03d", i))
	}
	s.wantNothingLeft()
	for _, end := range ends {
		if len(end) != 0 {
			t.Error("a call has ended twice")
		}
	}
}

func TestAWrongTokenIsRefused(t *testing.T) {
	s := newSite(t, wire.Config{Token: schema.NewSecret("hush")}, pool.Policy{})
	for _, token := range []string{"", "other-secret"} {
		err := worker.Run(t.Context(), t.Context(),
			worker.Config{Join: []wire.Target{{URL: s.hub.srv.Addr().String(), Token: token}}, Pools: []string{"p"},
				Slots: 1, Log: slog.New(slog.DiscardHandler)})
		if err == nil || !strings.Contains(err.Error(), "refuses this worker") ||
			strings.Contains(err.Error(), "secret") || strings.Contains(err.Error(), "hush") {
			t.Errorf("got %v", err)
		}
	}
}

func TestAJobThatIsHandedBackGoesToAnother(t *testing.T) {
	s := newSite(t, wire.Config{}, pool.Policy{Retries: 0})
	opens := holdUp(t, "back")
	_, kill := s.work(s.hub.srv.Addr().String(), 1)
	_, end := call(s.pool, "back")
	comes(t, "back")
	kill()
	s.work(s.hub.srv.Addr().String(), 1)
	comes(t, "back")
	opens()
	want(t, end, "BACK")
	s.wantNothingLeft()
}

func TestAWorkerThatStopsFinishes(t *testing.T) {
	s := newSite(t, wire.Config{}, pool.Policy{})
	opens := holdUp(t, "last")
	stop, _ := s.work(s.hub.srv.Addr().String(), 1)
	_, end := call(s.pool, "last")
	_, other := call(s.pool, "other")
	comes(t, "last")
	stopped := make(chan struct{})
	go func() { stop(); close(stopped) }()
	opens()
	<-stopped
	want(t, end, "LAST")
	s.work(s.hub.srv.Addr().String(), 1)
	want(t, other, "OTHER")
	s.wantNothingLeft()
}

// cable is a connection between workers and a hub that can be cut.
type cable struct {
	net.Listener
	to string
	wg sync.WaitGroup

	mu    sync.Mutex // guards the field below
	conns []net.Conn
}

func newCable(t *testing.T, to string) *cable {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w := &cable{Listener: l, to: to}
	w.wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			w.wg.Go(func() { w.carry(c) })
		}
	})
	t.Cleanup(func() { l.Close(); w.cut(); w.wg.Wait() })
	return w
}

func (w *cable) carry(c net.Conn) {
	defer c.Close()
	d, err := net.Dial("tcp", w.to)
	if err != nil {
		return
	}
	defer d.Close()
	w.mu.Lock()
	w.conns = append(w.conns, c, d)
	w.mu.Unlock()
	w.wg.Go(func() { _, _ = io.Copy(c, d); c.Close() })
	_, _ = io.Copy(d, c)
}

func (w *cable) cut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range w.conns {
		c.Close()
	}
	w.conns = nil
}

func TestAWorkerWhoseConnectionIsCutAnswers(t *testing.T) {
	s := newSite(t, wire.Config{}, pool.Policy{Retries: -1, RetryOn: pool.Reasons})
	w := newCable(t, s.hub.srv.Addr().String())
	opens := holdUp(t, "cut")
	s.work(w.Addr().String(), 1)
	for range 3 {
		opens = holdUp(t, "cut")
		_, end := call(s.pool, "cut")
		comes(t, "cut")
		w.cut()
		opens()
		want(t, end, "CUT")
	}
	opens()
	s.wantNothingLeft()
}

func TestAHubThatClosesEndsItsCalls(t *testing.T) {
	s := newSite(t, wire.Config{}, pool.Policy{})
	opens := holdUp(t, "busy")
	stop, _ := s.work(s.hub.srv.Addr().String(), 1)
	_, busy := call(s.pool, "busy")
	comes(t, "busy")
	_, waits := call(s.pool, "waits")
	s.close()
	want(t, busy, "the pool is closed")
	want(t, waits, "the pool is closed")
	_, late := call(s.pool, "late")
	want(t, late, "the pool is closed")
	opens()
	stop()
}

func TestAWorkerGoesOnWithANewHub(t *testing.T) {
	s := newSite(t, wire.Config{}, pool.Policy{})
	addr := s.hub.srv.Addr().String()
	s.work(addr, 1)
	_, first := call(s.pool, "first")
	want(t, first, "FIRST")
	s.close()
	again := newSite(t, wire.Config{Listen: addr}, pool.Policy{})
	_, second := call(again.pool, "second")
	want(t, second, "SECOND")
	again.wantNothingLeft()
}

func TestPoolsOfOneNameDoNotDisturbEachOther(t *testing.T) {
	s := newSite(t, wire.Config{}, pool.Policy{})
	other := s.open(pool.Policy{})
	_, mine := call(s.pool, "mine")
	_, theirs := call(other, "theirs")
	s.stored(1)
	if err := s.hub.Close(t.Context(), s.pool); err != nil {
		t.Fatal(err)
	}
	s.pool = other
	want(t, mine, "closed")
	s.work(s.hub.srv.Addr().String(), 1)
	want(t, theirs, "THEIRS")
	s.wantNothingLeft()
}

// TestTriesThatCrossAreNotLost has an old attempt handed over, and revoked, after the
// current one.
func TestTriesThatCrossAreNotLost(t *testing.T) {
	s := newSite(t, wire.Config{}, pool.Policy{})
	r := s.hub.all()[0]
	c, end := call(s.pool, "x")
	s.pool.Vanished(c.ID, 1)
	r.Launch(c, 1)
	r.Revoke(c, 1)
	r.mu.Lock()
	if p := r.sent[c.ID]; p == nil || p.try != 2 {
		t.Errorf("the present try is not remembered: %+v", p)
	}
	r.mu.Unlock()
	s.work(s.hub.srv.Addr().String(), 1)
	want(t, end, "X")
	gone, end := call(s.pool, "gone")
	s.pool.Cancel(gone, errors.New("enough"))
	r.Launch(gone, 1)
	want(t, end, "enough")
	s.wantNothingLeft()
}

func TestJobsThatVanishArePutAgain(t *testing.T) {
	for name, hurt := range map[string]func(context.Context, *remote) error{
		"a purge":   func(ctx context.Context, r *remote) error { return r.stream.Purge(ctx) },
		"no stream": func(ctx context.Context, r *remote) error { return r.js.DeleteStream(ctx, wire.StreamOf("p")) },
		"no consumer": func(ctx context.Context, r *remote) error {
			return r.stream.DeleteConsumer(ctx, wire.ConsumerOf(r.made))
		},
		"nothing but doubt": func(context.Context, *remote) error { return nil },
		"another stream": func(ctx context.Context, r *remote) error {
			config := r.stream.CachedInfo().Config
			err := r.js.DeleteStream(ctx, config.Name)
			if err == nil {
				_, err = r.js.CreateStream(ctx, config)
			}
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t, wire.Config{}, pool.Policy{})
			var ends []<-chan string
			for range 20 {
				_, end := call(s.pool, "x")
				ends = append(ends, end)
			}
			s.stored(0)
			r := s.hub.all()[0]
			if err := hurt(t.Context(), r); err != nil {
				t.Fatal(err)
			}
			r.doubt()
			s.work(s.hub.srv.Addr().String(), 3)
			for _, end := range ends {
				want(t, end, "X")
			}
			s.wantNothingLeft()
		})
	}
}

// TestAJobThatASlotHasStaysThere: its copy is gone, but not its answer. Another job, which its worker has said it took
// but has not got, is put again.
func TestAJobThatASlotHasStaysThere(t *testing.T) {
	s := newSite(t, wire.Config{}, pool.Policy{})
	opens := holdUp(t, "runs")
	s.work(s.hub.srv.Addr().String(), 1)
	runs, end := call(s.pool, "runs")
	comes(t, "runs")
	r := s.hub.all()[0]
	for by := ""; by == ""; { // the worker's report of it is in transit
		r.mu.Lock()
		by = r.sent[runs.ID].by
		r.mu.Unlock()
	}
	lacked, other := call(s.pool, "lacked")
	s.stored(0)
	if !s.pool.Taken(lacked.ID, 1) {
		t.Fatal("nobody waits for it")
	}
	r.mu.Lock()
	r.sent[lacked.ID].by = r.sent[runs.ID].by
	r.mu.Unlock()
	if err := r.stream.Purge(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := r.audit(t.Context()); err != nil {
		t.Fatal(err)
	}
	for !s.pool.Awaits(lacked, 2) { // the worker's answer, and another audit, are in transit
	}
	if len(entered) > 0 || !s.pool.Awaits(runs, 1) {
		t.Error("the job that the worker has is put again")
	}
	opens()
	want(t, end, "RUNS")
	want(t, other, "LACKED")
	s.wantNothingLeft()
}

func TestAHubThatStoodStillDoesNotTakeWorkersForGone(t *testing.T) {
	s := newSite(t, wire.Config{}, pool.Policy{})
	r := s.hub.all()[0]
	r.heard("w", wire.Beat{Name: "w", Slots: 1})
	for _, still := range []bool{true, false} {
		r.mu.Lock()
		r.members["w"].heard, r.ticked = time.Now().Add(-time.Hour), time.Now().Add(time.Hour) // however slow this test is
		if still {
			r.ticked = r.members["w"].heard
		}
		r.mu.Unlock()
		r.expire()
		r.mu.Lock()
		if n := r.able(); (n == 1) != still {
			t.Errorf("it stood still: %v, and has %d workers", still, n)
		}
		r.mu.Unlock()
	}
}

func TestJobsThatNobodyTakesAreTrouble(t *testing.T) {
	s := newSite(t, wire.Config{}, pool.Policy{})
	r := s.hub.all()[0]
	for r.mu.Lock(); !r.watch.Stop(); r.mu.Lock() { // time is this test's
		r.mu.Unlock()
	}
	r.mu.Unlock()
	now := time.Now()
	at := func(after time.Duration) string {
		r.mu.Lock()
		_, tell := r.stalls(now.Add(after))
		r.mu.Unlock()
		trouble := s.hub.Trouble(s.pool)
		if tell && trouble == nil {
			t.Error("it is told, and not shown")
		}
		if trouble == nil {
			return ""
		}
		return trouble.Cause
	}
	tick := func(what string, first, then time.Duration, want string) {
		t.Helper()
		at(first)
		if got := at(then); (got == "") != (want == "") || !strings.Contains(got, want) {
			t.Errorf("%s: got %q, want %q", what, got, want)
		}
	}
	tick("no jobs", 0, time.Hour, "")
	_, end := call(s.pool, "x")
	s.stored(0)
	tick("no workers", 0, time.Hour, "")
	r.heard("w", wire.Beat{Name: "w", Slots: 1, Busy: 1})
	tick("no free worker", 0, time.Hour, "")
	r.heard("w", wire.Beat{Name: "w", Slots: 1, Refused: "no"})
	tick("a worker that refuses", 0, time.Hour, "")
	r.heard("w", wire.Beat{Name: "w", Slots: 2, Busy: 1})
	tick("not yet", 0, 10*time.Second, "")
	tick("a free worker", 0, time.Minute, "does not give them to the workers")
	r.takenBy(wire.Try{ID: 1, Try: 2}, "w")
	tick("something was taken", time.Hour, time.Hour, "")
	r.fails(errors.New("no room"))
	r.heard("w", wire.Beat{Name: "w"})
	tick("it can't be stored", 2*time.Hour, 3*time.Hour, "no room")
	r.works()
	tick("it can", 4*time.Hour, 5*time.Hour, "")
	s.close()
	want(t, end, "closed")
	if s.hub.Trouble(s.pool) != nil {
		t.Error("a closed pool has trouble")
	}
}

func TestATryThatIsCancelledLeavesTheQueue(t *testing.T) {
	s := newSite(t, wire.Config{}, pool.Policy{})
	c, end := call(s.pool, "x")
	s.pool.Cancel(c, errors.New("enough"))
	want(t, end, "enough")
	s.wantNothingLeft()
	opens := holdUp(t, "running")
	defer opens()
	s.work(s.hub.srv.Addr().String(), 1)
	c, end = call(s.pool, "running")
	comes(t, "running")
	s.pool.Cancel(c, errors.New("enough"))
	want(t, end, "enough")
	_, end = call(s.pool, "next") // the slot is free again, behind a closed gate
	want(t, end, "NEXT")
	s.wantNothingLeft()
}

func TestWhatIsTooLargeIsRejected(t *testing.T) {
	s := newSite(t, wire.Config{MaxPayload: 1 << 16}, pool.Policy{})
	_, end := call(s.pool, strings.Repeat("x", 1<<16))
	want(t, end, "raise service.cluster.max_payload")
	s.wantNothingLeft()
}

func TestGarbageIsDropped(t *testing.T) {
	s := newSite(t, wire.Config{}, pool.Policy{})
	nc, err := nats.Connect("nats://" + s.hub.srv.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	id := s.hub.id
	for _, text := range []string{"", "{}", "null", "[]", `{"Pool":-1}`, `{"Pool":99999999,"ID":1,"Try":-5}`,
		`{"Pool":0,"ID":99,"Try":1}`, `{"Slots":-3,"Name":"w"}`, `{"Slots":1,"Name":"` + strings.Repeat("w", 1<<14) +
			`"}`, "\x01", "\x01\x00\x63\x01\x00\x00\x00", "\x01\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"} {
		for _, subject := range []string{wire.ToHub(id, "taken", "none"), wire.ToHub(id, "returned", "none"),
			wire.ToHub(id, "answer", "none"), wire.ToHub(id, "stage", "none"), wire.ToHub(id, "other", "none"),
			wire.JoinOf("p", "none"), wire.JoinOf("q", "none"), wire.BeatOf("p", "none"), wire.ListOf("none")} {
			if err := nc.Publish(subject, []byte(text)); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := nc.FlushTimeout(time.Minute); err != nil {
		t.Fatal(err)
	}
	s.work(s.hub.srv.Addr().String(), 1)
	_, end := call(s.pool, "x")
	want(t, end, "X")
	// What workers may not do.
	errs := make(chan error, 10)
	nc.SetErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { errs <- err })
	for _, subject := range []string{wire.JobOf("p", id, wire.Try{ID: 1, Try: 1}), wire.DownOf("p"),
		"$JS.API.STREAM.DELETE." + wire.StreamOf("p")} {
		if err := nc.Publish(subject, nil); err != nil {
			t.Fatal(err)
		}
		if err := <-errs; !errors.Is(err, nats.ErrPermissionViolation) {
			t.Errorf("%s: %v", subject, err)
		}
	}
	if _, err := worker.List(t.Context(), wire.Target{URL: s.hub.srv.Addr().String()}); err != nil {
		t.Error(err)
	}
}

// TestOnlyWhoHasAJobHandsItBack: where a job is delivered twice, the worker that had it first has no say any more.
func TestOnlyWhoHasAJobHandsItBack(t *testing.T) {
	s := newSite(t, wire.Config{}, pool.Policy{Retries: 1, RetryOn: pool.Reasons})
	c, end := call(s.pool, "x")
	s.stored(0)
	r := s.hub.all()[0]
	try := wire.Try{ID: c.ID, Try: 1}
	for _, worker := range []string{"first", "second"} {
		if !s.pool.Taken(c.ID, 1) {
			t.Fatal("nobody waits for it")
		}
		r.takenBy(try, worker)
	}
	if r.returnedBy(try, "first") {
		t.Error("the first one hands it back, too")
	}
	if taken, _ := s.pool.Counts(); taken != 1 || !r.returnedBy(try, "second") {
		t.Error("the second one has not got it")
	}
	s.work(s.hub.srv.Addr().String(), 1)
	want(t, end, "X")
}
