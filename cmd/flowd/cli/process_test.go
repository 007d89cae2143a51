package cli

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	_ "github.com/flowd-io/flowd/batchers/batch"
	"github.com/flowd-io/flowd/config"
	"github.com/flowd-io/flowd/engine"
	_ "github.com/flowd-io/flowd/inputs/generate"
	_ "github.com/flowd-io/flowd/inputs/pipe"
	"github.com/flowd-io/flowd/internal/operations/service"
	"github.com/flowd-io/flowd/internal/operations/systemd"
	_ "github.com/flowd-io/flowd/outputs/pipe"
	_ "github.com/flowd-io/flowd/processors/sleep"
	"github.com/flowd-io/flowd/schema"
)

// steered is a process that a test steers, in virtual time.
type steered struct {
	*process
	t    *testing.T
	dir  string
	says *bytes.Buffer
}

// steer runs pipelines, whose files are given by name, until the test ends.
func steer(t *testing.T, files map[string]string) *steered {
	t.Helper()
	s := &steered{t: t, dir: t.TempDir(), says: &bytes.Buffer{}}
	s.write(files)
	o := config.Options{Log: slog.New(slog.DiscardHandler), Secrets: &schema.Secrets{}}
	set, problems := config.Load([]string{s.dir}, o)
	if n, _ := count(problems); n > 0 {
		t.Fatal(problems)
	}
	stop, end := context.WithCancel(context.Background())
	con := newConsole(s.says)
	s.process = &process{con: con, sight: &sight{}, log: o.Log, logs: newLogging(con, nil, logFlags{}), files: []string{s.dir},
		options: o, stop: stop, kill: context.Background(), set: set, parts: set.Included, wake: make(chan struct{}, 1)}
	s.process.systemd = systemd.New(s.process.Snapshots, o.Log)
	s.start()
	t.Cleanup(func() {
		end()
		s.wait()
	})
	return s
}

func (s *steered) write(files map[string]string) {
	s.t.Helper()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(s.dir, name), []byte(text), 0o600); err != nil {
			s.t.Fatal(err)
		}
	}
}

// reload reloads, and says how long that took.
func (s *steered) reload() time.Duration {
	s.t.Helper()
	began := time.Now()
	if err := s.Reload(); err != nil {
		s.t.Error(err)
	}
	return time.Since(began)
}

// shows is a pipeline as it is now.
func (s *steered) shows(pipeline string) engine.Snapshot {
	s.t.Helper()
	synctest.Wait()
	for _, x := range s.Snapshots() {
		if x.Pipeline == pipeline {
			return x
		}
	}
	s.t.Fatalf("there is no pipeline %s", pipeline)
	return engine.Snapshot{}
}

const (
	ticking = "inputs: {in: {generate: {interval: 100ms, body: '{}'}}}\noutputs: {out: {pipe: first}}\n"
	passing = "inputs: {in: {pipe: first}}\nbatchers: {all: {batch: {size: 3, timeout: 50ms}, output: out}}\noutputs: {out: {pipe: last}}\n"
	keeping = "inputs: {in: {pipe: last}}\nbatchers: {all: {batch: {size: 1000, timeout: 1h}, output: out}}\noutputs: {out: {test_drop: {}}}\n"
)

// What is under way comes through: no pipeline waits for a batch of the next one, and none is read from on and on.
func TestAReloadOfLinkedPipelinesTakesNoTime(t *testing.T) {
	for _, tt := range []struct{ name, before, after string }{
		{"as they were", keeping, keeping},
		{"with another input", keeping, "inputs: {in: {pipe: {name: last}}}\n" + keeping[len("inputs: {in: {pipe: last}}\n"):]},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := steer(t, map[string]string{"a.yaml": ticking, "b.yaml": passing, "c.yaml": tt.before})
				time.Sleep(3050 * time.Millisecond)
				s.write(map[string]string{"c.yaml": tt.after})
				if took := s.reload(); took > 0 {
					t.Errorf("it took %v", took)
				}
				for _, name := range []string{"a", "b", "c"} {
					if c := s.shows(name).Stats.Roots; c.Received < 30 || c.Received != c.Ended[engine.Delivered] {
						t.Errorf("%s: %+v", name, c)
					}
				}
				time.Sleep(10 * time.Second)
				read := s.shows("a").Stats.Roots.Received
				if got := s.shows("c").Stats.Roots.Received; read < 120 || got != read {
					t.Errorf("of %d messages %d came through", read, got)
				}
			})
		})
	}
}

const slow = "inputs: {in: {generate: {interval: 10s, body: '{}'}}}\nprocessors: [{sleep: 3s}]\noutputs: {out: {test_drop: {}}}\n"

