package runtime_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flowd-io/flowd/engine"
	. "github.com/flowd-io/flowd/engine/enginetest"
	"github.com/flowd-io/flowd/engine/expr"
	"github.com/flowd-io/flowd/schema"
	"github.com/google/go-cmp/cmp"
)

// counted returns the payloads {"n":1} to {"n":n}.
func counted(n int) []string { return numbers(n + 1)[1:] }

// batchesOf lists writes as "1,3 size".
func batchesOf(ws []Write) (all []string) {
	for _, w := range ws {
		names := strings.Join(w.Bodies, ",")
		names = strings.NewReplacer(`{"n":`, "", "}", "").Replace(names)
		all = append(all, strings.TrimSpace(names+" "+string(w.Trigger)))
	}
	return all
}

// How messages are batched, by the numbers of the cases of Broadway (B) and Benthos (R).
func TestPeersBatches(t *testing.T) {
	odd, even := expr.MustCond("n % 2 == 1"), expr.MustCond("n % 2 == 0")
	parity, third := expr.MustCompile("n % 2"), expr.MustCompile("n % 3")
	batch := func(t *testing.T, config string, match expr.Cond, key expr.Expr) engine.BatcherSpec {
		b := batched(t, config, "out")
		b.Match, b.Key = match, key
		return b
	}
	tests := []struct {
		name     string
		payloads []string
		batchers func(t *testing.T) schema.Map[engine.BatcherSpec]
		want     []string // by time, then by first message
		took     time.Duration
	}{
		{"B33: without batchers both are written", counted(2), func(*testing.T) schema.Map[engine.BatcherSpec] {
			return schema.Map[engine.BatcherSpec]{}
		}, []string{"1,2"}, 0},
		{"B35: what the end finds open leaves by batcher: 3 odd, 2 even", counted(5),
			func(t *testing.T) schema.Map[engine.BatcherSpec] {
				return schema.MapOf(entry("odd", batch(t, `{"size": 9}`, odd, expr.Expr{})),
					entry("even", batch(t, `{"size": 9}`, even, expr.Expr{})))
			}, []string{"1,3,5 end", "2,4 end"}, 0},
		{"B37: two keys are two batches", counted(2), func(t *testing.T) schema.Map[engine.BatcherSpec] {
			return Named("b", batch(t, `{"size": 9}`, expr.Cond{}, parity))
		}, []string{"1 end", "2 end"}, 0},
		{"B38: a budget of bytes by key: one that would overflow waits for the next", []string{`{"n":40}`, `{"n":1}`,
			`{"n":1300000}`, `{"n":3}`}, func(t *testing.T) schema.Map[engine.BatcherSpec] {
			return Named("b", batch(t, `{"bytes": 19}`, expr.Cond{}, parity))
		}, []string{"1,3 end", "1300000 end", "40 bytes"}, 0},
		{"B39: sizes of their own, the rest by timeout", counted(10),
			func(t *testing.T) schema.Map[engine.BatcherSpec] {
				return schema.MapOf(entry("odd", batch(t, `{"size": 4, "timeout": "1s"}`, odd, expr.Expr{})),
					entry("even", batch(t, `{"size": 3, "timeout": "1s"}`, even, expr.Expr{})))
			}, []string{"1,3,5,7 size", "2,4,6 size", "8,10 end", "9 end"}, 0},
		{"R1: groups by key in first-seen order", counted(6), func(t *testing.T) schema.Map[engine.BatcherSpec] {
			return Named("b", batch(t, `{"size": 2}`, expr.Cond{}, third))
		}, []string{"1,4 size", "2,5 size", "3,6 size"}, 0},
		{"R24, V2: the end sends what no trigger would", counted(3), func(t *testing.T) schema.Map[engine.BatcherSpec] {
			return Named("b", batch(t, `{"size": 100, "timeout": "2s"}`, expr.Cond{}, expr.Expr{}))
		}, []string{"1,2,3 end"}, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				src, dst := &Source{Payloads: tt.payloads, Takes: engine.TakesOne}, &Sink{}
				p := pipe(src, dst)
				p.Engine.Workers = 1
				p.Batchers = tt.batchers(t)
				began := time.Now()
				rep := Run(t, p, nil)
				got := batchesOf(dst.Writes())
				slices.Sort(got)
				if p.Batchers.Len() == 0 { // any messages may be written together
					got = []string{strings.Join(got, ",")}
				}
				if diff := cmp.Diff(tt.want, got); diff != "" {
					t.Errorf("batches (-want +got):\n%s", diff)
				}
				if took := time.Since(began); took != tt.took || rep.Code() != 0 {
					t.Errorf("took %v, code %d; want %v and 0", took, rep.Code(), tt.took)
				}
			})
		})
	}
}

