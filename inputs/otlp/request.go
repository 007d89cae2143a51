package otlp

import (
	"errors"
	"fmt"
	"mime"
	"net/http"
	"strings"
	"sync"

	"google.golang.org/grpc/codes"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/components/push"
	"github.com/flowd-io/flowd/internal/formats/otlpdocs"
	"github.com/flowd-io/flowd/internal/network/grpcx"
	"github.com/flowd-io/flowd/internal/network/httpx"
)

// request is a request whose messages are in flight.
type request struct {
	push.Request

	in     *input
	form   form
	signal otlpdocs.Signal
	coding string // how the body is compressed
	buffer []byte // the body as received, until it is split

	docs *otlpdocs.Documents
	meta engine.Meta
	sum  sum
}

// form is how a request is written, and its answer.
type form uint8

const (
	grpc form = iota
	protobuf
	json
)

// requests recycles requests: most of their memory is for waiting.
var requests = sync.Pool{New: func() any { return &request{Request: push.NewRequest()} }}

func (in *input) newRequest() *request {
	r := requests.Get().(*request)
	r.in, r.Hold = in, in.queue.Hold()
	return r
}

// leave releases what a request still holds after its answer, or after its client has gone.
func (r *request) leave() {
	if _, shared := r.Leave(); !shared {
		*r = request{Request: r.Recycled()}
		requests.Put(r)
	}
}

// serveGRPC handles one call.
func (in *input) serveGRPC(d *push.Door, w http.ResponseWriter, hr *http.Request) {
	r := in.newRequest()
	defer r.leave()
	if !grpcx.IsCall(hr) {
		http.Error(w, "this address accepts OTLP over gRPC; listen_http is for other requests", http.StatusUnsupportedMediaType)
		return
	}
	for _, s := range otlpdocs.All {
		if s.Method() == hr.URL.Path && in.accepts(s) {
			r.signal, r.coding = s, grpcx.Encoding(hr)
			r.serve(d, w, hr)
			return
		}
	}
	r.refuse(w, &push.Refusal{Status: http.StatusNotFound, Why: "nothing is accepted under this name: " + hr.URL.Path})
}

// serveHTTP handles one request over plain HTTP.
func (in *input) serveHTTP(d *push.Door, w http.ResponseWriter, hr *http.Request) {
	httpx.EndUnclear(w, hr)
	r := in.newRequest()
	defer r.leave()
	kind, _, _ := mime.ParseMediaType(hr.Header.Get("Content-Type"))
	if r.form = protobuf; kind == "application/json" {
		r.form = json
	}
	for _, s := range otlpdocs.All {
		if s.Path() != hr.URL.Path || !in.accepts(s) {
			continue
		}
		switch {
		case hr.Method != http.MethodPost:
			w.Header().Set("Allow", http.MethodPost)
			r.refuse(w, &push.Refusal{Status: http.StatusMethodNotAllowed, Why: "only POST is accepted"})
		case r.form != json && kind != "application/x-protobuf":
			r.refuse(w, &push.Refusal{Status: http.StatusUnsupportedMediaType,
				Why: "the content type must be application/x-protobuf or application/json"})
		default:
			r.signal, r.coding = s, hr.Header.Get("Content-Encoding")
			r.serve(d, w, hr)
		}
		return
	}
	r.refuse(w, &push.Refusal{Status: http.StatusNotFound, Why: "nothing is accepted at this path"})
}

// serve handles a request whose signal is accepted. It takes a slot when the body has arrived, so that a client that sends nothing
// holds none.
func (r *request) serve(d *push.Door, w http.ResponseWriter, hr *http.Request) {
	in := r.in
	if !in.cfg.Auth.Allows(hr) {
		w.Header().Set("WWW-Authenticate", in.cfg.Auth.Challenge())
		r.refuse(w, &push.Refusal{Status: http.StatusUnauthorized, Why: "credentials are missing or wrong"})
		return
	}
	body, why := r.receive(w, hr)
	if why != nil {
		r.refuse(w, why)
		return
	}
	if !in.queue.Enter() {
		r.refuse(w, crowded)
		return
	}
	defer in.queue.Exit()
	if why := r.split(body); why != nil {
		r.refuse(w, why)
		return
	}
	if r.docs.Len() == 0 {
		r.succeed(w, otlpdocs.PartialSuccess{})
		return
	}
	m := &metadata{docs: r.docs, signal: r.signal.String(), remote: hr.RemoteAddr}
	for _, name := range engine.TraceContext {
		if v := hr.Header.Values(name); len(v) > 0 {
			m.names, m.values = append(m.names, name), append(m.values, strings.Join(v, ", "))
		}
	}
	r.meta = engine.MetaFrom(m)
	switch why, ok := in.queue.Await(hr.Context(), d, &r.Request, r, r.docs.Len()); {
	case !ok:
	case why != nil:
		r.refuse(w, why)
	default:
		r.answer(w)
	}
}

