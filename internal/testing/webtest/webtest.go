// Package webtest is an HTTP server for tests of what calls one. Start at [Serve].
package webtest

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
)

// Server takes down requests and answers them.
type Server struct {
	*httptest.Server

	mu  sync.Mutex // guards the field below
	got []string
}

// Serve starts a server that runs until the test ends. answer, when not nil, answers its requests, whose bodies are
// read by then.
func Serve(t testing.TB, answer http.HandlerFunc) *Server {
	t.Helper()
	s := &Server{}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		s.mu.Lock()
		s.got = append(s.got, fmt.Sprintf("%s %s %s: %s", r.Method, r.RequestURI, r.Header.Get("Content-Type"), body))
		s.mu.Unlock()
		if answer != nil {
			answer(w, r)
		}
	}))
	t.Cleanup(s.Close)
	return s
}

// Requests are those that came, each as "METHOD PATH TYPE: BODY", sorted: those that are under way at once overtake
// each other.
func (s *Server) Requests() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(slices.Values(s.got))
}
