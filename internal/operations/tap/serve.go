package tap

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/flowd-io/flowd/engine/expr"
	"github.com/flowd-io/flowd/internal/operations/observe"
)

// Line is one line of a stream of records: a record, or how many messages were not shown since the line before.
type Line struct {
	*observe.Record
	NotShown int64 `json:"not_shown,omitempty"`
}

// MostPayload is how much of a payload a record has in a stream, in bytes.
const MostPayload = 256 << 10

// every is how often a stream says how many messages it has not shown, and that it is alive.
const every = time.Second

// writeTimeout is how long a reader may take for a line.
const writeTimeout = 10 * time.Second

// ParseQuery reads a query from the parameters of a request: pipeline, component, where, failed and rate.
func ParseQuery(v url.Values) (q Query, err error) {
	q = Query{Pipeline: v.Get("pipeline"), Component: v.Get("component"), Failed: v.Get("failed") == "true", Rate: DefaultRate}
	if text := v.Get("rate"); text != "" {
		if q.Rate, err = strconv.Atoi(text); err != nil || q.Rate < 1 || q.Rate > MaxRate {
			return q, fmt.Errorf("rate must be from 1 to %d, not %q", MaxRate, text)
		}
	}
	if text := v.Get("where"); text != "" {
		if q.Where, err = expr.CompileCond(text, "batch"); err != nil {
			return q, fmt.Errorf("where: %w", err)
		}
	}
	return q, nil
}

// Values returns the parameters for ParseQuery.
func (q Query) Values() url.Values {
	v := url.Values{}
	set := func(name, value string) {
		if value != "" {
			v.Set(name, value)
		}
	}
	set("pipeline", q.Pipeline)
	set("component", q.Component)
	if q.Failed {
		set("failed", "true")
	}
	if q.Rate > 0 {
		set("rate", strconv.Itoa(q.Rate))
	}
	if !q.Where.IsZero() {
		set("where", q.Where.String())
	}
	return v
}

// ErrTooMany says that a process has as many taps as it can have.
var ErrTooMany = fmt.Errorf("%d taps are open already (close one)", mostTaps)

// Serve streams records, a JSON object per line, until the request or the server ends. Secrets in them are hidden.
func (h *Hub) Serve(w http.ResponseWriter, r *http.Request, q Query, redact *Redactor) error {
	t := h.Open(q)
	if t == nil {
		return ErrTooMany
	}
	defer t.Close()
	w.Header().Set("Content-Type", "application/x-ndjson")
	w.WriteHeader(http.StatusOK)
	rc, enc := http.NewResponseController(w), json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	if err := errors.Join(rc.SetReadDeadline(time.Time{}), rc.SetWriteDeadline(time.Now().Add(writeTimeout)), rc.Flush()); err != nil {
		return nil // the client has gone
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		line := Line{}
		select {
		case <-r.Context().Done():
			return nil
		case rec := <-t.C:
			redact.Record(&rec)
			rec.Payload = cut(rec.Payload)
			line.Record = &rec
		case <-tick.C:
			line.NotShown = t.Missed()
		}
		if err := errors.Join(rc.SetWriteDeadline(time.Now().Add(writeTimeout)), enc.Encode(line), rc.Flush()); err != nil {
			return nil // the client has gone
		}
	}
}

// cut returns the beginning of a large payload.
func cut(p observe.Payload) observe.Payload {
	if len(p) <= MostPayload {
		return p
	}
	at := MostPayload
	for at > 0 && !utf8.RuneStart(p[at]) {
		at--
	}
	return append(p[:at:at], fmt.Sprintf("… (%d bytes)", len(p))...)
}
