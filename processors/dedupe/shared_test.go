package dedupe_test

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/enginetest"
	"github.com/flowd-io/flowd/engine/runtime"
	"github.com/flowd-io/flowd/internal/testing/cachetest"
	"github.com/flowd-io/flowd/internal/testing/redistest"
	"github.com/flowd-io/flowd/internal/testing/steptest"
	gocmp "github.com/google/go-cmp/cmp"
)

// process is a pipeline in its own process, with the cache "seen".
type process struct {
	src   *steptest.Broker
	from  engine.Input // src by default
	sink  *enginetest.Sink
	steps string // `[{"dedupe": {"key": "id", "cache": "seen"}}]` by default
	cache engine.Plugin[engine.Cache]
	name  string         // of the pipeline, "test" by default
	with  *engine.Shared // of its process
	tries int            // attempts, 0: one

	stop context.CancelFunc
	kill context.CancelFunc
	done chan runtime.Report
}

const byID = `[{"dedupe": {"key": "id", "cache": "seen"}}]`

// sharing returns a pipeline of a process that uses a server.
func sharing(c engine.Cache, in ...string) *process {
	return &process{src: steptest.NewBroker(in...), sink: &enginetest.Sink{}, steps: byID,
		cache: engine.Use(func(engine.Env) (engine.Cache, error) { return c, nil })}
}

func (p *process) start(t *testing.T) *process {
	t.Helper()
	out := p.sink.Output()
	out.Timeout = time.Hour
	spec := &engine.Pipeline{Name: cmp.Or(p.name, "test"), Inputs: enginetest.Named("in", engine.InputSpec{
		Use: engine.Use(func(engine.Env) (engine.Input, error) { return cmp.Or(p.from, engine.Input(p.src)), nil })}),
		Outputs: enginetest.Named("out", out), Engine: engine.EngineSpec{Workers: 2}}
	spec.Engine.OnFailure.Retry = &engine.Retry{MaxAttempts: max(1, p.tries)}
	steptest.Decode(t, p.steps, &spec.Processors)
	plan, problems := runtime.Build(spec, runtime.Options{Log: slog.New(slog.NewTextHandler(t.Output(), nil)),
		Caches: map[string]engine.Plugin[engine.Cache]{"seen": p.cache}, Shared: p.with})
	if plan == nil {
		t.Fatal(problems)
	}
	stop, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	now, kill := context.WithCancel(context.WithoutCancel(t.Context()))
	p.stop, p.kill, p.done = cancel, kill, make(chan runtime.Report, 1)
	go func() { p.done <- plan.Run(stop, now) }()
	return p
}

// ends waits for the end of the pipeline.
func (p *process) ends(t *testing.T) runtime.Report {
	t.Helper()
	rep := <-p.done
	p.stop()
	p.kill()
	if c := rep.Stats.Roots; !c.Balanced() || c.InFlight != 0 || rep.Err != nil {
		t.Errorf("%+v", rep)
	}
	return rep
}

func (p *process) fates() []string {
	slices.Sort(p.src.Fates)
	return p.src.Fates
}

func wantFates(t *testing.T, p *process, want ...string) {
	t.Helper()
	if diff := gocmp.Diff(want, p.fates()); diff != "" {
		t.Errorf("fates (-want +got):\n%s", diff)
	}
}

// together runs a test in virtual time, with the caches of two processes.
func together(t *testing.T, f func(t *testing.T, server *cachetest.Server, a, b *cachetest.Process)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := &cachetest.Server{Latency: time.Millisecond}
		f(t, s, &cachetest.Process{Server: s}, &cachetest.Process{Server: s})
	})
}

func TestProcessesDeliverAKeyOnce(t *testing.T) {
	together(t, func(t *testing.T, _ *cachetest.Server, a, b *cachetest.Process) {
		p, q := sharing(a, `{"id":1,"n":1}`), sharing(b, `{"id":1,"n":2}`)
		p.sink.Delay = 10 * time.Minute // for many lease periods
		p.start(t)
		synctest.Wait()
		time.Sleep(time.Second)
		began := time.Now()
		q.start(t)
		p.ends(t)
		q.ends(t)
		wantFates(t, p, `{"id":1,"n":1} delivered`)
		wantFates(t, q, `{"id":1,"n":2} filtered`)
		if after := time.Since(began); after > 10*time.Minute+time.Second {
			t.Errorf("the message was filtered after %v", after)
		}
	})
}

