package service

import (
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"regexp"
	"slices"
	"sync"

	"github.com/flowd-io/flowd/schema"
)

// MaxPipeline is the maximum size of a pipeline that a request may contain, in bytes.
const MaxPipeline = 1 << 20

// Pipelines manages the pipelines of a process. Errors made by [Refused], [Invalid] and [Unavailable] say which status a request gets;
// any other error is a 500. List and Text are called at any time, the other methods one at a time.
type Pipelines interface {
	// List returns the pipelines of the process, sorted by name.
	List() []PipelineFile
	// Text returns the YAML of a pipeline.
	Text(name string) ([]byte, error)
	// Put saves a pipeline and runs it, in place of the one that has the name, if any. If text is not valid or can't be
	// saved, nothing changes. The problems are warnings.
	Put(name string, text []byte) (created bool, problems []schema.Problem, err error)
	// Remove removes a pipeline and drains it.
	Remove(name string) error
	// Start runs a pipeline unless it runs.
	Start(name string) error
	// Stop drains a pipeline, which then does not run until Start or Restart, also in later processes.
	Stop(name string) error
	// Restart ends a pipeline, closes everything that it has open, and runs it again.
	Restart(name string) error
}

// PipelineFile is a pipeline with its file, in the answer to GET /api/v1/pipelines.
type PipelineFile struct {
	Name    string `json:"name"`
	State   string `json:"state"` // as in a [State]
	File    string `json:"file"`
	Managed bool   `json:"managed"` // in the directory of service.pipelines, so that the API can change it
	Held    bool   `json:"held"`    // an operator has stopped it
}

// PipelineList is the answer to GET /api/v1/pipelines.
type PipelineList struct {
	Pipelines []PipelineFile `json:"pipelines"`
}

// Problem is the JSON form of a problem in a pipeline file.
type Problem struct {
	Code     string `json:"code"`
	Severity string `json:"severity"` // "error" or "warning"
	File     string `json:"file"`
	Line     int    `json:"line"` // from 1; 0: the file as a whole
	Col      int    `json:"col"`  // in characters, from 1
	Path     string `json:"path"`
	Message  string `json:"message"`
	Remedy   string `json:"remedy,omitempty"`
}

// ProblemsOf returns problems in their JSON form. The list is never nil.
func ProblemsOf(problems []schema.Problem) []Problem {
	all := make([]Problem, 0, len(problems)) // [] instead of null
	for _, p := range problems {
		severity := "error"
		if p.Warning {
			severity = "warning"
		}
		all = append(all, Problem{p.Code, severity, p.Pos.File, p.Pos.Line, p.Pos.Col, p.Path, p.Message, p.Remedy})
	}
	return all
}

// Refused returns an error that a request gets with an HTTP status.
func Refused(status int, format string, args ...any) error { return problemf(status, format, args...) }

// Unavailable returns the error for a change that can't be checked now, as while a secrets manager is down. A request gets it
// with status 503.
func Unavailable(problems []schema.Problem) error {
	return withProblems(http.StatusServiceUnavailable, problems)
}

// Invalid returns the error for a change that would make pipelines invalid. A request gets it with status 422.
func Invalid(problems []schema.Problem) error {
	return withProblems(http.StatusUnprocessableEntity, problems)
}

func withProblems(status int, problems []schema.Problem) error {
	n := 0
	for _, p := range problems {
		if !p.Warning {
			n++
		}
	}
	text := "1 error"
	if n != 1 {
		text = fmt.Sprintf("%d errors", n)
	}
	return &problem{status, text + ": nothing has changed (see problems)", ProblemsOf(problems)}
}

