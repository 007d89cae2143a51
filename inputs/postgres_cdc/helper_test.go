package postgrescdc

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	_ "github.com/flowd-io/flowd/batchers/batch"
	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/enginetest"
	"github.com/flowd-io/flowd/engine/runtime"
	"github.com/flowd-io/flowd/internal/testing/pgtest"
	"github.com/flowd-io/flowd/schema"
	"go.uber.org/goleak"
)

// database is a database of a server, and the name of its slot.
type database struct {
	*pgtest.Postgres
	url, slot string
}

// fresh creates a database with tables, on p or on the shared server. Slots belong to the whole server, so the slot is named after
// the database.
func fresh(t *testing.T, p *pgtest.Postgres, tables ...string) *database {
	t.Helper()
	if p == nil {
		p = pgtest.Server(t)
	}
	url := p.Database(t)
	d := &database{p, url, url[strings.LastIndex(url, "/")+1:]}
	d.exec(t, tables...)
	return d
}

func (d *database) exec(t *testing.T, statements ...string) string {
	t.Helper()
	if len(statements) == 0 {
		return ""
	}
	return d.Exec(t, d.url, statements...)
}

// config returns a configuration with short intervals.
func (d *database) config() Config {
	cfg := defaults
	cfg.DSN, cfg.Slot, cfg.AckInterval = schema.NewSecret(d.url), d.slot, 20*time.Millisecond
	cfg.Timeout = 5 * time.Second
	return cfg
}

// reader is a pipeline that reads the database.
type reader struct {
	t    *testing.T
	log  enginetest.Transcript
	sink *enginetest.Sink
	stop context.CancelFunc
	done chan struct{}
	rep  runtime.Report
	plan *runtime.Plan
}

// start starts a pipeline that keeps the order of rows.
func start(t *testing.T, cfg Config, sink *enginetest.Sink) *reader {
	t.Helper()
	return startTo(t, cfg, sink, sink.Output())
}

// startTo is like start, with further settings of the output.
func startTo(t *testing.T, cfg Config, sink *enginetest.Sink, out engine.OutputSpec) *reader {
	t.Helper()
	r := &reader{t: t, sink: sink, done: make(chan struct{})}
	log := slog.New(slog.NewTextHandler(&r.log, nil))
	use := engine.Use(func(env engine.Env) (engine.Input, error) { return newInput(cfg, env) })
	use.Config = cfg
	p := &engine.Pipeline{Name: "test", Inputs: enginetest.Named("in", engine.InputSpec{Use: use}),
		Outputs: enginetest.Named("out", out), Engine: engine.EngineSpec{Workers: 1,
			Restart: engine.Restart{Backoff: 10 * time.Millisecond, MaxBackoff: 50 * time.Millisecond}}}
	p.Engine.MaxInFlight.Messages, p.Engine.MaxInFlight.Bytes = 1000, 4<<20
	plan, problems := runtime.Build(p, runtime.Options{Log: log, Shared: &engine.Shared{}})
	if plan == nil {
		t.Fatal(problems)
	}
	stop, cancel := context.WithCancel(context.Background())
	r.stop, r.plan = cancel, plan
	go func() {
		defer close(r.done)
		r.rep = plan.Run(stop, context.Background())
	}()
	t.Cleanup(func() { r.end() })
	return r
}

// end stops the pipeline and waits for it.
func (r *reader) end() runtime.Report {
	r.stop()
	<-r.done
	if c := r.rep.Stats.Roots; !c.Balanced() || c.InFlight != 0 {
		r.t.Errorf("roots do not add up: %+v", c)
	}
	return r.rep
}

// has waits until n messages have arrived, and returns all.
func (r *reader) has(n int) []string {
	r.t.Helper()
	until(r.t, fmt.Sprintf("%d messages", n), func() bool { return len(r.sink.Bodies()) >= n }, func() string { return r.log.String() })
	return r.sink.Bodies()
}

// until waits until f returns true.
func until(t *testing.T, what string, f func() bool, why ...func() string) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for end := time.After(time.Minute); !f(); {
		select {
		case <-tick.C:
		case <-end:
			for _, w := range why {
				t.Log(w())
			}
			t.Fatalf("after a minute: not yet %s", what)
		}
	}
}

// ready waits until changes are read.
func (r *reader) ready() {
	r.t.Helper()
	until(r.t, "reading changes", func() bool { return strings.Contains(r.log.String(), "reading changes") },
		func() string { return r.log.String() })
}

// event is the part of a message that tests check.
type event struct {
	Op, Schema, Table, LSN string
	Before, After          map[string]json.RawMessage
	NewKey                 json.RawMessage `json:"new_key"`
	OldKey                 json.RawMessage `json:"old_key"`
	Unchanged              []string
	Position, Changes, XID int
	CommitTime             string `json:"commit_time"`
}

// docs parses messages.
func docs(t *testing.T, bodies []string) []event {
	t.Helper()
	all := make([]event, len(bodies))
	for i, b := range bodies {
		if err := json.Unmarshal([]byte(b), &all[i]); err != nil {
			t.Fatalf("%s: %v", b, err)
		}
	}
	return all
}

// short returns a message in short form: op table before>after !unchanged.
func (d event) short() string {
	row := func(r map[string]json.RawMessage) string {
		if r == nil {
			return "-"
		}
		b, _ := json.Marshal(r)
		return string(b)
	}
	s := fmt.Sprintf("%s %s %s>%s", d.Op, d.Table, row(d.Before), row(d.After))
	if d.NewKey != nil || d.OldKey != nil {
		s += fmt.Sprintf(" %s→%s", d.OldKey, d.NewKey)
	}
	if len(d.Unchanged) > 0 {
		s += " !" + strings.Join(d.Unchanged, ",")
	}
	return s
}

func shorts(t *testing.T, bodies []string) (all []string) {
	t.Helper()
	for _, d := range docs(t, bodies) {
		all = append(all, d.short())
	}
	return all
}

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/flowd-io/flowd/internal/testing/daemon.(*Process).wait"))
}
