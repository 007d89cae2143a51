package service

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"mime"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/operations/history"
)

// maxBody is the maximum size of a request body, in bytes.
const maxBody = 64 << 10

// api serves flowd ctl.
type api struct {
	process   Process
	pipelines Pipelines                                      // nil: they are not managed over the API
	taps      func(http.ResponseWriter, *http.Request) error // nil: there are none
	traces    func(id string) (history.Trace, error)         // nil: nothing is remembered
	closing   context.Context                                // ends streams
	log       *slog.Logger

	pushes chan struct{} // has an element for each push that is being served

	mu sync.Mutex // one change at a time
}

// tap streams messages.
func (a *api) tap(w http.ResponseWriter, r *http.Request) {
	if a.taps == nil {
		respond(w, http.StatusNotFound, refusal{Error: "this process has no taps"})
		return
	}
	log := a.log.With("request", "tap", "from", r.RemoteAddr)
	log.Info("tap opened", "query", r.URL.RawQuery)
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(a.closing, cancel)()
	if err := a.taps(w, r.WithContext(ctx)); err != nil {
		log.Info("admin request rejected", "error", err)
		respond(w, http.StatusBadRequest, refusal{Error: err.Error()})
		return
	}
	log.Info("tap closed")
}

// trace returns what is remembered of an id.
func (a *api) trace(w http.ResponseWriter, r *http.Request) {
	id := r.URL.Query().Get("id")
	switch {
	case a.traces == nil:
		respond(w, http.StatusNotFound, refusal{Error: "this process remembers no messages"})
		return
	case id == "":
		respond(w, http.StatusBadRequest, refusal{Error: "the parameter id is missing"})
		return
	}
	found, err := a.traces(id)
	if err != nil {
		respond(w, http.StatusConflict, refusal{Error: err.Error()})
		return
	}
	respond(w, http.StatusOK, found)
}

// problem is a refusal with its HTTP status.
type problem struct {
	status   int
	text     string
	problems []Problem // of a pipeline
}

func (p *problem) Error() string { return p.text }

func problemf(status int, format string, args ...any) error {
	return &problem{status: status, text: fmt.Sprintf(format, args...)}
}

// done is the answer to a change: the pipelines that it applied to.
type done struct {
	Done     []string  `json:"done"`
	Problems []Problem `json:"problems,omitempty"` // warnings
}

// action serves a request that changes something, and logs it.
func (a *api) action(name string, do func(*http.Request) ([]string, error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil ||
			media != "application/json" {
			refuse(w, http.StatusUnsupportedMediaType, "the body must be JSON (send Content-Type: application/json)")
			return
		}
		r.Body = http.MaxBytesReader(w, r.Body, maxBody)
		on, err := do(r)
		if p := (*problem)(nil); err != nil && !errors.As(err, &p) {
			err = failed{http.StatusConflict, err}
		}
		a.finish(w, r, name, http.StatusOK, done{Done: on}, err)
	})
}

// failed is an error of the process, with the status that the request gets.
type failed struct {
	status int
	error
}

// finish answers a request that changes something, and logs it.
func (a *api) finish(w http.ResponseWriter, r *http.Request, name string, status int, what done, err error) {
	log := a.log.With("request", name, "from", r.RemoteAddr)
	var p *problem
	switch {
	case err == nil:
		log.Info("admin request completed", "on", what.Done)
		respond(w, status, what)
		return
	case errors.As(err, &p):
		log.Info("admin request rejected", "error", p.text)
	default:
		log.Warn("admin request failed", "on", what.Done, "error", err)
	}
	status, body := answerTo(err)
	respond(w, status, body)
}

// answerTo returns the answer to a request that has failed.
func answerTo(err error) (status int, body refusal) {
	var p *problem
	var f failed
	switch {
	case errors.As(err, &p):
		return p.status, refusal{p.text, p.problems}
	case errors.As(err, &f):
		return f.status, refusal{Error: err.Error()}
	}
	return http.StatusInternalServerError, refusal{Error: err.Error()}
}

func (a *api) state(w http.ResponseWriter, _ *http.Request) {
	respond(w, http.StatusOK, stateOf(a.process.Snapshots()))
}

// text is a JSON string. null is an error, since it must not mean "all".
type text string

func (t *text) UnmarshalJSON(b []byte) error {
	if len(b) == 0 || b[0] != '"' {
		return fmt.Errorf("must be a string, not %s", shorten(string(b)))
	}
	return json.Unmarshal(b, (*string)(t))
}

type onPipeline struct {
	Pipeline text `json:"pipeline,omitempty"` // "": all
}

func (a *api) pause(r *http.Request) ([]string, error)  { return a.each(r, Process.Pause) }
func (a *api) resume(r *http.Request) ([]string, error) { return a.each(r, Process.Resume) }
func (a *api) drain(r *http.Request) ([]string, error)  { return a.each(r, Process.Drain) }