// receive reads a body and decompresses it, or returns why it is refused.
func (r *request) receive(w http.ResponseWriter, hr *http.Request) ([]byte, *push.Refusal) {
	in := r.in
	most := int64(in.cfg.MaxBody)
	if hr.ContentLength > most+headOfGRPC {
		return nil, refusals.Endless
	}
	b := httpx.Body{Max: most + headOfGRPC, MinRate: int(in.cfg.MinRate), Take: r.Hold.Take, Process: in.cfg.Timeout + push.Pressure}
	if old, ok := buffers.Get().(*[]byte); ok {
		b.Buffer = *old
	}
	body, err := b.Read(w, hr)
	r.buffer = body
	if err != nil {
		return nil, refusals.Unread(hr, b.Max, err)
	}
	coding := r.coding
	if r.form == grpc {
		var compressed bool
		if body, compressed, err = grpcx.Message(body); err != nil {
			return nil, &push.Refusal{Status: http.StatusBadRequest, Why: err.Error()}
		}
		if !compressed {
			coding = ""
		}
	}
	return refusals.Unpack(&r.Hold, body, coding, most)
}

// buffers recycles the memory of bodies.
var buffers sync.Pool

// mostRecycled is the size of the largest body whose memory is recycled.
const mostRecycled = 1 << 20

// recycle recycles the memory of the body, which has been split.
func (r *request) recycle() {
	if body := r.buffer; cap(body) <= mostRecycled {
		buffers.Put(&body)
	}
	r.buffer = nil
}

// headOfGRPC is what stands before a message of gRPC. It doesn't count.
const headOfGRPC = 5

// growth is how many bytes the documents of a request may have for each byte of max_body: each repeats its resource.
const growth = 8

// split makes the documents of a body. The body is released.
func (r *request) split(body []byte) *push.Refusal {
	cfg := &r.in.cfg
	size := int64(len(body))
	if r.form == json {
		var err error
		if body, err = otlpdocs.DecodeJSON(r.signal, body); err != nil {
			return &push.Refusal{Status: http.StatusBadRequest, Why: err.Error()}
		}
	}
	var err error
	r.docs, err = otlpdocs.Split(r.signal, body, !cfg.Split,
		otlpdocs.Limits{Documents: cfg.MaxMessages, Bytes: growth * int(cfg.MaxBody), Take: r.Hold.Take})
	switch {
	case err == nil:
		r.Hold.Give(size)
		r.recycle()
		return nil
	case errors.Is(err, otlpdocs.ErrFull):
		return refusals.Overfull
	case errors.Is(err, otlpdocs.ErrTooMany):
		return &push.Refusal{Status: http.StatusRequestEntityTooLarge,
			Why: fmt.Sprintf("the request has more than %d records (max_messages)", cfg.MaxMessages)}
	case errors.Is(err, otlpdocs.ErrTooLarge):
		return &push.Refusal{Status: http.StatusRequestEntityTooLarge,
			Why: fmt.Sprintf("with its resource beside each record, the request has more than %d times max_body", growth)}
	}
	return &push.Refusal{Status: http.StatusBadRequest, Why: err.Error()}
}

// Add adds a message to a batch.
func (r *request) Add(b *engine.Batch, i int) *engine.Message {
	m := b.Add(r.docs.Text(i))
	m.Meta = r.meta.At(i)
	return m
}

// AllAdded forgets the texts. What the documents count is still needed.
func (r *request) AllAdded() { r.docs.Release() }

// Settled counts a result.
func (r *request) Settled(i int, res engine.Result) { r.sum.add(res, r.docs.Count(i), &r.in.refs) }

// AllSettled has nothing to do.
func (r *request) AllSettled() {}

// metadata is that of the messages of a request.
type metadata struct {
	docs           *otlpdocs.Documents
	signal, remote string
	names, values  []string // of a trace that the request belongs to
}

// The names of metadata.
const (
	nameSignal  = "signal"
	nameService = "service_name"
	nameTrace   = "trace_id"
	nameRemote  = "http_remote"
)

// Get returns a value of the i-th message, and whether there is one.
func (m *metadata) Get(i int, name string) (any, bool) {
	switch name {
	case nameSignal:
		return m.signal, true
	case nameRemote:
		return m.remote, true
	case nameService:
		s := m.docs.Service(i)
		return s, s != ""
	case nameTrace:
		id := m.docs.TraceID(i)
		return id, id != ""
	}
	for k, n := range m.names {
		if n == name {
			return m.values[k], true
		}
	}
	return nil, false
}

// Meta returns all metadata of the i-th message.
func (m *metadata) Meta(i int) engine.Meta {
	names, values := []string{nameSignal, nameRemote}, []any{m.signal, m.remote}
	if s := m.docs.Service(i); s != "" {
		names, values = append(names, nameService), append(values, s)
	}
	if id := m.docs.TraceID(i); id != "" {
		names, values = append(names, nameTrace), append(values, id)
	}
	own := len(names)
	for k, n := range m.names {
		names, values = append(names, n), append(values, m.values[k])
	}
	return engine.MetaOf(names, values, own)
}

// codeOf returns the code of gRPC for a refusal.
func codeOf(status int) codes.Code {
	switch status {
	case http.StatusBadRequest, http.StatusUnsupportedMediaType:
		return codes.InvalidArgument
	case http.StatusUnauthorized:
		return codes.Unauthenticated
	case http.StatusNotFound, http.StatusMethodNotAllowed:
		return codes.Unimplemented
	case http.StatusRequestEntityTooLarge, http.StatusTooManyRequests:
		return codes.ResourceExhausted
	case http.StatusGatewayTimeout, http.StatusRequestTimeout:
		return codes.DeadlineExceeded
	}
	return codes.Unavailable
}
