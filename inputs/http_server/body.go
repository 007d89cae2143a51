package httpserver

import (
	"errors"
	"net/http"
	"strings"

	"github.com/flowd-io/flowd/internal/components/push"
	"github.com/flowd-io/flowd/internal/formats/compression"
	"github.com/flowd-io/flowd/internal/network/httpx"
)

// receive reads a body, checks its signature and decompresses it, or returns why it is refused.
func (in *input) receive(w http.ResponseWriter, hr *http.Request, held *push.Hold) ([]byte, *push.Refusal) {
	if hr.ContentLength > int64(in.cfg.MaxBody) {
		return nil, endless
	}
	body, err := in.read(w, hr, held)
	switch {
	case err == nil:
	case errors.Is(err, httpx.ErrBodyTooLarge):
		return nil, endless
	case errors.Is(err, httpx.ErrBodyFull):
		httpx.DiscardBody(hr, int64(in.cfg.MaxBody))
		return nil, push.Overfull
	case errors.Is(err, httpx.ErrBodyTooSlow):
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
		if !held.Take(int64(n)) {
			return httpx.ErrBodyFull
		}
		return nil
	})
	switch {
	case errors.Is(err, compression.ErrTooLarge):
		return nil, tooLarge
	case errors.Is(err, httpx.ErrBodyFull):
		return nil, push.Overfull
	case err != nil:
		return nil, &push.Refusal{Status: http.StatusBadRequest, Why: err.Error()}
	}
	held.Give(packed)
	return body, nil
}

// read reads a body as it was sent, and reserves bytes as they arrive.
func (in *input) read(w http.ResponseWriter, hr *http.Request, held *push.Hold) ([]byte, error) {
	b := httpx.Body{Max: int64(in.cfg.MaxBody), MinRate: int(in.cfg.MinRate), Take: held.Take, Process: in.cfg.Timeout + push.Pressure}
	return b.Read(w, hr)
}
