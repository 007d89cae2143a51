package httpserver

import (
	"cmp"
	"encoding/json"
	"maps"
	"net/http"
	"strconv"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/reply"
)

// verdict is how one message ended, as its sender is told.
type verdict struct {
	Status int    `json:"status"`
	Fate   string `json:"fate"`
	Class  string `json:"class,omitempty"`
	Error  string `json:"error,omitempty"`

	Reply json.RawMessage `json:"reply,omitempty"`

	fate  engine.Fate
	delay time.Duration
	reply *reply.Reply // nil: none
}

// verdict is how a message is answered: by its fate, or, early, before it has one.
func (in *input) verdict(res engine.Result) verdict {
	if in.cfg.EarlyAck && res.Fate == engine.Delivered {
		return verdict{Status: http.StatusAccepted, Fate: "accepted", fate: res.Fate}
	}
	return verdictOf(res)
}

// verdictOf turns a fate into a status: whether the message is kept, else whose
// fault that is and whether it helps to send it again.
func verdictOf(res engine.Result) verdict {
	v := verdict{Status: http.StatusOK, Fate: res.Fate.String(), fate: res.Fate, delay: res.Delay}
	switch res.Fate {
	case engine.Delivered, engine.Filtered:
		return v
	case engine.DeadLettered:
		v.Status = http.StatusAccepted
	case engine.Dropped:
		if res.Err != nil {
			v.Status = statusOf(res.Err.Class)
		}
	default:
		v.Status = http.StatusServiceUnavailable
		if res.Err != nil {
			v.Status = statusOf(res.Err.Class)
		}
	}
	if res.Err != nil {
		v.Class, v.Error = string(res.Err.Class), res.Err.Error()
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
func (r *request) answer(w http.ResponseWriter, draining bool) {
	for i := range r.results {
		v := &r.results[i]
		v.take(r.slip, i)
		if draining && v.fate == engine.Returned && v.Status == http.StatusGatewayTimeout {
			v.Status = http.StatusServiceUnavailable // there was no time for another try
		}
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
		respond(w, worst.Status, map[string]any{"status": worst.Status, "messages": r.results})
	case worst.reply != nil:
		send(w, worst.Status, worst.reply)
	case worst.Status == http.StatusOK:
		w.WriteHeader(http.StatusOK)
	default:
		respond(w, worst.Status, worst)
	}
}

// take sets what the message is replied. A message that is not kept is answered
// by its fate alone.
func (v *verdict) take(slip *reply.Slip, i int) {
	if slip == nil || v.Status != http.StatusOK && v.Status != http.StatusAccepted || v.fate == engine.Dropped {
		return
	}
	if r, ok := slip.Take(i, v.fate == engine.DeadLettered); ok {
		v.reply = &r
		v.Status = cmp.Or(r.Status, v.Status)
	}
}

// listed shows the reply in the list of several.
func (v *verdict) listed() {
	if v.reply != nil {
		v.Reply = reply.JSON(v.reply.Body)
	}
}

// send answers with a reply.
func send(w http.ResponseWriter, status int, r *reply.Reply) {
	maps.Copy(w.Header(), r.Header)
	if w.Header().Get("Content-Type") == "" && len(r.Body) > 0 {
		w.Header().Set("Content-Type", reply.Type(r.Body))
	}
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_, _ = w.Write(r.Body) // a client that is gone by now has nothing to be told
}

// refusal is why a request is not kept, or nothing can be said about it.
type refusal struct {
	status int
	why    string
	wait   time.Duration // until it helps to come again
	close  bool          // the connection, too
}

var (
	draining = &refusal{status: http.StatusServiceUnavailable, why: "the pipeline is draining", close: true}
	full     = &refusal{status: http.StatusServiceUnavailable, why: "the pipeline is full"}
	tooSlow  = &refusal{status: http.StatusGatewayTimeout, why: "the messages have not reached their fate in time"}
)

// limited refuses a request that a rate limit keeps from being read.
func limited(wait time.Duration) *refusal {
	return &refusal{status: http.StatusTooManyRequests, why: "the rate limit is used up", wait: wait}
}

func (f *refusal) answer(w http.ResponseWriter) {
	if f.close {
		w.Header().Set("Connection", "close")
	}
	if f.status == http.StatusTooManyRequests {
		retryAfter(w, f.wait)
	}
	refuse(w, f.status, f.why)
}

// refuse answers a request of which nothing is kept.
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

func respond(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	// A client that is gone by now has nothing to be told.
	_ = json.NewEncoder(w).Encode(body)
}
