package otlp

import (
	"bytes"
	"context"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/formats/compression"
	"github.com/flowd-io/flowd/internal/formats/otlpdocs"
	"github.com/flowd-io/flowd/internal/network/call"
	"github.com/flowd-io/flowd/internal/network/grpcx"
	"github.com/flowd-io/flowd/internal/network/httpx"
	"github.com/flowd-io/flowd/internal/network/otlp"
	"github.com/flowd-io/flowd/schema"
)

const (
	maxAnswer = 1 << 20   // bytes of an answer
	maxQuoted = 300       // bytes of it shown in an error
	maxDelay  = time.Hour // longest delay that is honoured
)

// target is where requests of a signal are sent.
type target struct {
	url, shown string
	grpc, gzip bool
	headers    http.Header
	timeout    time.Duration
	secrets    *schema.Secrets // masked in errors
	network    *http.Transport
	client     *http.Client
}

func newTarget(c otlp.Client, s otlpdocs.Signal, known *schema.Secrets) (*target, error) {
	c, err := c.For(otlp.Signal(s.String()))
	if err != nil {
		return nil, err
	}
	u, err := url.Parse(c.Endpoint)
	if err != nil {
		return nil, err
	}
	conf, err := c.TLS.Config()
	if err != nil {
		return nil, err
	}
	t := &target{grpc: c.Protocol == otlp.GRPC, gzip: c.Compression == "gzip", headers: http.Header{}, timeout: c.Timeout}
	var secret []string
	for name, value := range c.Headers.All() {
		t.headers.Set(name, value.Reveal())
		secret = append(secret, value.Reveal())
	}
	t.secrets = known.With(secret...)
	t.network = httpx.Network(conf)
	if t.grpc {
		u.Path = s.Method()
		t.network.Protocols = new(http.Protocols)
		t.network.Protocols.SetHTTP2(true)
		t.network.Protocols.SetUnencryptedHTTP2(true)
	}
	t.url, t.shown = u.String(), httpx.Shown(u)
	t.client = &http.Client{Transport: httpx.Transport{RoundTripper: httpx.Quiet(t.network)},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	return t, nil
}

// send makes one request.
func (t *target) send(ctx context.Context, body []byte) (p otlpdocs.PartialSuccess, err error) {
	ctx, cancel := context.WithTimeout(ctx, t.timeout)
	defer cancel()
	headers, coding := t.headers.Clone(), ""
	if t.gzip {
		coding = "gzip"
		if body, err = compression.Compress(compression.Gzip, body, 0); err != nil {
			return p, err
		}
	}
	if t.grpc {
		body = grpcx.Prepare(headers, body, coding)
	} else {
		headers.Set("Content-Type", protobuf)
		if coding != "" {
			headers.Set("Content-Encoding", coding)
		}
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, t.url, bytes.NewReader(body))
	if err != nil {
		return p, engine.WithClass(engine.Permanent, err)
	}
	req.Header = headers
	res, err := t.client.Do(req)
	if err != nil {
		return p, httpx.Lost(ctx, req, err)
	}
	defer res.Body.Close()
	answer, err := t.answer(res)
	if err != nil {
		if engine.ErrorOf(err, "").Class == "" {
			err = httpx.Lost(ctx, req, err)
		}
		return p, err
	}
	if p, err = otlpdocs.ParsePartialSuccess(answer); err != nil {
		return p, t.failed(engine.Transient, "", err.Error(), 0)
	}
	return p, nil
}

const protobuf = "application/x-protobuf"

// answer returns the message of an answer. An error without a class says that it could not be read.
func (t *target) answer(res *http.Response) ([]byte, error) {
	kind, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type"))
	if t.grpc && res.StatusCode == http.StatusOK && strings.HasPrefix(kind, grpcx.ContentType) {
		message, s, err := grpcx.Result(res, maxAnswer)
		if err == nil && s.Code() != codes.OK {
			delay, retries := grpcx.RetryInfo(s)
			err = t.failed(classOf(s.Code(), retries), s.Code().String(), s.Message(), min(delay, maxDelay))
		}
		return message, err
	}
	body, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer+1))
	switch {
	case err != nil:
		return nil, err
	case len(body) > maxAnswer:
		return nil, t.failed(engine.Transient, res.Status, "the answer is longer than 1 MiB", 0)
	case t.grpc && res.StatusCode == http.StatusOK:
		return nil, t.failed(engine.Permanent, res.Status, "this is not a gRPC server (check port and protocol)", 0)
	case !t.grpc && res.StatusCode >= 200 && res.StatusCode <= 299:
		if kind != protobuf {
			body = nil // accepted, in words of its own
		}
		return body, nil
	}
	said := string(body)
	if kind == protobuf {
		if s, err := grpcx.ParseStatus(body); err == nil {
			said = s.Message()
		}
	}
	return nil, t.failed(classOfHTTP(res.StatusCode), res.Status, said, httpx.RetryAfter(res.Header.Get("Retry-After"), time.Now()))
}

// failed returns the error of a request that the receiver has refused.
func (t *target) failed(class engine.Class, code, said string, delay time.Duration) error {
	text := t.shown
	if code != "" {
		text += ": " + code
	}
	if said := call.Head([]byte(said), maxQuoted, t.secrets); said != "" {
		text += ": " + said
	}
	e := engine.Errorf(class, "%s", text)
	e.Delay = delay
	return e
}

// classOf is the class of a code. Those that OTLP lists as retryable are transient.
func classOf(c codes.Code, retries bool) engine.Class {
	switch c {
	case codes.Canceled, codes.DeadlineExceeded, codes.Aborted, codes.OutOfRange, codes.Unavailable, codes.DataLoss:
		return engine.Transient
	case codes.ResourceExhausted:
		if retries {
			return engine.Transient
		}
	case codes.Unauthenticated, codes.PermissionDenied:
		return engine.Auth
	}
	return engine.Rejected
}

func classOfHTTP(status int) engine.Class {
	switch status {
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return engine.Transient
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusProxyAuthRequired:
		return engine.Auth
	}
	return engine.Rejected
}
