package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/plog/plogotlp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/mem"
)

var otlpRows = []row{
	{
		name: "otlp", does: "OTLP over gRPC → drop, 500 log records per request, 16 at once, answered after delivery",
		metric: cpu, run: runOTLP, times: 4,
		contestants: []contestant{inFlowd("otlp"), theLimit("otlpreceiver", "otlp-receiver $listen")},
		goals:       []goal{{than: "otlpreceiver", atLeast: 1}},
	},
	{
		name: "trace", does: "as filter, with one message in a hundred traced: spans over gRPC to otlpreceiver",
		check: transformed(graded, failed), data: events, run: runTraced,
		contestants: []contestant{traced("flowd", "0.01"), untraced},
		goals:       []goal{{than: untraced.name, atLeast: 0.98}},
	},
	{
		name: "trace-all", does: "as filter, with every message traced, as far as otlpreceiver keeps up",
		check: transformed(graded, failed), data: events, run: runTraced,
		contestants: []contestant{traced("flowd", "1"), untraced},
		goals:       []goal{{than: untraced.name, atLeast: 0.7}},
	},
}

// untraced is the pipeline of the rows trace without tracing.
var untraced = contestant{name: "not traced", command: flowdRuns + " $conf/filter.flowd.yaml", limit: true}

// traced is that pipeline with a share of messages traced.
func traced(name, share string) contestant {
	return contestant{name: name,
		command: flowdRuns + " $conf/filter.flowd.yaml -s service.tracing.endpoint=http://$listen -s service.tracing.sample=" + share}
}

// runTraced is the runner of rows whose contestants send spans to the collector's receiver.
func runTraced(w *world, r *row, c *contestant, n int, all bool) (s sample, err error) {
	address, err := freeAddress()
	if err != nil {
		return s, err
	}
	vars := map[string]string{"listen": address}
	p, err := w.start(theLimit("", "otlp-receiver $listen").command, vars, nil, nil)
	if err != nil {
		return s, err
	}
	defer p.kill()
	if err := p.waitUntilListening(address); err != nil {
		return s, err
	}
	with := *c
	with.vars = vars
	return runFiles(w, r, &with, n, all)
}

const (
	recordsPerRequest = 500
	requestsAtOnce    = 16
)

// runOTLP is the runner of rows whose contestants receive n log records.
func runOTLP(w *world, r *row, c *contestant, n int, _ bool) (s sample, err error) {
	address, err := freeAddress()
	if err != nil {
		return s, err
	}
	p, err := w.start(c.command, map[string]string{"listen": address}, nil, nil)
	if err != nil {
		return s, err
	}
	defer p.kill() // after an error
	if err := p.waitUntilListening(address); err != nil {
		return s, err
	}
	took, err := sendLogs(w.ctx, address, n)
	if err != nil {
		return s, err
	}
	used, err := p.stop()
	if err != nil {
		return s, err
	}
	return used.sample(r.data, n, took), counted(output{n: n, stderr: used.stderr, flowd: c.isFlowd()})
}

// sendLogs sends n log records over one connection.
func sendLogs(ctx context.Context, address string, n int) (time.Duration, error) {
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.ForceCodecV2(encoded{})))
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	full, err := logRequest(recordsPerRequest)
	if err != nil {
		return 0, err
	}
	rest, err := logRequest(n % recordsPerRequest)
	if err != nil {
		return 0, err
	}
	var left atomic.Int64
	left.Store(int64(n))
	errs := make([]error, requestsAtOnce)
	var senders sync.WaitGroup
	began := time.Now()
	for k := range requestsAtOnce {
		senders.Go(func() {
			for errs[k] == nil {
				request := full
				switch after := left.Add(-recordsPerRequest); {
				case after <= -recordsPerRequest:
					return
				case after < 0:
					request = rest
				}
				var answer []byte
				errs[k] = conn.Invoke(ctx, "/opentelemetry.proto.collector.logs.v1.LogsService/Export", request, &answer)
				if errs[k] == nil {
					errs[k] = accepted(answer)
				}
			}
		})
	}
	senders.Wait()
	return time.Since(began), errors.Join(errs...)
}

// accepted says whether an answer accepts all records.
func accepted(answer []byte) error {
	r := plogotlp.NewExportResponse()
	if err := r.UnmarshalProto(answer); err != nil {
		return err
	}
	if n := r.PartialSuccess().RejectedLogRecords(); n != 0 {
		return fmt.Errorf("%d records were rejected: %s", n, r.PartialSuccess().ErrorMessage())
	}
	return nil
}

// encoded is a codec for messages that are encoded already: the sender shares the CPU with the server that is measured.
type encoded struct{}

func (encoded) Name() string { return "proto" }

func (encoded) Marshal(v any) (mem.BufferSlice, error) {
	return mem.BufferSlice{mem.SliceBuffer(v.([]byte))}, nil
}

func (encoded) Unmarshal(data mem.BufferSlice, v any) error {
	*v.(*[]byte) = data.Materialize()
	return nil
}

// logRequest makes a request with log records such as a web server writes.
func logRequest(records int) ([]byte, error) {
	d := plog.NewLogs()
	r := d.ResourceLogs().AppendEmpty()
	r.Resource().Attributes().PutStr("service.name", "checkout")
	r.Resource().Attributes().PutStr("service.version", "2.14.0")
	r.Resource().Attributes().PutStr("host.name", "node-17.eu-west.example")
	s := r.ScopeLogs().AppendEmpty()
	s.Scope().SetName("github.com/example/checkout")
	for i := range records {
		l := s.LogRecords().AppendEmpty()
		l.SetTimestamp(pcommon.Timestamp(1_767_225_600_000_000_000 + i))
		l.SetObservedTimestamp(l.Timestamp())
		l.SetSeverityNumber(plog.SeverityNumberInfo)
		l.SetSeverityText("INFO")
		l.Body().SetStr("the customer has paid order 48151623 by card")
		l.Attributes().PutStr("http.request.method", "POST")
		l.Attributes().PutStr("url.path", "/api/v1/orders")
		l.Attributes().PutInt("http.response.status_code", int64([...]int{200, 404, 503}[i%3]))
		l.Attributes().PutDouble("duration", 12.5)
		l.Attributes().PutStr("user_agent.original", "Mozilla/5.0 (X11; Linux x86_64; rv:115.0) Gecko/20100101 Firefox/115.0")
		l.SetTraceID(pcommon.TraceID{0x4b, 0xf9, byte(i >> 8), byte(i)})
		l.SetSpanID(pcommon.SpanID{0xf0, byte(i)})
	}
	return plogotlp.NewExportRequestFromLogs(d).MarshalProto()
}
