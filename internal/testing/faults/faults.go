// Package faults scripts what goes wrong with the requests that a fake server gets.
package faults

import (
	"maps"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
)

// Call is a request that has arrived.
type Call struct {
	Method, Path, Query string
	Header              http.Header
}

// Fault is what goes wrong with the requests that match.
type Fault struct {
	Method string // "" is any
	Path   string // what the path contains, as it is escaped; "" is any
	Query  string // what the query contains; "" is any
	After  int    // so many matching requests are carried out first
	Times  int    // then so many are not; 0 is one, -1 all

	Status int               // of the answer
	Reason string            // in its body, as the server has it
	Header map[string]string // of the answer
	Cut    int               // with Status 0: the connection ends after so many bytes of the answer's body
	Lose   bool              // with Status 0: the request is carried out, and gets no answer
	Hook   func()            // called before
}

// Script is what goes wrong, and what was asked. Its methods are safe for concurrent use.
type Script struct {
	mu     sync.Mutex // guards the fields below
	faults []*Fault
	calls  []Call
}

// Fault adds a fault.
func (s *Script) Fault(f Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f.Times == 0 {
		f.Times = 1
	}
	s.faults = append(s.faults, &f)
}

// Heal removes all faults.
func (s *Script) Heal() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = nil
}

// Calls are the requests with a method so far.
func (s *Script) Calls(method string) (all []Call) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.calls {
		if c.Method == method {
			all = append(all, c)
		}
	}
	return all
}

// Serve answers one request: with the fault that matches by refuse, or else by serve.
func (s *Script) Serve(w http.ResponseWriter, r *http.Request, serve func(http.ResponseWriter),
	refuse func(w http.ResponseWriter, status int, reason string)) {
	f := s.next(r)
	if f.Hook != nil {
		f.Hook()
	}
	if f.Status != 0 {
		for name, value := range f.Header {
			w.Header().Set(name, value)
		}
		refuse(w, f.Status, f.Reason)
		return
	}
	answer := httptest.NewRecorder()
	serve(answer)
	if f.Lose {
		panic(http.ErrAbortHandler)
	}
	maps.Copy(w.Header(), answer.Header())
	out := answer.Body.Bytes()
	if r.Method != http.MethodHead {
		w.Header().Set("Content-Length", strconv.Itoa(len(out)))
	}
	w.WriteHeader(answer.Code)
	if f.Cut > 0 {
		_, _ = w.Write(out[:min(f.Cut, len(out))])
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	}
	_, _ = w.Write(out)
}

// next records a request and finds what goes wrong with it.
func (s *Script) next(r *http.Request) Fault {
	s.mu.Lock()
	defer s.mu.Unlock()
	path := r.URL.EscapedPath()
	s.calls = append(s.calls, Call{r.Method, path, r.URL.RawQuery, r.Header.Clone()})
	for _, f := range s.faults {
		if f.Times == 0 || f.Method != "" && f.Method != r.Method || !strings.Contains(path, f.Path) ||
			!strings.Contains(r.URL.RawQuery, f.Query) {
			continue
		}
		if f.After > 0 {
			f.After--
			continue
		}
		if f.Times > 0 {
			f.Times--
		}
		return *f
	}
	return Fault{}
}
