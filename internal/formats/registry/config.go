// Package registry is the client of schema registries in `resources.registries`, and is shared by formats whose
// payloads name their schema. Start at [Config] and [Compiled].
package registry

import (
	"fmt"
	"net/url"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/network/httpx"
	"github.com/flowd-io/flowd/internal/network/tlsconf"
	"github.com/flowd-io/flowd/schema"
)

// Config configures one registry.
type Config struct {
	URL      URLs           `yaml:"url,main" check:"required" doc:"URL of a registry with Confluent's API: http://host:8081. Of a list, the next one is used when one is unreachable."`
	Auth     httpx.Auth     `yaml:"auth" doc:"Credentials to send."`
	TLS      tlsconf.Client `yaml:"tls" doc:"TLS settings other than the system's defaults."`
	Timeout  time.Duration  `yaml:"timeout" check:"min=1ms,max=5m" default:"5s" doc:"Time limit for one request."`
	Refresh  time.Duration  `yaml:"refresh" check:"min=1s" default:"5m" doc:"How long the newest version of a subject is used before the registry is asked for a newer one."`
	AskAgain time.Duration  `yaml:"ask_again" check:"min=1ms" default:"10s" doc:"How long to wait before asking again for an id, a subject or a schema that the registry does not have, or refuses."`
}

// Words are words of other systems, with what to write instead.
func (*Config) Words() map[string]string {
	return map[string]string{
		"urls": "write `url`, which takes a list, too", "address": "write `url`", "endpoint": "write `url`",
		"username": "write `auth: {basic: {user: …, password: …}}`", "password": "write `auth: {basic: {user: …, password: …}}`",
		"basic_auth": "write `auth: {basic: {user: …, password: …}}`", "token": "write `auth: {bearer: …}`",
		"ttl": "write `refresh` or `ask_again`", "cache_duration": "write `refresh` or `ask_again`",
	}
}

// CheckConfig reports invalid URLs.
func (c *Config) CheckConfig(report func(path, message, remedy string)) {
	for i, text := range c.URL {
		problem := func(message, remedy string) {
			if len(c.URL) > 1 {
				message = fmt.Sprintf("number %d %s", i+1, message)
			}
			report("url", message, remedy)
		}
		u, err := url.Parse(text)
		switch {
		case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
			problem("is not an http or https URL", "write one such as http://registry:8081")
		case u.User != nil:
			problem("contains credentials, which would be shown wherever the URL is", "write them under `auth`")
		case u.RawQuery != "" || u.Fragment != "":
			problem("has a query, which a registry's URL can't have", "write one such as http://registry:8081")
		}
	}
}

// URLs is one or more URLs.
type URLs []string

// UnmarshalConfig decodes a URL or a list of URLs.
func (u *URLs) UnmarshalConfig(d *schema.Decoder, n *schema.Node) {
	if n.Kind == schema.ListNode {
		d.Decode(n, (*[]string)(u))
		return
	}
	if text, ok := d.Text(n); ok {
		*u = URLs{text}
	}
}

// DescribeConfig describes a text or a list of them.
func (u *URLs) DescribeConfig() *schema.Type {
	return schema.AnyOf("URL or list of URLs", "", []string(nil))
}

// New makes the registry. There is no I/O before Open.
func (c Config) New(env engine.Env) engine.SchemaRegistry {
	return &Registry{cfg: c, secrets: env.Secrets, memo: newMemo()}
}
