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

// keys prove that a worker was given a job: the key is sent with the job and returned with every report. The hub need
// not remember anything for that.
type keys []byte

func newKeys() keys {
	k := make(keys, 32)
	_, _ = rand.Read(k) // never fails
	return k
}

// keyOf returns the key of an attempt.
func (k keys) keyOf(t wire.Try) string {
	sum := hmac.New(sha256.New, k)
	fmt.Fprintf(sum, "%d.%d.%d", t.Pool, t.ID, t.Try)
	return base64.RawURLEncoding.EncodeToString(sum.Sum(nil)[:15])
}

// alias names a connection for people. They must not know its id, with which one could listen to its inboxes.
func (k keys) alias(id string) string {
	sum := hmac.New(sha256.New, k)
	sum.Write([]byte(id))
	return hex.EncodeToString(sum.Sum(nil)[:8])
}

// given reports whether the client that reports on an attempt was given it. Otherwise it logs a warning.
func (h *Hub) given(msg *nats.Msg, t wire.Try) bool {
	if hmac.Equal([]byte(t.Key), []byte(h.keys.keyOf(t))) {
		return true
	}
	h.log.Warn("a client reports on a job that it was not given; the report is ignored", "what", wire.What(msg.Subject))
	return false
}

// secret returns a word in subjects of the embedded server that no client may use.
func (h *Hub) secret() string {
	if h.srv == nil {
		return ""
	}
	return h.srv.secret
}
