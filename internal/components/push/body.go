package push

import (
	"errors"
	"net/http"
	"strings"

	"github.com/flowd-io/flowd/internal/formats/compression"
	"github.com/flowd-io/flowd/internal/network/httpx"
)

// Refusals are an input's answers to bodies that it does not keep.
type Refusals struct {
	Endless    *Refusal // larger than it may be, and still arriving
	TooLarge   *Refusal // larger than it may be when it is decompressed
	Overfull   *Refusal // too many bytes wait
	TooSlow    *Refusal
	Unreadable *Refusal // it broke off
	Coding     *Refusal // compressed in a way that is not supported
}

// Unread returns why a body of at most so many bytes is refused that [httpx.Body.Read] could not read.
func (f *Refusals) Unread(r *http.Request, most int64, err error) *Refusal {
	switch {
	case errors.Is(err, httpx.ErrBodyTooLarge):
		return f.Endless
	case errors.Is(err, httpx.ErrBodyFull):
		httpx.DiscardBody(r, most)
		return f.Overfull
	case errors.Is(err, httpx.ErrBodyTooSlow):
		return f.TooSlow
	}
	return f.Unreadable
}

// Unpack decompresses a body for which hold has taken bytes, or returns why it is refused. coding is its Content-Encoding, and most
// is how large it may become.
func (f *Refusals) Unpack(hold *Hold, body []byte, coding string, most int64) ([]byte, *Refusal) {
	format, known := compression.FromCoding(strings.ToLower(strings.TrimSpace(coding)))
	switch {
	case !known:
		return nil, f.Coding
	case format == compression.None:
		return body, nil
	}
	packed := int64(len(body))
	body, err := compression.DecompressWithin(format, body, most, func(n int) error {
		if !hold.Take(int64(n)) {
			return httpx.ErrBodyFull
		}
		return nil
	})
	switch {
	case errors.Is(err, compression.ErrTooLarge):
		return nil, f.TooLarge
	case errors.Is(err, httpx.ErrBodyFull):
		return nil, f.Overfull
	case err != nil:
		return nil, &Refusal{Status: http.StatusBadRequest, Why: err.Error()}
	}
	hold.Give(packed)
	return body, nil
}
