package httpserver

import (
	"errors"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/flowd-io/flowd/internal/formats/compression"
)

// hold is a request's share of max_waiting.
type hold struct {
	in    *input
	bytes int64
	kept  int64 // of these, until the request has its answer
}

// take reserves bytes. It returns false if too many bytes wait. A request that waits alone always fits: max_body bounds it.
func (h *hold) take(n int64) bool {
	h.bytes += n
	all := h.in.waiting.Add(n)
	return all <= int64(h.in.cfg.MaxWaiting) || all == h.bytes
}

// keep is like take, for data that stays until the request has its answer.
func (h *hold) keep(n int64) bool {
	h.kept += n
	return h.take(n)
}

func (h *hold) give(n int64) {
	if n != 0 {
		h.bytes -= n
		h.in.waiting.Add(-n)
	}
}

// release releases bytes that are now charged to the pipeline's credits.
func (h *hold) release() { h.give(h.bytes - h.kept) }

// drop releases all bytes.
func (h *hold) drop() {
	h.give(h.bytes)
	h.kept = 0
}

// firstRead is how much memory is allocated before anything of a body has arrived, whatever
// length a client declares.
const firstRead = 4 << 10

// receive reads a body, checks its signature and decompresses it, or returns why it is refused.
func (in *input) receive(w http.ResponseWriter, hr *http.Request, held *hold) ([]byte, *refusal) {
	if hr.ContentLength > int64(in.cfg.MaxBody) {
		return nil, endless
	}
	body, err := in.read(w, hr, held)
	switch {
	case err == nil:
	case errors.Is(err, errTooLarge):
		return nil, endless
	case errors.Is(err, errFull):
		in.discard(hr)
		return nil, overfull
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil, tooLong
	default:
		return nil, unreadable
	}
	if !in.cfg.Auth.Signed(hr, body) {
		w.Header().Set("WWW-Authenticate", in.cfg.Auth.Challenge())
		return nil, forged
	}
	format, known := compression.FromCoding(strings.ToLower(strings.TrimSpace(hr.Header.Get("Content-Encoding"))))
	switch {
	case !known:
		return nil, unknown
	case format == compression.None:
		return body, nil
	}
	packed := int64(len(body))
	body, err = compression.DecompressWithin(format, body, int64(in.cfg.MaxBody), func(n int) error {
		if !held.take(int64(n)) {
			return errFull
		}
		return nil
	})
	switch {
	case errors.Is(err, compression.ErrTooLarge):
		return nil, tooLarge
	case errors.Is(err, errFull):
		return nil, overfull
	case err != nil:
		return nil, &refusal{status: http.StatusBadRequest, why: err.Error()}
	}
	held.give(packed)
	return body, nil
}

var (
	errFull     = errors.New("too much waits")
	errTooLarge = errors.New("too large")
)

// read reads a body as it was sent, and reserves bytes as they arrive.
func (in *input) read(w http.ResponseWriter, hr *http.Request, held *hold) ([]byte, error) {
	began, paid := time.Now(), 0
	size := int(in.cfg.MaxBody)
	if hr.ContentLength >= 0 {
		size = int(hr.ContentLength)
	}
	body := make([]byte, 0, min(size, firstRead)+1) // one more, to see the end
	for {
		if len(body) == cap(body) {
			body = append(make([]byte, 0, min(size+1, larger(cap(body)))), body...)
		}
		n, err := hr.Body.Read(body[len(body):cap(body)])
		body = body[:len(body)+n]
		switch {
		case !held.take(int64(n)):
			return nil, errFull
		case len(body) > size:
			return nil, errTooLarge
		case errors.Is(err, io.EOF):
			if time.Since(began) > bodyTimeout { // the time for the answer does not depend on that for the body
				in.due(w, in.cfg.Timeout+pressure)
			}
			return body, nil
		case err != nil:
			return nil, err
		}
		if rate := int(in.cfg.MinRate); len(body)-paid >= rate {
			paid = len(body)
			deadline := began.Add(bodyTimeout + time.Duration(float64(paid)/float64(rate)*float64(time.Second)))
			_ = http.NewResponseController(w).SetReadDeadline(deadline) // fails if the connection is lost: the next Read reports that
		}
	}
}

// larger returns the next size of a buffer: at most a few times what has arrived.
func larger(n int) int {
	if n < 64<<10 {
		return 4 * n
	}
	return 2 * n
}

// due sets the time by which a client must have read its answer.
func (in *input) due(w http.ResponseWriter, after time.Duration) {
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(after + answerTimeout))
}

// discard reads what is left of a body that is refused for now: a client that is
// still sending when its connection closes may lose the answer.
func (in *input) discard(hr *http.Request) {
	_, _ = io.CopyN(io.Discard, hr.Body, int64(in.cfg.MaxBody))
}
