package httpx

import (
	"errors"
	"io"
	"net/http"
	"os"
	"time"
)

// The time limits of a server for bodies and answers.
const (
	BodyTimeout   = 20 * time.Second // for a body, in addition to the time that its MinRate allows
	AnswerTimeout = 10 * time.Second // for a client to read its answer
)

// Body says how a server reads the body of a request.
type Body struct {
	Max     int64              // bytes
	MinRate int                // bytes per second at which it must arrive
	Take    func(n int64) bool // reserves bytes as they arrive; false: there is no room
	Process time.Duration      // the longest time from the end of the body to the answer
	Buffer  []byte             // memory for the beginning of the body; nil: there is none
}

// The errors of [Body.Read].
var (
	ErrBodyFull     = errors.New("no room for the body")
	ErrBodyTooLarge = errors.New("the body is too large")
	ErrBodyTooSlow  = os.ErrDeadlineExceeded
)

// firstRead is how much memory is allocated before anything of a body has arrived, whatever length a client declares.
const firstRead = 4 << 10

// Read reads a body as it was sent, and reserves bytes as they arrive.
func (b *Body) Read(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	began, paid := time.Now(), 0
	size := int(b.Max)
	if r.ContentLength >= 0 {
		size = int(r.ContentLength)
	}
	body := b.Buffer[:0]
	if cap(body) == 0 {
		body = make([]byte, 0, min(size, firstRead)+1) // one more, to see the end
	}
	for {
		if len(body) == cap(body) {
			body = append(make([]byte, 0, min(size+1, larger(cap(body)))), body...)
		}
		n, err := r.Body.Read(body[len(body):cap(body)])
		body = body[:len(body)+n]
		switch {
		case !b.Take(int64(n)):
			return nil, ErrBodyFull
		case len(body) > size:
			return nil, ErrBodyTooLarge
		case errors.Is(err, io.EOF):
			if time.Since(began) > BodyTimeout { // the time for the answer does not depend on that for the body
				AnswerWithin(w, b.Process)
			}
			return body, nil
		case err != nil:
			return nil, err
		}
		if len(body)-paid >= b.MinRate {
			paid = len(body)
			deadline := began.Add(BodyTimeout + time.Duration(float64(paid)/float64(b.MinRate)*float64(time.Second)))
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

// AnswerWithin sets the time by which a client must have read its answer, which begins after a time.
func AnswerWithin(w http.ResponseWriter, after time.Duration) {
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(after + AnswerTimeout))
}

// DiscardBody reads what is left of a body that is refused for now: a client that is still sending when its connection closes may
// lose the answer.
func DiscardBody(r *http.Request, most int64) { _, _ = io.CopyN(io.Discard, r.Body, most) }
