package httpserver

import (
	"bytes"
	"errors"
	"io"
	"mime"
	"net/http"
	"slices"
	"strings"
	"sync"
	"unsafe"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/components/push"
	"github.com/flowd-io/flowd/internal/components/reply"
	"github.com/flowd-io/flowd/internal/formats/framing"
	"github.com/flowd-io/flowd/internal/network/httpx"
)

// request is a request whose messages are in flight.
type request struct {
	push.Request

	in      *input
	records []framing.Record
	meta    engine.Meta
	slip    *reply.Slip // nil: nothing replies
	tied    bool        // an output may reply: messages are tied to the slip
	results []verdict   // by record; nil: they are summed up
	sums    sums

	record [1]framing.Record // of most requests
	result [1]verdict
}

// requests recycles requests: most of their memory is for waiting.
var requests = sync.Pool{New: func() any { return &request{Request: push.NewRequest()} }}

func newRequest(in *input) *request {
	r := requests.Get().(*request)
	r.in, r.Hold = in, in.queue.Hold()
	return r
}

// leave releases what a request still holds after its answer, or after its client has gone.
func (r *request) leave() {
	read, shared := r.Leave()
	if r.slip != nil {
		r.slip.Leave()
		if !read {
			r.slip.Close()
		}
	}
	if !shared {
		*r = request{Request: r.Recycled()}
		requests.Put(r)
	}
}

// serve handles one request. It takes a slot when the body has arrived, so that a client that sends nothing holds none.
func (in *input) serve(d *push.Door, w http.ResponseWriter, hr *http.Request) {
	r := newRequest(in)
	defer r.leave()
	if !in.welcome(w, hr) {
		return
	}
	body, why := in.receive(w, hr, &r.Hold)
	if why != nil {
		answerRefusal(w, why)
		return
	}
	if !in.queue.Enter() {
		answerRefusal(w, push.Crowded)
		return
	}
	defer in.queue.Exit()
	if why := in.cut(hr, r, body); why != nil {
		answerRefusal(w, why)
		return
	}
	if len(r.records) == 0 {
		w.WriteHeader(http.StatusOK)
		return
	}
	r.meta = hr.Context().Value(connection{}).(*httpx.Metas).Of(hr)
	if !in.expect(r) {
		answerRefusal(w, push.Overfull)
		return
	}
	switch why, ok := in.queue.Await(hr.Context(), d, &r.Request, r, len(r.records)); {
	case !ok:
	case why != nil:
		answerRefusal(w, why)
	default:
		in.answer(w, r, d.IsShut())
	}
}

// Add adds a message to a batch.
func (r *request) Add(b *engine.Batch, i int) *engine.Message {
	rec := &r.records[i]
	m := rec.AddTo(b, r.meta)
	if r.tied {
		r.slip.Mark(m, i, rec.Meta != nil)
	}
	if rec.Err == nil && !r.in.cfg.Reply.IsZero() {
		r.reply(i, m)
	}
	return m
}

// reply computes the reply to a message that succeeds.
func (r *request) reply(i int, m *engine.Message) {
	body, err := r.in.cfg.Reply.AppendBody(nil, m)
	if err == nil {
		err = r.slip.Receipt(i, body)
	}
	if err != nil {
		m.Fail(err)
	}
}

// AllAdded forgets the records.
func (r *request) AllAdded() {
	clear(r.records)
	r.records = nil
}

// Settled records how a message ended.
func (r *request) Settled(i int, res engine.Result) {
	if v := r.in.verdict(res); r.results != nil {
		r.results[i] = v
	} else {
		r.sums.add(v, i)
	}
}

// AllSettled closes the slip.
func (r *request) AllSettled() {
	if r.slip != nil {
		r.slip.Close()
	}
}

// expect prepares the slip for replies to a request, and room for its results.
func (in *input) expect(r *request) bool {
	n := len(r.records)
	r.tied = in.desk.Wanted() && !in.cfg.EarlyAck
	if r.tied || !in.cfg.Reply.IsZero() {
		r.slip = in.desk.Open(r.meta, n, &in.room)
	}
	switch {
	case n == 1:
		r.results = r.result[:]
	case n <= mostListed:
		r.results = make([]verdict, n)
	case r.slip != nil: // replies are not summed up
		if !r.Hold.Keep(int64(n) * resultSize) {
			return false
		}
		r.results = make([]verdict, n)
	}
	return true
}

