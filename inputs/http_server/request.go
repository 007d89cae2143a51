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
	"time"
	"unsafe"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/components/reply"
	"github.com/flowd-io/flowd/internal/formats/framing"
	"github.com/flowd-io/flowd/internal/network/httpx"
)

// request is a request whose messages are in flight.
type request struct {
	records []framing.Record
	meta    engine.Meta
	held    hold
	slip    *reply.Slip   // nil: nothing replies
	tied    bool          // an output may reply: messages are tied to the slip
	done    chan struct{} // room for the one signal that it has ended
	timer   *time.Timer
	shared  bool // others still use it: it can't be recycled

	read   int    // records that were handed out
	number uint32 // given by input.number

	// Guarded by input.mu until done says that it has ended.
	patience time.Time // the latest time by which a Read must take it
	taken    time.Time // by a Read; zero: it waits
	refused  *refusal  // nil: it is answered by its results
	left     int       // results still outstanding
	results  []verdict // by record; nil: they are summed up
	sums     sums
	gone     bool // nobody waits for its results: its bytes are released with the last one

	record [1]framing.Record // of most requests
	result [1]verdict
}

// requests recycles requests: most of their memory is for waiting.
var requests = sync.Pool{New: func() any {
	r := &request{done: make(chan struct{}, 1), timer: time.NewTimer(time.Hour)}
	r.timer.Stop()
	return r
}}

func newRequest(in *input) *request {
	r := requests.Get().(*request)
	r.held.in = in
	return r
}

// leave releases what a request still holds after its answer, or after its client has gone.
func (r *request) leave() {
	if !r.shared || !r.abandon() {
		r.held.drop()
	}
	if r.slip != nil {
		r.slip.Leave()
		if r.taken.IsZero() {
			r.slip.Close()
		}
	}
	if !r.shared {
		*r = request{done: r.done, timer: r.timer}
		requests.Put(r)
	}
}

// abandon gives up waiting for a request's messages. It returns false if none of them is in flight.
func (r *request) abandon() bool {
	in := r.held.in
	in.mu.Lock()
	defer in.mu.Unlock()
	r.gone = !r.taken.IsZero() && r.left > 0
	return r.gone
}

// ref returns the handle of the message that is read next.
func (r *request) ref() uint64 { return uint64(r.number)<<32 | uint64(r.read) }

// ends signals that all results have come, or that the request is refused.
func (r *request) ends() { r.done <- struct{}{} }

func (r *request) refuse(why *refusal) {
	r.refused = why
	r.ends()
}

// serve handles one request. It takes a slot when the body has arrived, so that a client that sends nothing holds none.
func (in *input) serve(d *door, w http.ResponseWriter, hr *http.Request) {
	r := newRequest(in)
	defer r.leave()
	if !in.welcome(w, hr) {
		return
	}
	body, why := in.receive(w, hr, &r.held)
	if why != nil {
		why.answer(w)
		return
	}
	select {
	case in.slots <- struct{}{}:
		defer func() { <-in.slots }()
	default:
		crowded.answer(w)
		return
	}
	if why := in.cut(hr, r, body); why != nil {
		why.answer(w)
		return
	}
	if len(r.records) == 0 {
		w.WriteHeader(http.StatusOK)
		return
	}
	r.meta = hr.Context().Value(connection{}).(*httpx.Metas).Of(hr)
	if !in.expect(r) {
		overfull.answer(w)
		return
	}
	r.shared = true
	in.push(d, r)
	in.await(d, w, hr, r)
}

// soon is the time within which most requests are answered. Only after that is it worth watching whether a client has gone.
const soon = 10 * time.Millisecond

// await answers a request when it has ended, or has waited for too long.
func (in *input) await(d *door, w http.ResponseWriter, hr *http.Request, r *request) {
	r.timer.Reset(min(soon, in.cfg.Timeout))
	defer r.timer.Stop()
	var gone <-chan struct{}
	for {
		select {
		case <-r.done:
			r.shared = false
			if r.refused != nil {
				r.refused.answer(w)
			} else {
				in.answer(w, r, d.isShut())
			}
			return
		case <-r.timer.C:
			wait, why := in.late(r)
			if why != nil {
				why.answer(w)
				return
			}
			r.timer.Reset(wait)
			gone = hr.Context().Done()
		case <-gone:
			r.shared = !in.withdraw(r)
			return
		}
	}
}

// expect prepares the slip for replies to a request, and room for its results.
func (in *input) expect(r *request) bool {
	r.left = len(r.records)
	r.tied = in.desk.Wanted() && !in.cfg.EarlyAck
	if r.tied || !in.cfg.Reply.IsZero() {
		r.slip = in.desk.Open(r.meta, r.left, &in.room)
	}
	switch {
	case r.left == 1:
		r.results = r.result[:]
	case r.left <= mostListed:
		r.results = make([]verdict, r.left)
	case r.slip != nil: // replies are not summed up
		if !r.held.keep(int64(r.left) * resultSize) {
			return false
		}
		r.results = make([]verdict, r.left)
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
func (in *input) cut(hr *http.Request, r *request, body []byte) *refusal {
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
func (in *input) records(r *request, from framing.Reader, size int) *refusal {
	if !r.held.take(int64(size)) {
		return overfull
	}
	defer r.held.give(int64(size)) // of the body itself
	for made, due := 0, int64(0); ; {
		rec, err := from.Next()
		switch {
		case errors.Is(err, io.EOF):
			if !r.held.take(due) {
				return overfull
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
			return tooLarge
		}
		if due += int64(max(made, size)-before) + recordSize; due >= atOnce {
			if !r.held.take(due) {
				return overfull
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