// What happens to messages that fail, likewise.
func TestPeersFailures(t *testing.T) {
	refuse := func(n int) func(string) error {
		return func(body string) error {
			if body == fmt.Sprintf(`{"n":%d}`, n) {
				return engine.Errorf(engine.Rejected, "no %d", n)
			}
			return nil
		}
	}
	all := func(string) error { return engine.Errorf(engine.Rejected, "no") }
	fails := func(n uint64) engine.StepSpec {
		return Step("check", func(_ context.Context, m *engine.Message) error {
			if m.Ref+1 == n {
				return errors.New("bad")
			}
			return nil
		})
	}
	edit := Step("edit", func(_ context.Context, m *engine.Message) error {
		m.SetBytes(append(slices.Clone(m.Bytes()), []byte(" edited")...))
		return nil
	})
	raise := Step("raise", func(context.Context, *engine.Message) error { panic("raised") })
	tests := []struct {
		name  string
		n     int
		one   bool // each Read returns one message
		takes engine.TakesBack
		out   func(string) error
		edit  func(p *engine.Pipeline)
		dlq   engine.Steps // of the dead-letter output; nil: there is none
		want  string       // fates of the messages, by number
		dead  []string     // messages of the dead-letter output
		code  int
	}{
		{name: "B52: a dead letter may be edited", n: 2, takes: engine.TakesOne, out: refuse(1),
			dlq:  engine.Steps{edit},
			want: "dead_lettered delivered", dead: []string{`{"n":1} edited`}},
		{name: "B53: so may one that a step has failed", n: 2, takes: engine.TakesOne, dlq: engine.Steps{edit},
			edit: func(p *engine.Pipeline) { p.Processors = engine.Steps{fails(2)} },
			want: "delivered dead_lettered", dead: []string{`{"n":2} edited`}},
		{name: "B54: what deals with failures fails: the message still ends", n: 2, takes: engine.TakesOne,
			out: refuse(1), dlq: engine.Steps{raise},
			want: "returned delivered", code: 1},
		{name: "B56: a batch that panics as a whole is put aside as a whole", n: 3, takes: engine.TakesOne,
			out: func(string) error { panic("raised") }, dlq: engine.Steps{},
			edit: func(p *engine.Pipeline) { p.Engine.Workers = 1 }, // with more workers, the three have no order
			want: "dead_lettered dead_lettered dead_lettered", dead: []string{`{"n":1}`, `{"n":2}`, `{"n":3}`}},
		{name: "B70: an input's own step that panics fails what it held; later reads go on", n: 3, one: true,
			takes: engine.TakesOne,
			edit: func(p *engine.Pipeline) {
				in := p.Inputs.Entries()[0].Value
				in.Processors = engine.Steps{Step("raise", func(_ context.Context, m *engine.Message) error {
					if m.Ref == 1 {
						panic("raised")
					}
					return nil
				})}
				p.Inputs = Named("in", in)
			},
			want: "delivered returned delivered", code: 1},
		{name: "R9: the first is repaired, the second untouched", n: 2, takes: engine.TakesOne,
			edit: func(p *engine.Pipeline) {
				s := fails(1)
				s.OnError = engine.OnError{Steps: engine.Steps{edit}}
				p.Processors = engine.Steps{s}
			},
			want: "delivered delivered"},
		{name: "R18: what is dropped on purpose is acked", n: 4, takes: engine.TakesOne,
			edit: func(p *engine.Pipeline) {
				p.Processors = engine.Steps{Step("odd", func(_ context.Context, m *engine.Message) error {
					if m.Ref%2 == 1 {
						m.Drop()
					}
					return nil
				})}
			},
			want: "delivered filtered delivered filtered"},
		{name: "R29: what a step failed is not written, but put aside with its reason", n: 3, takes: engine.TakesOne,
			dlq:  engine.Steps{},
			edit: func(p *engine.Pipeline) { p.Processors = engine.Steps{fails(2)} },
			want: "delivered dead_lettered delivered", dead: []string{`{"n":2}`}},
		{name: "R42, V5: what fails at the end of a source that takes it back goes back", n: 3, takes: engine.TakesOne,
			out:  refuse(3),
			want: "delivered delivered returned", code: 1},
		{name: "V5: one that takes nothing back: it is reported, and the run has failed", n: 3, out: refuse(3),
			want: "", code: 1},
		{name: "a run in which all fail has failed", n: 3, out: all, want: "", code: 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				src := &Source{Payloads: counted(tt.n), Takes: tt.takes}
				if tt.one {
					src.PerRead = 1
				}
				dst, dlq := &Sink{Fail: tt.out}, &Sink{}
				p := pipe(src, dst)
				if tt.edit != nil {
					tt.edit(p)
				}
				if tt.dlq != nil {
					out := dlq.Output()
					out.Processors = tt.dlq
					p.Outputs = schema.MapOf(entry("out", dst.Output()), entry("dlq", out))
					p.Engine.OnFailure.DeadLetter = "dlq"
				}
				rep := Run(t, p, nil)
				var ends []string
				for _, body := range src.Payloads {
					if r, ok := src.Results()[body]; ok {
						ends = append(ends, r.Fate.String())
					}
				}
				if got := strings.Join(ends, " "); got != tt.want || rep.Code() != tt.code {
					t.Errorf("ends %q, code %d; want %q and %d", got, rep.Code(), tt.want, tt.code)
				}
				if diff := cmp.Diff(tt.dead, dlq.Bodies()); diff != "" {
					t.Errorf("dead letters (-want +got):\n%s", diff)
				}
				for _, w := range dlq.Writes() {
					for _, meta := range w.Metas {
						if meta["error_message"] == nil || meta["error_class"] == nil {
							t.Errorf("a dead letter has no reason: %v", meta)
						}
					}
				}
				if tt.code == 1 && len(rep.Failures) == 0 {
					t.Error("nothing is reported")
				}
			})
		})
	}
}

