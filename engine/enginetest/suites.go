package enginetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/runtime"
	"github.com/flowd-io/flowd/schema"
	"go.uber.org/goleak"
)

// patience is how long a call may take that must return at once.
const patience = 10 * time.Second

// noLeak returns a check that all goroutines have ended that were started in the meantime. On a busy machine, those of a
// server in this process may take a while to notice that their client has gone.
func noLeak(t *testing.T) func() {
	running := goleak.IgnoreCurrent()
	return func() {
		t.Helper()
		for late := time.Now().Add(patience); ; {
			err := goleak.Find(running) // it waits for most of a second
			if err == nil {
				return
			}
			if time.Now().After(late) {
				t.Error(err)
				return
			}
		}
	}
}

// Input is the conformance suite of inputs. make is called once per case. It returns an input, not open yet, that yields the
// payloads want in order, and then ends.
func Input(t *testing.T, make func(t *testing.T) engine.Input, want ...string) {
	for _, room := range []int{1, 3, 256} {
		t.Run("it yields everything, but never more than there is room for", func(t *testing.T) {
			defer noLeak(t)()
			in := make(t)
			opened(t, in)
			var kept, copies [][]byte
			for {
				b := engine.NewBatch(room)
				_, err := in.Read(t.Context(), b)
				for m := range b.All() {
					kept = append(kept, m.Bytes())
					copies = append(copies, bytes.Clone(m.Bytes()))
				}
				if err == engine.ErrEnd {
					break
				}
				if err != nil {
					t.Fatalf("read: %v", err)
				}
			}
			closed(t, in)
			var got []string
			for i := range kept {
				if !bytes.Equal(kept[i], copies[i]) {
					t.Errorf("payload %d changed after its Read", i)
				}
				got = append(got, string(kept[i]))
			}
			if !slices.Equal(got, want) {
				t.Errorf("read %q, want %q", got, want)
			}
		})
	}
	t.Run("a Read returns at once when its context ends", func(t *testing.T) {
		defer noLeak(t)()
		in := make(t)
		opened(t, in)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		promptly(t, func() {
			for range len(want) + 1 { // it may return messages that it has already
				b := engine.NewBatch(256)
				if _, err := in.Read(ctx, b); err != nil || b.Room() == 256 {
					if err != nil && err != engine.ErrEnd && !errors.Is(err, context.Canceled) {
						t.Errorf("an interrupted Read returned %v; want nil or an error that wraps that of its context", err)
					}
					return
				}
			}
		})
		if s, ok := in.(engine.Stopper); ok {
			promptly(t, func() {
				if err := s.Stop(t.Context()); err != nil {
					t.Errorf("stop: %v", err)
				}
			})
		}
		closed(t, in)
	})
	t.Run("a pipeline carries everything", func(t *testing.T) {
		defer noLeak(t)()
		in, dst := make(t), &Sink{}
		constant(t, in)
		rep := Run(t, &engine.Pipeline{
			Inputs: Named("in",
				engine.InputSpec{Use: engine.Use(func(engine.Env) (engine.Input, error) { return in, nil })}),
			Outputs: Named("out", dst.Output()),
			Engine:  engine.EngineSpec{Workers: 1},
		}, nil)
		if rep.Err != nil || !slices.Equal(dst.Bodies(), want) {
			t.Errorf("err %v, delivered %q, want %q", rep.Err, dst.Bodies(), want)
		}
	})
}

// hostile are payloads at which no processor or output may panic.
var hostile = []string{
	"", "\x00", "{", "[", `{"a":`, "null", "nul", "\xff\xfe", `"\ud800"`, "1e999", "-", "[[[[", `{"":{"":0}}`,
	strings.Repeat("[", 5000), strings.Repeat("{\"a\":", 5000), strings.Repeat("a=b ", 2000), "\x1f\x8b\x08\x00",
	"\x28\xb5\x2f\xfd", strings.Repeat(",\"", 999),
}