func TestAKeyPassesToAnotherProcess(t *testing.T) {
	for _, tt := range []struct {
		name   string
		does   func(p *process, cache *cachetest.Process)
		within time.Duration // time from the action of p to the delivery by the other process
	}{
		{"its message fails", func(p *process, _ *cachetest.Process) { close(p.sink.Block) }, 2 * time.Second},
		{"its process stops", func(p *process, _ *cachetest.Process) { p.stop() }, 40 * time.Second},
		{"its process stops at once", func(p *process, _ *cachetest.Process) { p.kill() }, 2 * time.Second},
		{"its process dies", func(_ *process, cache *cachetest.Process) { cache.Cut(true) }, 31 * time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			together(t, func(t *testing.T, _ *cachetest.Server, a, b *cachetest.Process) {
				p, q := sharing(a, `{"id":1,"n":1}`), sharing(b, `{"id":1,"n":2}`)
				p.src.Again = false
				p.sink.Block = make(chan struct{})
				p.sink.Fail = failFirst(1)
				p.start(t)
				time.Sleep(time.Second)
				q.start(t)
				time.Sleep(5 * time.Minute)
				if got := q.sink.Bodies(); len(got) > 0 {
					t.Errorf("delivered meanwhile: %s", got)
				}
				tt.does(p, a)
				began := time.Now()
				q.ends(t)
				if after := time.Since(began); after > tt.within {
					t.Errorf("the other process delivered after %v", after)
				}
				wantFates(t, q, `{"id":1,"n":2} delivered`)
				p.kill()
				p.ends(t)
				wantFates(t, p, `{"id":1,"n":1} returned`)
			})
		})
	}
}

func TestADrainHandsBackWhatWaitsForAnotherProcess(t *testing.T) {
	together(t, func(t *testing.T, _ *cachetest.Server, a, b *cachetest.Process) {
		p, q := sharing(a, `{"id":1,"n":1}`), sharing(b, `{"id":1,"n":2}`)
		p.sink.Delay, q.src.Again = 20*time.Minute, false
		p.start(t)
		time.Sleep(time.Second)
		q.start(t)
		time.Sleep(time.Second)
		q.stop()
		q.ends(t)
		wantFates(t, q, `{"id":1,"n":2} returned`)
		p.ends(t)
		wantFates(t, p, `{"id":1,"n":1} delivered`)
	})
}

func TestALostAnswerDoesNotCostALease(t *testing.T) {
	together(t, func(t *testing.T, server *cachetest.Server, a, _ *cachetest.Process) {
		calls := 0
		server.Loses = func() bool { calls++; return calls == 1 }
		began := time.Now()
		p := sharing(a, `{"id":1}`).start(t)
		p.ends(t)
		wantFates(t, p, `{"id":1} delivered`)
		if after := time.Since(began); after > 10*time.Second {
			t.Errorf("delivered after %v", after)
		}
	})
}

func TestKeysOfOlderVersionsCount(t *testing.T) {
	together(t, func(t *testing.T, _ *cachetest.Server, a, _ *cachetest.Process) {
		if err := a.Set(t.Context(), "1", []byte("true"), time.Hour); err != nil {
			t.Fatal(err)
		}
		p := sharing(a, `{"id":1}`, `{"id":2}`).start(t)
		p.ends(t)
		wantFates(t, p, `{"id":1} filtered`, `{"id":2} delivered`)
	})
}

// A claim is not a value for steps that read the cache.
func TestAClaimIsNotAValue(t *testing.T) {
	together(t, func(t *testing.T, _ *cachetest.Server, a, b *cachetest.Process) {
		p, q := sharing(a, `{"id":1}`), sharing(b, `{"id":1}`)
		p.sink.Delay = time.Minute
		q.steps = `[{"cache": {"get": "seen", "key": "id", "into": "found"}}]`
		p.start(t)
		time.Sleep(time.Second)
		q.start(t).ends(t)
		if diff := gocmp.Diff([]string{`{"id":1,"found":null}`}, q.sink.Bodies()); diff != "" {
			t.Errorf("during the delivery (-want +got):\n%s", diff)
		}
		p.ends(t)
		if got := cachetest.Get(t, b, "1"); got != "true" {
			t.Errorf("after it the value is %q", got)
		}
	})
}

