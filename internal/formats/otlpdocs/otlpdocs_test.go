package otlpdocs

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"unicode/utf8"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/plog/plogotlp"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/pdata/pmetric/pmetricotlp"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/pdata/ptrace/ptraceotlp"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	logs "go.opentelemetry.io/proto/otlp/logs/v1"
	resource "go.opentelemetry.io/proto/otlp/resource/v1"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/flowd-io/flowd/engine"
)

var (
	traceID = pcommon.TraceID{1, 2, 3, 0xff}
	spanID  = pcommon.SpanID{4, 5, 0xee}
)

// fill adds attributes of all types.
func fill(m pcommon.Map) {
	m.PutStr("text", "a \"quote\"\n, ünïcode and \x01")
	m.PutStr("empty", "")
	m.PutInt("int", math.MinInt64)
	m.PutInt("zero", 0)
	m.PutDouble("double", 1.5e-9)
	m.PutDouble("whole", 3)
	m.PutDouble("nan", math.NaN())
	m.PutDouble("inf", math.Inf(-1))
	m.PutBool("bool", false)
	m.PutEmptyBytes("bytes").FromRaw([]byte{0, 1, 250})
	m.PutEmpty("nothing")
	list := m.PutEmptySlice("list")
	list.AppendEmpty().SetStr("x")
	list.AppendEmpty().SetEmptyMap().PutInt("deep", 1)
	m.PutEmptySlice("none")
}

func someLogs() []byte {
	d := plog.NewLogs()
	for i, service := range []string{"shop", "bank"} {
		r := d.ResourceLogs().AppendEmpty()
		r.Resource().Attributes().PutStr("service.name", service)
		fill(r.Resource().Attributes())
		r.SetSchemaUrl("https://opentelemetry.io/schemas/1.26.0")
		for n := range 2 - i {
			s := r.ScopeLogs().AppendEmpty()
			s.Scope().SetName(fmt.Sprint("lib", n))
			s.Scope().SetVersion("v1")
			s.SetSchemaUrl("scope")
			for range 2 {
				l := s.LogRecords().AppendEmpty()
				l.SetTimestamp(math.MaxInt64)
				l.SetObservedTimestamp(1)
				l.SetSeverityNumber(plog.SeverityNumberError2)
				l.SetSeverityText("ERROR2")
				l.Body().SetStr("no [")
				fill(l.Attributes())
				l.SetDroppedAttributesCount(7)
				l.SetFlags(plog.DefaultLogRecordFlags.WithIsSampled(true))
				l.SetTraceID(traceID)
				l.SetSpanID(spanID)
				l.SetEventName("event")
			}
			s.LogRecords().AppendEmpty() // an empty one
		}
	}
	raw, err := plogotlp.NewExportRequestFromLogs(d).MarshalProto()
	return must(raw, err)
}

func someTraces() []byte {
	d := ptrace.NewTraces()
	r := d.ResourceSpans().AppendEmpty()
	fill(r.Resource().Attributes())
	r.Resource().SetDroppedAttributesCount(1)
	s := r.ScopeSpans().AppendEmpty()
	s.Scope().SetName("lib")
	fill(s.Scope().Attributes())
	for range 3 {
		x := s.Spans().AppendEmpty()
		x.SetTraceID(traceID)
		x.SetSpanID(spanID)
		x.SetParentSpanID(pcommon.SpanID{9})
		x.TraceState().FromRaw("a=b")
		x.SetName("GET /")
		x.SetKind(ptrace.SpanKindServer)
		x.SetStartTimestamp(5)
		x.SetEndTimestamp(math.MaxUint64)
		x.SetFlags(0x301)
		fill(x.Attributes())
		e := x.Events().AppendEmpty()
		e.SetName("exception")
		e.SetTimestamp(6)
		fill(e.Attributes())
		l := x.Links().AppendEmpty()
		l.SetTraceID(traceID)
		l.SetSpanID(spanID)
		x.Links().AppendEmpty()
		x.Status().SetCode(ptrace.StatusCodeError)
		x.Status().SetMessage("bad")
	}
	raw, err := ptraceotlp.NewExportRequestFromTraces(d).MarshalProto()
	return must(raw, err)
}

