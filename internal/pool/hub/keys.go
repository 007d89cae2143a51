package hub

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"

	"github.com/nats-io/nats.go"

	"github.com/flowd-io/flowd/internal/pool/wire"
)

// keys prove that a worker was given a job: the key is sent with the job, and returned with
// every report about it. Nothing has to be remembered for that.
type keys []byte

func newKeys() keys {
	k := make(keys, 32)
	_, _ = rand.Read(k) // never fails
	return k
}

// of returns the key of an attempt.
func (k keys) of(t wire.Try) string {
	sum := hmac.New(sha256.New, k)
	fmt.Fprintf(sum, "%d.%d.%d", t.Pool, t.ID, t.Try)
	return base64.RawURLEncoding.EncodeToString(sum.Sum(nil)[:15])
}

// alias names a connection for people, who must not know its id: only the id lets it listen
// to its inboxes.
func (k keys) alias(id string) string {
	sum := hmac.New(sha256.New, k)
	sum.Write([]byte(id))
	return hex.EncodeToString(sum.Sum(nil)[:8])
}

// given reports whether the client that reports on an attempt was given it; otherwise that is
// logged.
func (h *Hub) given(msg *nats.Msg, t wire.Try) bool {
	if hmac.Equal([]byte(t.Key), []byte(h.keys.of(t))) {
		return true
	}
	h.log.Warn("a client reports on a job that it was not given; the report is ignored", "what", wire.What(msg.Subject))
	return false
}

// secret returns a word for subjects of this process's own server, which no client has rights to.
func (h *Hub) secret() string {
	if h.srv == nil {
		return ""
	}
	return h.srv.secret
}