// Processor is the conformance suite of processors. make is called once per case. The processor must not fail the payloads.
func Processor(t *testing.T, make func(t *testing.T) engine.Processor, payloads ...string) {
	t.Run("good payloads do not fail", func(t *testing.T) {
		p := make(t)
		opened(t, p)
		defer closed(t, p)
		for _, o := range Apply(t, p, payloads...) {
			if o.Fate == "failed" {
				t.Errorf("%q failed: %v", o.Body, o.Err)
			}
		}
	})
	t.Run("hostile payloads fail or pass, and never panic", func(t *testing.T) {
		p := make(t)
		opened(t, p)
		defer closed(t, p)
		for _, h := range hostile {
			for _, o := range Apply(t, p, h) {
				if o.Fate == "failed" && o.Err.Class == engine.Panicked {
					t.Errorf("%.60q: %v", h, o.Err)
				}
			}
		}
		for _, o := range Apply(t, p, hostile...) {
			if o.Fate == "failed" && o.Err.Class == engine.Panicked {
				t.Errorf("all together: %v", o.Err)
			}
		}
	})
	t.Run("what is not UTF-8 stays or fails, and never becomes U+FFFD", func(t *testing.T) {
		p := make(t)
		opened(t, p)
		defer closed(t, p)
		bad := []string{"\xff\xfe", `"\ud800"`}
		for _, payload := range payloads {
			if at := strings.IndexByte(payload, ':'); at > 0 && payload[0] == '{' { // the value of its first field
				bad = append(bad, payload[:at+1]+`"\ud800"}`, payload[:at+1]+`"x","y":"\ud800"}`, payload[:at+1]+"\"\xff\"}")
			}
		}
		for _, payload := range bad {
			for _, o := range Apply(t, p, payload) {
				if text := o.Body + fmt.Sprint(o.Meta); o.Fate != "failed" && strings.Contains(text, "\ufffd") {
					t.Errorf("%q becomes %q", payload, text)
				}
			}
		}
	})
	t.Run("a document that is not an object is not taken for one without fields", func(t *testing.T) {
		p := make(t)
		opened(t, p)
		defer closed(t, p)
		bodies := func(payload string) (all []string) {
			for _, o := range Apply(t, p, payload) {
				if o.Fate != "failed" {
					all = append(all, o.Fate+" "+o.Body)
				}
			}
			return all
		}
		empty := bodies(`{}`)
		if len(empty) == 0 || len(payloads) == 0 || slices.Equal(empty, bodies(payloads[0])) {
			return // its results do not depend on the payload
		}
		for _, payload := range []string{`5`, `"x"`, `true`, `[{"id":1}]`} {
			if got := bodies(payload); slices.Equal(got, empty) || slices.Equal(got, []string{"live []"}) {
				t.Errorf("%s becomes %q, as an object without fields does", payload, got)
			}
		}
	})
	t.Run("one instance serves many lanes", func(t *testing.T) {
		p := make(t)
		opened(t, p)
		defer closed(t, p)
		want := len(Apply(t, p, payloads...))
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				for range 20 {
					if got := len(Apply(t, p, payloads...)); got != want {
						t.Errorf("got %d messages, want %d", got, want)
					}
				}
			})
		}
		wg.Wait()
	})
	t.Run("an ended context ends the call", func(t *testing.T) {
		p := make(t)
		opened(t, p)
		defer closed(t, p)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		promptly(t, func() { _ = runtime.NewRunner(p).Run(ctx, Batch(payloads...)) })
	})
}

// Batcher is the conformance suite of batchers. make is called once per case.
func Batcher(t *testing.T, make func(t *testing.T) engine.Batcher) {
	t.Run("every message leaves once, in order", func(t *testing.T) {
		p := make(t)
		constant(t, p)
		now := time.Now()
		var got []string
		emit := func(b *engine.Batch, why engine.Trigger) {
			if why == "" {
				t.Error("a batch left without a trigger")
			}
			for m := range b.All() {
				got = append(got, string(m.Bytes()))
			}
		}
		var want []string
		for i := range 100 {
			in := []string{strings.Repeat("x", i), strings.Repeat("y", i)}
			want = append(want, in...)
			p.Add(Batch(in...), now, emit)
			if due := p.Due(); !due.IsZero() && due.Before(now) {
				t.Fatalf("due %v before now", due)
			}
			now = now.Add(time.Millisecond)
		}
		p.Flush(now, engine.ByDrain, -1, emit)
		if !slices.Equal(got, want) {
			t.Errorf("%d messages left, want %d, in order", len(got), len(want))
		}
		if !p.Due().IsZero() {
			t.Errorf("an empty batcher is due at %v", p.Due())
		}
		p.Flush(now, engine.ByEnd, -1, func(*engine.Batch, engine.Trigger) { t.Error("an empty batcher sent a batch") })
	})
	t.Run("a flush for room sends no more than it must", func(t *testing.T) {
		p := make(t)
		left, batches := 0, 0
		emit := func(b *engine.Batch, _ engine.Trigger) { left += b.Len(); batches++ }
		p.Add(Batch("a"), time.Now(), emit)
		p.Flush(time.Now(), engine.ByPressure, 1, emit)
		if left != 1 || batches != 1 {
			t.Errorf("%d messages in %d batches left, want one", left, batches)
		}
	})
}

