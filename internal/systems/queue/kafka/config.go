// Package kafka has what the Kafka components share: [Connect] for their configuration, [Connect.Client] for clients, [Explain]
// for errors, and [Records] and [Headers], which convert between records and metadata.
package kafka

import (
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/network/tlsconf"
	"github.com/flowd-io/flowd/schema"
)

// Connect configures connections. The configs of components include it inline.
type Connect struct {
	Brokers  engine.Names    `yaml:"brokers" check:"required" doc:"Brokers to ask for the others (bootstrap servers), as HOST:PORT; the port is 9092 by default. One that answers is enough."`
	TLS      *tlsconf.Client `yaml:"tls" doc:"Encrypt connections; {} trusts what the system trusts."`
	SASL     *SASL           `yaml:"sasl" doc:"How to log in."`
	ClientID string          `yaml:"client_id" doc:"Name that the brokers' logs, metrics and quotas show; PIPELINE.COMPONENT by default."`
	Timeout  time.Duration   `yaml:"timeout" check:"min=1s,max=10m" doc:"How long to wait for a connection, and for a response to a request, beyond what the request itself may take."`
}

// Defaults are the default values of [Connect].
var Defaults = Connect{Timeout: 10 * time.Second}

// SASL says how to log in.
type SASL struct {
	Mechanism string        `yaml:"mechanism" check:"required,oneof=PLAIN|SCRAM-SHA-256|SCRAM-SHA-512|OAUTHBEARER|AWS_MSK_IAM" doc:"Mechanism, one that the brokers' listener allows."`
	User      string        `yaml:"user" doc:"User, for PLAIN and SCRAM."`
	Password  schema.Secret `yaml:"password" doc:"Password, for PLAIN and SCRAM."`
	Token     schema.Secret `yaml:"token" doc:"Token for OAUTHBEARER; or use oauth, which fetches one."`
	OAuth     *OAuth        `yaml:"oauth" doc:"Where OAUTHBEARER gets its tokens, with the client credentials grant."`
	AWS       *keys         `yaml:"aws" doc:"Credentials for AWS_MSK_IAM; by default those of the environment, the profile or the machine."`
}

// OAuth says how to get tokens from an authorization server.
type OAuth struct {
	TokenURL     string             `yaml:"token_url" check:"required,nonempty" doc:"URL of the token endpoint."`
	ClientID     string             `yaml:"client_id" check:"required,nonempty" doc:"Client id."`
	ClientSecret schema.Secret      `yaml:"client_secret" check:"required,nonempty" doc:"Client secret."`
	Scopes       []string           `yaml:"scopes" doc:"Scopes to request."`
	Extensions   schema.Map[string] `yaml:"extensions" doc:"SASL extensions that the brokers expect, such as logicalCluster."`
}

// Words returns what users of other systems may write, and what to write instead.
func (*Connect) Words() map[string]string {
	return map[string]string{
		"addresses": "write `brokers`", "seed_brokers": "write `brokers`", "bootstrap_servers": "write `brokers`",
		"hosts": "write `brokers`", "url": "write `brokers`", "topic": "write `topics`",
		"consumer_group": "write `group`", "group_id": "write `group`", "client": "write `client_id`",
		"start_from_oldest": "write `start: earliest` or `start: latest`",
		"start_offset":      "write `start`", "auto_offset_reset": "write `start`",
		"rack_id": "write `rack`", "fetch_max_bytes": "write `fetch: {max_bytes: …}`",
		"commit_period": "write `commit_interval`", "checkpoint_limit": "write `engine.max_replay`",
		"regexp_topics": "remove it, and write a pattern such as orders-* in `topics`",
		"max_in_flight": "write `concurrency` beside the type",
	}
}

// CheckConfig reports addresses that are not valid, and credentials that do not match the mechanism.
func (c *Connect) CheckConfig(report func(path, message, remedy string)) {
	for _, b := range c.Brokers {
		if problem := checkBroker(b); problem != "" {
			report("brokers", strconv.Quote(b)+" "+problem, "write HOST:PORT, such as kafka-1:9092")
		}
	}
	if len(c.Brokers) == 0 {
		report("brokers", "is empty", "name a broker as HOST:PORT")
	}
	if c.SASL != nil {
		c.SASL.check(c.TLS != nil, report)
	}
}

// checkBroker returns what is wrong with the address of a broker, or "".
func checkBroker(address string) string {
	if strings.Contains(address, "://") {
		return "is a URL"
	}
	host, port, err := net.SplitHostPort(withPort(address))
	if err != nil || host == "" || strings.ContainsAny(address, " ,/@") {
		return "is not a valid address"
	}
	if n, err := strconv.Atoi(port); err != nil || n < 1 || n > 65535 {
		return "has an invalid port"
	}
	return ""
}

// withPort adds the default port to an address without a port.
func withPort(address string) string {
	if strings.HasSuffix(address, "]") || strings.Count(address, ":") != 1 && !strings.Contains(address, "]:") {
		return net.JoinHostPort(strings.Trim(address, "[]"), "9092")
	}
	return address
}

// CheckTopic returns an error if a topic name is not valid.
func CheckTopic(topic string) error {
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-"
	if len(topic) == 0 || len(topic) > 249 || topic == "." || topic == ".." || strings.Trim(topic, letters) != "" {
		return fmt.Errorf("%.60q is not a valid topic name", topic)
	}
	return nil
}

// Cluster returns a name of the cluster that is made of its configured brokers.
func (c *Connect) Cluster() string {
	return "kafka " + strings.Join(slices.Sorted(slices.Values(c.seeds())), ",")
}

// seeds returns the addresses of the bootstrap servers.
func (c *Connect) seeds() []string {
	all := make([]string, len(c.Brokers))
	for i, b := range c.Brokers {
		all[i] = withPort(b)
	}
	return all
}

// check reports credentials that do not match the mechanism.
func (s *SASL) check(tls bool, report func(path, message, remedy string)) {
	byPassword := s.Mechanism == "PLAIN" || strings.HasPrefix(s.Mechanism, "SCRAM")
	switch {
	case byPassword && (s.User == "" || s.Password.IsZero()):
		report("sasl.user", s.Mechanism+" needs a user and a password", "set both")
	case !byPassword && (s.User != "" || !s.Password.IsZero()):
		report("sasl.user", s.Mechanism+" takes neither user nor password", "remove them, or choose another mechanism")
	}
	oauth := s.Mechanism == "OAUTHBEARER"
	switch {
	case oauth && s.Token.IsZero() == (s.OAuth == nil):
		report("sasl.token", "OAUTHBEARER needs either token or oauth", "write one of them")
	case !oauth && (!s.Token.IsZero() || s.OAuth != nil):
		report("sasl.token", s.Mechanism+" takes no token", "remove token and oauth, or write `mechanism: OAUTHBEARER`")
	}
	if s.AWS != nil && s.Mechanism != "AWS_MSK_IAM" {
		report("sasl.aws", s.Mechanism+" takes no AWS credentials", "remove it, or write `mechanism: AWS_MSK_IAM`")
	}
	if !tls && s.Mechanism == "AWS_MSK_IAM" {
		report("sasl.mechanism", "AWS_MSK_IAM works over TLS only", "write `tls: {}`")
	}
}
