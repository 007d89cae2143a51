package aws

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/flowd-io/flowd/internal/network/httpx"
	"github.com/flowd-io/flowd/schema"
)

// late is a network on which the write of a request returns only while its answer is being read, after the client has closed
// the body.
type late struct {
	http.RoundTripper
	reads chan struct{} // closed when reading of the answer begins
	wrote chan error    // how the write ended
	once  sync.Once
}

// lateConn blocks the write that ends a JSON document.
type lateConn struct {
	net.Conn
	until chan struct{}
}

func (c lateConn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	if bytes.HasSuffix(p, []byte("}")) {
		<-c.until
	}
	return n, err
}

// lateBody calls first before each Read.
type lateBody struct {
	io.ReadCloser
	first func()
}

func (b lateBody) Read(p []byte) (int, error) {
	b.first()
	return b.ReadCloser.Read(p)
}

func (l *late) RoundTrip(req *http.Request) (*http.Response, error) {
	trace := &httptrace.ClientTrace{WroteRequest: func(i httptrace.WroteRequestInfo) { l.wrote <- i.Err }}
	res, err := l.RoundTripper.RoundTrip(req.WithContext(httptrace.WithClientTrace(req.Context(), trace)))
	if err != nil {
		return nil, err
	}
	res.Body = lateBody{res.Body, func() {
		l.once.Do(func() {
			close(l.reads)
			l.wrote <- <-l.wrote
		})
	}}
	return res, nil
}

// SQS makes messages invisible when it answers. If the client repeated a request because it could not read the whole answer,
// nobody would get the messages until they become visible again.
func TestABodyThatIsClosedEarlyDoesNotEndTheAnswer(t *testing.T) {
	var asked atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		_, _ = io.Copy(io.Discard, r.Body)
		_, _ = w.Write([]byte(`{"QueueUrl": "http://localhost/1/orders"}`))
	}))
	defer server.Close()
	l := &late{reads: make(chan struct{}), wrote: make(chan error, 10)}
	network := &http.Transport{DialContext: func(ctx context.Context, n, addr string) (net.Conn, error) {
		c, err := (&net.Dialer{}).DialContext(ctx, n, addr)
		return lateConn{c, l.reads}, err
	}}
	defer network.CloseIdleConnections()
	l.RoundTripper = network
	c := Config{Endpoint: server.URL, Region: "us-east-1", Credentials: &Credentials{AccessKeyID: "a",
		SecretAccessKey: schema.NewSecret("b")}}
	s, err := c.Open(t.Context(), "", &http.Client{Transport: l})
	if err != nil {
		t.Fatal(err)
	}
	name := "orders"
	if _, err := s.SQS().GetQueueUrl(t.Context(), &sqs.GetQueueUrlInput{QueueName: &name}); err != nil {
		t.Error(err)
	}
	if err := <-l.wrote; err != nil || asked.Load() != 1 {
		t.Errorf("the write of the request ends with %v, want no error; the request is made %d times, want once", err, asked.Load())
	}
}

// Without a limit, an answer could fill the memory of the client.
func TestAnswersAreBounded(t *testing.T) {
	for name, value := range map[string]string{"AWS_CONFIG_FILE": os.DevNull, "AWS_SHARED_CREDENTIALS_FILE": os.DevNull,
		"AWS_ACCESS_KEY_ID": "", "AWS_PROFILE": "", "AWS_ENDPOINT_URL": ""} {
		t.Setenv(name, value)
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/x-amz-json-1.0")
		if strings.HasSuffix(r.URL.Path, "/failed") {
			w.WriteHeader(http.StatusBadRequest)
		}
		_, err := io.WriteString(w, `{"Code": "`)
		for more := strings.Repeat("a", 1<<16); err == nil; {
			_, err = io.WriteString(w, more)
		}
	}))
	defer server.Close()
	c := Config{Endpoint: server.URL, Region: "us-east-1", Credentials: &Credentials{AccessKeyID: "a",
		SecretAccessKey: schema.NewSecret("b")}}
	s, err := c.Open(t.Context(), "", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	_, err = s.SQS().ListQueues(t.Context(), nil)
	wantFailed(t, "an answer", err, "longer than 4 MiB")
	_, err = s.Queues("", server.URL+"/failed").ListQueues(t.Context(), nil)
	wantFailed(t, "an error", err, "400")
	bucket, key := "bucket", "failed"
	buckets := s3.NewFromConfig(s.Config(), func(o *s3.Options) { o.BaseEndpoint, o.UsePathStyle = s.Endpoint(), true })
	_, err = buckets.GetObject(httpx.Streams(t.Context()), &s3.GetObjectInput{Bucket: &bucket, Key: &key})
	wantFailed(t, "an error instead of content", err, "400")
	t.Setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", server.URL)
	c.Credentials = nil
	_, err = c.Open(t.Context(), "", nil)
	wantFailed(t, "credentials", err, "longer than 4 MiB")
}

func wantFailed(t *testing.T, what string, err error, says string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), says) {
		t.Errorf("%s: %v", what, err)
	}
}