// Two messages with two keys each, claimed in opposite order, wait for each other. No process can see this cycle.
func TestProcessesDoNotWaitForEachOtherForEver(t *testing.T) {
	together(t, func(t *testing.T, _ *cachetest.Server, a, b *cachetest.Process) {
		steps := `[{"split": "list"}, {"dedupe": {"key": "this", "cache": "seen"}, "when": "this == %d"}, ` +
			`{"sleep": "1s"}, {"dedupe": {"key": "this", "cache": "seen"}, "when": "this == %d"}]`
		p, q := sharing(a, `{"list":[1,2]}`), sharing(b, `{"list":[1,2]}`)
		p.steps, q.steps = fmt.Sprintf(steps, 1, 2), fmt.Sprintf(steps, 2, 1)
		began := time.Now()
		p.start(t)
		q.start(t)
		p.ends(t)
		q.ends(t)
		all := append(p.sink.Bodies(), q.sink.Bodies()...)
		slices.Sort(all)
		if after := time.Since(began); !slices.Equal(all, []string{"1", "2"}) || after > 2*time.Minute {
			t.Errorf("delivered %s after %v, want each once within two minutes", all, after)
		}
	})
}

func TestPipelinesOfOneProcessDeliverAKeyOnce(t *testing.T) {
	for _, fails := range []int{0, 1} {
		t.Run(fmt.Sprint("of which fail: ", fails), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cache, shared := cachetest.New(t, `{"memory": {}}`), &engine.Shared{}
				p, q := sharing(cache, `{"id":1,"n":1}`), sharing(cache, `{"id":1,"n":2}`)
				p.name, p.with, q.name, q.with = "p", shared, "q", shared
				p.src.Again = false
				p.sink.Delay, p.sink.Fail = 2*time.Minute, failFirst(fails)
				idle := sharing(cache) // so that there are two pipelines from the start
				idle.name, idle.with, idle.from = "idle", shared, &enginetest.Source{Endless: true}
				idle.start(t)
				p.start(t)
				time.Sleep(time.Second)
				q.start(t)
				p.ends(t)
				q.ends(t)
				if fails == 0 {
					wantFates(t, p, `{"id":1,"n":1} delivered`)
					wantFates(t, q, `{"id":1,"n":2} filtered`)
				} else {
					wantFates(t, p, `{"id":1,"n":1} returned`)
					wantFates(t, q, `{"id":1,"n":2} delivered`)
				}
				idle.stop()
				idle.ends(t)
			})
		})
	}
}

// Inside of another step, a message can't park, so the call waits.
func TestAStepInsideAnotherWaitsForAnotherProcess(t *testing.T) {
	for _, tt := range []struct {
		takes time.Duration // to deliver a message
		tries int
		fails bool
	}{{3 * time.Second, 1, false}, {15 * time.Second, 3, false}, {50 * time.Minute, 1, true}} {
		together(t, func(t *testing.T, _ *cachetest.Server, a, b *cachetest.Process) {
			p, q := sharing(a, `{"list":[1]}`), sharing(b, `{"list":[2,1]}`)
			q.tries = tt.tries
			p.steps = `[{"each": {"in": "list", "do": [{"dedupe": {"key": "this", "cache": "seen"}}]}}]`
			q.steps, q.src.Again = p.steps, false
			p.sink.Delay = tt.takes - time.Second
			p.start(t)
			time.Sleep(time.Second)
			q.start(t)
			rep := q.ends(t)
			switch got := q.sink.Bodies(); {
			case tt.fails:
				if len(got) > 0 || len(rep.Failures) != 1 || rep.Failures[0].First.Class != engine.Transient {
					t.Errorf("delivered %s, failures %+v", got, rep.Failures)
				}
			case !slices.Equal(got, []string{`{"list":[2]}`}):
				t.Errorf("delivered %s", got)
			}
			p.kill()
			p.ends(t)
		})
	}
}

