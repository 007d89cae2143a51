// Package fakes3 is S3 in memory for tests, as bad as the real one can be: what goes wrong
// is scripted with [Server.Fault]. What it does when all goes well is gofakes3's.
package fakes3

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"
)

// Bucket is the one that there is.
const Bucket = "bucket"

// Call is a request that has arrived.
type Call struct {
	Method, Key, Query string
	Header             http.Header
}

// Fault is what goes wrong with the requests that match.
type Fault struct {
	Method string // "" is any
	Key    string // that the path contains; "" is any
	Query  string // that the query contains, such as "uploadId"; "" is any
	After  int    // so many matching requests are carried out first
	Times  int    // then so many are not; 0 is one, -1 all

	Status int               // of the answer
	Code   string            // in its body
	Header map[string]string // of the answer
	Cut    int               // with Status 0: the connection ends after so many bytes of the body
	Lose   bool              // with Status 0: the request is carried out, and gets no answer
	Hook   func()            // called before a matching request is carried out, or not
}

// Server is a store with one bucket.
type Server struct {
	URL    string
	Client *s3.Client // to look and to prepare, past the faults
	Close  func()
	Page   int // the most objects in a page of a listing; 0: as asked for

	backend http.Handler
	mu      sync.Mutex // guards the fields below
	faults  []*Fault
	calls   []Call
}

// Start is a server that ends with the test.
func Start(t testing.TB) *Server {
	t.Helper()
	s, err := New(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// New is a server.
func New(ctx context.Context) (*Server, error) {
	s := &Server{backend: gofakes3.New(s3mem.New(), gofakes3.WithLogger(gofakes3.DiscardLog())).Server()}
	front, back := httptest.NewServer(s), httptest.NewServer(s.backend)
	s.URL = front.URL
	network := &http.Client{Transport: &http.Transport{}}
	s.Close = func() {
		network.CloseIdleConnections()
		front.CloseClientConnections()
		front.Close()
		back.Close()
	}
	s.Client = s3.New(
		s3.Options{Region: "us-east-1", UsePathStyle: true, BaseEndpoint: &back.URL, HTTPClient: network,
			Credentials: credentials.NewStaticCredentialsProvider("test", "test", "")},
	)
	_, err := s.Client.CreateBucket(ctx, &s3.CreateBucketInput{Bucket: aws.String(Bucket)})
	return s, err
}

// Fields are those of a component that reach the server, as JSON.
func (s *Server) Fields() string {
	return fmt.Sprintf(`"bucket": %q, "endpoint": %q, "region": "us-east-1", `+
		`"credentials": {"access_key_id": "test", "secret_access_key": "test"}`, Bucket, s.URL)
}

// Isolate keeps the settings of the machine out of the tests of a package. Credentials are
// those that any would be.
func Isolate() {
	for name, value := range map[string]string{"AWS_CONFIG_FILE": os.DevNull, "AWS_SHARED_CREDENTIALS_FILE": os.DevNull,
		"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_PROFILE": "", "AWS_ENDPOINT_URL": "",
		"AWS_EC2_METADATA_DISABLED": "true"} {
		if err := os.Setenv(name, value); err != nil {
			panic(err)
		}
	}
}

// Fault adds a fault.
func (s *Server) Fault(f Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f.Times == 0 {
		f.Times = 1
	}
	s.faults = append(s.faults, &f)
}

// Heal removes all faults.
func (s *Server) Heal() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = nil
}

// Calls are the requests with a method so far; "" is all.
func (s *Server) Calls(method string) (all []Call) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.calls {
		if method == "" || c.Method == method {
			all = append(all, c)
		}
	}
	return all
}

// ServeHTTP answers one request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f := s.note(r)
	if f != nil && f.Hook != nil {
		f.Hook()
	}
	if q := r.URL.Query(); s.Page > 0 && q.Has("list-type") {
		q.Set("max-keys", string(rune('0'+s.Page)))
		r.URL.RawQuery = q.Encode()
	}
	switch {
	case (f == nil || f.Status == 0) && s.exists(r):
		refuse(w, r, http.StatusPreconditionFailed, "PreconditionFailed")
	case f != nil && f.Lose:
		s.backend.ServeHTTP(httptest.NewRecorder(), r)
		panic(http.ErrAbortHandler)
	case f == nil || f.Status == 0 && f.Cut == 0:
		if f != nil {
			for name, value := range f.Header {
				w.Header().Set(name, value)
			}
		}
		s.backend.ServeHTTP(w, r)
	case f.Status == 0:
		s.cut(w, r, f.Cut)
	default:
		for name, value := range f.Header {
			w.Header().Set(name, value)
		}
		refuse(w, r, f.Status, f.Code)
	}
}

