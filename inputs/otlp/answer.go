package otlp

import (
	"fmt"
	"net/http"
	"strconv"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/components/push"
	"github.com/flowd-io/flowd/internal/formats/otlpdocs"
	"github.com/flowd-io/flowd/internal/network/grpcx"
)

var crowded = busy(push.Crowded)

var refusals = push.Refusals{
	Endless:    &push.Refusal{Status: http.StatusRequestEntityTooLarge, Why: "the request is larger than max_body", Close: true},
	TooLarge:   &push.Refusal{Status: http.StatusRequestEntityTooLarge, Why: "the request is larger than max_body"},
	Overfull:   busy(push.Overfull),
	TooSlow:    &push.Refusal{Status: http.StatusRequestTimeout, Why: "the request arrived too slowly", Close: true},
	Unreadable: &push.Refusal{Status: http.StatusBadRequest, Why: "the request could not be read completely"},
	Coding:     &push.Refusal{Status: http.StatusUnsupportedMediaType, Why: "the compression must be gzip or zstd"},
}

// busy is a refusal for want of room. OTLP has a status of its own for that.
func busy(f *push.Refusal) *push.Refusal {
	return &push.Refusal{Status: http.StatusTooManyRequests, Why: f.Why}
}

// sum says how the messages of a request have ended.
type sum struct {
	rejected int64 // records that should not be sent again
	retried  int   // messages that should
	messages int   // of those rejected
	delay    time.Duration
	why      string // the first error of those rejected, or else of those to be sent again, as far as a client may know
	ref      string // under which the log has the rest
	class    engine.Class
}

// add counts a message with a number of records.
func (s *sum) add(res engine.Result, records int64, refs *push.References) {
	rejected := false
	switch {
	case res.Fate == engine.Returned && (res.Err == nil || passes(res.Err.Class)):
		s.retried++
		s.delay = max(s.delay, res.Delay)
	case res.Fate == engine.Returned, res.Fate == engine.Dropped && res.Err != nil:
		s.rejected += records
		s.messages++
		rejected = true
	default:
		return
	}
	if res.Err != nil && (s.class == "" || rejected && s.messages == 1) {
		s.why, s.ref = refs.Tell(res.Err)
		s.class = res.Err.Class
	}
}

// passes says whether a failure of a class is not the fault of the message, so that it may succeed when the client sends it again.
func passes(c engine.Class) bool {
	return c == engine.Transient || c == engine.Auth || c == engine.Timeout || c == engine.Panicked
}

// reason returns the error, its class and its reference, as far as there are any.
func (s *sum) reason() string {
	switch {
	case s.class == "":
		return ""
	case s.ref != "":
		return fmt.Sprintf(": %s (ref %s in the receiver's log)", s.class, s.ref)
	}
	return ": " + s.why
}

// answer answers a request whose messages have all ended.
func (r *request) answer(w http.ResponseWriter) {
	s := &r.sum
	switch {
	case s.retried > 0:
		r.refuse(w, &push.Refusal{Status: http.StatusServiceUnavailable, Wait: s.delay,
			Why: fmt.Sprintf("%d of %d messages could not be delivered now%s", s.retried, r.docs.Len(), s.reason())})
	case s.messages > 0:
		r.succeed(w, otlpdocs.PartialSuccess{Rejected: s.rejected,
			Message: fmt.Sprintf("%d of %d messages were rejected%s", s.messages, r.docs.Len(), s.reason())})
	default:
		r.succeed(w, otlpdocs.PartialSuccess{})
	}
}

func (r *request) succeed(w http.ResponseWriter, p otlpdocs.PartialSuccess) {
	switch r.form {
	case grpc:
		grpcx.Answer(w, p.Proto())
	case json:
		r.write(w, http.StatusOK, p.JSON(r.signal))
	default:
		r.write(w, http.StatusOK, p.Proto())
	}
}

// refuse answers a request of which no message is kept, or whose messages should be sent again.
func (r *request) refuse(w http.ResponseWriter, f *push.Refusal) {
	if f.Close {
		w.Header().Set("Connection", "close")
	}
	var retry time.Duration
	if f.Status == http.StatusTooManyRequests || f.Status == http.StatusServiceUnavailable {
		retry = max(time.Second, (f.Wait + time.Second - 1).Truncate(time.Second))
	}
	s := grpcx.NewStatus(codeOf(f.Status), f.Why, retry)
	var body []byte
	var err error
	switch r.form {
	case grpc:
		grpcx.Refuse(w, s)
		return
	case json:
		body, err = protojson.Marshal(s.Proto())
	default:
		body, err = proto.Marshal(s.Proto())
	}
	if retry > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(retry/time.Second)))
	}
	if err != nil { // can't happen with our answers
		panic(err)
	}
	r.write(w, f.Status, body)
}

func (r *request) write(w http.ResponseWriter, status int, body []byte) {
	kind := "application/x-protobuf"
	if r.form == json {
		kind = "application/json"
	}
	w.Header().Set("Content-Type", kind)
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_, _ = w.Write(body) // a client that is gone gets no answer
}
