package httpserver

import (
	"encoding/json"
	"net/http"
	"strconv"
	"time"

	"github.com/flowd-io/flowd/engine"
)

// verdict is how one message ended, as its sender is told.
type verdict struct {
	Status int    `json:"status"`
	Fate   string `json:"fate"`
	Class  string `json:"class,omitempty"`
	Error  string `json:"error,omitempty"`

	delay time.Duration
}

// verdictOf turns a fate into a status: whether the message is kept, else whose
// fault that is and whether it helps to send it again.
func verdictOf(res engine.Result) verdict {
	v := verdict{Status: http.StatusOK, Fate: res.Fate.String(), delay: res.Delay}
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
	case engine.Permanent, engine.Rejected, engine.Expression, engine.Unrouted, engine.Late:
		return http.StatusUnprocessableEntity
	case engine.Timeout:
		return http.StatusGatewayTimeout
	}
	return http.StatusServiceUnavailable // transient, auth, panic: not the sender's fault
}

// severity orders statuses from best to worst: what helps when it is sent again
// is worse than what never will, so that nothing is given up.
func severity(status int) int {
	switch status {
	case http.StatusOK:
		return 0
	case http.StatusAccepted:
		return 1
	case http.StatusBadRequest:
		return 2
	case http.StatusUnprocessableEntity:
		return 3
	case http.StatusGatewayTimeout:
		return 4
	}
	return 5
}

// answer answers a request whose messages have all ended.
func (r *request) answer(w http.ResponseWriter) {
	worst := r.results[0]
	for _, v := range r.results[1:] {
		if severity(v.Status) > severity(worst.Status) {
			worst = v
		}
	}
	if worst.Status == http.StatusServiceUnavailable {
		retryAfter(w, worst.delay)
	}
	switch {
	case len(r.results) > 1:
		respond(w, worst.Status, map[string]any{"status": worst.Status, "messages": r.results})
	case worst.Status == http.StatusOK:
		w.WriteHeader(http.StatusOK)
	default:
		respond(w, worst.Status, worst)
	}
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
