// Package google calls services of Google Cloud with the credentials that any of Google's tools would find. Start at
// [Config].
package google

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/flowd-io/flowd/engine/cause"
	"github.com/flowd-io/flowd/internal/network/httpx"
	"github.com/flowd-io/flowd/internal/network/tlsconf"
	"github.com/flowd-io/flowd/schema"
	"golang.org/x/oauth2"
	"golang.org/x/oauth2/google"
)

// Config says where a service is and which credentials to use.
type Config struct {
	Endpoint    string         `yaml:"endpoint" doc:"URL of the service, for emulators and private endpoints; by default Google's own."`
	Credentials schema.Secret  `yaml:"credentials" doc:"JSON credentials, such as a service account key or a workload identity federation configuration: the path of a file, or its content. By default those from GOOGLE_APPLICATION_CREDENTIALS, gcloud or the machine."`
	Anonymous   bool           `yaml:"anonymous" doc:"Use no credentials, for public data and emulators."`
	TLS         tlsconf.Client `yaml:"tls" doc:"Certificates to trust and to present."`
}

// ConfigFiles returns the files that the configuration names.
func (c *Config) ConfigFiles() []string {
	if text := c.Credentials.Reveal(); !isJSON(text) {
		return []string{text}
	}
	return nil
}

func isJSON(text string) bool { return strings.HasPrefix(strings.TrimSpace(text), "{") }

// CheckConfig reports contradicting credentials, and an endpoint that is not valid or not safe.
func (c *Config) CheckConfig(report func(path, message, remedy string)) {
	if c.Anonymous && !c.Credentials.IsZero() {
		report("anonymous", "contradicts `credentials`", "remove one of them")
	}
	if c.Endpoint == "" {
		return
	}
	u, err := url.Parse(c.Endpoint)
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		report("endpoint", "is not a service URL", `write "http://localhost:4443" or "https://HOST"`)
	case u.User != nil:
		report("endpoint", "contains credentials", "write them in `credentials`")
	case u.Scheme == "http" && !c.Anonymous && !tlsconf.Loopback(u.Hostname()):
		report("endpoint", "would get a token in clear text", "write https://, or `anonymous: true`")
	}
}

// mostAnswer bounds the bytes of an answer, which the decoder copies several times. It suffices for a page of 1000 long keys.
const mostAnswer = 6 << 20

// callTimeout bounds a request for a token.
const callTimeout = 30 * time.Second

// scope covers all services. IAM limits what a token may do.
const scope = "https://www.googleapis.com/auth/cloud-platform"

// Client makes requests with tokens. It is safe for concurrent use.
type Client struct {
	http *http.Client
	find func() (oauth2.TokenSource, error) // finds the credentials; nil: requests have no tokens

	mu     sync.Mutex         // guards the field below
	source oauth2.TokenSource // nil: must be found again
}

// Open finds the credentials, and gets a first token to check them. The caller closes the client.
func (c *Config) Open(ctx context.Context) (*Client, error) {
	conf, err := c.TLS.Config()
	if err != nil {
		return nil, err
	}
	client := &Client{http: httpx.Direct(httpx.Network(conf), mostAnswer)}
	if c.Anonymous {
		return client, nil
	}
	// Tokens are renewed as long as the client lives, so the end of ctx must not end the requests for them.
	ctx = context.WithValue(context.WithoutCancel(ctx), oauth2.HTTPClient,
		&http.Client{Transport: client.http.Transport, Timeout: callTimeout})
	client.find = func() (oauth2.TokenSource, error) { return c.source(ctx) }
	if client.source, err = client.find(); err == nil {
		_, err = client.source.Token()
	}
	if err != nil {
		client.Close()
		return nil, explain(err)
	}
	return client, nil
}

// source finds the credentials and returns the source of their tokens.
func (c *Config) source(ctx context.Context) (oauth2.TokenSource, error) {
	text := c.Credentials.Reveal()
	if text == "" {
		return google.DefaultTokenSource(ctx, scope)
	}
	raw := []byte(text)
	if !isJSON(text) {
		var err error
		if raw, err = os.ReadFile(text); err != nil { // #nosec G304 -- the configuration names it
			return nil, fmt.Errorf("credentials: %w", err)
		}
	}
	var kind struct{ Type google.CredentialsType }
	if err := json.Unmarshal(raw, &kind); err != nil {
		return nil, errors.New("credentials: not valid JSON")
	}
	found, err := google.CredentialsFromJSONWithType(ctx, raw, kind.Type, scope)
	if err != nil {
		return nil, fmt.Errorf("credentials of type %q: %w", kind.Type, err)
	}
	return found.TokenSource, nil
}

// causes says what errors of credentials mean.
var causes = cause.Table{Code: codeOf, Rows: []cause.Row{
	{If: isDown, Kind: cause.Busy, Remedy: "flowd tries again"},
	{If: func(error) bool { return true }, Kind: cause.Credentials,
		Remedy: "set `credentials` or GOOGLE_APPLICATION_CREDENTIALS, or `anonymous`"},
}}

// isDown reports whether the service that issues tokens is unreachable or overloaded.
func isDown(err error) bool {
	answer, answered := errors.AsType[*oauth2.RetrieveError](err)
	return httpx.IsUnsent(err) ||
		answered && answer.Response != nil && (answer.Response.StatusCode >= 500 || answer.Response.StatusCode == 429)
}

// codeOf returns the error text of the service that issues tokens, without the rest of its answer.
func codeOf(err error) (code, text string) {
	if answer, ok := errors.AsType[*oauth2.RetrieveError](err); ok && !isDown(err) {
		return "", fmt.Sprintf("%s: %s", answer.ErrorCode, answer.ErrorDescription)
	}
	return "", ""
}

func explain(err error) error { return causes.Explain(err, "no token from Google") }

// Do makes a request with a token, and repeats it once with a new token if the service refuses the first. A request with a
// body needs GetBody for that. The caller closes the body of the answer.
func (c *Client) Do(req *http.Request) (*http.Response, error) {
	if c.find == nil {
		return c.http.Do(req)
	}
	for renewed := false; ; renewed = true {
		src, t, err := c.token()
		if err != nil {
			return nil, explain(err)
		}
		t.SetAuthHeader(req)
		res, err := c.http.Do(req)
		if err != nil || res.StatusCode != http.StatusUnauthorized || renewed {
			return res, err
		}
		_ = httpx.Drain(res)
		res.Body.Close()
		c.forget(src)
		if req.GetBody != nil {
			if req.Body, err = req.GetBody(); err != nil {
				return nil, err
			}
		}
	}
}

func (c *Client) token() (oauth2.TokenSource, *oauth2.Token, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.source == nil {
		src, err := c.find()
		if err != nil {
			return nil, nil, err
		}
		c.source = src
	}
	t, err := c.source.Token()
	return c.source, t, err
}

// forget drops a token source, which would return the same refused token again.
func (c *Client) forget(src oauth2.TokenSource) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.source == src {
		c.source = nil
	}
}

// Close closes idle connections. Requests that are still running are not disturbed.
func (c *Client) Close() { c.http.CloseIdleConnections() }
