package httpserver

import (
	"net/http"

	"github.com/flowd-io/flowd/internal/components/push"
	"github.com/flowd-io/flowd/internal/network/httpx"
)

// receive reads a body, checks its signature and decompresses it, or returns why it is refused.
func (in *input) receive(w http.ResponseWriter, hr *http.Request, held *push.Hold) ([]byte, *push.Refusal) {
	most := int64(in.cfg.MaxBody)
	if hr.ContentLength > most {
		return nil, refusals.Endless
	}
	body, err := in.read(w, hr, held)
	if err != nil {
		return nil, refusals.Unread(hr, most, err)
	}
	if !in.cfg.Auth.Signed(hr, body) {
		w.Header().Set("WWW-Authenticate", in.cfg.Auth.Challenge())
		return nil, forged
	}
	return refusals.Unpack(held, body, hr.Header.Get("Content-Encoding"), most)
}

// read reads a body as it was sent, and reserves bytes as they arrive.
func (in *input) read(w http.ResponseWriter, hr *http.Request, held *push.Hold) ([]byte, error) {
	b := httpx.Body{Max: int64(in.cfg.MaxBody), MinRate: int(in.cfg.MinRate), Take: held.Take, Process: in.cfg.Timeout + push.Pressure}
	return b.Read(w, hr)
}
