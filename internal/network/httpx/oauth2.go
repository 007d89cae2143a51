package httpx

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"golang.org/x/oauth2"
	"golang.org/x/oauth2/clientcredentials"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/network/call"
	"github.com/flowd-io/flowd/schema"
)

// ClientAuth is the section `auth` of components that make requests.
type ClientAuth struct {
	Auth   `yaml:",inline"`
	OAuth2 *OAuth2 `yaml:"oauth2" oneof:"auth,optional" doc:"Client credentials, for tokens from an OAuth 2.0 server."`
}

// OAuth2 are client credentials.
type OAuth2 struct {
	TokenURL     string             `yaml:"token_url" check:"required,nonempty" doc:"URL of the token endpoint. TLS settings and refused addresses of the requests apply to it, too."`
	ClientID     string             `yaml:"client_id" check:"required,nonempty" doc:"Client id."`
	ClientSecret schema.Secret      `yaml:"client_secret" check:"required,nonempty" doc:"Client secret."`
	Scopes       []string           `yaml:"scopes" doc:"Scopes to request."`
	Audience     string             `yaml:"audience" doc:"Audience to request, if the server requires one."`
	Params       schema.Map[string] `yaml:"params" doc:"Other parameters of the token request, by name."`
	SendAs       string             `yaml:"send_as" check:"oneof=auto|header|params" default:"auto" doc:"How to send the client id and secret: in a header (basic authentication) or in params. auto tries both."`
}

// CheckConfig reports settings with which no token can be requested.
func (o *OAuth2) CheckConfig(report func(path, message, remedy string)) {
	u, err := url.Parse(o.TokenURL)
	if o.TokenURL != "" && (err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "") {
		report("token_url", "is not an HTTP URL", "write a URL such as https://login.example/oauth2/token")
	}
	for name := range o.Params.All() {
		for _, own := range [][2]string{{"client_id", "client_id"}, {"client_secret", "client_secret"}, {"scope", "scopes"}} {
			if name == own[0] {
				report("params", name+" can't be set here", "write `"+own[1]+"` beside params")
			}
		}
		if name == "audience" && o.Audience != "" {
			report("params", "audience is set twice", "remove one")
		}
	}
}

const (
	tokenTimeout = 30 * time.Second // of a request for a token
	tokenAgain   = time.Second      // pause before asking again after a refusal
)

// tokens caches a token, and requests a new one before it expires. It is safe for concurrent use.
type tokens struct {
	cfg     clientcredentials.Config
	client  *http.Client // set by Open
	secrets *schema.Secrets
	turn    chan struct{} // room for one: the goroutine that requests a token

	mu      sync.Mutex // guards the fields below
	token   *oauth2.Token
	refused error // error of the last request
	at      time.Time
	hidden  *schema.Secrets // includes the last token
}

func newTokens(o *OAuth2, secrets *schema.Secrets) *tokens {
	params := url.Values{}
	for name, value := range o.Params.All() {
		params.Set(name, value)
	}
	if o.Audience != "" {
		params.Set("audience", o.Audience)
	}
	style := map[string]oauth2.AuthStyle{"header": oauth2.AuthStyleInHeader, "params": oauth2.AuthStyleInParams}[o.SendAs]
	return &tokens{
		cfg: clientcredentials.Config{ClientID: o.ClientID, ClientSecret: o.ClientSecret.Reveal(), TokenURL: o.TokenURL,
			Scopes: o.Scopes, EndpointParams: params, AuthStyle: style},
		secrets: secrets, turn: make(chan struct{}, 1),
	}
}

