//go:build !no_azure && (!slim || azure)

package secrets

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"sync"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azidentity"
	"github.com/flowd-io/flowd/internal/network/tlsconf"
	"github.com/flowd-io/flowd/internal/systems/azure"
)

// Azure configures the client of Azure Key Vault.
type Azure struct {
	Azure    azure.Config `yaml:",inline"`
	Endpoint string       `yaml:"endpoint" doc:"URL of a vault, with VAULT in place of its name, for other clouds and emulators. By default, it is https://VAULT.vault.azure.net."`
}

// CheckConfig reports an endpoint that is not valid or not safe.
func (c *Azure) CheckConfig(report func(path, message, remedy string)) {
	if c.Endpoint == "" {
		return
	}
	u, err := url.Parse(c.Endpoint)
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil:
		report("endpoint", "is not the URL of a vault", `write "https://VAULT.vault.azure.net"`)
	case u.Scheme == "http" && !tlsconf.Loopback(u.Hostname()):
		report("endpoint", "would get a token in clear text", "write https://")
	}
}

func init() { openers["azure_secret"] = openAzure }

func openAzure(c *Config) (manager, error) {
	m := &keyVault{}
	if c != nil && c.Azure != nil {
		m.conf = *c.Azure
	}
	var err error
	if m.options, m.http, err = m.conf.Azure.Options(); err != nil {
		return nil, refused("correct the files", "TLS of Azure Key Vault: %w", err)
	}
	m.http.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return m, nil
}

const ofAzure = "Azure Key Vault"

// keyVault is a client of Azure Key Vault.
type keyVault struct {
	conf    Azure
	options azcore.ClientOptions
	http    *http.Client

	mu         sync.Mutex // guards the field below
	credential azcore.TokenCredential
}

func (m *keyVault) origin() string { return m.conf.Endpoint }

// validAzure matches VAULT/NAME and VAULT/NAME/VERSION. The vault becomes a part of a host name.
var validAzure = regexp.MustCompile(`^([0-9A-Za-z-]+)/([0-9A-Za-z-]+(?:/[0-9A-Za-z]+)?)$`)

// read returns the current version of a secret, or the one in its name: VAULT/NAME or VAULT/NAME/VERSION.
func (m *keyVault) read(ctx context.Context, name string) (map[string]string, error) {
	ctx, cancel := context.WithTimeout(ctx, mostFetch)
	defer cancel()
	parts := validAzure.FindStringSubmatch(name)
	if parts == nil {
		return nil, refused("write ${azure_secret:VAULT/NAME}", "does not name a vault and a secret in it")
	}
	base := strings.ReplaceAll(cmp.Or(m.conf.Endpoint, "https://VAULT.vault.azure.net"), "VAULT", parts[1])
	req, err := http.NewRequestWithContext(ctx, http.MethodGet,
		strings.TrimRight(base, "/")+"/secrets/"+parts[2]+"?api-version=7.4", nil)
	if err != nil {
		return nil, refused("correct `endpoint`", "the endpoint is not a valid URL")
	}
	_, domain, _ := strings.Cut(req.URL.Hostname(), ".")
	token, err := m.token(ctx, "https://"+domain+"/.default")
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+token)
	res, err := m.http.Do(req)
	body, err := answered(ofAzure, res, err)
	if err != nil {
		return nil, err
	}
	var answer struct{ Value *string }
	if json.Unmarshal(body, &answer) != nil || answer.Value == nil {
		return nil, foreign(ofAzure)
	}
	return fieldsOf(*answer.Value), nil
}

// token returns a token for a scope.
func (m *keyVault) token(ctx context.Context, scope string) (string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.credential == nil {
		found, err := m.conf.Azure.Token(m.options)
		if err != nil {
			return "", lost(ofAzure, err)
		}
		m.credential = found
	}
	t, err := m.credential.GetToken(ctx, policy.TokenRequestOptions{Scopes: []string{scope}})
	if err == nil {
		return t.Token, nil
	}
	failed, answered := errors.AsType[*azidentity.AuthenticationFailedError](err)
	if azure.IsIdentity(err) && (!answered || failed.RawResponse != nil && failed.RawResponse.StatusCode < 500) {
		return "", refused("", "%w", azure.TokenError(err))
	}
	return "", down("check the network", "%w", azure.TokenError(err))
}

func (m *keyVault) close() { m.http.CloseIdleConnections() }
