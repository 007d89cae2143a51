package runtime_test

import (
	"context"
	"flag"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/flowd-io/flowd/engine"
	. "github.com/flowd-io/flowd/engine/enginetest"
	"github.com/flowd-io/flowd/engine/expr"
)

var manyKeys = flag.Int("keys", 12_000, "keys that TestManyKeys uses")

// keyed is a source whose messages have many different keys.
type keyed struct {
	n, most int
	same    int // number of messages of each key
}

func (s *keyed) Read(_ context.Context, b *engine.Batch) (engine.Acker, error) {
	if s.n == s.most {
		return nil, engine.ErrEnd
	}
	for ; b.Room() > 0 && s.n < s.most; s.n++ {
		m := b.Add([]byte(`{"k":"customer-` + strconv.Itoa(s.n/s.same) + `"}`))
		m.Ref = uint64(s.n)
	}
	return nil, nil
}

// gauge is an output that measures the live heap from time to time.
type gauge struct {
	every int64
	seen  atomic.Int64

	mu    sync.Mutex // guards the field below
	heaps []uint64
}

func (g *gauge) Write(_ context.Context, b *engine.Batch) error {
	n := int64(0)
	for range b.All() {
		n++
	}
	if now := g.seen.Add(n); now/g.every > (now-n)/g.every {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.heaps = append(g.heaps, liveHeap())
	}
	return nil
}

func liveHeap() uint64 {
	runtime.GC()
	var ms runtime.MemStats
	runtime.ReadMemStats(&ms)
	return ms.HeapAlloc
}

// Memory depends on the messages in flight, not on the number of keys so far.
func TestManyKeys(t *testing.T) {
	key := expr.MustCompile("k")
	limit := &engine.RateLimit{Messages: 1000, Per: time.Millisecond, Key: key, MaxKeys: 10_000}
	tests := []struct {
		name string
		edit func(t *testing.T, p *engine.Pipeline)
		part int // number of keys; 0: all
	}{
		{name: "batch keys that the credits bound", edit: func(t *testing.T, p *engine.Pipeline) {
			b := batched(t, `{"size": 2, "timeout": "1h"}`, "out")
			b.Key = key
			p.Batchers = Named("b", b)
		}},
		{name: "batch keys that max_keys bounds", edit: func(t *testing.T, p *engine.Pipeline) {
			b := batched(t, `{"size": 2, "timeout": "1h", "max_keys": 500}`, "out")
			b.Key = key
			p.Batchers = Named("b", b)
		}},
		{name: "order keys", edit: func(_ *testing.T, p *engine.Pipeline) { p.Engine.OrderBy = key }},
		{name: "order keys of messages that all wait once", part: 4, edit: func(_ *testing.T, p *engine.Pipeline) {
			p.Engine.OrderBy = key
			p.Processors = engine.Steps{Step("wait", func(_ context.Context, m *engine.Message) error {
				m.Delay(time.Millisecond)
				return nil
			})}
		}},
		{name: "keys of a limit", edit: func(_ *testing.T, p *engine.Pipeline) { p.Engine.RateLimit = limit }},
		{name: "keys of an output's limit", edit: func(_ *testing.T, p *engine.Pipeline) {
			out := p.Outputs.Entries()[0].Value
			out.RateLimit = limit
			p.Outputs = Named("out", out)
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			keepFlat(t, *manyKeys/max(1, tt.part), 1, func(p *engine.Pipeline) { tt.edit(t, p) })
		})
	}
}

// keepFlat runs n messages, with a number of messages for each key, through a pipeline, and checks that the live heap stays small.
func keepFlat(t *testing.T, n, same int, edit func(*engine.Pipeline)) {
	t.Helper()
	const mib = 1 << 20
	before := liveHeap()
	g := &gauge{every: int64(n) / 8}
	p := &engine.Pipeline{
		Name: "keys",
		Inputs: Named("in", engine.InputSpec{Use: engine.Use(func(engine.Env) (engine.Input, error) {
			return &keyed{most: n, same: same}, nil
		})}),
		Outputs: Named("out", engine.OutputSpec{
			Concurrency: 2, Use: engine.Use(func(engine.Env) (engine.Output, error) { return g, nil }),
		}),
		Engine: engine.EngineSpec{Workers: 2},
	}
	p.Engine.MaxInFlight.Messages = 2000
	edit(p)
	rep := Run(t, p, nil)
	if seen := g.seen.Load(); seen != int64(n) || rep.Code() != 0 {
		t.Fatalf("%d messages were written, want %d, code %d", seen, n, rep.Code())
	}
	most := uint64(0)
	for _, h := range g.heaps {
		most = max(most, h)
	}
	if len(g.heaps) < 6 || most > before+16*mib {
		t.Errorf("%d MiB live at most, %d before, in %d looks", most/mib, before/mib, len(g.heaps))
	}
	if after := liveHeap(); after > before+8*mib {
		t.Errorf("%d MiB live at the end, %d before", after/mib, before/mib)
	}
}

func TestManyKeysBehindMessagesThatWait(t *testing.T) {
	keepFlat(t, *manyKeys/4, 4, func(p *engine.Pipeline) {
		p.Engine.OrderBy = expr.MustCompile("k")
		p.Processors = engine.Steps{Step("wait", func(_ context.Context, m *engine.Message) error {
			if m.Ref%4 == 0 {
				m.Delay(5 * time.Millisecond)
			}
			return nil
		})}
	})
}
