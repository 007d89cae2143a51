package kafka

import (
	"context"
	"fmt"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/network/httpx"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/oauth"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
	"golang.org/x/oauth2"
	"golang.org/x/oauth2/clientcredentials"
)

// mechanism returns the mechanism with which clients log in. It gets current credentials at each login.
func (c *Connect) mechanism() (sasl.Mechanism, error) {
	s := c.SASL
	switch s.Mechanism {
	case "PLAIN":
		return plain.Auth{User: s.User, Pass: s.Password.Reveal()}.AsMechanism(), nil
	case "SCRAM-SHA-256":
		return scram.Auth{User: s.User, Pass: s.Password.Reveal()}.AsSha256Mechanism(), nil
	case "SCRAM-SHA-512":
		return scram.Auth{User: s.User, Pass: s.Password.Reveal()}.AsSha512Mechanism(), nil
	case "OAUTHBEARER":
		return s.bearer(c), nil
	case "AWS_MSK_IAM":
		return withKeys(s.AWS)
	}
	return nil, fmt.Errorf("unknown mechanism %q", s.Mechanism)
}

// bearer returns the mechanism that logs in with a token. The token is configured, or fetched before the last one expires.
func (s *SASL) bearer(c *Connect) sasl.Mechanism {
	if s.OAuth == nil {
		return oauth.Auth{Token: s.Token.Reveal()}.AsMechanism()
	}
	o := s.OAuth
	extensions := map[string]string{}
	for name, value := range o.Extensions.All() {
		extensions[name] = value
	}
	server := clientcredentials.Config{ClientID: o.ClientID, ClientSecret: o.ClientSecret.Reveal(), TokenURL: o.TokenURL,
		Scopes: o.Scopes}
	client := httpx.Direct(httpx.Network(nil), httpx.MostAnswer)
	client.Timeout = c.Timeout
	tokens := server.TokenSource(context.WithValue(context.Background(), oauth2.HTTPClient, client))
	return oauth.Oauth(func(context.Context) (oauth.Auth, error) {
		t, err := tokens.Token()
		if err != nil {
			return oauth.Auth{}, engine.Errorf(engine.Auth, "sasl.oauth: no token: %w", err)
		}
		return oauth.Auth{Token: t.AccessToken, Extensions: extensions}, nil
	})
}
