package service

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/flowd-io/flowd/internal/network/tlsconf"
	"github.com/flowd-io/flowd/internal/operations/history"
)

// Client calls the listener of [Start].
type Client struct {
	url   url.URL
	http  *http.Client
	token token
	lack  error // why there is no token
}

// Target says which flowd a [Client] calls.
type Target struct {
	Addr      string // HOST:PORT, or https://HOST:PORT with TLS
	TokenFile string // "": where this user's listener creates it
	CA        string // PEM file of certificates to trust instead of the system's
	Cert, Key string // PEM files of the certificate to present, or ""
}

// NewClient makes a client, without a request. An unreadable token is only an error once a request needs it.
func NewClient(t Target) (*Client, error) {
	u, err := parseAddr(t.Addr)
	if err != nil {
		return nil, err
	}
	conf, err := tlsconf.OfFlags(t.CA, t.Cert, t.Key)
	if err != nil {
		return nil, err
	}
	c := &Client{url: u, http: httpClient(conf)}
	c.token, c.lack = clientToken(t.TokenFile, u.Port())
	return c, nil
}

// httpClient connects directly: the token must not reach a proxy, or a server that an answer redirects to.
func httpClient(conf *tls.Config) *http.Client {
	return &http.Client{
		Transport:     &http.Transport{TLSClientConfig: conf, DisableKeepAlives: true, MaxResponseHeaderBytes: maxHeader},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Timeout:       answerTimeout + 5*time.Second,
	}
}

func parseAddr(addr string) (url.URL, error) {
	scheme, hostport, found := strings.Cut(addr, "://")
	if !found {
		scheme, hostport = "http", addr
	}
	host, port, err := net.SplitHostPort(strings.TrimSuffix(hostport, "/"))
	if err != nil || port == "" || strings.ContainsAny(host, "/?#@") || scheme != "http" && scheme != "https" {
		return url.URL{},
			fmt.Errorf("%q is not a valid address of a flowd (write 127.0.0.1:9600 or https://flowd.example:9600)",
				addr)
	}
	if host == "" {
		host = "127.0.0.1"
	}
	if scheme == "http" && !tlsconf.Loopback(host) {
		return url.URL{}, fmt.Errorf("the token would be sent to %s in clear text (write https://%s)", host,
			net.JoinHostPort(host, port))
	}
	return url.URL{Scheme: scheme, Host: net.JoinHostPort(host, port)}, nil
}

func clientToken(file, port string) (token, error) {
	if file != "" {
		return readToken(file, ownedByUs)
	}
	places := tokenPlaces(port)
	for _, place := range places {
		if t, err := readToken(place, ownedByUs); !errors.Is(err, fs.ErrNotExist) {
			return t, err
		}
	}
	if os.Geteuid() == 0 { // the superuser operates the unit of another user
		anyone := func(fs.FileInfo) bool { return true }
		if t, err := readToken(filepath.Join(unitDir, "token-"+port), anyone); !errors.Is(err, fs.ErrNotExist) {
			return t, err
		}
	}
	return token{}, fmt.Errorf("there is no token for port %s in %s", port, strings.Join(places, " or "))
}

// State requests the state of the process.
func (c *Client) State(ctx context.Context) (State, error) {
	var st State
	err := c.ask(ctx, http.MethodGet, "/api/v1/state", nil, &st)
	return st, err
}

// Health requests "live" or "ready".
func (c *Client) Health(ctx context.Context, what string) (Health, error) {
	var h Health
	err := c.ask(ctx, http.MethodGet, "/"+what, nil, &h)
	return h, err
}

// Pause pauses a pipeline, or all for "". Like the methods below, it returns the names of the pipelines that it
// applied to.
func (c *Client) Pause(ctx context.Context, pipeline string) ([]string, error) {
	return c.change(ctx, "pause", onPipeline{text(pipeline)})
}

// Resume makes inputs read again.
func (c *Client) Resume(ctx context.Context, pipeline string) ([]string, error) {
	return c.change(ctx, "resume", onPipeline{text(pipeline)})
}

// Drain finishes what is in flight.
func (c *Client) Drain(ctx context.Context, pipeline string) ([]string, error) {
	return c.change(ctx, "drain", onPipeline{text(pipeline)})
}

// Reload reads the pipeline files again.
func (c *Client) Reload(ctx context.Context) ([]string, error) {
	return c.change(ctx, "reload", struct{}{})
}

// SetLimit changes a limit. pipeline may be "" if name identifies the limit.
func (c *Client) SetLimit(ctx context.Context, pipeline, name string, l Limit) ([]string, error) {
	return c.change(ctx, "limit", limitRequest{text(pipeline), text(name), l.Messages, text(l.Per.String()), l.Burst,
		l.AtOnce})
}

func (c *Client) change(ctx context.Context, name string, body any) ([]string, error) {
	var d done
	err := c.ask(ctx, http.MethodPost, "/api/v1/"+name, body, &d)
	return d.Done, err
}

// maxAnswer bounds the answer, in bytes.
const maxAnswer = 64 << 20

func (c *Client) ask(ctx context.Context, method, path string, body, into any) error {
	var send []byte
	if body != nil {
		var err error
		if send, err = json.Marshal(body); err != nil {
			return err
		}
	}
	res, answer, err := c.send(ctx, c.http, method, path, nil, jsonType, send)
	if err != nil {
		return err
	}
	return c.understand(res, answer, into)
}

