package bench

import (
	"fmt"
	"testing"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/enginetest"
	"github.com/flowd-io/flowd/internal/fakesqs"
)

// BenchmarkSQS sends messages to a service in this process that answers after a
// millisecond, one request at a time. x_one_by_one is how many times faster
// batches are than single messages; it must be 5 at least.
func BenchmarkSQS(b *testing.B) {
	const messages = 500
	s := fakesqs.Start(b)
	b.Setenv("AWS_ENDPOINT_URL", s.Listen())
	s.Create("orders", fakesqs.Queue{})
	s.Fault("SendMessageBatch", fakesqs.Fault{Times: -1, Delay: time.Millisecond})
	o := enginetest.New(b, engine.Outputs, `{"sqs": {"queue": "orders", "parallel": 1}}`)
	check(b, o.(engine.Opener).Open(b.Context()))
	defer o.(engine.Closer).Close(b.Context())
	all := make([]string, messages)
	for i := range all {
		all[i] = fmt.Sprintf(`{"id":%d,"name":"Customer %d"}`, i, i)
	}
	var single, batched time.Duration
	for b.Loop() {
		began := time.Now()
		for _, body := range all {
			check(b, o.Write(b.Context(), enginetest.Batch(body)))
		}
		single += time.Since(began)
		began = time.Now()
		check(b, o.Write(b.Context(), enginetest.Batch(all...)))
		batched += time.Since(began)
	}
	if n := len(s.Messages("orders")); n != 2*messages*b.N {
		b.Fatalf("%d messages arrived, want %d", n, 2*messages*b.N)
	}
	ratio := single.Seconds() / batched.Seconds()
	if ratio < 5 {
		b.Errorf("batches are only %.1f times faster than single messages", ratio)
	}
	b.ReportMetric(float64(b.N*messages)/batched.Seconds(), "messages/s")
	b.ReportMetric(ratio, "x_one_by_one")
	b.ReportMetric(0, "ns/op")
}