func someMetrics() []byte {
	d := pmetric.NewMetrics()
	all := d.ResourceMetrics().AppendEmpty().ScopeMetrics().AppendEmpty().Metrics()
	add := func(name string) pmetric.Metric {
		m := all.AppendEmpty()
		m.SetName(name)
		m.SetUnit("1")
		m.SetDescription("what it counts")
		m.Metadata().PutStr("a", "b")
		return m
	}
	g := add("gauge").SetEmptyGauge().DataPoints()
	p := g.AppendEmpty()
	p.SetIntValue(0)
	fill(p.Attributes())
	g.AppendEmpty().SetDoubleValue(-0.25)
	g.AppendEmpty().SetFlags(pmetric.DefaultDataPointFlags.WithNoRecordedValue(true))
	s := add("sum").SetEmptySum()
	s.SetIsMonotonic(true)
	s.SetAggregationTemporality(pmetric.AggregationTemporalityCumulative)
	e := s.DataPoints().AppendEmpty().Exemplars().AppendEmpty()
	e.SetTraceID(traceID)
	e.SetSpanID(spanID)
	e.SetDoubleValue(1)
	h := add("histogram").SetEmptyHistogram().DataPoints().AppendEmpty()
	h.SetCount(3)
	h.SetSum(0)
	h.SetMin(-1)
	h.BucketCounts().FromRaw([]uint64{1, 2, 0})
	h.ExplicitBounds().FromRaw([]float64{0.5, 10})
	x := add("exponential").SetEmptyExponentialHistogram().DataPoints().AppendEmpty()
	x.SetScale(-3)
	x.SetZeroThreshold(1e-300)
	x.Positive().SetOffset(-2)
	x.Positive().BucketCounts().FromRaw([]uint64{0, math.MaxUint64})
	q := add("summary").SetEmptySummary().DataPoints().AppendEmpty().QuantileValues().AppendEmpty()
	q.SetQuantile(0.99)
	q.SetValue(12)
	add("empty")
	raw, err := pmetricotlp.NewExportRequestFromMetrics(d).MarshalProto()
	return must(raw, err)
}

func must(raw []byte, err error) []byte {
	if err != nil {
		panic(err)
	}
	return raw
}

var samples = [...]func() []byte{Logs: someLogs, Metrics: someMetrics, Traces: someTraces}

var unlimited = Limits{Documents: math.MaxInt, Bytes: math.MaxInt, Take: func(int64) bool { return true }}

// TestThereAndBack splits requests and joins their documents again.
func TestThereAndBack(t *testing.T) {
	for _, tt := range []struct {
		signal    Signal
		documents int
		counts    int64
		traces    int
	}{{Logs, 9, 9, 6}, {Metrics, 6, 7, 0}, {Traces, 3, 3, 3}} {
		t.Run(tt.signal.String(), func(t *testing.T) {
			request := samples[tt.signal]()
			for _, whole := range []bool{false, true} {
				d, err := Split(tt.signal, request, whole, unlimited)
				if err != nil {
					t.Fatal(err)
				}
				var parts [][]byte
				counts, traces := int64(0), 0
				for i := range d.Len() {
					s, part, err := Encode(d.Text(i))
					if err != nil || s != tt.signal {
						t.Fatalf("%s, %v: %s", s, err, d.Text(i))
					}
					parts = append(parts, part)
					counts += d.Count(i)
					if id := d.TraceID(i); id == traceID.String() {
						traces++
					} else if id != "" {
						t.Errorf("trace id %q", id)
					}
				}
				got, err := canonical(tt.signal, Merge(parts))
				if err != nil || !bytes.Equal(got, request) {
					t.Errorf("whole %v: got %v\n%q, want\n%q", whole, err, got, request)
				}
				want := tt.documents
				if whole {
					want, traces = 1, tt.traces
				}
				if d.Len() != want || counts != tt.counts || traces != tt.traces {
					t.Errorf("whole %v: %d documents, counts %d, traces %d", whole, d.Len(), counts, traces)
				}
			}
		})
	}
}

func TestTheShapeOfADocument(t *testing.T) {
	body := func(text string) *common.AnyValue {
		return &common.AnyValue{Value: &common.AnyValue_StringValue{StringValue: text}}
	}
	raw, err := proto.Marshal(&logs.LogsData{ResourceLogs: []*logs.ResourceLogs{{
		Resource: &resource.Resource{Attributes: []*common.KeyValue{{Key: "service.name", Value: body("shop")}}},
		ScopeLogs: []*logs.ScopeLogs{{Scope: &common.InstrumentationScope{Name: "lib"},
			LogRecords: []*logs.LogRecord{{TimeUnixNano: 7, SeverityNumber: 9, Body: body("one")}, {TraceId: traceID[:], Flags: 1}}}},
		SchemaUrl: "r",
	}}})
	got, err := Split(Logs, must(raw, err), false, unlimited)
	if err != nil {
		t.Fatal(err)
	}
	const head = `{"resourceLogs":[{"resource":{"attributes":[{"key":"service.name","value":{"stringValue":"shop"}}]},"schemaUrl":"r",` +
		`"scopeLogs":[{"scope":{"name":"lib"},"logRecords":[`
	for i, want := range []string{`{"timeUnixNano":"7","severityNumber":9,"body":{"stringValue":"one"}}`,
		`{"flags":1,"traceId":"010203ff000000000000000000000000"}`} {
		if want = head + want + `]}]}]}`; string(got.Text(i)) != want || got.Service(i) != "shop" {
			t.Errorf("got\n%s, want\n%s", got.Text(i), want)
		}
	}
}