// each applies do to one pipeline or to all.
func (a *api) each(r *http.Request, do func(Process, string) error) ([]string, error) {
	var q onPipeline
	if err := decodeBody(r.Body, &q); err != nil {
		return nil, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	on, err := choose(a.process.Snapshots(), string(q.Pipeline))
	if err != nil {
		return nil, err
	}
	return names(on), do(a.process, string(q.Pipeline))
}

func (a *api) reload(r *http.Request) ([]string, error) {
	var q struct{}
	if err := decodeBody(r.Body, &q); err != nil {
		return nil, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if err := a.process.Reload(); err != nil {
		return nil, err
	}
	return names(a.process.Snapshots()), nil
}

type limitRequest struct {
	Pipeline text `json:"pipeline,omitempty"` // "": the pipeline that has the limit
	Name     text `json:"name"`
	Messages int  `json:"messages"`
	Per      text `json:"per"`             // "1s"
	Burst    int  `json:"burst,omitempty"` // 0: as many as messages
	Now      bool `json:"now,omitempty"`   // false: from the next window
}

func (a *api) limit(r *http.Request) ([]string, error) {
	var q limitRequest
	if err := decodeBody(r.Body, &q); err != nil {
		return nil, err
	}
	per, err := time.ParseDuration(string(q.Per))
	switch {
	case err != nil || per < time.Millisecond:
		return nil, problemf(http.StatusBadRequest, `per: %q is not a duration of at least 1ms (write "1s")`,
			shorten(string(q.Per)))
	case q.Messages < 1:
		return nil, problemf(http.StatusBadRequest, "messages: must be at least 1 (pause stops reading altogether)")
	case q.Burst < 0:
		return nil, problemf(http.StatusBadRequest, "burst: must be at least 1, or left out")
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	pipeline, err := whose(a.process.Snapshots(), string(q.Pipeline), string(q.Name))
	if err != nil {
		return nil, err
	}
	on := []string{strings.TrimSpace(pipeline + " " + string(q.Name))}
	return on, a.process.SetLimit(pipeline, string(q.Name), Limit{q.Messages, per, q.Burst, q.Now})
}

// choose returns the snapshot of a pipeline, or all for "".
func choose(all []engine.Snapshot, pipeline string) ([]engine.Snapshot, error) {
	if pipeline == "" {
		return all, nil
	}
	for i, s := range all {
		if s.Pipeline == pipeline {
			return all[i : i+1], nil
		}
	}
	return nil, NoPipeline(pipeline, names(all))
}

// NoPipeline returns the error for a pipeline that is not among the existing ones. A request gets it with status 404.
func NoPipeline(name string, existing []string) error {
	return problemf(http.StatusNotFound, "there is no pipeline %q (%s)", shorten(name), thereAre(existing))
}

// whose returns the pipeline whose limit changes, or "" for a shared limit, which is the same for all.
func whose(all []engine.Snapshot, pipeline, limit string) (string, error) {
	among, err := choose(all, pipeline)
	if err != nil {
		return "", err
	}
	var have, known []string
	for _, s := range among {
		for _, l := range limitsOf(s) {
			if l.Name == limit {
				have = append(have, s.Pipeline)
			}
			if !slices.Contains(known, l.Name) {
				known = append(known, l.Name)
			}
		}
	}
	switch {
	case len(have) == 0:
		return "", problemf(http.StatusNotFound, "there is no limit %q (%s)", shorten(limit), thereAre(known))
	case len(have) > 1 && own(limit):
		return "", problemf(http.StatusConflict, "several pipelines have a limit %q (name one of them: %s)", limit,
			strings.Join(have, ", "))
	case len(have) > 1:
		return "", nil
	}
	return have[0], nil
}

// own reports whether a limit belongs to one pipeline. Others are in resources, and pipelines share them.
func own(limit string) bool {
	kind, _, _ := strings.Cut(limit, " ")
	return limit == "engine" || kind != limit && slices.Contains([]string{"input", "output", "step"}, kind)
}

// limitsOf returns the limits of a pipeline, its inputs and its outputs, each name once.
func limitsOf(s engine.Snapshot) []engine.LimitState {
	all := slices.Clone(s.Limits)
	for _, in := range s.Inputs {
		if in.Limit != nil {
			all = append(all, *in.Limit)
		}
	}
	for _, out := range s.Outputs {
		if out.Limit != nil {
			all = append(all, *out.Limit)
		}
	}
	var once []engine.LimitState
	for _, l := range all {
		if i := slices.IndexFunc(once, func(o engine.LimitState) bool { return o.Name == l.Name }); i >= 0 {
			once[i].Limited = max(once[i].Limited, l.Limited)
			continue
		}
		once = append(once, l)
	}
	return once
}

func names(all []engine.Snapshot) []string {
	list := make([]string, 0, len(all)) // [] instead of null
	for _, s := range all {
		list = append(list, s.Pipeline)
	}
	return list
}

func thereAre(names []string) string {
	switch len(names) {
	case 0:
		return "there is none"
	case 1:
		return "there is " + names[0]
	}
	return "there are " + strings.Join(names, ", ")
}

// decodeBody decodes a body that is one JSON object with known fields.
func decodeBody(body io.Reader, into any) error {
	raw, err := io.ReadAll(body)
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		return problemf(http.StatusRequestEntityTooLarge, "the body is larger than %d bytes", large.Limit)
	case err != nil:
		return problemf(http.StatusBadRequest, "the body did not arrive: %v", err)
	case !bytes.HasPrefix(bytes.TrimLeft(raw, " \t\r\n"), []byte("{")):
		return problemf(http.StatusBadRequest, "the body is not a JSON object (send {} if there are no arguments)")
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return problemf(http.StatusBadRequest, "the body is not valid: %s",
			shorten(strings.TrimPrefix(err.Error(), "json: ")))
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return problemf(http.StatusBadRequest, "something follows the JSON object (send only one object)")
	}
	return nil
}

// shorten bounds text of a request in answers and in the log.
func shorten(s string) string {
	const most = 200
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}