func refuse(w http.ResponseWriter, r *http.Request, status int, code string) {
	_, _ = io.Copy(io.Discard, r.Body)
	w.Header().Set("Content-Type", "application/xml")
	w.WriteHeader(status)
	if r.Method != http.MethodHead {
		_, _ = io.WriteString(w, "<Error><Code>"+code+"</Code><Message>scripted</Message></Error>")
	}
}

// exists says whether there is an object that the last call for parts must not replace: gofakes3 does not look.
func (s *Server) exists(r *http.Request) bool {
	if r.Method != http.MethodPost || r.Header.Get("If-None-Match") != "*" {
		return false
	}
	look, answer := httptest.NewRequest(http.MethodHead, r.URL.Path, http.NoBody), httptest.NewRecorder()
	s.backend.ServeHTTP(answer, look)
	return answer.Code == http.StatusOK
}

// note records a request and finds what goes wrong with it.
func (s *Server) note(r *http.Request) *Fault {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := strings.TrimPrefix(strings.TrimPrefix(r.URL.Path, "/"+Bucket), "/")
	s.calls = append(s.calls, Call{r.Method, key, r.URL.RawQuery, r.Header.Clone()})
	for _, f := range s.faults {
		if f.Times == 0 || f.Method != "" && f.Method != r.Method || !strings.Contains(r.URL.Path, f.Key) ||
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
		return f
	}
	return nil
}

// cut carries a request out and ends the connection within its answer.
func (s *Server) cut(w http.ResponseWriter, r *http.Request, after int) {
	answer := httptest.NewRecorder()
	s.backend.ServeHTTP(answer, r)
	for name, values := range answer.Header() {
		w.Header()[name] = values
	}
	w.WriteHeader(answer.Code)
	_, _ = w.Write(answer.Body.Bytes()[:min(after, answer.Body.Len())])
	w.(http.Flusher).Flush()
	panic(http.ErrAbortHandler)
}

// Put writes an object.
func (s *Server) Put(t testing.TB, key, body string) {
	t.Helper()
	s.PutWith(t, key, body, map[string]string{"origin": "test"})
}

// PutWith writes an object with metadata.
func (s *Server) PutWith(t testing.TB, key, body string, metadata map[string]string) {
	t.Helper()
	_, err := s.Client.PutObject(
		context.WithoutCancel(t.Context()),
		&s3.PutObjectInput{Bucket: aws.String(Bucket), Key: &key,
			Body: strings.NewReader(body), Metadata: metadata},
	)
	if err != nil {
		t.Fatalf("put %s: %v", key, err)
	}
}

// Keys are those of all objects, sorted.
func (s *Server) Keys(t testing.TB) (keys []string) {
	t.Helper()
	out, err := s.Client.ListObjectsV2(
		context.WithoutCancel(t.Context()),
		&s3.ListObjectsV2Input{Bucket: aws.String(Bucket)},
	)
	if err != nil {
		t.Fatal(err)
	}
	for i := range out.Contents {
		keys = append(keys, aws.ToString(out.Contents[i].Key))
	}
	slices.Sort(keys)
	return keys
}

// Get is an object's content; ok is false if there is none.
func (s *Server) Get(t testing.TB, key string) (body string, ok bool) {
	t.Helper()
	out, err := s.Client.GetObject(
		context.WithoutCancel(t.Context()),
		&s3.GetObjectInput{Bucket: aws.String(Bucket), Key: &key},
	)
	if _, missing := errors.AsType[*types.NoSuchKey](err); missing {
		return "", false
	}
	if err != nil {
		t.Fatalf("get %s: %v", key, err)
	}
	defer out.Body.Close()
	var b bytes.Buffer
	if _, err := b.ReadFrom(out.Body); err != nil {
		t.Fatal(err)
	}
	return b.String(), true
}

// Metadata is that of an object.
func (s *Server) Metadata(t testing.TB, key string) map[string]string {
	t.Helper()
	out, err := s.Client.HeadObject(context.WithoutCancel(t.Context()), &s3.HeadObjectInput{Bucket: aws.String(Bucket), Key: &key})
	if err != nil {
		t.Fatal(err)
	}
	return out.Metadata
}

// Tags are those of an object.
func (s *Server) Tags(t testing.TB, key string) map[string]string {
	t.Helper()
	out, err := s.Client.GetObjectTagging(context.WithoutCancel(t.Context()),
		&s3.GetObjectTaggingInput{Bucket: aws.String(Bucket), Key: &key})
	if err != nil {
		return nil
	}
	all := map[string]string{}
	for _, tag := range out.TagSet {
		all[aws.ToString(tag.Key)] = aws.ToString(tag.Value)
	}
	return all
}
