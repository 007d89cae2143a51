package httpserver

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"strconv"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/components/push"
	"github.com/flowd-io/flowd/internal/components/reply"
	"github.com/flowd-io/flowd/internal/network/httpx"
)

// verdict is how one message ended, as reported to its sender.
type verdict struct {
	Status int    `json:"status"`
	Fate   string `json:"fate"`
	Class  string `json:"class,omitempty"`
	Error  string `json:"error,omitempty"` // as far as its sender may know
	Ref    string `json:"ref,omitempty"`   // under which the log has the rest

	Reply json.RawMessage `json:"reply,omitempty"`

	fate  engine.Fate
	delay time.Duration
	reply *reply.Reply // nil: none
}

// verdict returns the answer to a message: by its fate, or, with early_ack, before it has one.
func (in *input) verdict(res engine.Result) verdict {
	if in.cfg.EarlyAck && res.Fate == engine.Delivered {
		return verdict{Status: http.StatusAccepted, Fate: "accepted", fate: res.Fate}
	}
	v := verdictOf(res)
	if res.Err != nil {
		v.Class = string(res.Err.Class)
		v.Error, v.Ref = in.refs.Tell(res.Err)
	}
	return v
}

// verdictOf turns a fate into a status. It says whether the message is kept and, if not, whose fault that is and whether sending it
// again may help.
func verdictOf(res engine.Result) verdict {
	v := verdict{Status: http.StatusOK, Fate: res.Fate.String(), fate: res.Fate, delay: res.Delay}
	switch res.Fate {
	case engine.Delivered, engine.Filtered:
		return v
	case engine.DeadLettered:
		v.Status = http.StatusAccepted
		return v
	case engine.Dropped:
	default:
		v.Status = http.StatusServiceUnavailable
	}
	if res.Err != nil {
		v.Status = statusOf(res.Err.Class)
	}
	return v
}

func statusOf(c engine.Class) int {
	switch c {
	case engine.Decode:
		return http.StatusBadRequest
	case engine.Permanent, engine.Rejected, engine.Expression, engine.Unrouted, engine.Late, engine.TooLarge:
		return http.StatusUnprocessableEntity
	case engine.Timeout:
		return http.StatusGatewayTimeout
	}
	return http.StatusServiceUnavailable // transient, auth, panic: not the sender's fault
}

// answer answers a request whose messages have all ended.
func (in *input) answer(w http.ResponseWriter, r *request, draining bool) {
	if r.results == nil {
		in.answerSums(w, r, draining)
		return
	}
	for i := range r.results {
		v := &r.results[i]
		v.take(r.slip, i)
		v.settle(draining)
	}
	worst := r.results[0]
	for _, v := range r.results[1:] {
		if reply.Severity(v.Status) > reply.Severity(worst.Status) {
			worst = v
		}
	}
	if worst.Status == http.StatusServiceUnavailable {
		retryAfter(w, worst.delay)
	}
	switch {
	case len(r.results) > 1:
		for i := range r.results {
			r.results[i].listed()
		}
		in.respond(w, worst.Status, map[string]any{"status": worst.Status, "messages": r.results})
	case worst.reply != nil:
		in.send(w, worst.Status, worst.reply)
	case worst.Status == http.StatusOK:
		w.WriteHeader(http.StatusOK)
	default:
		respond(w, worst.Status, worst)
	}
}

// settle changes the status of a message that a drain kept from being retried: sending it again may help.
func (v *verdict) settle(draining bool) {
	if draining && v.fate == engine.Returned && v.Status == http.StatusGatewayTimeout {
		v.Status = http.StatusServiceUnavailable // there was no time for another attempt
	}
}

// take sets the reply to the message. A message that is not kept gets no reply, only the status of its fate.
func (v *verdict) take(slip *reply.Slip, i int) {
	if slip == nil || v.Status != http.StatusOK && v.Status != http.StatusAccepted || v.fate == engine.Dropped {
		return
	}
	if r, ok := slip.Take(i, v.fate == engine.DeadLettered); ok {
		v.reply = &r
		v.Status = cmp.Or(r.Status, v.Status)
	}
}

