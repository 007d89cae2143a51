// Package fakeazure is Azure Blob Storage in memory for tests. It believes any credentials.
// What goes wrong is scripted with [Server.Fault].
package fakeazure

import (
	"encoding/xml"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/flowd-io/flowd/internal/testing/faults"
)

// Container is the one that there is.
const Container = "container"

// Fault is what goes wrong.
type Fault = faults.Fault

// Blob is what is stored.
type Blob struct {
	Body   string
	ETag   string
	MD5    string      // of the content, in base64; "" is not known
	Header http.Header // of the request that wrote it
	Tags   map[string]string

	copying string // from which blob, until someone looks
}

// Server is an account with one container.
type Server struct {
	faults.Script
	URL  string // of the account
	Page int    // the most blobs in a page of a listing; 0: all

	mu     sync.Mutex // guards the fields below
	blobs  map[string]*Blob
	blocks map[string]map[string]string // by blob and id
	clock  int
}

// Start is a server that ends with the test.
func Start(t testing.TB) *Server {
	t.Helper()
	s := &Server{blobs: map[string]*Blob{}, blocks: map[string]map[string]string{}}
	front := httptest.NewServer(s)
	s.URL = front.URL + "/account"
	t.Cleanup(func() {
		front.CloseClientConnections()
		front.Close()
	})
	return s
}

// Put writes a blob.
func (s *Server) Put(key, body string) {
	s.PutWith(key, body, map[string]string{"origin": "test"})
}

// PutWith writes a blob with metadata.
func (s *Server) PutWith(key, body string, metadata map[string]string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := &Blob{Body: body, Header: http.Header{}}
	for name, value := range metadata {
		b.Header.Set(metadataPrefix+name, value)
	}
	s.put(key, b)
}

const metadataPrefix = "X-Ms-Meta-"

// Metadata is that of the blob with a key.
func (s *Server) Metadata(key string) map[string]string {
	all := map[string]string{}
	for name, values := range s.Get(key).Header {
		if name, ok := strings.CutPrefix(name, metadataPrefix); ok {
			all[strings.ToLower(name)] = values[0]
		}
	}
	return all
}

func (s *Server) put(key string, b *Blob) {
	s.clock++
	b.ETag = fmt.Sprintf(`"0x%X"`, 0x8DA0000+s.clock)
	s.blobs[key] = b
	delete(s.blocks, key)
}

// Get is a blob; nil if there is none.
func (s *Server) Get(key string) *Blob {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.blobs[key]
}

// Body is the content of the blob with a key; "" where there is none.
func (s *Server) Body(key string) string {
	if o := s.Get(key); o != nil {
		return o.Body
	}
	return ""
}

// Keys are the names of all blobs, sorted.
func (s *Server) Keys() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(maps.Keys(s.blobs))
}

// ServeHTTP answers one request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	s.Serve(w, r, func(w http.ResponseWriter) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.serve(w, r, string(body))
	}, fail)
}

func fail(w http.ResponseWriter, status int, code string) {
	w.Header().Set("X-Ms-Error-Code", code)
	w.Header().Set("Content-Type", "application/xml")
	w.WriteHeader(status)
	fmt.Fprintf(w, "<Error><Code>%s</Code><Message>scripted</Message></Error>", code)
}

type item struct {
	Name       string
	Properties struct {
		Etag          string
		LastModified  string `xml:"Last-Modified"`
		ContentLength int    `xml:"Content-Length"`
	}
}

const modified = "Sun, 01 Mar 2026 12:00:00 GMT"

func (s *Server) list(w http.ResponseWriter, prefix, marker string) {
	var page struct {
		XMLName    xml.Name `xml:"EnumerationResults"`
		Items      []item   `xml:"Blobs>Blob"`
		NextMarker string
	}
	for _, key := range slices.Sorted(maps.Keys(s.blobs)) {
		if !strings.HasPrefix(key, prefix) || key <= marker {
			continue
		}
		if s.Page > 0 && len(page.Items) == s.Page {
			page.NextMarker = page.Items[s.Page-1].Name
			break
		}
		i := item{Name: key}
		i.Properties.Etag = strings.Trim(s.blobs[key].ETag, `"`)
		i.Properties.LastModified, i.Properties.ContentLength = modified, len(s.blobs[key].Body)
		page.Items = append(page.Items, i)
	}
	w.Header().Set("Content-Type", "application/xml")
	_ = xml.NewEncoder(w).Encode(page)
}
