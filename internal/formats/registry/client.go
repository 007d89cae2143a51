package registry

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"

	"github.com/twmb/franz-go/pkg/sr"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/network/call"
	"github.com/flowd-io/flowd/internal/network/httpx"
	"github.com/flowd-io/flowd/schema"
)

const (
	maxSchema = 4 << 20 // bytes
	maxQuoted = 300     // bytes quoted from a registry
)

// client makes requests and classifies errors.
type client struct {
	api     *sr.Client
	http    *http.Client
	shown   string
	secrets *schema.Secrets
}

func newClient(c *Config, secrets *schema.Secrets) (*client, error) {
	conf, err := c.TLS.Config()
	if err != nil {
		return nil, err
	}
	secrets = secrets.With()
	if b := c.Auth.Basic; b != nil {
		secrets.AddPair(b.User, b.Password.Reveal())
	}
	own := httpx.Direct(httpx.Network(conf), maxSchema)
	own.Timeout = c.Timeout
	api, err := sr.NewClient(sr.URLs(c.URL...), sr.HTTPClient(own), sr.UserAgent("flowd"),
		sr.PreReq(func(req *http.Request) error {
			c.Auth.Set(req)
			return nil
		}))
	return &client{api: api, http: own, shown: "registry " + c.URL[0], secrets: secrets}, err
}

// isUnknown reports whether a registry does not know something. A 404 of another server does not count.
func isUnknown(err error) bool {
	said, ok := errors.AsType[*sr.ResponseError](err)
	return ok && sr.IsNotFoundError(said.ErrorCode)
}

// failure returns the error of a request. class applies to answers that would be the same again. An error with a
// class keeps it.
func (c *client) failure(err error, class engine.Class, format string, args ...any) error {
	if _, ok := errors.AsType[*engine.Error](err); ok {
		return err
	}
	what := fmt.Sprintf(format, args...)
	if isUnknown(err) {
		return engine.Errorf(class, "%s: does not know %s", c.shown, what)
	}
	if long, ok := errors.AsType[*httpx.TooLong](err); ok {
		return engine.Errorf(class, "%s: %s: %w", c.shown, what, long)
	}
	if said, ok := errors.AsType[*sr.ResponseError](err); ok {
		text := call.Head([]byte(said.Error()), maxQuoted, c.secrets)
		return engine.Errorf(classOf(said, class), "%s: %s: %d %s: %s", c.shown, what, said.StatusCode,
			http.StatusText(said.StatusCode), text)
	}
	return c.lost(err, what)
}

// lost returns the error of a request without an answer, or with one that is not a registry's.
func (c *client) lost(err error, what string) error {
	failed := engine.Errorf(engine.Transient, "%s: %s: %w", c.shown, what, c.cause(err))
	var timeout net.Error
	if errors.Is(err, context.DeadlineExceeded) || errors.As(err, &timeout) && timeout.Timeout() {
		failed.Class = engine.Timeout
	}
	failed.Holds = httpx.IsUnsent(err)
	return failed
}

func (c *client) cause(err error) error {
	if e, ok := errors.AsType[*url.Error](err); ok {
		return e.Err
	}
	return fmt.Errorf("the response is not that of a schema registry: %s", call.Head([]byte(err.Error()), maxQuoted, c.secrets))
}

// classOf returns the class of an answer. One without a registry's error code comes from a proxy or another server,
// and says nothing about the schema.
func classOf(said *sr.ResponseError, class engine.Class) engine.Class {
	switch said.StatusCode {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusProxyAuthRequired:
		return engine.Auth
	case http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests:
		return engine.Transient
	}
	if said.ErrorCode == 0 || said.StatusCode >= 500 {
		return engine.Transient
	}
	return class
}