// over sets the network for requests. The token survives it.
func (t *tokens) over(network http.RoundTripper) {
	t.client = &http.Client{Transport: Bounded{RoundTripper: network},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

// get returns a token. Concurrent callers share one request. An error holds, since the request that needed the token
// was not sent.
func (t *tokens) get(ctx context.Context) (*oauth2.Token, error) {
	if token, err, known := t.known(); known {
		return token, err
	}
	select {
	case t.turn <- struct{}{}:
		defer func() { <-t.turn }()
	case <-ctx.Done():
		return nil, t.trouble(ctx, ctx.Err())
	}
	if token, err, known := t.known(); known {
		return token, err
	}
	asks, cancel := context.WithTimeout(context.WithValue(ctx, oauth2.HTTPClient, t.client), tokenTimeout)
	defer cancel()
	token, err := t.cfg.Token(asks)
	if err != nil {
		err = t.trouble(asks, err)
		if ctx.Err() != nil { // this caller ran out of time, which says nothing about the server
			return nil, err
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.token, t.refused, t.at = token, err, time.Now()
	if token != nil {
		t.hidden = t.secrets.With(token.AccessToken)
	}
	return token, err
}

// known returns the cached result: a valid token, or a recent refusal.
func (t *tokens) known() (token *oauth2.Token, err error, known bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.token.Valid():
		return t.token, nil, true
	case t.refused != nil && time.Since(t.at) < tokenAgain:
		return nil, t.refused, true
	}
	return nil, nil, false
}

// drop discards a refused token, unless there is a newer one.
func (t *tokens) drop(token *oauth2.Token) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.token == token {
		t.token = nil
	}
}

// secret returns what errors must mask, including the token, which a server may echo.
func (c *Caller) secret() *schema.Secrets {
	if c.tokens == nil {
		return c.secrets
	}
	c.tokens.mu.Lock()
	defer c.tokens.mu.Unlock()
	return cmp.Or(c.tokens.hidden, c.secrets)
}

// trouble says why there is no token: an outage is transient, anything else has class auth. Both hold.
func (t *tokens) trouble(ctx context.Context, err error) error {
	where := "token_url"
	if u, parseErr := url.Parse(t.cfg.TokenURL); parseErr == nil {
		where = "token of " + Shown(u)
	}
	var answer *oauth2.RetrieveError
	var lost *url.Error
	e := &engine.Error{Class: engine.Transient, Holds: true}
	switch {
	case errors.Is(err, context.DeadlineExceeded) || errors.Is(ctx.Err(), context.DeadlineExceeded):
		e.Class, e.Err = engine.Timeout, fmt.Errorf("%s: %w", where, cause(err))
	case errors.As(err, &answer):
		e.Class = classOf(answer.Response.StatusCode)
		if e.Class != engine.Transient {
			e.Class = engine.Auth
		}
		said := strings.TrimSpace(answer.ErrorCode + " " + answer.ErrorDescription)
		if said == "" {
			said = string(answer.Body)
		}
		text := where + ": " + status(answer.Response)
		if head := call.Head([]byte(said), maxQuoted, t.secrets); head != "" {
			text += ": " + head
		}
		if e.Class == engine.Auth {
			text += " (check client_id, client_secret and scopes)"
		}
		e.Err = errors.New(text)
		e.Delay = RetryAfter(answer.Response.Header.Get("Retry-After"), time.Now())
	case errors.As(err, &lost):
		e.Err = fmt.Errorf("%s: %w", where, lost.Err)
		if errors.Is(err, errRefused) {
			e.Class = engine.Auth
		}
	default:
		e.Class = engine.Auth
		e.Err = fmt.Errorf("%s: the response has no token: %s (check token_url)", where,
			call.Head([]byte(strings.TrimPrefix(err.Error(), "oauth2: ")), maxQuoted, t.secrets))
	}
	return e
}

// AboutTokens documents OAuth 2.0 for components that make requests.
//
// #nosec G101 -- it only speaks of credentials
const AboutTokens = `With auth: {oauth2: …}, flowd requests a token from token_url with the client credentials
grant, and another before it expires. If a server rejects a token (401), the request is
made once more, with a new one. While the token server can't be reached or rejects the
credentials, nothing is sent.
`