// TestUnusualOrders splits requests that no encoder writes, but that are valid.
func TestUnusualOrders(t *testing.T) {
	record := func(n byte) []byte { return appendMessage(nil, 5, []byte{0x18, n}) } // a body with a number
	body := func(text string) []byte { return protowire.AppendString([]byte{0x0a}, text) }
	scope := appendMessage(appendMessage(nil, recordsField, record(1)), 1, []byte{0x0a, 1, 'x'})
	apart := appendMessage(scope, recordsField, record(2)) // its records are apart
	twice := appendMessage(nil, recordsField, appendMessage(appendMessage(nil, 5, body("a")), 5, body("b")))
	for name, tt := range map[string]struct {
		scope []byte
		want  []string
	}{
		"a list in two parts":   {apart, []string{`"intValue":"1"`, `"intValue":"2"`}},
		"a field that is twice": {twice, []string{`"stringValue":"b"`}},
	} {
		request := appendMessage(nil, listField, appendMessage(nil, scopesField, tt.scope))
		d, err := Split(Logs, request, false, unlimited)
		if err != nil {
			t.Fatal(name, err)
		}
		if d.Len() != len(tt.want) {
			t.Fatalf("%s: got %d documents", name, d.Len())
		}
		for i, want := range tt.want {
			if got := string(d.Text(i)); strings.Count(got, want) != 1 || strings.Count(got, "Value") != 1 {
				t.Errorf("%s: got %s, want %s", name, got, want)
			}
		}
	}
}

func TestInvalidRequests(t *testing.T) {
	nested := []byte{0x10, 1}
	for range 300 { // an attribute value in a list in a value …
		nested = appendMessage(nil, 5, appendMessage(nil, 1, nested))
	}
	inRecord := func(record []byte) []byte {
		return appendMessage(nil, 1, appendMessage(nil, 2, appendMessage(nil, 2, record)))
	}
	for name, tt := range map[string]struct {
		request []byte
		want    string
	}{
		"half a request":   {someLogs()[:200], "unexpected EOF"},
		"text":             {[]byte("hello"), "not a valid request"},
		"JSON":             {[]byte(`{"resourceLogs":[]}`), "not a valid request"},
		"deep nesting":     {inRecord(appendMessage(nil, 5, nested)), "nest deeper than 200"},
		"a short trace id": {inRecord(appendMessage(nil, 9, []byte("abc"))), "an id has 3 bytes, not 16"},
		"a wrong type":     {inRecord([]byte{0x48, 1}), "another type"},
	} {
		if _, err := Split(Logs, tt.request, false, unlimited); !errors.Is(err, errInvalid) || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: got %v, want %s", name, err, tt.want)
		}
	}
}

func TestLimits(t *testing.T) {
	request := someLogs()
	refuse := unlimited
	refuse.Take = func(int64) bool { return false }
	few, short := unlimited, unlimited
	few.Documents, short.Bytes = 8, 1000
	for want, most := range map[error]Limits{ErrTooMany: few, ErrTooLarge: short, ErrFull: refuse} {
		if _, err := Split(Logs, request, false, most); !errors.Is(err, want) {
			t.Errorf("got %v, want %v", err, want)
		}
	}
	// A large resource with many records: its documents are not all made.
	d := plog.NewLogs()
	r := d.ResourceLogs().AppendEmpty()
	r.Resource().Attributes().PutStr("long", strings.Repeat("x", 1<<20))
	s := r.ScopeLogs().AppendEmpty()
	for range 100_000 {
		s.LogRecords().AppendEmpty()
	}
	raw, err := plogotlp.NewExportRequestFromLogs(d).MarshalProto()
	short.Bytes = 10 << 20
	if d, err := Split(Logs, must(raw, err), false, short); !errors.Is(err, ErrTooLarge) || len(d.text) > 12<<20 {
		t.Errorf("got %v after %d bytes", err, len(d.text))
	}
}

func TestDocumentsThatAreNotOTLP(t *testing.T) {
	for text, want := range map[string]string{
		`{"a":1}`: "this one has none", `[]`: "this one has none", `"resourceLogs"`: "this one has none",
		`{"resourceLogs":[],"resourceSpans":[]}`: "has several", `{"resourceLogs":7}`: "not logs",
		`{"resourceLogs":[`: "not a JSON document",
	} {
		_, _, err := Encode([]byte(text))
		if e := engine.ErrorOf(err, ""); err == nil || e.Class != engine.Decode || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", text, err, want)
		}
	}
}