// welcome reports whether a request's headers are acceptable. If not, the request was refused.
func (in *input) welcome(w http.ResponseWriter, hr *http.Request) bool {
	httpx.EndUnclear(w, hr)
	switch {
	case !httpx.Below(hr.URL, in.cfg.Path):
		refuse(w, http.StatusNotFound, "nothing is accepted at this path")
	case !in.cfg.Auth.Allows(hr):
		w.Header().Set("WWW-Authenticate", in.cfg.Auth.Challenge())
		refuse(w, http.StatusUnauthorized, "credentials are missing or wrong")
	case !slices.Contains(in.cfg.Methods, hr.Method):
		w.Header().Set("Allow", strings.Join(in.cfg.Methods, ", "))
		refuse(w, http.StatusMethodNotAllowed, "this method is not accepted")
	default:
		return true
	}
	return false
}

// cut divides a body into records, or returns why it is refused.
func (in *input) cut(hr *http.Request, r *request, body []byte) *push.Refusal {
	conf, several := in.cfg.Config, true
	if !in.framed {
		conf.Framing, several = framingOf(hr.Header.Get("Content-Type"), body)
	}
	if several {
		if why := in.records(r, conf.Reader(bytes.NewReader(body)), len(body)); why != nil {
			return why
		}
	} else {
		r.records = append(r.record[:0], framing.Record{Body: body, Line: 1})
	}
	return nil
}

// The memory that one record takes, and one result that waits for the others.
const (
	recordSize = int64(unsafe.Sizeof(framing.Record{}))
	resultSize = int64(unsafe.Sizeof(verdict{})) + 64 // with its place in a slip
)

// atOnce is how many bytes of records are reserved at once.
const atOnce = 64 << 10

// records reads the records of a body with this many bytes, and reserves bytes as they are read: records are copies, and some
// framings make them larger.
func (in *input) records(r *request, from framing.Reader, size int) *push.Refusal {
	if !r.Hold.Take(int64(size)) {
		return push.Overfull
	}
	defer r.Hold.Give(int64(size)) // of the body itself
	for made, due := 0, int64(0); ; {
		rec, err := from.Next()
		switch {
		case errors.Is(err, io.EOF):
			if !r.Hold.Take(due) {
				return push.Overfull
			}
			return nil
		case err != nil: // can't happen: it reads from memory
			rec = framing.Record{Line: len(r.records) + 1, Err: &engine.Error{Class: engine.Decode, Err: err}}
			r.records = append(r.records, rec)
			return nil
		case len(r.records) == in.cfg.MaxMessages:
			return in.tooMany()
		}
		if rec.Err != nil { // the error says what is wrong with the body
			rec.Err.Err = engine.Fault(rec.Err.Error())
		}
		before := max(made, size)
		if made += len(rec.Body); made > int(in.cfg.MaxBody) {
			return refusals.TooLarge
		}
		if due += int64(max(made, size)-before) + recordSize; due >= atOnce {
			if !r.Hold.Take(due) {
				return push.Overfull
			}
			due = 0
		}
		r.records = append(r.records, rec)
	}
}

// framingOf returns the framing of a body: lines of JSON if its content type says so, or a JSON array. Anything else is one message.
func framingOf(contentType string, body []byte) (f framing.Framing, several bool) {
	if contentType == "" {
		return f, false
	}
	kind := "application/json"
	if contentType != kind {
		kind, _, _ = mime.ParseMediaType(contentType)
	}
	switch kind {
	case "application/json":
		f.JSON = &framing.Plain{}
		return f, bytes.HasPrefix(bytes.TrimLeft(body, " \t\r\n"), []byte("["))
	case "application/x-ndjson", "application/ndjson", "application/jsonl", "application/x-jsonlines",
		"application/json-lines":
		return f, true
	}
	return f, false
}