// What happens to other parts of the engine, likewise.
func TestPeersParts(t *testing.T) {
	for _, tt := range []struct {
		name string
		run  func(t *testing.T)
	}{
		{"B65: while a window is spent, the source is not asked", func(t *testing.T) {
			src := &Source{Payloads: numbers(100), Endless: true}
			p := pipe(src, &Sink{})
			p.Engine.RateLimit = &engine.RateLimit{Messages: 7, Per: time.Minute}
			plan := Build(t, p)
			stop, cancel := context.WithTimeout(t.Context(), 90*time.Second)
			defer cancel()
			done := make(chan struct{})
			go func() { plan.Run(stop, context.Background()); close(done) }()
			for _, want := range []int{7, 14} {
				time.Sleep(45 * time.Second)
				synctest.Wait()
				if got := src.Taken(); got != want {
					t.Errorf("%d messages were read, want %d", got, want)
				}
			}
			<-done
		}},
		{"B69: an input's own steps see every message first", func(t *testing.T) {
			src, dst := &Source{Payloads: counted(3), PerRead: 1}, &Sink{}
			p := pipe(src, dst, Step("two", func(_ context.Context, m *engine.Message) error {
				m.SetBytes(append(slices.Clone(m.Bytes()), 'b'))
				return nil
			}))
			in := src.Input()
			in.Processors = engine.Steps{Step("one", func(_ context.Context, m *engine.Message) error {
				m.SetBytes(append(slices.Clone(m.Bytes()), 'a'))
				return nil
			})}
			p.Inputs = Named("in", in)
			Run(t, p, nil)
			wantSame(t, dst.Bodies(), []string{`{"n":1}ab`, `{"n":2}ab`, `{"n":3}ab`})
		}},
		{"B73: a step that panics loses neither that message nor what comes behind", func(t *testing.T) {
			src, dst := &Source{Payloads: counted(5), Takes: engine.TakesOne, PerRead: 1, Every: time.Second}, &Sink{}
			Run(t, pipe(src, dst, Step("kill", func(_ context.Context, m *engine.Message) error {
				if m.Ref == 2 {
					panic("killed")
				}
				return nil
			})), nil)
			if n := len(dst.Bodies()); n != 4 || src.Results()[`{"n":3}`].Fate != engine.Returned {
				t.Errorf("%d delivered, the third %+v", n, src.Results()[`{"n":3}`])
			}
		}},
		{"B74: a batcher that panics loses nothing: what it held goes back, and the run says why", func(t *testing.T) {
			src, dst := &Source{Payloads: counted(7), Takes: engine.TakesOne, PerRead: 1, Every: time.Millisecond},
				&Sink{}
			p := pipe(src, dst)
			p.Batchers = Named("b", engine.BatcherSpec{Output: engine.Names{"out"},
				Use: engine.Use(func(engine.Env) (engine.Batcher, error) {
					return &killable{Batcher: New(t, engine.Batchers, `{"batch": {"size": 2}}`)}, nil
				})})
			rep := Run(t, p, nil)
			ends := map[engine.Fate]int{}
			for _, r := range src.Results() {
				ends[r.Fate]++
			}
			if ends[engine.Delivered] != len(dst.Bodies()) ||
				ends[engine.Delivered]+ends[engine.Returned] != src.Taken() || rep.Code() != 1 || rep.Err == nil {
				t.Errorf("ends %v of %d read, %d written, code %d, err %v", ends, src.Taken(), len(dst.Bodies()),
					rep.Code(), rep.Err)
			}
		}},
		{"R21: three outputs each get a copy; the source is told once", func(t *testing.T) {
			src := &Source{Payloads: counted(1), Takes: engine.TakesOne}
			sinks := []*Sink{{}, {}, {}}
			p := pipe(src, sinks[0])
			p.Outputs = schema.MapOf(entry("a", sinks[0].Output()), entry("b", sinks[1].Output()),
				entry("c", sinks[2].Output()))
			p.Batchers = Named("all", batched(t, `{"size": 1}`, "a", "b", "c"))
			Run(t, p, nil)
			for i, s := range sinks {
				if n := len(s.Bodies()); n != 1 {
					t.Errorf("output %d got %d", i, n)
				}
			}
			if calls := src.Calls(); len(calls) != 1 || len(calls[0]) != 1 || calls[0][0].Fate != engine.Delivered {
				t.Errorf("acks %+v", calls)
			}
		}},
		{"R32: a message that no batcher takes is not dropped silently", func(t *testing.T) {
			src, dst := &Source{Payloads: counted(3), Takes: engine.TakesOne}, &Sink{}
			p := pipe(src, dst)
			a, b := batched(t, `{"size": 1}`, "out"), batched(t, `{"size": 1}`, "out")
			a.Match, a.Continue = expr.MustCond("n == 1"), true
			b.Match = expr.MustCond("n < 3")
			p.Batchers = schema.MapOf(entry("a", a), entry("b", b))
			rep := Run(t, p, nil)
			wantSame(t, dst.Bodies(), []string{`{"n":1}`, `{"n":1}`, `{"n":2}`})
			if r := src.Results()[`{"n":3}`]; r.Fate != engine.Returned || r.Err.Class != engine.Unrouted ||
				rep.Code() != 1 {
				t.Errorf("the third: %+v, code %d", r, rep.Code())
			}
		}},
		{"R37: three attempts are three writes, then the next output takes over", func(t *testing.T) {
			src := &Source{Payloads: counted(1), Takes: engine.TakesOne}
			tried := 0
			dst, dlq := &Sink{Fail: func(string) error { tried++; return engine.Errorf(engine.Transient, "down") }},
				&Sink{}
			p := pipe(src, dst)
			p.Outputs = schema.MapOf(entry("out", dst.Output()), entry("dlq", dlq.Output()))
			p.Engine.OnFailure = engine.EngineFailure{
				OnFailure: engine.OnFailure{DeadLetter: "dlq"},
				Retry: &engine.Retry{MaxAttempts: 3,
					Intervals: []time.Duration{200 * time.Millisecond, 2 * time.Second}},
			}
			began := time.Now()
			Run(t, p, nil)
			if took := time.Since(began); tried != 3 || took != 2200*time.Millisecond || len(dlq.Bodies()) != 1 {
				t.Errorf("%d tries in %v, %d dead letters; want 3 in 2.2s and 1", tried, took, len(dlq.Bodies()))
			}
		}},
	} {
		t.Run(tt.name, func(t *testing.T) { synctest.Test(t, tt.run) })
	}
}

// killable is a batcher that panics at its third message.
type killable struct {
	engine.Batcher
	seen int
}

func (b *killable) Add(in *engine.Batch, now time.Time, emit engine.Emit) {
	if b.seen += in.Len(); b.seen >= 3 {
		panic("killed")
	}
	b.Batcher.Add(in, now, emit)
}