// listed shows the reply in a list of results.
func (v *verdict) listed() {
	if v.reply != nil {
		v.Reply = reply.JSON(v.reply.Body)
	}
}

// send answers with a reply.
func (in *input) send(w http.ResponseWriter, status int, r *reply.Reply) {
	maps.Copy(w.Header(), r.Header)
	if w.Header().Get("Content-Type") == "" && len(r.Body) > 0 {
		w.Header().Set("Content-Type", reply.Type(r.Body))
	}
	w.Header().Set("X-Content-Type-Options", "nosniff")
	in.wait(w, len(r.Body))
	w.WriteHeader(status)
	_, _ = w.Write(r.Body) // a client that is gone gets no answer
}

// buffered is how many bytes of an answer a connection buffers.
const buffered = 64 << 10

// wait gives a client time to read n bytes of a long answer: as long as it may take to send them.
func (in *input) wait(w http.ResponseWriter, n int) {
	if n > buffered {
		httpx.AnswerWithin(w, time.Duration(float64(n)/float64(in.cfg.MinRate)*float64(time.Second)))
	}
}

var refusals = push.Refusals{
	Endless:    &push.Refusal{Status: http.StatusRequestEntityTooLarge, Why: "the body is longer than max_body", Close: true},
	TooLarge:   &push.Refusal{Status: http.StatusRequestEntityTooLarge, Why: "the body is longer than max_body"},
	Overfull:   push.Overfull,
	TooSlow:    &push.Refusal{Status: http.StatusRequestTimeout, Why: "the body arrived too slowly", Close: true},
	Unreadable: &push.Refusal{Status: http.StatusBadRequest, Why: "the body could not be read completely"},
	Coding:     &push.Refusal{Status: http.StatusUnsupportedMediaType, Why: "the content encoding must be gzip or zstd"},
}

var forged = &push.Refusal{Status: http.StatusUnauthorized, Why: "the signature does not match the body"}

// tooMany refuses a request because it has too many messages.
func (in *input) tooMany() *push.Refusal {
	return &push.Refusal{Status: http.StatusRequestEntityTooLarge,
		Why: fmt.Sprintf("the body has more than %d messages (max_messages)", in.cfg.MaxMessages)}
}

func answerRefusal(w http.ResponseWriter, f *push.Refusal) {
	if f.Close {
		w.Header().Set("Connection", "close")
	}
	if f.Status == http.StatusTooManyRequests {
		retryAfter(w, f.Wait)
	}
	refuse(w, f.Status, f.Why)
}

// refuse answers a request of which no message is kept.
func refuse(w http.ResponseWriter, status int, why string) {
	if status == http.StatusServiceUnavailable {
		retryAfter(w, 0)
	}
	respond(w, status, map[string]any{"status": status, "error": why})
}

func retryAfter(w http.ResponseWriter, delay time.Duration) {
	seconds := max(1, int((delay+time.Second-1)/time.Second))
	w.Header().Set("Retry-After", strconv.Itoa(seconds))
}

// respond sends an answer that may be long.
func (in *input) respond(w http.ResponseWriter, status int, body any) {
	text := encoded(body)
	in.wait(w, len(text))
	write(w, status, text)
}

func respond(w http.ResponseWriter, status int, body any) { write(w, status, encoded(body)) }

// encoded returns an answer as a line of JSON.
func encoded(body any) []byte {
	var text bytes.Buffer
	if err := json.NewEncoder(&text).Encode(body); err != nil { // can't happen with our answers
		panic(err)
	}
	return text.Bytes()
}

func write(w http.ResponseWriter, status int, text []byte) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_, _ = w.Write(text) // a client that is gone gets no answer
}
