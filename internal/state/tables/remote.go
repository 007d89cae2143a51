package tables

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/network/httpx"
	"github.com/flowd-io/flowd/schema"
)

// remote is the source of a table behind a URL.
type remote struct {
	cfg      *Config
	secrets  *schema.Secrets
	client   *http.Client // made on first use, since that reads certificates
	etag     string       // of the version that was read
	modified string
}

func newRemote(c *Config, secrets *schema.Secrets) *remote {
	if b := c.Auth.Basic; b != nil && secrets != nil {
		secrets.AddPair(b.User, b.Password.Reveal())
	}
	return &remote{cfg: c, secrets: secrets}
}

func (r *remote) pause() time.Duration { return r.cfg.spread() }

// spread returns the pause before the next request, with jitter so that processes do not ask at the same time.
func (c *Config) spread() time.Duration {
	every := c.Interval
	if every == 0 {
		every = 5 * time.Minute
	}
	return every - every/10 + rand.N(every/5)
}

func (r *remote) read(ctx context.Context) ([]byte, error) {
	r.etag, r.modified = "", ""
	return r.changed(ctx)
}

func (r *remote) changed(ctx context.Context) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, r.cfg.Timeout)
	defer cancel()
	if err := r.open(); err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, r.cfg.URL, nil)
	if err != nil {
		return nil, r.lost(ctx, err)
	}
	r.cfg.Auth.Set(req)
	if r.etag != "" {
		req.Header.Set("If-None-Match", r.etag)
	}
	if r.modified != "" {
		req.Header.Set("If-Modified-Since", r.modified)
	}
	res, err := r.client.Do(req)
	if err != nil {
		return nil, r.lost(ctx, err)
	}
	defer res.Body.Close()
	switch {
	case res.StatusCode == http.StatusNotModified && (r.etag != "" || r.modified != ""):
		return nil, nil
	case res.StatusCode != http.StatusOK:
		return nil, r.refusal(res)
	case res.ContentLength > int64(r.cfg.MaxSize):
		return nil, r.cfg.tooLarge()
	}
	var body bytes.Buffer
	body.Grow(int(max(res.ContentLength, 0)) + bytes.MinRead)
	_, err = body.ReadFrom(io.LimitReader(res.Body, int64(r.cfg.MaxSize)+1))
	data := body.Bytes()
	switch {
	case err != nil:
		return nil, r.lost(ctx, err)
	case len(data) > int(r.cfg.MaxSize):
		return nil, r.cfg.tooLarge()
	}
	r.etag, r.modified = res.Header.Get("ETag"), res.Header.Get("Last-Modified")
	return data[:len(data):len(data)], nil
}

const maxRedirects = 5

func (r *remote) open() error {
	if r.client != nil {
		return nil
	}
	conf, err := r.cfg.TLS.Config()
	if err != nil {
		return err
	}
	network := httpx.Network(conf)
	network.DisableKeepAlives = true // the next request is far away
	r.client = &http.Client{
		Transport: network,
		// Another origin must not get the credentials.
		CheckRedirect: func(req *http.Request, via []*http.Request) error {
			if first := via[0].URL; len(via) <= maxRedirects && req.URL.Scheme == first.Scheme && req.URL.Host == first.Host {
				return nil
			}
			return http.ErrUseLastResponse
		},
	}
	return nil
}

// refusal returns the error of an answer other than the table.
func (r *remote) refusal(res *http.Response) error {
	class, remedy := engine.Rejected, ""
	switch {
	case res.StatusCode == http.StatusUnauthorized || res.StatusCode == http.StatusForbidden:
		class, remedy = engine.Auth, " (check `auth`)"
	case res.StatusCode >= 300 && res.StatusCode < 400:
		remedy = " (it leads to another server: write the URL of the file itself)"
	case res.StatusCode >= 500 || res.StatusCode == http.StatusTooManyRequests:
		class = engine.Transient
	}
	return engine.Errorf(class, "%s: the server answered %d %s%s", r.cfg.where(), res.StatusCode,
		http.StatusText(res.StatusCode), remedy)
}

// lost returns the error of a request without a complete answer.
func (r *remote) lost(ctx context.Context, err error) error {
	if e, ok := errors.AsType[*url.Error](err); ok {
		err = e.Err // the URL may contain a key in its query
	}
	if ctx.Err() != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return r.cfg.late()
	}
	return engine.WithClass(engine.Transient, fmt.Errorf("%s: %w", r.cfg.where(), err))
}

func (c *Config) late() error {
	return engine.Errorf(engine.Timeout, "%s: no whole answer within %v (raise `timeout`)", c.where(), c.Timeout)
}

// shownURL removes the query from a URL, since it may contain a key.
func shownURL(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		return "the URL"
	}
	return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}).String()
}

var (
	_ source = (*file)(nil)
	_ source = (*remote)(nil)
	_ source = (*answer)(nil)
	_ source = given(nil)
)
