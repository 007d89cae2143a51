package httpserver

import (
	"bytes"
	"errors"
	"io"
	"mime"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/compression"
	"github.com/flowd-io/flowd/internal/framing"
	"github.com/flowd-io/flowd/internal/httpx"
	"github.com/flowd-io/flowd/internal/reply"
)

// request is a request whose messages are on their way.
type request struct {
	records []framing.Record
	meta    engine.Meta
	held    hold
	slip    *reply.Slip   // nil: nothing replies
	tied    bool          // an output may reply: messages are tied to the slip
	done    chan struct{} // has room for the one word that it has ended
	timer   *time.Timer
	shared  bool // others have it, too: it can't be used for the next

	read   int    // records that were handed out
	number uint32 // given by input.number

	// Guarded by input.mu until done says that it has ended.
	patience time.Time // it waits no longer to be taken
	taken    time.Time // by a Read; zero: it waits
	refused  *refusal  // nil: it is answered by its results
	left     int       // results still to come
	results  []verdict // by record

	record [1]framing.Record // of most requests
	result [1]verdict
}

// requests are used again: most of what one needs is for its waiting.
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

// leave drops what a request still has, now that it has its answer or has gone.
func (r *request) leave() {
	r.held.release()
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

// ref is the handle of the message that is read next.
func (r *request) ref() uint64 { return uint64(r.number)<<32 | uint64(r.read) }

// ends says that the results are there, or that it is refused.
func (r *request) ends() { r.done <- struct{}{} }

func (r *request) refuse(why *refusal) {
	r.refused = why
	r.ends()
}

// serve carries one request through.
func (in *input) serve(d *door, w http.ResponseWriter, hr *http.Request) {
	select {
	case in.slots <- struct{}{}:
		defer func() { <-in.slots }()
	default:
		in.discard(hr)
		refuse(w, http.StatusServiceUnavailable, "too many requests are under way")
		return
	}
	r := newRequest(in)
	defer r.leave()
	if !in.accept(w, hr, r) {
		return
	}
	if len(r.records) == 0 {
		w.WriteHeader(http.StatusOK)
		return
	}
	in.expect(r)
	r.shared = true
	in.push(d, r)
	in.await(d, w, hr, r)
}

// soon is when most requests have their answers: it pays to look only then
// whether a client has gone.
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
				r.answer(w, d.isShut())
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

// expect makes the slip for what a request may be replied.
func (in *input) expect(r *request) {
	r.tied = in.desk.Wanted() && !in.cfg.EarlyAck
	if r.tied || !in.cfg.Reply.IsZero() {
		r.slip = in.desk.Open(r.meta, len(r.records), &in.room)
	}
}

// accept checks a request and reads its body; false: it was refused.
func (in *input) accept(w http.ResponseWriter, hr *http.Request, r *request) bool {
	path := hr.URL.Path
	switch {
	case path != in.cfg.Path && !(strings.HasSuffix(in.cfg.Path, "/") && strings.HasPrefix(path, in.cfg.Path)):
		refuse(w, http.StatusNotFound, "nothing is taken at this path")
		return false
	case !in.cfg.Auth.Allows(hr):
		w.Header().Set("WWW-Authenticate", in.cfg.Auth.Challenge())
		refuse(w, http.StatusUnauthorized, "credentials are missing or wrong")
		return false
	case !in.takes(hr.Method):
		w.Header().Set("Allow", strings.Join(in.cfg.Methods, ", "))
		refuse(w, http.StatusMethodNotAllowed, "this method is not taken")
		return false
	}
	body, status, err := in.body(w, hr, &r.held)
	if err != nil {
		refuse(w, status, err.Error())
		return false
	}
	r.meta = hr.Context().Value(connection{}).(*httpx.Metas).Of(hr)
	r.records = in.records(hr, body, r.record[:0])
	r.left = len(r.records)
	if r.left == 1 {
		r.results = r.result[:]
	} else {
		r.results = make([]verdict, r.left)
	}
	return true
}

// body reads the body, uncompressed, or says with which status to refuse it.
func (in *input) body(w http.ResponseWriter, hr *http.Request, held *hold) (body []byte, status int, err error) {
	limit := int64(in.cfg.MaxBody)
	if hr.ContentLength > limit {
		w.Header().Set("Connection", "close")
		return nil, http.StatusRequestEntityTooLarge, errTooLarge
	}
	// What a client says of the length is believed for a small body only.
	if n := hr.ContentLength; n >= 0 && n <= maxBelieved {
		body, err = held.readAll(hr.Body, n)
	} else {
		var buf bytes.Buffer
		buf.Grow(int(min(max(n, 0), maxBelieved)) + bytes.MinRead)
		_, err = buf.ReadFrom(&counted{http.MaxBytesReader(w, hr.Body, limit), held})
		body = buf.Bytes()
	}
	var tooLarge *http.MaxBytesError
	switch {
	case err == nil:
	case errors.As(err, &tooLarge):
		return nil, http.StatusRequestEntityTooLarge, errTooLarge
	case errors.Is(err, errFull):
		in.discard(hr)
		return nil, http.StatusServiceUnavailable, err
	default:
		return nil, http.StatusBadRequest, errors.New("the body could not be read to its end")
	}
	format := compression.None
	switch encoding := strings.ToLower(strings.TrimSpace(hr.Header.Get("Content-Encoding"))); encoding {
	case "", "identity":
		return body, 0, nil
	case "gzip", "x-gzip":
		format = compression.Gzip
	case "zstd":
		format = compression.Zstd
	default:
		return nil, http.StatusUnsupportedMediaType, errors.New("of content encodings, gzip and zstd are understood")
	}
	if !held.take(limit) { // what it could come out as
		return nil, http.StatusServiceUnavailable, errFull
	}
	body, err = compression.Decompress(format, body, limit)
	switch {
	case errors.Is(err, compression.ErrTooLarge):
		return nil, http.StatusRequestEntityTooLarge, errTooLarge
	case err != nil:
		return nil, http.StatusBadRequest, err
	}
	return body, 0, nil
}

// discard reads what is left of a body that is refused for now: a client that is
// still sending when its connection closes may lose the answer.
func (in *input) discard(hr *http.Request) {
	_, _ = io.CopyN(io.Discard, hr.Body, int64(in.cfg.MaxBody))
}

var (
	errTooLarge = errors.New("the body is longer than max_body")
	errFull     = errors.New("too many bytes wait for the pipeline")
)

// hold is what a request has of the bytes that may wait.
type hold struct {
	in    *input
	bytes int64
}

// take is false when too much waits.
func (h *hold) take(n int64) bool {
	h.bytes += n
	return h.in.waiting.Add(n) <= int64(h.in.cfg.MaxWaiting)
}

func (h *hold) release() {
	if h.bytes != 0 {
		h.in.waiting.Add(-h.bytes)
	}
	h.bytes = 0
}

// maxBelieved is the longest body for which memory is made before it has come.
const maxBelieved = 64 << 10

// readAll reads a body of n bytes, and takes room for what it reads.
func (h *hold) readAll(from io.Reader, n int64) ([]byte, error) {
	body := make([]byte, 0, n+1) // one more, for the end to be seen
	for len(body) < cap(body) {
		k, err := from.Read(body[len(body):cap(body)])
		body = body[:len(body)+k]
		if !h.take(int64(k)) {
			return nil, errFull
		}
		if errors.Is(err, io.EOF) {
			return body, nil
		}
		if err != nil {
			return nil, err
		}
	}
	return nil, errors.New("the body is longer than it said")
}

// counted takes room for what it reads.
type counted struct {
	io.Reader
	held *hold
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	if !c.held.take(int64(n)) {
		return n, errFull
	}
	return n, err
}

// records cuts a body into messages, and appends them to dst.
func (in *input) records(hr *http.Request, body []byte, dst []framing.Record) []framing.Record {
	conf := in.cfg.Config
	if !in.framed {
		var several bool
		if conf.Framing, several = framingOf(hr.Header.Get("Content-Type"), body); !several {
			return append(dst, framing.Record{Body: body, Line: 1})
		}
	}
	all := dst
	for r := conf.Reader(bytes.NewReader(body)); ; {
		rec, err := r.Next()
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil { // not of a reader of memory
			return append(all, framing.Record{Line: len(all) + 1, Err: &engine.Error{Class: engine.Decode, Err: err}})
		}
		all = append(all, rec)
	}
}

// framingOf is how a body is cut that its content type calls lines of JSON, or
// that is a JSON array; all else is one message.
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
	case "application/x-ndjson", "application/ndjson", "application/jsonl", "application/x-jsonlines", "application/json-lines":
		return f, true
	}
	return f, false
}
