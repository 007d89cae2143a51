// Package azure is the [objects.Store] for Azure Blob Storage. Start at [Config.Open].
package azure

import (
	"cmp"
	"context"
	"net/http"
	"net/url"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"
	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/network/tlsconf"
	"github.com/flowd-io/flowd/internal/systems/azure"
	"github.com/flowd-io/flowd/internal/systems/objects"
	"github.com/flowd-io/flowd/schema"
)

// Config says where a container is, and how to get in: by a key, a shared access signature, a
// connection string with one of these, or else with a token.
type Config struct {
	Container        string        `yaml:"container" check:"required,nonempty" doc:"Name of the container."`
	Account          string        `yaml:"account" doc:"Name of the storage account."`
	Endpoint         string        `yaml:"endpoint" doc:"URL of the account's blob service, for emulators and other clouds; by default https://ACCOUNT.blob.core.windows.net."`
	AccountKey       schema.Secret `yaml:"account_key" doc:"Key of the account."`
	SASToken         schema.Secret `yaml:"sas_token" doc:"Shared access signature, for the container or the account."`
	ConnectionString schema.Secret `yaml:"connection_string" doc:"Connection string, instead of account, endpoint and key."`
	Anonymous        bool          `yaml:"anonymous" doc:"Use no credentials, for public containers."`
	azure.Config     `yaml:",inline"`
}

// CheckConfig reports what can't work.
func (c *Config) CheckConfig(report func(path, message, remedy string)) {
	if strings.ContainsAny(c.Container, "/ \t\n?#%") {
		report("container", "is not the name of a container", "write what follows the name as `prefix` or `key`")
	}
	ways := 0
	for _, set := range []bool{!c.AccountKey.IsZero(), !c.SASToken.IsZero(), !c.ConnectionString.IsZero(),
		c.Credentials != nil, c.Anonymous} {
		if set {
			ways++
		}
	}
	if ways > 1 {
		report("", "has several credentials",
			"write one of `account_key`, `sas_token`, `connection_string`, `credentials` and `anonymous`")
	}
	c.checkPlace(report)
}

func (c *Config) checkPlace(report func(path, message, remedy string)) {
	u, err := url.Parse(c.Endpoint)
	switch {
	case !c.ConnectionString.IsZero():
		if c.Endpoint != "" || c.Account != "" {
			report("connection_string", "says already which account it is", "remove `account` and `endpoint`")
		}
	case c.Endpoint == "" && c.Account == "":
		report("account", "required", "write `account`, `endpoint` or `connection_string`")
	case c.Account == "" && !c.AccountKey.IsZero():
		report("account", "required with a key", "write the account's name")
	case c.Endpoint == "":
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		report("endpoint", "is not a service URL", `write "https://HOST" or "http://localhost:10000/devstoreaccount1"`)
	case u.User != nil || u.RawQuery != "":
		report("endpoint", "contains credentials", "write them as `sas_token` or `account_key`")
	case u.Scheme == "http" && !c.SASToken.IsZero() && !tlsconf.Loopback(u.Hostname()):
		report("endpoint", "would get `sas_token` in clear text", "write https://")
	}
}

// Words returns what users of other systems may write, and what to write instead.
func Words() map[string]string {
	words := objects.Words()
	for name, remedy := range map[string]string{
		"bucket": "write `container`", "storage_account": "write `account`", "storage_access_key": "write `account_key`",
		"storage_connection_string": "write `connection_string`", "storage_sas_token": "write `sas_token`",
		"blob_name": "write `key`", "storage_class": "write `access_tier`", "encryption": "write `encryption_scope`",
	} {
		words[name] = remedy
	}
	return words
}

// Writing is how blobs are written. The zero Writing leaves all to the account.
type Writing struct {
	Tier     string
	Scope    string // of encryption
	Checksum string // md5, crc64; none and "" are none
}

// Store is a container.
type Store struct {
	Writing
	name    string
	client  *container.Client
	network *http.Client
}

var _ objects.Store = (*Store)(nil)

// Open finds the credentials, and that the container exists.
func (c *Config) Open(ctx context.Context, w Writing) (*Store, error) {
	options, network, err := c.Options()
	if err != nil {
		return nil, err
	}
	s := &Store{Writing: w, name: c.Container, network: network}
	if s.client, err = c.connect(&container.ClientOptions{ClientOptions: options}); err == nil {
		err = s.Probe(ctx)
	}
	if err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

func (c *Config) connect(o *container.ClientOptions) (*container.Client, error) {
	at := strings.TrimRight(cmp.Or(c.Endpoint, "https://"+c.Account+".blob.core.windows.net"), "/") + "/" + c.Container
	switch {
	case !c.ConnectionString.IsZero():
		client, err := container.NewClientFromConnectionString(c.ConnectionString.Reveal(), c.Container, o)
		if err != nil { // which quotes it
			return nil, engine.Errorf(engine.Permanent,
				"the connection string can't be read (copy it from the account's access keys)")
		}
		return client, nil
	case !c.AccountKey.IsZero():
		key, err := container.NewSharedKeyCredential(c.Account, c.AccountKey.Reveal())
		if err != nil {
			return nil, engine.Errorf(engine.Permanent, "the account key is not base64 (copy it from the account's access keys)")
		}
		return container.NewClientWithSharedKeyCredential(at, key, o)
	case !c.SASToken.IsZero():
		return container.NewClientWithNoCredential(at+"?"+strings.TrimPrefix(c.SASToken.Reveal(), "?"), o)
	case c.Anonymous:
		return container.NewClientWithNoCredential(at, o)
	}
	token, err := c.Token(o.ClientOptions)
	if err != nil {
		return nil, err
	}
	return container.NewClient(at, token, o)
}

// Close drops idle connections.
func (s *Store) Close() { s.network.CloseIdleConnections() }
