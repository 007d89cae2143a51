package httpserver

import (
	"bytes"
	"errors"
	"io"
	"mime"
	"net/http"
	"strings"
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
	done    chan struct{} // closed when all results are there
	slip    *reply.Slip   // nil: nothing replies
	tied    bool          // an output may reply: messages are tied to the slip
	taken   bool          // a Read has it

	read   int    // records that were handed out
	number uint32 // given by input.take

	left    int       // results still to come; guarded by input.mu
	results []verdict // by record; likewise, until done is closed
}

// ref is the handle of the message that is read next.
func (r *request) ref() uint64 { return uint64(r.number)<<32 | uint64(r.read) }

// pressure is how long a request may wait to be read: longer, and the pipeline
// is full.
const pressure = time.Second

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
	held := &hold{in: in}
	defer held.release()
	r := in.accept(w, hr, held)
	if r == nil {
		return
	}
	if len(r.records) == 0 {
		w.WriteHeader(http.StatusOK)
		return
	}
	in.await(r)
	defer r.leave()
	if !in.hand(d, w, hr, r) {
		return
	}
	held.release() // the pipeline's credits have it now
	wait := time.NewTimer(in.cfg.Timeout)
	defer wait.Stop()
	select {
	case <-r.done:
		r.answer(w, d.isShut())
	case <-wait.C:
		refuse(w, http.StatusGatewayTimeout, "the messages have not reached their fate in time")
	case <-hr.Context().Done():
	}
}

// hand gives a request to the reader, or refuses it when that does not take it soon.
func (in *input) hand(d *door, w http.ResponseWriter, hr *http.Request, r *request) bool {
	patience := time.Now().Add(pressure)
	wait := time.NewTimer(pressure)
	defer wait.Stop()
	for {
		until, changed := in.limit.state()
		if until.After(patience) {
			limited(w, time.Until(until))
			return false
		}
		select {
		case in.arrived <- r:
			r.taken = true
			return true
		case <-changed:
			continue
		case <-d.shut:
			w.Header().Set("Connection", "close")
			refuse(w, http.StatusServiceUnavailable, "the pipeline is draining")
		case <-wait.C:
			if left := time.Until(until); left > 0 {
				limited(w, left)
			} else {
				refuse(w, http.StatusServiceUnavailable, "the pipeline is full")
			}
		case <-hr.Context().Done():
		}
		return false
	}
}

// limited refuses a request that a rate limit keeps from being read.
func limited(w http.ResponseWriter, wait time.Duration) {
	retryAfter(w, wait)
	refuse(w, http.StatusTooManyRequests, "the rate limit is used up")
}

// await makes the slip for what a request may be replied.
func (in *input) await(r *request) {
	r.tied = in.desk.Wanted() && !in.cfg.EarlyAck
	if r.tied || !in.cfg.Reply.IsZero() {
		r.slip = in.desk.Open(r.meta, len(r.records), &in.room)
	}
}

// leave drops what has been replied, now that the request has its answer or has
// gone.
func (r *request) leave() {
	if r.slip == nil {
		return
	}
	r.slip.Leave()
	if !r.taken {
		r.slip.Close()
	}
}

// accept checks a request and reads its body; nil is one that was refused.
func (in *input) accept(w http.ResponseWriter, hr *http.Request, held *hold) *request {
	path := hr.URL.Path
	switch {
	case path != in.cfg.Path && !(strings.HasSuffix(in.cfg.Path, "/") && strings.HasPrefix(path, in.cfg.Path)):
		refuse(w, http.StatusNotFound, "nothing is taken at this path")
		return nil
	case !in.cfg.Auth.Allows(hr):
		w.Header().Set("WWW-Authenticate", in.cfg.Auth.Challenge())
		refuse(w, http.StatusUnauthorized, "credentials are missing or wrong")
		return nil
	case !in.takes(hr.Method):
		w.Header().Set("Allow", strings.Join(in.cfg.Methods, ", "))
		refuse(w, http.StatusMethodNotAllowed, "this method is not taken")
		return nil
	}
	body, status, err := in.body(w, hr, held)
	if err != nil {
		refuse(w, status, err.Error())
		return nil
	}
	r := &request{records: in.records(hr, body), meta: httpx.Meta(hr), done: make(chan struct{})}
	r.left, r.results = len(r.records), make([]verdict, len(r.records))
	return r
}

// body reads the body, uncompressed, or says with which status to refuse it.
func (in *input) body(w http.ResponseWriter, hr *http.Request, held *hold) (body []byte, status int, err error) {
	limit := int64(in.cfg.MaxBody)
	if hr.ContentLength > limit {
		w.Header().Set("Connection", "close")
		return nil, http.StatusRequestEntityTooLarge, errTooLarge
	}
	var buf bytes.Buffer
	// What a client says of the length is believed for a small body only.
	buf.Grow(int(min(max(hr.ContentLength, 0), 64<<10)) + bytes.MinRead)
	_, err = buf.ReadFrom(&counted{http.MaxBytesReader(w, hr.Body, limit), held})
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		return nil, http.StatusRequestEntityTooLarge, errTooLarge
	case errors.Is(err, errFull):
		in.discard(hr)
		return nil, http.StatusServiceUnavailable, err
	case err != nil:
		return nil, http.StatusBadRequest, errors.New("the body could not be read to its end")
	}
	format := compression.None
	switch encoding := strings.ToLower(strings.TrimSpace(hr.Header.Get("Content-Encoding"))); encoding {
	case "", "identity":
		return buf.Bytes(), 0, nil
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
	body, err = compression.Decompress(format, buf.Bytes(), limit)
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
	h.in.waiting.Add(-h.bytes)
	h.bytes = 0
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

// records cuts a body into messages.
func (in *input) records(hr *http.Request, body []byte) []framing.Record {
	conf := in.cfg.Config
	if !in.framed {
		var several bool
		if conf.Framing, several = framingOf(hr.Header.Get("Content-Type"), body); !several {
			return []framing.Record{{Body: body, Line: 1}}
		}
	}
	var all []framing.Record
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