// pipelineName is what the name of a managed pipeline may be, since it is also the name of its file.
var pipelineName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$`) })

// ValidName reports whether a name can be that of a file in the directory of service.pipelines.
func ValidName(name string) bool { return pipelineName().MatchString(name) }

// yamlTypes are the media types of YAML.
var yamlTypes = []string{"application/yaml", "application/x-yaml", "text/yaml", "text/x-yaml"}

// managing wraps a handler that needs service.pipelines.
func (a *api) managing(next http.HandlerFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if a.pipelines == nil {
			refuse(w, http.StatusNotFound, "this flowd does not manage pipelines over the API (set service.pipelines to a directory)")
			return
		}
		next(w, r)
	})
}

func (a *api) listPipelines(w http.ResponseWriter, _ *http.Request) {
	respond(w, http.StatusOK, PipelineList{a.pipelines.List()})
}

func (a *api) readPipeline(w http.ResponseWriter, r *http.Request) {
	text, err := a.pipelines.Text(r.PathValue("name"))
	if err != nil {
		status, body := answerTo(err)
		respond(w, status, body)
		return
	}
	w.Header().Set("Content-Type", "application/yaml")
	_, _ = w.Write(text) // a client that is gone gets no answer
}

func (a *api) putPipeline(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("name")
	var created bool
	var problems []schema.Problem
	text, err := receivePipeline(w, r, name)
	if err == nil {
		a.mu.Lock()
		created, problems, err = a.pipelines.Put(name, text)
		a.mu.Unlock()
	}
	status := http.StatusOK
	if created {
		status = http.StatusCreated
	}
	a.finish(w, r, "put pipeline", status, done{Done: []string{name}, Problems: ProblemsOf(problems)}, err)
}

func (a *api) deletePipeline(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("name")
	a.mu.Lock()
	err := a.pipelines.Remove(name)
	a.mu.Unlock()
	a.finish(w, r, "delete pipeline", http.StatusOK, done{Done: []string{name}}, err)
}

// maxDiscarded is how much of a body that is too large is read and discarded, in bytes. Many clients read an answer only
// after they have sent everything.
const maxDiscarded = 64 << 20

// discardBody reads the rest of a body that is too large.
func discardBody(r *http.Request) {
	if r.Header.Get("Expect") == "" { // otherwise the client asks before it sends the body
		_, _ = io.CopyN(io.Discard, r.Body, maxDiscarded)
	}
}

// operatePipeline returns a handler that starts, stops or restarts a pipeline.
func (a *api) operatePipeline(action string, do func(Pipelines, string) error) http.HandlerFunc {
	return a.action(action+" pipeline", func(r *http.Request) ([]string, error) {
		var q struct{}
		if err := decodeBody(r.Body, &q); err != nil {
			return nil, err
		}
		a.mu.Lock()
		defer a.mu.Unlock()
		return []string{r.PathValue("name")}, do(a.pipelines, r.PathValue("name"))
	}).ServeHTTP
}

// receivePipeline returns the YAML in a request. It keeps no more than MaxPipeline.
func receivePipeline(w http.ResponseWriter, r *http.Request, name string) ([]byte, error) {
	media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	switch {
	case !pipelineName().MatchString(name):
		return nil, problemf(http.StatusBadRequest, "%q is not a valid name of a pipeline (begin with a letter or digit, "+
			"and use only letters, digits, -, _ and ., up to 100)", shorten(name))
	case err != nil || !slices.Contains(yamlTypes, media):
		return nil, problemf(http.StatusUnsupportedMediaType, "the body must be YAML (send Content-Type: application/yaml)")
	}
	tooLarge := problemf(http.StatusRequestEntityTooLarge, "the pipeline is larger than %d MiB (keep data in files that it reads)",
		MaxPipeline>>20)
	body := http.MaxBytesReader(w, r.Body, MaxPipeline)
	var text []byte
	var large *http.MaxBytesError
	if r.ContentLength <= MaxPipeline {
		text, err = io.ReadAll(body)
	}
	switch {
	case r.ContentLength > MaxPipeline || errors.As(err, &large):
		w.Header().Set("Connection", "close")
		discardBody(r)
		return nil, tooLarge
	case err != nil:
		return nil, problemf(http.StatusBadRequest, "the body did not arrive: %v", err)
	}
	return text, nil
}
