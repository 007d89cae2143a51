package httpx

import (
	"crypto/hmac"
	"crypto/sha1" // #nosec G505 -- HMAC with it is not broken, and older webhooks have nothing else
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"hash"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/flowd-io/flowd/schema"
)

// ServerAuth is the section `auth` of a server.
type ServerAuth struct {
	Auth `yaml:",inline"`
	HMAC *HMAC `yaml:"hmac" oneof:"auth,optional" doc:"Signature of the body as sent, as in webhooks."`
}

// HMAC says how webhooks are signed.
type HMAC struct {
	Header    string        `yaml:"header" check:"required,nonempty" doc:"Header with the signature."`
	Secret    schema.Secret `yaml:"secret" check:"required,nonempty" doc:"Shared secret."`
	Algorithm string        `yaml:"algorithm" check:"oneof=sha256|sha512|sha1" default:"sha256" doc:"Hash function; use sha1 only for senders that support nothing better."`
	Encoding  string        `yaml:"encoding" check:"oneof=hex|base64" default:"hex" doc:"How the signature is encoded."`
	Prefix    string        `yaml:"prefix" doc:"Text before the signature, such as sha256=."`
	Timestamp *Timestamp    `yaml:"timestamp" doc:"Time at which the request was signed. Without it, an intercepted request can be replayed at any time."`
}

// Timestamp says where a signature has its time.
type Timestamp struct {
	Header string        `yaml:"header" doc:"Header with the time, in seconds since 1970."`
	Field  string        `yaml:"field" doc:"Instead of header: name of the time in the signature header, such as t in t=1,v1=2. Every field with the prefix is then a signature, of which one must match."`
	Signed string        `yaml:"signed" default:"{timestamp}.{body}" doc:"The text that is signed."`
	Window time.Duration `yaml:"window" default:"5m" check:"min=1s" doc:"How far the time may differ from this machine's clock."`
}

// CheckConfig reports settings that can't work.
func (t *Timestamp) CheckConfig(report func(path, message, remedy string)) {
	if (t.Header == "") == (t.Field == "") {
		report("header", "a timestamp is in a header, or in a field of the signature's header",
			"set either header or field")
	}
	if strings.Count(t.Signed, timeMark) != 1 || strings.Count(t.Signed, bodyMark) != 1 {
		report("signed", "must contain {timestamp} and {body}, each once: what is not signed can be forged",
			`write "{timestamp}.{body}"`)
	}
}

const (
	timeMark = "{timestamp}"
	bodyMark = "{body}"
)

var hashes = map[string]func() hash.Hash{"sha1": sha1.New, "sha256": sha256.New, "sha512": sha512.New}

// IsZero reports whether no credentials are required.
func (a *ServerAuth) IsZero() bool { return a.Bearer == nil && a.Basic == nil && a.HMAC == nil }

// Allows reports whether a request has the credentials. For signatures, it only checks that there is one that is not
// too old: see [ServerAuth.Signed].
func (a *ServerAuth) Allows(r *http.Request) bool {
	if a.HMAC == nil {
		return a.Auth.Allows(r)
	}
	signatures, _, ok := a.HMAC.signaturesIn(r, time.Now())
	return ok && len(signatures) > 0
}

// Signed reports whether the request's signature matches the body as sent. It returns true if no signature is
// required.
func (a *ServerAuth) Signed(r *http.Request, body []byte) bool {
	if a.HMAC == nil {
		return true
	}
	signatures, at, ok := a.HMAC.signaturesIn(r, time.Now())
	if !ok {
		return false
	}
	want, fits := a.HMAC.sum(at, body), false
	for _, s := range signatures {
		fits = hmac.Equal(s, want) || fits
	}
	return fits
}

// Challenge returns the WWW-Authenticate header of a refusal.
func (a *ServerAuth) Challenge() string {
	if a.HMAC != nil {
		return fmt.Sprintf("HMAC header=%q", a.HMAC.Header)
	}
	return a.Auth.Challenge()
}

// sum returns the signature of a body that was signed at a time.
func (h *HMAC) sum(at string, body []byte) []byte {
	mac := hmac.New(hashes[h.Algorithm], []byte(h.Secret.Reveal()))
	before, after := "", ""
	if h.Timestamp != nil {
		before, after, _ = strings.Cut(h.Timestamp.Signed, bodyMark)
	}
	_, _ = mac.Write([]byte(strings.ReplaceAll(before, timeMark, at))) // a hash never fails
	_, _ = mac.Write(body)
	_, _ = mac.Write([]byte(strings.ReplaceAll(after, timeMark, at)))
	return mac.Sum(nil)
}

// signaturesIn returns the signatures of a request and their time. ok is false if the time is missing, or too far
// from now.
func (h *HMAC) signaturesIn(r *http.Request, now time.Time) (signatures [][]byte, at string, ok bool) {
	shown := []string{r.Header.Get(h.Header)}
	if t := h.Timestamp; t != nil {
		at = r.Header.Get(t.Header)
		if t.Field != "" {
			shown = strings.Split(shown[0], ",")
			at = ""
			for _, s := range shown {
				if name, value, _ := strings.Cut(strings.TrimSpace(s), "="); name == t.Field && at == "" {
					at = value
				}
			}
		}
		seconds, err := strconv.ParseInt(at, 10, 64)
		if off := now.Sub(time.Unix(seconds, 0)); err != nil || off > t.Window || off < -t.Window {
			return nil, at, false
		}
	}
	for _, s := range shown {
		text, found := strings.CutPrefix(strings.TrimSpace(s), h.Prefix)
		if b, err := h.decode(text); found && err == nil && len(b) > 0 {
			signatures = append(signatures, b)
		}
	}
	return signatures, at, true
}

func (h *HMAC) decode(text string) ([]byte, error) {
	if h.Encoding == "base64" {
		return base64.StdEncoding.DecodeString(text)
	}
	return hex.DecodeString(text)
}
