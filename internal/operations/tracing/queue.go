//go:build !no_otel && (!slim || otel)

package tracing

import (
	"cmp"
	"context"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	resourcepb "go.opentelemetry.io/proto/otlp/resource/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/flowd-io/flowd/internal/operations/telemetry"
)

// queue has what has ended and waits to be sent. It is bounded: what does not fit is dropped and counted. put and full never
// block; all else is for one goroutine.
type queue struct {
	client   otlptrace.Client
	resource *resourcepb.Resource
	schema   string // URL of the resource
	kept     func(pipeline string, took time.Duration, trace, span string)
	health   *telemetry.Health
	timeout  time.Duration // of a request with its retries
	most     int           // spans that may wait
	chunk    int           // spans in a request
	delay    time.Duration // for which spans wait for others
	pace     time.Duration // from one span to the next; 0: as fast as the receiver takes them
	wake     chan struct{} // has room for one

	sent, dropped atomic.Int64 // spans
	isFull        atomic.Bool
	places        places
	uploading     context.Context
	abort         context.CancelFunc // of uploading

	mu    sync.Mutex // guards the fields below
	items []item
	spans int
}

// item is something that becomes spans.
type item interface {
	count() int
	spans(dst []*tracepb.Span, known places) []*tracepb.Span
}

func newQueue(o Options) *queue {
	q := &queue{client: o.Client, kept: o.Kept, timeout: cmp.Or(o.Timeout, 10*time.Second),
		health: telemetry.NewHealth("traces", "spans", o.Log), wake: make(chan struct{}, 1), places: places{},
		most:  number("OTEL_BSP_MAX_QUEUE_SIZE", 32768),
		chunk: number("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", 2048),
		delay: time.Duration(number("OTEL_BSP_SCHEDULE_DELAY", 1000)) * time.Millisecond}
	if o.MaxSpans > 0 {
		q.pace = time.Second / time.Duration(o.MaxSpans)
	}
	if o.Resource != nil {
		q.resource, q.schema = &resourcepb.Resource{Attributes: keyValues(o.Resource.Attributes())}, o.Resource.SchemaURL()
	}
	q.uploading, q.abort = context.WithCancel(context.Background())
	return q
}

// number reads a variable of OpenTelemetry; one that is not a positive number counts as not set.
func number(variable string, otherwise int) int {
	if n, err := strconv.Atoi(os.Getenv(variable)); err == nil && n > 0 {
		return n
	}
	return otherwise
}

// full reports whether put would drop what it gets.
func (q *queue) full() bool { return q.isFull.Load() }

func (q *queue) put(x item) {
	n := x.count()
	q.mu.Lock()
	if q.spans += n; q.spans > q.most {
		q.spans -= n
		q.mu.Unlock()
		q.isFull.Store(true)
		q.drop(n)
		return
	}
	q.items = append(q.items, x)
	enough := q.spans >= q.chunk
	q.mu.Unlock()
	if enough {
		select {
		case q.wake <- struct{}{}:
		default:
		}
	}
}

func (q *queue) take() (all []item) {
	q.mu.Lock()
	defer q.mu.Unlock()
	all, q.items, q.spans = q.items, nil, 0
	q.isFull.Store(false)
	return all
}

// run sends until ctx ends.
func (q *queue) run(ctx context.Context) {
	if err := q.client.Start(q.uploading); err != nil {
		q.health.Sent(0, err)
	}
	tick := time.NewTicker(q.delay)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-q.wake:
		case <-tick.C:
		}
		q.send(q.take(), ctx.Done())
	}
}

// close sends what is left, until ctx ends. run has returned, or returns when its request is done.
func (q *queue) close(ctx context.Context) error {
	defer q.abort()
	q.send(q.take(), nil)
	return q.client.Stop(ctx)
}

// send sends items in requests of limited size, no faster than the pace until hurry is closed. nil: it hurries.
func (q *queue) send(all []item, hurry <-chan struct{}) {
	var spans []*tracepb.Span
	for i, x := range all {
		spans = x.spans(spans, q.places)
		if f, ok := x.(*message); ok && q.kept != nil {
			q.kept(f.spot.Pipeline, f.ended.Sub(f.read), f.trace.String(), f.span.String())
		}
		if len(spans) >= q.chunk || i+1 == len(all) {
			began := time.Now()
			q.upload(spans)
			if rest := time.Duration(len(spans))*q.pace - time.Since(began); rest > 0 && hurry != nil {
				select {
				case <-time.After(rest):
				case <-hurry:
				}
			}
			spans = nil
		}
	}
}

func (q *queue) upload(spans []*tracepb.Span) {
	ctx, cancel := context.WithTimeout(q.uploading, q.timeout)
	defer cancel()
	err := q.client.UploadTraces(ctx, []*tracepb.ResourceSpans{{Resource: q.resource, SchemaUrl: q.schema,
		ScopeSpans: []*tracepb.ScopeSpans{{Scope: scope, Spans: spans}}}})
	if q.health.Sent(len(spans), err); err != nil {
		q.dropped.Add(int64(len(spans)))
		return
	}
	q.sent.Add(int64(len(spans)))
}

// drop counts spans that are not sent.
func (q *queue) drop(n int) {
	q.dropped.Add(int64(n))
	q.health.Drop(n)
}