// send sends a request to an escaped path, with a body of a media type; nil: there is none. It returns the response, which
// is closed, and its body.
func (c *Client) send(ctx context.Context, by *http.Client, method, path string, query url.Values, media string,
	body []byte) (*http.Response, []byte, error) {
	res, err := c.open(ctx, by, method, path, query, media, body)
	if err != nil {
		return nil, nil, err
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	if err != nil {
		return nil, nil, fmt.Errorf("the response of %s: %w", c.url.Host, err)
	}
	return res, answer, nil
}

// open is send, but leaves it to the caller to read and close the body of the response.
func (c *Client) open(ctx context.Context, by *http.Client, method, path string, query url.Values, media string,
	body []byte) (*http.Response, error) {
	to := c.url
	plain, err := url.PathUnescape(path)
	if err != nil {
		return nil, err
	}
	to.Path, to.RawPath, to.RawQuery = plain, path, query.Encode()
	r, err := http.NewRequestWithContext(ctx, method, to.String(), bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	if body != nil {
		r.Header.Set("Content-Type", media)
	}
	if c.lack == nil {
		r.Header.Set("Authorization", "Bearer "+c.token.text)
	}
	res, err := by.Do(r)
	if err != nil {
		return nil, c.unreached(err)
	}
	return res, nil
}

// Profile requests a profile by its name in net/http/pprof, such as heap. It is recorded for some seconds; 0: a CPU
// profile for 30, and others as they are at the moment.
func (c *Client) Profile(ctx context.Context, name string, seconds int) ([]byte, error) {
	query := url.Values{}
	if seconds > 0 {
		query.Set("seconds", strconv.Itoa(seconds))
	}
	patient := *c.http
	patient.Timeout += time.Duration(max(seconds, 30)) * time.Second
	res, answer, err := c.send(ctx, &patient, http.MethodGet, "/debug/pprof/"+name, query, "", nil)
	switch {
	case err != nil:
		return nil, err
	case res.StatusCode == http.StatusOK:
		return answer, nil
	case res.Header.Get("X-Go-Pprof") != "": // an error of net/http/pprof
		return nil, errors.New(strings.TrimSpace(shorten(string(answer))))
	}
	return nil, c.understand(res, answer, nil)
}

// Trace requests what the process remembers of an id.
func (c *Client) Trace(ctx context.Context, id string) (t history.Trace, err error) {
	res, answer, err := c.send(ctx, c.http, http.MethodGet, "/api/v1/trace", url.Values{"id": {id}}, "", nil)
	if err != nil {
		return t, err
	}
	return t, c.understand(res, answer, &t)
}

// Tap requests a stream of messages, a JSON object per line. The query is that of package tap. The caller closes the stream.
func (c *Client) Tap(ctx context.Context, query url.Values) (io.ReadCloser, error) {
	patient := *c.http
	patient.Timeout = 0
	res, err := c.open(ctx, &patient, http.MethodGet, "/api/v1/tap", query, "", nil)
	if err != nil || res.StatusCode == http.StatusOK {
		if err != nil {
			return nil, err
		}
		return res.Body, nil
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	if err != nil {
		return nil, fmt.Errorf("the response of %s: %w", c.url.Host, err)
	}
	return nil, c.understand(res, answer, nil)
}

func (c *Client) understand(res *http.Response, answer []byte, into any) error {
	h, isHealth := into.(*Health)
	if res.StatusCode == http.StatusOK || res.StatusCode == http.StatusCreated || isHealth && res.StatusCode == http.StatusServiceUnavailable {
		if json.Unmarshal(answer, into) == nil && (!isHealth || h.Status != "") {
			return nil
		}
	}
	var no refusal
	switch {
	case json.Unmarshal(answer, &no) != nil || no.Error == "":
		first, _, _ := strings.Cut(shorten(string(answer)), "\n")
		return fmt.Errorf(
			"what listens at %s does not answer like flowd: %s %s (give the address of service.listen, with https:// if it has TLS)", c.url.Host,
			res.Status, first)
	case res.StatusCode == http.StatusUnauthorized && c.lack != nil:
		return fmt.Errorf("%w (run this as the user that flowd runs as, or give the file of service.token_file)",
			c.lack)
	case res.StatusCode == http.StatusUnauthorized:
		return fmt.Errorf("%s does not accept the token in %s (flowd logs the right file when it starts)",
			c.url.Host, c.token.file)
	case len(no.Problems) > 0:
		return &InvalidError{res.StatusCode, no.Error, no.Problems}
	}
	return errors.New(no.Error)
}

// unreached explains why there was no answer.
func (c *Client) unreached(err error) error {
	if broken, ok := errors.AsType[*url.Error](err); ok {
		if broken.Timeout() {
			return fmt.Errorf("%s does not answer (see flowd's log)", c.url.Host)
		}
		err = broken.Err
	}
	var cert *tls.CertificateVerificationError
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Errorf("nothing listens at %s (set service.listen in a pipeline file, or give another address)",
			c.url.Host)
	case errors.As(err, &cert):
		return fmt.Errorf("%s: %w (give the certificates to trust)", c.url.Host, err)
	}
	return fmt.Errorf("%s: %w", c.url.Host, err)
}
