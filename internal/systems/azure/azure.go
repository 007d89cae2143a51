// Package azure configures clients of Azure's services with the credentials that any Azure tool would find. Start at
// [Config].
package azure

import (
	"errors"
	"net/http"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azidentity"
	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/network/httpx"
	"github.com/flowd-io/flowd/internal/network/tlsconf"
	"github.com/flowd-io/flowd/schema"
)

// Config says which identity to use for services that are not called with a key of their own.
type Config struct {
	Credentials *Credentials   `yaml:"credentials" doc:"Application to authenticate as, instead of the identity from the environment (AZURE_CLIENT_ID, …), a workload identity, the machine's managed identity or the Azure CLI."`
	TLS         tlsconf.Client `yaml:"tls" doc:"Certificates to trust and to present."`
}

// Credentials are the client secret of an application.
type Credentials struct {
	TenantID     string        `yaml:"tenant_id" check:"required,nonempty" doc:"Id of its tenant (directory)."`
	ClientID     string        `yaml:"client_id" check:"required,nonempty" doc:"Client id."`
	ClientSecret schema.Secret `yaml:"client_secret" check:"required,nonempty" doc:"Client secret."`
}

// Options returns the options of a client, and the HTTP client in them. Clients retry a failed call twice, within a few
// seconds.
func (c *Config) Options() (azcore.ClientOptions, *http.Client, error) {
	conf, err := c.TLS.Config()
	if err != nil {
		return azcore.ClientOptions{}, nil, err
	}
	network := httpx.Direct(httpx.Network(conf), httpx.MostAnswer)
	return azcore.ClientOptions{
		Transport: network,
		Retry:     policy.RetryOptions{MaxRetries: 2, RetryDelay: 200 * time.Millisecond, MaxRetryDelay: 2 * time.Second},
		Telemetry: policy.TelemetryOptions{ApplicationID: "flowd"},
	}, network, nil
}

// Token returns the credential that gets tokens. It uses the HTTP client of the options.
func (c *Config) Token(o azcore.ClientOptions) (azcore.TokenCredential, error) {
	var token azcore.TokenCredential
	var err error
	if k := c.Credentials; k != nil {
		token, err = azidentity.NewClientSecretCredential(k.TenantID, k.ClientID, k.ClientSecret.Reveal(),
			&azidentity.ClientSecretCredentialOptions{ClientOptions: o})
	} else {
		token, err = azidentity.NewDefaultAzureCredential(&azidentity.DefaultAzureCredentialOptions{ClientOptions: o})
	}
	if err != nil {
		return nil, TokenError(err)
	}
	return token, nil
}

// IsIdentity reports whether an error says that no token could be obtained.
func IsIdentity(err error) bool {
	_, failed := errors.AsType[*azidentity.AuthenticationFailedError](err)
	var unavailable interface{ NonRetriable() }
	return failed || errors.As(err, &unavailable)
}

// TokenError returns the error of credentials for which Azure issues no token. It shortens the text of cause, which lists
// each kind of credentials that was tried.
func TokenError(cause error) error {
	text := cause.Error()
	if len(text) > 300 {
		text = text[:300] + "…"
	}
	return engine.Errorf(engine.Auth, "no Azure credentials: %s (set a key, `credentials`, or variables such as AZURE_CLIENT_ID)",
		text)
}
