package steptest

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/enginetest"
	"github.com/flowd-io/flowd/engine/runtime"
	"github.com/flowd-io/flowd/internal/testing/cachetest"
)

// Outages runs steps that use the cache "c" while that is away for half a second, five and sixty: for all calls or for
// writes alone. Everything must be delivered and acknowledged, without an attempt being counted. kept says whether the
// cache has what the acknowledged payloads must have left there.
func Outages(t *testing.T, steps string, payloads []string, kept func(c engine.Cache, acknowledged []string) error) {
	for _, away := range []time.Duration{500 * time.Millisecond, 5 * time.Second, time.Minute} {
		for _, what := range []string{"calls", "writes"} {
			t.Run(fmt.Sprintf("%s fail for %v", what, away), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					o := &outage{Source: &enginetest.Source{Payloads: payloads, Takes: engine.TakesOne, PerRead: 1,
						Every: time.Duration(int64(3*time.Second) / int64(len(payloads)))}, kept: kept}
					o.cache = &cachetest.Away{Cache: cachetest.New(t, `{"memory": {}}`), From: time.Now().Add(time.Second),
						Reads: what == "calls"}
					o.cache.Until = o.cache.From.Add(away)
					o.run(t, steps)
				})
			})
		}
	}
	t.Run("a drain while the cache is away acknowledges nothing that is not in it", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			o := &outage{Source: &enginetest.Source{Payloads: payloads, Takes: engine.TakesOne, PerRead: 1, Endless: true,
				Every: time.Duration(int64(3*time.Second) / int64(len(payloads)))}, kept: kept}
			o.cache = &cachetest.Away{Cache: cachetest.New(t, `{"memory": {}}`), From: time.Now().Add(time.Second)}
			o.cache.Until = o.cache.From.Add(time.Hour)
			stop, cancel := context.WithTimeout(t.Context(), 2*time.Second)
			defer cancel()
			rep := o.plan(t, steps).Run(stop, context.Background())
			if rep.Code() == 0 {
				t.Errorf("the run ended as if nothing was missing: %+v", rep)
			}
			if n := len(o.told); n == 0 || n == len(payloads) {
				t.Errorf("%d of %d messages were acknowledged, want those before the outage", n, len(payloads))
			}
		})
	})
}

// outage is a source that checks at each acknowledgement that the cache has what it must have.
type outage struct {
	*enginetest.Source
	cache *cachetest.Away
	kept  func(engine.Cache, []string) error

	mu   sync.Mutex // guards the field below
	told []string
	bad  error
}

// Ack notes what was delivered.
func (o *outage) Ack(ctx context.Context, rs []engine.Result) ([]engine.Result, error) {
	o.mu.Lock()
	for _, r := range rs {
		if r.Fate == engine.Delivered || r.Fate == engine.Filtered {
			o.told = append(o.told, o.Payloads[r.Ref])
		}
	}
	if err := o.kept(o.cache.Cache, o.told); err != nil && o.bad == nil {
		o.bad = fmt.Errorf("after %d acknowledgements: %w", len(o.told), err)
	}
	o.mu.Unlock()
	return o.Source.Ack(ctx, rs)
}

// Read gives the source's messages, whose results come to o.
func (o *outage) Read(ctx context.Context, b *engine.Batch) (engine.Acker, error) {
	_, err := o.Source.Read(ctx, b)
	return o, err
}

func (o *outage) plan(t *testing.T, steps string) *runtime.Plan {
	t.Helper()
	spec := &engine.Pipeline{Name: "test",
		Inputs: enginetest.Named("in",
			engine.InputSpec{Use: engine.Use(func(engine.Env) (engine.Input, error) { return o, nil })}),
		Outputs: enginetest.Named("out", (&enginetest.Sink{}).Output()), Engine: engine.EngineSpec{Workers: 2}}
	Decode(t, steps, &spec.Processors)
	plan, problems := runtime.Build(spec, runtime.Options{Log: slog.New(slog.NewTextHandler(t.Output(), nil)),
		Caches: map[string]engine.Plugin[engine.Cache]{
			"c": engine.Use(func(engine.Env) (engine.Cache, error) { return o.cache, nil })}})
	if plan == nil {
		t.Fatal(problems)
	}
	return plan
}

func (o *outage) run(t *testing.T, steps string) {
	t.Helper()
	rep := o.plan(t, steps).Run(t.Context(), context.Background())
	if rep.Code() != 0 || len(rep.Failures) > 0 {
		t.Errorf("code %d, failures %+v, err %v", rep.Code(), rep.Failures, rep.Err)
	}
	slices.Sort(o.told)
	if want := slices.Sorted(slices.Values(o.Payloads)); !slices.Equal(o.told, want) {
		t.Errorf("%d of %d messages were acknowledged", len(o.told), len(want))
	}
	if o.bad != nil {
		t.Error(o.bad)
	}
}
