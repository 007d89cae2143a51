// Package fakegcs is Google Cloud Storage in memory for tests, with the server that gives
// tokens for it. What goes wrong is scripted with [Server.Fault].
package fakegcs

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"

	"github.com/flowd-io/flowd/internal/testing/faults"
)

// Bucket is the one that there is.
const Bucket = "bucket"

// Fault is what goes wrong.
type Fault = faults.Fault

// Object is what is stored.
type Object struct {
	Body                                       string
	Generation                                 int64
	ContentType, ContentEncoding, StorageClass string
	Metadata                                   map[string]string
	Query                                      string // of the request that wrote it
}

// Server is a service with one bucket.
type Server struct {
	faults.Script
	URL  string
	Page int // the most objects in a page of a listing; 0: all

	mu      sync.Mutex // guards the fields below
	objects map[string]*Object
	uploads map[string]*upload
	clock   int64 // of generations
	token   int   // the number of the token that is valid; 0: none is asked for

	finished map[string]*Object // by the id of the upload
}

// Start is a server that ends with the test. It takes requests without tokens.
func Start(t testing.TB) *Server {
	t.Helper()
	s := &Server{objects: map[string]*Object{}, uploads: map[string]*upload{}, clock: 1_700_000_000_000_000,
		finished: map[string]*Object{}}
	front := httptest.NewServer(s)
	s.URL = front.URL
	t.Cleanup(func() {
		front.CloseClientConnections()
		front.Close()
	})
	return s
}

// Credentials are those of a user whose tokens are made here. From then on, requests need one.
func (s *Server) Credentials() string {
	s.Expire()
	return fmt.Sprintf(`{"type": "authorized_user", "client_id": "id", "client_secret": "s", "refresh_token": "refresh-secret",
		"token_uri": %q}`, s.URL+"/token")
}

// Expire makes a token invalid that was given, although it seems to be valid for longer.
func (s *Server) Expire() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.token++
}

// Put writes an object.
func (s *Server) Put(key, body string) {
	s.PutWith(key, body, map[string]string{"origin": "test"})
}

// PutWith writes an object with metadata.
func (s *Server) PutWith(key, body string, metadata map[string]string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.put(key, &Object{Body: body, ContentType: "text/plain", Metadata: metadata})
}

// Metadata is that of the object with a key.
func (s *Server) Metadata(key string) map[string]string { return s.Get(key).Metadata }

func (s *Server) put(key string, o *Object) {
	s.clock++
	o.Generation = s.clock
	s.objects[key] = o
}

// Get is an object; nil if there is none.
func (s *Server) Get(key string) *Object {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.objects[key]
}

// Body is the content of the object with a key; "" where there is none.
func (s *Server) Body(key string) string {
	if o := s.Get(key); o != nil {
		return o.Body
	}
	return ""
}

// Keys are those of all objects, sorted.
func (s *Server) Keys() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(maps.Keys(s.objects))
}

// Uploads is how many resumable uploads are neither finished nor cancelled.
func (s *Server) Uploads() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.uploads)
}

// ServeHTTP answers one request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	s.Serve(w, r, func(w http.ResponseWriter) {
		s.mu.Lock()
		defer s.mu.Unlock()
		switch {
		case r.URL.Path == "/token":
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprintf(w, `{"access_token": "token-%d", "token_type": "Bearer", "expires_in": 3600}`, s.token)
		case s.token > 0 && r.Header.Get("Authorization") != fmt.Sprintf("Bearer token-%d", s.token):
			fail(w, http.StatusUnauthorized, "authError", "Invalid Credentials")
		default:
			s.serve(w, r, body)
		}
	}, func(w http.ResponseWriter, status int, reason string) { fail(w, status, reason, "scripted") })
}

func fail(w http.ResponseWriter, status int, reason, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]any{"error": map[string]any{"code": status, "message": message,
		"errors": []map[string]any{{"reason": reason, "message": message}}}})
}