func TestABatchClaimsItsKeysInOneRoundTrip(t *testing.T) {
	together(t, func(t *testing.T, server *cachetest.Server, a, _ *cachetest.Process) {
		p := sharing(a)
		var in []string
		for i := range 300 {
			in = append(in, fmt.Sprintf(`{"id":%d}`, i%200))
		}
		src := &enginetest.Source{Payloads: in, PerRead: 300}
		p.from = src
		p.start(t)
		p.ends(t)
		if trips, swaps := server.Trips(); len(p.sink.Bodies()) != 200 || trips > 8 || swaps > 300 {
			t.Errorf("%d delivered, %d round trips for %d keys", len(p.sink.Bodies()), trips, swaps)
		}
	})
}

// TestProcessesShareKeys uses processes with the same messages. They fail, lose answers of the cache, and lose the connection to it for
// less than a lease.
func TestProcessesShareKeys(t *testing.T) {
	const ids = 60
	for seed := range uint64(20) {
		together(t, func(t *testing.T, server *cachetest.Server, _, _ *cachetest.Process) {
			r, mu := rand.New(rand.NewPCG(seed, 3)), sync.Mutex{} // which guards r
			chance := func(n int) bool {
				mu.Lock()
				defer mu.Unlock()
				return r.IntN(n) == 0
			}
			left := 200
			server.Loses = func() bool { left--; return left > 0 && chance(4) }
			var all []*process
			for n := range uint64(3) {
				var in []string
				for turn := range uint64(2) {
					for _, i := range rand.New(rand.NewPCG(seed, 10*n+turn)).Perm(ids) {
						in = append(in, fmt.Sprintf(`{"id":%d}`, i))
					}
				}
				cache := &cachetest.Process{Server: server}
				p := sharing(cache, in...)
				fails := 40
				p.sink.Delay = 5 * time.Millisecond
				p.sink.Fail = func(string) error {
					if fails--; fails > 0 && chance(3) {
						return errScripted
					}
					return nil
				}
				all = append(all, p.start(t))
				go func() {
					time.Sleep(100 * time.Millisecond)
					cache.Cut(true)
					time.Sleep(10 * time.Second)
					cache.Cut(false)
				}()
			}
			got := map[string]int{}
			for i, p := range all {
				p.ends(t)
				for _, body := range p.sink.Bodies() {
					got[body]++
				}
				if n := p.src.Stuck(); n > 0 {
					t.Errorf("seed %d: %d messages of process %d are stuck", seed, n, i)
				}
			}
			for i := range ids {
				if n := got[fmt.Sprintf(`{"id":%d}`, i)]; n != 1 {
					t.Errorf("seed %d: %d was delivered %d times", seed, i, n)
				}
			}
		})
		if t.Failed() {
			return
		}
	}
}

// Two processes with one Redis read all messages, one after the other, and at the same time.
func TestProcessesShareKeysInRedis(t *testing.T) {
	const ids = 2000
	url, prefix := redistest.URL(t), redistest.Key(t)+":"
	var all []*process
	for i := range 2 {
		var in []string
		for _, k := range rand.New(rand.NewPCG(1, uint64(i))).Perm(ids) {
			in = append(in, fmt.Sprintf(`{"id":%d,"from":%d}`, k, i))
		}
		p := sharing(nil)
		var c struct {
			Use engine.Plugin[engine.Cache] `yaml:",variant"`
		}
		steptest.Decode(t, fmt.Sprintf(`{"redis": {"url": %q, "prefix": %q}}`, url, prefix), &c)
		p.cache = c.Use
		p.from = &enginetest.Source{Payloads: in, PerRead: 50}
		all = append(all, p.start(t))
	}
	got := map[string]int{}
	for _, p := range all {
		p.ends(t)
		for _, body := range p.sink.Bodies() {
			id, _, _ := strings.Cut(body, ",")
			got[id]++
		}
	}
	for id, n := range got {
		if n != 1 {
			t.Errorf("%s was delivered %d times", id, n)
		}
	}
	if len(got) != ids || len(all[0].sink.Bodies()) == 0 || len(all[1].sink.Bodies()) == 0 {
		t.Errorf("%d of %d delivered", len(got), ids)
	}
	c := redistest.Client(t, url)
	if v := c.Get(t.Context(), prefix+"7").Val(); v != "true" {
		t.Errorf("a key has the value %q", v)
	}
}