// Output is the conformance suite of outputs. make is called once per case, and returns an output that is not open yet. The
// output must write the payloads.
func Output(t *testing.T, make func(t *testing.T) engine.Output, payloads ...string) {
	t.Run("good payloads are safe", func(t *testing.T) {
		defer noLeak(t)()
		o := make(t)
		opened(t, o)
		fates, err := Written(t, o, payloads...)
		if err != nil || slices.Contains(fates, "failed") {
			t.Errorf("err %v, fates %v", err, fates)
		}
		closed(t, o)
	})
	t.Run("nothing to write is no error", func(t *testing.T) {
		o := make(t)
		opened(t, o)
		defer closed(t, o)
		if _, err := Written(t, o); err != nil {
			t.Errorf("err %v", err)
		}
	})
	t.Run("a Write returns at once when its context has ended", func(t *testing.T) {
		o := make(t)
		opened(t, o)
		defer closed(t, o)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		promptly(t, func() { _ = o.Write(ctx, Batch(payloads...)) })
	})
	t.Run("payloads of all kinds are written or fail alone", func(t *testing.T) {
		o := make(t)
		opened(t, o)
		defer closed(t, o)
		for _, payload := range append(Awkward(), hostile...) {
			b := Batch(payload)
			err := o.Write(t.Context(), b)
			failedAlone(t, payload, b, err)
		}
	})
	t.Run("metadata of all kinds goes along, or the message fails alone", func(t *testing.T) {
		o := make(t)
		opened(t, o)
		defer closed(t, o)
		for _, v := range []any{nil, "", "\xff\x00", "a\r\nb: c", []any{}, []any{nil, "\xff"}, map[string]any{"\xff": "\xfe"},
			true, 7, 1.5, time.Unix(0, 0).UTC()} {
			for _, name := range []string{"k", "topic", "priority", "payload", "header_topic", "error_message", "a\xff", ""} {
				b := Batch(payloads[0])
				for m := range b.All() {
					m.Meta = m.Meta.With(name, v)
				}
				err := o.Write(t.Context(), b)
				failedAlone(t, fmt.Sprintf("%s with %q=%q", payloads[0], name, v), b, err)
			}
		}
	})
	t.Run("a pipeline delivers everything", func(t *testing.T) {
		o, src := make(t), &Source{Payloads: payloads, Takes: engine.TakesOne}
		constant(t, o)
		rep := Run(t, &engine.Pipeline{
			Inputs: Named("in", src.Input()),
			Outputs: schema.MapOf(schema.Entry[engine.OutputSpec]{Key: "out",
				Value: engine.OutputSpec{Use: engine.Use(func(engine.Env) (engine.Output, error) { return o, nil })}}),
		}, nil)
		if rep.Err != nil || rep.Stats.Roots.Ended[engine.Delivered] != int64(len(payloads)) {
			t.Errorf("err %v, stats %+v", rep.Err, rep.Stats.Roots)
		}
	})
}

// Separated is the conformance suite of code that writes several messages into one stream with separators: no message may
// become several records. carry writes the payloads together. It returns the stream and the errors of messages that failed.
func Separated(t *testing.T, separator string, carry func(t *testing.T, payloads ...string) (stream string, failed []*engine.Error)) {
	records := func(stream string) []string { return strings.Split(strings.TrimSuffix(stream, separator), separator) }
	for _, bad := range []string{"a" + separator + "b", separator + "a", "a" + separator + separator, "{" + separator + "]"} {
		t.Run("a payload that holds the separator fails alone", func(t *testing.T) {
			stream, failed := carry(t, "1", bad, "2")
			if got := records(stream); !slices.Equal(got, []string{"1", "2"}) {
				t.Errorf("%q became a part of %q", bad, got)
			}
			if len(failed) != 1 || failed[0].Class != engine.Permanent || !strings.HasSuffix(failed[0].Error(), ")") {
				t.Errorf("%q failed with %v, want a permanent error that ends with a remedy (in brackets)", bad, failed)
			}
		})
	}
	t.Run("a separator begins where it is written", func(t *testing.T) {
		bad := "a" + separator[:len(separator)-1]
		stream, failed := carry(t, "1", bad, "2")
		want := []string{"1", bad, "2"}
		if len(failed) > 0 {
			want = []string{"1", "2"}
		}
		if got := records(stream); !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	})
	if strings.Trim(separator, " \t\r\n") != "" {
		return
	}
	t.Run("a JSON document of several lines is one record", func(t *testing.T) {
		pretty := "{" + separator + ` "a": [1.50,` + separator + ` "x \n y"]` + separator + "}" + separator
		stream, failed := carry(t, pretty, "2")
		if got := records(stream); !slices.Equal(got, []string{`{"a":[1.50,"x \n y"]}`, "2"}) || len(failed) > 0 {
			t.Errorf("got %q, failed: %v", got, failed)
		}
	})
}

// constant fails the test if the traits of x are different at its end.
func constant(t *testing.T, x any) {
	before := engine.TraitsOf(x)
	t.Cleanup(func() {
		if after := engine.TraitsOf(x); !reflect.DeepEqual(after, before) {
			t.Errorf("what it says about itself has changed from %+v to %+v", before, after)
		}
	})
}

func opened(t *testing.T, x any) {
	t.Helper()
	constant(t, x)
	if o, ok := x.(engine.Opener); ok {
		if err := o.Open(t.Context()); err != nil {
			t.Fatalf("open: %v", err)
		}
	}
}

func closed(t *testing.T, x any) {
	t.Helper()
	if c, ok := x.(engine.Closer); ok {
		if err := c.Close(context.Background()); err != nil {
			t.Errorf("close: %v", err)
		}
	}
}

// promptly fails the test if f does not return at once.
func promptly(t *testing.T, f func()) {
	t.Helper()
	done := make(chan struct{})
	go func() { f(); close(done) }()
	select {
	case <-done:
	case <-time.After(patience):
		t.Fatal("the call did not return")
	}
}
