package httpx

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"golang.org/x/oauth2"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/expr"
	"github.com/flowd-io/flowd/internal/network/tlsconf"
	"github.com/flowd-io/flowd/schema"
)

// Calls are the settings of requests. Components inline it.
type Calls struct {
	URL     expr.Template             `yaml:"url,main" check:"required" doc:"URL to send to. Scheme and host must be literal; data can't change them."`
	Headers schema.Map[expr.Template] `yaml:"headers" doc:"Headers by name."`
	Auth    ClientAuth                `yaml:"auth" doc:"Credentials to send."`
	Expect  []int                     `yaml:"expect" check:"min=200,max=599" doc:"Statuses that count as success; 200 to 299 by default."`
	TLS     tlsconf.Client            `yaml:"tls" doc:"TLS settings other than the system's defaults."`
	Refuse  Refused                   `yaml:"refuse_addresses" doc:"Addresses that are never called, whatever name resolves to them: link_local, loopback, metadata (of clouds), private, and addresses or networks such as 10.0.0.0/8. With a proxy (HTTP_PROXY), only an address in the URL itself is checked."`
}

// reserved are the headers that a request sets itself.
var reserved = []string{"Host", "Content-Length", "Transfer-Encoding", "Connection"}

// CheckConfig reports requests that can't be sent.
func (c *Calls) CheckConfig(report func(path, message, remedy string)) {
	if why, remedy := checkURL(&c.URL); why != "" {
		report("url", why, remedy)
	}
	CheckHeaders(c.Headers, reserved, "request", report)
}

// Free reports whether a header with this name may be sent in addition to the configured ones.
func (c *Calls) Free(name string) bool {
	canonical := http.CanonicalHeaderKey(name)
	if !isToken(name) || slices.Contains(reserved, canonical) || canonical == "Authorization" {
		return false
	}
	for set := range c.Headers.All() {
		if http.CanonicalHeaderKey(set) == canonical {
			return false
		}
	}
	return true
}

// SetTrace adds the headers of the trace that a message belongs to, except those that the configuration sets.
func (c *Calls) SetTrace(header http.Header, meta engine.Meta) {
	for _, name := range engine.TraceContext {
		if v, ok := meta.Get(name); ok && v != nil && c.Free(name) {
			SetHeader(header, name, v)
		}
	}
}

// Caller makes requests. Between Open and Close, it is safe for concurrent use.
type Caller struct {
	cfg     *Calls
	guard   guard
	secrets *schema.Secrets // masked in errors
	network *http.Transport
	client  *http.Client
	tokens  *tokens // nil: no tokens needed
}

// NewCaller makes a caller. c must not change afterwards. secrets are masked in all errors.
func NewCaller(c *Calls, secrets *schema.Secrets) *Caller {
	secrets = secrets.With(unquoted(c)...)
	secrets.AddURL(c.URL.Prefix())
	if b := c.Auth.Basic; b != nil {
		secrets.AddPair(b.User, b.Password.Reveal())
	}
	if o := c.Auth.OAuth2; o != nil {
		secrets.Add(o.ClientSecret.Reveal())
		secrets.AddPair(o.ClientID, o.ClientSecret.Reveal())
	}
	caller := &Caller{cfg: c, guard: newGuard(&c.URL), secrets: secrets}
	if o := c.Auth.OAuth2; o != nil {
		caller.tokens = newTokens(o, secrets)
	}
	return caller
}

// unquoted returns texts that errors must not quote, in addition to known secrets: long values in configured headers
// and URLs, such as API keys.
func unquoted(c *Calls) (all []string) {
	const long = 8
	keep := func(text string) {
		if len(text) >= long {
			all = append(all, text)
		}
	}
	for name, value := range c.Headers.All() {
		canonical := http.CanonicalHeaderKey(name)
		if text, ok := value.Const(); ok && canonical != "Content-Type" && !strings.HasPrefix(canonical, "Accept") {
			keep(text[strings.LastIndexByte(text, ' ')+1:]) // the x in "Bearer x"
		}
	}
	if u, err := url.Parse(c.URL.Prefix()); err == nil {
		for _, values := range u.Query() {
			for _, v := range values {
				keep(v)
			}
		}
	}
	return all
}

// maxRedirects is how many redirects a request follows.
const maxRedirects = 5

