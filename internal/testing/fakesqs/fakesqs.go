// Package fakesqs is a queue service for tests: it speaks the JSON protocol of SQS,
// keeps time by time.Now, so that it also works in a synctest bubble, and fails as
// its [Fault]s say. Start at [New]; the operations are in operations.go, what a queue
// does in queue.go.
package fakesqs

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"
)

// Server is the service. All its methods may be called at any time.
type Server struct {
	http   *http.Server
	client *http.Client
	conns  chan net.Conn
	closed chan struct{}
	serves sync.WaitGroup
	once   sync.Once        // closes
	real   *httptest.Server // nil: it is reached in memory only

	mu     sync.Mutex // guards the fields below
	queues map[string]*queue
	faults map[string][]*Fault
	calls  []Call
	wake   chan struct{} // closed and replaced with each change
}

// Call is a request that was made.
type Call struct {
	Op      string
	At      time.Time
	Entries int // of a batch call
	Request string
}

// Fault is how calls of an operation go wrong.
type Fault struct {
	Times   int    // calls; 0 is one, less is all
	Code    string // of the error; "" means none
	Message string
	Status  int               // 0: 400
	Header  map[string]string // of the answer
	Entry   func(body string) bool
	// With Entry, only the entries fail for which it holds, by their messages' bodies.
	Sender    bool          // of entries: their own fault
	Delay     time.Duration // before the call is carried out
	Cut       bool          // the call is carried out, but its answer is lost
	Duplicate bool          // what is received stays visible to others
}

// New makes a service without queues, in memory: [Server.Client] reaches it.
func New() *Server {
	s := &Server{
		conns: make(chan net.Conn), closed: make(chan struct{}),
		queues: map[string]*queue{}, faults: map[string][]*Fault{}, wake: make(chan struct{}),
	}
	s.http = &http.Server{Handler: s, ReadHeaderTimeout: time.Minute, ErrorLog: log.New(io.Discard, "", 0)}
	s.client = &http.Client{Transport: &http.Transport{DialContext: s.dial, MaxIdleConnsPerHost: 64}}
	s.serves.Go(func() { _ = s.http.Serve(listener{s}) })
	return s
}

// Listen lets the service be reached over the network, too, and is its URL.
func (s *Server) Listen() string {
	s.real = httptest.NewServer(s)
	return s.real.URL
}

// Client makes requests to the service, whatever host they name.
func (s *Server) Client() *http.Client { return s.client }

// Close ends all connections.
func (s *Server) Close() { s.once.Do(s.close) }

func (s *Server) close() {
	close(s.closed)
	_ = s.http.Close()
	s.client.CloseIdleConnections()
	if s.real != nil {
		s.real.CloseClientConnections()
		s.real.Close()
	}
	s.serves.Wait()
}

// Fault scripts what goes wrong: faults of one operation, such as "SendMessageBatch",
// happen one after the other.
func (s *Server) Fault(op string, f Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f.Times == 0 {
		f.Times = 1
	}
	s.faults[op] = append(s.faults[op], &f)
}

// Heal removes all faults.
func (s *Server) Heal() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.faults)
}

// Calls are the requests of an operation so far; "" is all.
func (s *Server) Calls(op string) (all []Call) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.calls {
		if op == "" || c.Op == op {
			all = append(all, c)
		}
	}
	return all
}

// ServeHTTP answers one call.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	op := strings.TrimPrefix(r.Header.Get("X-Amz-Target"), "AmazonSQS.")
	var req request
	body, err := io.ReadAll(r.Body) // to its end, or its connection is not used again
	if err == nil {
		err = json.Unmarshal(body, &req)
	}
	if err != nil {
		answer(w, failure{code: "MalformedInput", message: err.Error()}, nil)
		return
	}
	text, _ := json.Marshal(req)
	s.mu.Lock()
	s.calls = append(s.calls, Call{Op: op, At: time.Now(), Entries: len(req.Entries), Request: string(text)})
	f := s.fault(op)
	s.mu.Unlock()
	// A client closes a connection on which an answer arrives before it is done writing: in
	// a bubble the smallest delay is enough for that.
	select {
	case <-time.After(max(1, f.Delay)):
	case <-r.Context().Done():
		return
	}
	for k, v := range f.Header {
		w.Header().Set(k, v)
	}
	if f.Code != "" && f.Entry == nil {
		answer(w, failure{f.Code, f.Message, f.Status}, nil)
		return
	}
	out, err := s.carryOut(r.Context(), op, &req, f)
	if f.Cut {
		panic(http.ErrAbortHandler)
	}
	answer(w, err, out)
}

// fault takes the next fault of an operation; s.mu is held.
func (s *Server) fault(op string) Fault {
	all := s.faults[op]
	if len(all) == 0 {
		return Fault{}
	}
	f := all[0]
	if f.Times--; f.Times == 0 {
		s.faults[op] = all[1:]
	}
	return *f
}

// failure is an error as the service answers it.
type failure struct {
	code, message string
	status        int
}

func (f failure) Error() string { return f.code + ": " + f.message }

func answer(w http.ResponseWriter, err error, out any) {
	w.Header().Set("Content-Type", "application/x-amz-json-1.0")
	if f, ok := err.(failure); ok && f.code != "" { //nolint:errorlint // made here, never wrapped
		w.Header().Set("X-Amzn-Query-Error", f.code+";Sender")
		w.WriteHeader(max(f.status, 400))
		_ = json.NewEncoder(w).Encode(map[string]string{"__type": "com.amazonaws.sqs#" + f.code, "message": f.message})
		return
	}
	_ = json.NewEncoder(w).Encode(out)
}

// changed wakes callers that wait for messages; s.mu is held.
func (s *Server) changed() {
	close(s.wake)
	s.wake = make(chan struct{})
}

// listener takes connections that are made in memory.
type listener struct{ s *Server }

func (l listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.s.conns:
		return c, nil
	case <-l.s.closed:
		return nil, net.ErrClosed
	}
}

func (listener) Close() error   { return nil }
func (listener) Addr() net.Addr { return &net.IPAddr{} }

func (s *Server) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	here, there := net.Pipe()
	select {
	case s.conns <- there:
		return here, nil
	case <-s.closed:
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: fmt.Errorf("connection refused")}
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Start makes a service for a test, in an environment without AWS settings.
func Start(t testing.TB) *Server {
	for name, value := range map[string]string{
		"AWS_CONFIG_FILE": os.DevNull, "AWS_SHARED_CREDENTIALS_FILE": os.DevNull, "AWS_PROFILE": "",
		"AWS_REGION":        "us-east-1",
		"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_ENDPOINT_URL": "http://sqs.test",
		"AWS_EC2_METADATA_DISABLED": "true",
	} {
		t.Setenv(name, value)
	}
	s := New()
	t.Cleanup(s.Close)
	return s
}
