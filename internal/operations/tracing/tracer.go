//go:build !no_otel && (!slim || otel)

// Package tracing turns what happens to messages into OpenTelemetry's spans, for `service.tracing`. A [Tracer] follows the
// messages that are sampled from their input on, and others as soon as they fail. When one has ended, its spans are sent.
//
//	tracer.go    which messages are followed
//	message.go   what is noted of them
//	queue.go     what has ended and waits to be sent
//	spans.go     spans in OTLP's form
//	context.go   the W3C's traceparent
package tracing

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"math/rand/v2"
	"sync"
	"time"

	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/sdk/resource"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/expr"
)

// Options say which messages are followed, and where their spans are sent.
type Options struct {
	Sample     float64       // the share of messages that begin a trace here, from 0 to 1
	SampleIf   *expr.Cond    // messages that are followed, too; nil: none
	Failed     bool          // follow messages that fail
	Slower     time.Duration // follow messages that take longer; 0: none
	Attributes []Attribute   // of a message's span
	ErrorTexts bool          // spans have the texts of errors, which may quote data

	// Kept is called with each message whose span is sent: its pipeline, how long it took, and its ids in hexadecimal. nil: nobody asks.
	Kept func(pipeline string, took time.Duration, trace, span string)

	MaxSpans int              // that are sent per second; 0: no limit
	Client   otlptrace.Client // not started
	Timeout  time.Duration    // of a request with its retries
	Resource *resource.Resource
	Log      *slog.Logger
}

// Attribute is an attribute with a value of the message.
type Attribute struct {
	Name  string
	Value expr.Expr
}

// Tracer is an [engine.Tracer] that sends spans by OTLP. It is safe for concurrent use.
type Tracer struct {
	Options
	queue  *queue
	logQ   float64  // of 1 - Sample
	inputs sync.Map // the spots of inputs, by inputName
	stop   context.CancelFunc
	done   chan struct{}
	flush  func(context.Context) error // sends the spans of plugins
}

var _ engine.Tracer = (*Tracer)(nil)

// New makes a tracer, which sends until it is closed.
func New(o Options) *Tracer {
	ctx, stop := context.WithCancel(context.Background())
	t := &Tracer{Options: o, queue: newQueue(o), logQ: math.Log1p(-o.Sample), stop: stop, done: make(chan struct{})}
	t.flush = t.servePlugins()
	go func() {
		defer close(t.done)
		t.queue.run(ctx)
	}()
	return t
}

// Close sends what has ended. It takes no longer than a receiver may delay the end of the process.
func (t *Tracer) Close() error {
	ctx, cancel := t.queue.health.Closing()
	defer cancel()
	abort := context.AfterFunc(ctx, t.queue.abort)
	defer abort()
	t.stop()
	<-t.done
	return errors.Join(t.flush(ctx), t.queue.close(ctx))
}

// Counts are how many spans were sent, and how many were not, because the receiver was down or too slow.
func (t *Tracer) Counts() (sent, dropped int64) { return t.queue.sent.Load(), t.queue.dropped.Load() }

// Read begins to follow the messages that are sampled: by whoever has sent them, if they come with a traceparent, else here.
func (t *Tracer) Read(at *engine.Spot, b *engine.Batch, again bool) {
	t.knows(at)
	next, i := t.skip(), 0
	var last struct { // what is known of messages with the same metadata
		meta   engine.Meta
		parent parent
		set    bool
	}
	for m := range b.All() {
		here := i == next
		if i++; here {
			next = i + t.skip()
		}
		if whole := m.Meta.At(0); !last.set || whole != last.meta || isMade(whole) {
			last.meta, last.parent, last.set = whole, parentOf(m.Meta), true
		}
		if here || last.parent.ok || t.SampleIf != nil || again {
			t.consider(at, m, last.parent, here)
		}
	}
	for m := range b.Ended() {
		if m.Err() != nil && t.Options.Failed {
			t.consider(at, m, parentOf(m.Meta), true)
		}
	}
}

// inputName is the name of an input of a process.
type inputName struct{ pipeline, input string }

// knows notes the spot of an input, for messages that are followed later.
func (t *Tracer) knows(at *engine.Spot) {
	name := inputName{at.Pipeline, at.Name}
	if was, ok := t.inputs.Load(name); !ok || was != at {
		t.inputs.Store(name, at)
	}
}

// inputOf returns the spot of the input that has read a message.
func (t *Tracer) inputOf(pipeline string, o engine.Origin) *engine.Spot {
	if at, ok := t.inputs.Load(inputName{pipeline, o.Input()}); ok {
		return at.(*engine.Spot)
	}
	return &engine.Spot{Kind: engine.InputSpot, Pipeline: pipeline, Name: o.Input()}
}

// isMade reports whether metadata is made on demand: it differs between messages that share it.
func isMade(m engine.Meta) bool {
	s, _ := m.Source()
	return s != nil
}

// skip returns how many messages are not sampled before the next one that is.
func (t *Tracer) skip() int {
	switch {
	case t.Sample >= 1:
		return 0
	case t.Sample <= 0:
		return math.MaxInt32
	}
	return int(min(math.Log(1-rand.Float64())/t.logQ, math.MaxInt32))
}

// consider follows m if it is sampled. here says that it is, unless it belongs to a trace already.
func (t *Tracer) consider(at *engine.Spot, m *engine.Message, p parent, here bool) {
	o := originOf(m)
	if f := o.Trace(); f != nil { // a reload reads it again
		f.Of.(*message).mark(at, m)
		return
	}
	sampled := here
	if p.ok {
		sampled = p.sampled
	}
	if !sampled && t.SampleIf != nil {
		sampled, _ = t.SampleIf.Test(m) // an error: it has not what the condition asks for
	}
	if !sampled {
		return
	}
	if t.queue.full() {
		t.queue.drop(1)
		return
	}
	f := t.begin(at, m, p)
	o.SetTrace(&f.handle)
	f.mark(at, m)
}

// Slow is the time after which Late wants messages.
func (t *Tracer) Slow() time.Duration { return t.Slower }

func originOf(m *engine.Message) engine.Origin {
	var room [1]engine.Origin
	if all := m.Origins(room[:0]); len(all) > 0 {
		return all[0]
	}
	return engine.Origin{}
}