// A pipeline that is no longer in the files drains, and then is gone.
func TestPipelinesStayVisibleDuringAReload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := steer(t, map[string]string{"old.yaml": slow, "slow.yaml": slow + "engine: {rate_limit: {messages: 9, per: 1s}}\n"})
		time.Sleep(11 * time.Second)
		if err := os.Remove(filepath.Join(s.dir, "old.yaml")); err != nil {
			t.Fatal(err)
		}
		reloaded := make(chan time.Duration)
		go func() { reloaded <- s.reload() }()
		for _, name := range []string{"old", "slow"} {
			if x := s.shows(name); x.State != engine.Draining || x.Stats.Roots.InFlight != 1 {
				t.Errorf("%s is %s, %+v", name, x.State, x.Stats.Roots)
			}
		}
		if err := s.SetLimit("slow", "engine", service.Limit{Messages: 5, Per: time.Second}); err != nil {
			t.Error(err)
		}
		if took := <-reloaded; took != 2*time.Second {
			t.Errorf("it took %v", took)
		}
		if x := s.shows("slow"); x.State != engine.Running {
			t.Errorf("it is %s", x.State)
		}
		if n := len(s.Snapshots()); n != 1 {
			t.Errorf("there are %d pipelines", n)
		}
	})
}

func TestADrainedPipelineIsNotReady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := steer(t, map[string]string{"slow.yaml": slow})
		time.Sleep(5 * time.Second)
		if err := s.Drain(""); err != nil {
			t.Fatal(err)
		}
		if x := s.shows("slow"); x.State != engine.Stopped || x.Inputs[0].State != "ended" {
			t.Errorf("it is %s, and its input %s", x.State, x.Inputs[0].State)
		}
		if h := service.Ready(s.Snapshots()); len(h.Checks) != 1 || h.Checks[0].Indicator != "no_pipeline" {
			t.Errorf("after the drain: %+v", h)
		}
		if err := s.Resume(""); err != nil {
			t.Fatal(err)
		}
		s.shows("slow")
		if h := service.Ready(s.Snapshots()); len(h.Checks) > 0 {
			t.Errorf("resumed: %+v", h)
		}
	})
}

const ending = "inputs: {in: {test_lines: {lines: [a, b]}}}\noutputs: {out: {test_drop: {}}}\n"

// A reload starts it again, in case there is more to read; if there is nothing, that is not worth a line.
func TestAPipelineThatHasEndedKeepsItsCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := steer(t, map[string]string{"fin.yaml": ending, "slow.yaml": slow})
		before := s.shows("fin")
		time.Sleep(time.Minute)
		for range 3 {
			s.reload()
			x := s.shows("fin")
			if c := x.Stats.Roots; c.Received != 2 || c.Ended[engine.Delivered] != 2 || !x.Started.Equal(before.Started) ||
				x.Latency.Count != 2 {
				t.Errorf("since %v: %+v, %d timed, before: %v", x.Started, c, x.Latency.Count, before.Started)
			}
		}
		if x := s.shows("slow"); x.Stats.Roots.Received < 6 || !x.Started.Equal(before.Started) ||
			int64(x.Latency.Count) != x.Stats.Roots.Received-x.Stats.Roots.InFlight {
			t.Errorf("since %v: %+v, %d timed", x.Started, x.Stats.Roots, x.Latency.Count)
		}
		if got, want := s.says.String(), "fin: 2 received: 2 delivered in 1ms (2 k/s)\n"; got != want {
			t.Errorf("it says %q, want %q", got, want)
		}
	})
}

func TestAStateHasItsOwnDuration(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := steer(t, map[string]string{"slow.yaml": slow})
		is := func(state engine.State, since time.Duration) {
			t.Helper()
			if x := s.shows("slow"); x.State != state || time.Since(x.Since) != since {
				t.Errorf("it is %s for %v, want %s for %v", x.State, time.Since(x.Since), state, since)
			}
		}
		do := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(5 * time.Second)
		is(engine.Running, 5*time.Second)
		s.reload()
		time.Sleep(time.Second)
		is(engine.Running, 6*time.Second)
		do(s.Pause(""))
		time.Sleep(10 * time.Second)
		is(engine.Paused, 10*time.Second)
		do(s.Resume(""))
		time.Sleep(2 * time.Second) // a message is under way
		is(engine.Running, 2*time.Second)
		do(s.Drain(""))
		time.Sleep(time.Second / 2)
		is(engine.Draining, time.Second/2)
		time.Sleep(time.Minute)
		is(engine.Stopped, time.Minute-time.Second/2)
		do(s.Resume(""))
		time.Sleep(time.Second)
		is(engine.Running, time.Second)
	})
}