// Open reads certificates. The first request connects. With follow, it follows redirects that repeat the request at
// the same origin. Others would carry the request and its credentials to a place that nobody configured.
func (c *Caller) Open(follow bool) error {
	conf, err := c.cfg.TLS.Config()
	if err != nil {
		return err
	}
	dialer, err := c.cfg.Refuse.dialer(&net.Dialer{Timeout: 10 * time.Second}, http.ProxyFromEnvironment,
		c.guard.prefix)
	if err != nil {
		return err
	}
	c.network = Network(conf)
	c.network.DialContext = dialer.DialContext
	c.network.MaxIdleConnsPerHost = math.MaxInt // keeps as many connections as were busy at once
	if o := c.cfg.Auth.OAuth2; o != nil {
		dialer, err := c.cfg.Refuse.dialer(&net.Dialer{Timeout: 10 * time.Second}, http.ProxyFromEnvironment, o.TokenURL)
		if err != nil {
			return fmt.Errorf("token_url: %w", err)
		}
		network := c.network.Clone() // a clone, since its proxy may differ
		network.DialContext = dialer.DialContext
		c.tokens.over(Quiet(network))
	}
	c.client = &http.Client{
		Transport: Transport{Quiet(c.network)},
		CheckRedirect: func(req *http.Request, via []*http.Request) error {
			first := via[0]
			if follow && len(via) <= maxRedirects && req.Method == first.Method &&
				!c.expects(req.Response.StatusCode) &&
				req.URL.Scheme == first.URL.Scheme && req.URL.Host == first.URL.Host {
				return nil
			}
			return http.ErrUseLastResponse
		},
	}
	return nil
}

// Close closes idle connections.
func (c *Caller) Close() {
	c.client.CloseIdleConnections()
	if c.tokens != nil {
		c.tokens.client.CloseIdleConnections()
	}
}

// Target returns the URL and the headers for a message.
func (c *Caller) Target(src expr.Source) (string, http.Header, error) {
	url, err := c.guard.url(src)
	if err != nil {
		return "", nil, err
	}
	header, err := HeaderOf(c.cfg.Headers, src)
	return url, header, err
}

// ContentType guesses the content type of a body.
func ContentType(body []byte) string {
	if len(body) > 0 && (body[0] == '{' || body[0] == '[') {
		return "application/json"
	}
	return "application/octet-stream"
}

// Do makes a request, and returns its answer if the status is expected or one of also. The caller closes the body. An
// error has a class: transient, timeout if ctx has passed its deadline, or what the status says. It holds if nothing
// was sent. A request is only repeated if a token was refused, which may have expired early.
func (c *Caller) Do(ctx context.Context, method, target string, header http.Header, body []byte, also ...int) (
	*http.Response, error) {
	for first := true; ; first = false {
		req, err := http.NewRequestWithContext(ctx, method, target, bytes.NewReader(body))
		if err != nil {
			return nil, engine.Errorf(engine.Rejected, "url %s: %w", c.guard.shown(), cause(err))
		}
		req.Header = header
		token, err := c.authorize(ctx, req)
		if err != nil {
			return nil, err
		}
		res, err := c.client.Do(req)
		if err != nil {
			return nil, Lost(ctx, req, err)
		}
		if c.expects(res.StatusCode) || slices.Contains(also, res.StatusCode) {
			return res, nil
		}
		err = c.refusal(req, res)
		res.Body.Close()
		if token == nil || res.StatusCode != http.StatusUnauthorized {
			return nil, err
		}
		if c.tokens.drop(token); !first {
			return nil, err
		}
	}
}

// authorize adds the credentials to a request. token is the OAuth 2.0 token, if any.
func (c *Caller) authorize(ctx context.Context, req *http.Request) (token *oauth2.Token, err error) {
	if c.tokens == nil {
		c.cfg.Auth.Set(req)
		return nil, nil
	}
	if token, err = c.tokens.get(ctx); err == nil {
		token.SetAuthHeader(req)
	}
	return token, err
}

func (c *Caller) expects(status int) bool {
	if len(c.cfg.Expect) > 0 {
		return slices.Contains(c.cfg.Expect, status)
	}
	return status >= 200 && status < 300
}

// Lost returns the error of a request without a complete answer. A refused address gives class rejected: retries
// would hold up all other messages.
func Lost(ctx context.Context, req *http.Request, err error) error {
	class := engine.Transient
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(ctx.Err(), context.DeadlineExceeded) {
		class = engine.Timeout
	}
	refused := errors.Is(err, errRefused)
	if refused {
		class = engine.Rejected
	}
	e := engine.Errorf(class, "%s: %w", Shown(req.URL), cause(err))
	e.Holds = IsUnsent(err) && !refused
	return e
}

// cause removes the URL from an error, since its query may contain secrets.
func cause(err error) error {
	if e, ok := errors.AsType[*url.Error](err); ok {
		return e.Err
	}
	return err
}