func TestPartialSuccess(t *testing.T) {
	for _, p := range []PartialSuccess{{}, {3, "why"}, {0, "a warning"}} {
		if got, err := ParsePartialSuccess(p.Proto()); got != p || err != nil {
			t.Errorf("got %+v, %v, want %+v", got, err, p)
		}
		r := plogotlp.NewExportResponse()
		if err := r.UnmarshalProto(p.Proto()); err != nil || r.PartialSuccess().RejectedLogRecords() != p.Rejected ||
			r.PartialSuccess().ErrorMessage() != p.Message {
			t.Errorf("pdata reads %+v, %v", r.PartialSuccess(), err)
		}
		r = plogotlp.NewExportResponse()
		if err := r.UnmarshalJSON(p.JSON(Logs)); err != nil || r.PartialSuccess().RejectedLogRecords() != p.Rejected {
			t.Errorf("pdata reads %+v, %v", r.PartialSuccess(), err)
		}
	}
}

// FuzzSplit compares what is made of a request with what pdata makes of it.
func FuzzSplit(f *testing.F) {
	for s, sample := range samples {
		f.Add(uint8(s), sample())
	}
	f.Fuzz(func(t *testing.T, n uint8, request []byte) {
		s := All[int(n)%len(All)]
		want, err := canonical(s, request)
		d, got := Split(s, request, true, unlimited)
		_, apart := Split(s, request, false, unlimited)
		if got == nil != (apart == nil) && apart == nil {
			t.Fatalf("whole: %v, in parts: %v", got, apart)
		}
		switch {
		case got != nil && !errors.Is(got, errInvalid):
			t.Fatal(got)
		case got != nil || err != nil || !utf8.Valid(want): // each may refuse what the other takes
			return
		case d.Len() == 0:
			return
		}
		back, err := DecodeJSON(s, d.Text(0))
		if err != nil {
			t.Fatalf("%v: %s", err, d.Text(0))
		}
		if again, err := Split(s, back, true, unlimited); err != nil || string(again.Text(0)) != string(d.Text(0)) && !bytes.Equal(back, want) {
			t.Fatalf("%v: from\n%s\nto\n%s", err, d.Text(0), again.Text(0))
		}
	})
}

// FuzzEncode looks for documents that panic, or whose request can't be split again.
func FuzzEncode(f *testing.F) {
	for s, sample := range samples {
		d, err := Split(Signal(s), sample(), true, unlimited)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(d.Text(0))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		s, request, err := Encode(text)
		if err != nil {
			return
		}
		if _, err := Split(s, Merge([][]byte{request, request}), false, unlimited); err != nil {
			t.Fatal(err)
		}
	})
}

// FuzzPartialSuccess reads answers of servers.
func FuzzPartialSuccess(f *testing.F) {
	f.Add(PartialSuccess{3, "why"}.Proto())
	f.Fuzz(func(t *testing.T, answer []byte) {
		if p, err := ParsePartialSuccess(answer); err == nil && utf8.ValidString(p.Message) {
			if again, err := ParsePartialSuccess(p.Proto()); again != p || err != nil {
				t.Fatalf("%+v: %+v, %v", p, again, err)
			}
		}
	})
}

func BenchmarkSplit(b *testing.B) {
	d := plog.NewLogs()
	r := d.ResourceLogs().AppendEmpty()
	r.Resource().Attributes().PutStr("service.name", "shop")
	r.Resource().Attributes().PutStr("host.name", "node-17.example")
	s := r.ScopeLogs().AppendEmpty()
	for i := range 512 {
		l := s.LogRecords().AppendEmpty()
		l.SetTimestamp(pcommon.Timestamp(1e18 + i))
		l.SetSeverityNumber(plog.SeverityNumberInfo)
		l.Body().SetStr("a customer has paid an order of 12.50 EUR by card")
		l.Attributes().PutStr("http.request.method", "POST")
		l.Attributes().PutStr("url.path", "/orders")
		l.Attributes().PutInt("http.response.status_code", 201)
		l.SetTraceID(traceID)
		l.SetSpanID(spanID)
	}
	raw, err := plogotlp.NewExportRequestFromLogs(d).MarshalProto()
	request := must(raw, err)
	b.Run("flowd", func(b *testing.B) {
		b.SetBytes(int64(len(request)))
		b.ReportAllocs()
		for b.Loop() {
			if _, err := Split(Logs, request, false, unlimited); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("pdata", func(b *testing.B) { // decodes only
		b.SetBytes(int64(len(request)))
		b.ReportAllocs()
		for b.Loop() {
			if err := plogotlp.NewExportRequest().UnmarshalProto(request); err != nil {
				b.Fatal(err)
			}
		}
	})
}
