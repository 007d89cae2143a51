// Package amqp has what the RabbitMQ components share: [Connect] for their configuration, [Dialer] for connections,
// [Describer] and [Fill], which convert between properties and metadata, and [Declare].
package amqp

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/network/tlsconf"
	"github.com/flowd-io/flowd/schema"
	amqp091 "github.com/rabbitmq/amqp091-go"
)

// Connect configures connections. The configs of components include it inline.
type Connect struct {
	URL       schema.URLs    `yaml:"url" check:"required" doc:"URL of RabbitMQ: amqp://user:password@host:5672/vhost, or amqps:// for TLS. In a list, the next is tried when one does not answer."`
	VHost     string         `yaml:"vhost" doc:"Virtual host, instead of the URL's."`
	User      string         `yaml:"user" doc:"User, instead of the URL's."`
	Password  schema.Secret  `yaml:"password" doc:"Password, instead of the URL's."`
	TLS       tlsconf.Client `yaml:"tls" doc:"TLS settings other than the system's defaults; for amqps:// URLs."`
	Heartbeat time.Duration  `yaml:"heartbeat" check:"min=1s,max=10m" doc:"A connection is considered lost when nothing has been received for three times this long."`
	Name      string         `yaml:"name" doc:"Name of the connection that RabbitMQ's own tools show; PIPELINE.COMPONENT by default."`
}

// Defaults are the default values of [Connect].
var Defaults = Connect{Heartbeat: 10 * time.Second}

// Words returns what users of other systems may write, and what to write instead.
func (*Connect) Words() map[string]string {
	return map[string]string{
		"urls": "write `url`", "uri": "write `url`", "host": "write `url`", "hosts": "write `url`",
		"address": "write `url`", "connection": "write `url`",
		"username": "write `user`", "virtual_host": "write `vhost`", "connection_name": "write `name`",
	}
}

// CheckConfig reports URLs and fields that are not valid, and fields that contradict each other.
func (c *Connect) CheckConfig(report func(path, message, remedy string)) {
	secure := 0
	for i, u := range c.URL {
		uri, err := parse(u.Reveal())
		if err != nil {
			report("url", nth(c.URL, i)+err.Error(), remedyOf(err))
			continue
		}
		if uri.Scheme == "amqps" {
			secure++
		}
	}
	switch tls := c.TLS; {
	case (c.User == "") != c.Password.IsZero():
		report("user", "user and password must be set together", "write both, or both in the URL")
	case secure == 0 && tls != (tlsconf.Client{}):
		report("tls", "the URL does not ask for TLS", "write amqps:// (usually on port 5671), or remove `tls`")
	case len(c.Name) > 255:
		report("name", "is longer than 255 bytes", "shorten it")
	}
}

// nth says which URL of several an error is about. It returns "" if there is only one.
func nth(all schema.URLs, i int) string {
	if len(all) < 2 {
		return ""
	}
	return fmt.Sprintf("number %d of them ", i+1)
}

// invalid says what is wrong with a URL. It never contains the URL, nor the parser's error, which quotes the URL.
type invalid struct{ message, remedy string }

func (e invalid) Error() string { return e.message }

func remedyOf(err error) string {
	e, _ := errors.AsType[invalid](err)
	return e.remedy
}

// params are the query parameters that a URL may have.
var params = map[string]bool{"heartbeat": true, "connection_timeout": true, "channel_max": true, "auth_mechanism": true}

// parse parses the URL of a broker.
func parse(text string) (uri amqp091.URI, err error) {
	scheme, rest, found := strings.Cut(text, "://")
	if !found || scheme != "amqp" && scheme != "amqps" {
		return uri, invalid{"does not begin with amqp:// or amqps://", "write amqp://user:password@host:5672/vhost"}
	}
	if uri, err = amqp091.ParseURI(text); err != nil {
		return uri, invalid{"is not an AMQP URL",
			"write amqp://user:password@host:5672/vhost; in user, password and vhost write / : @ ? # % as %2F %3A %40 %3F %23 %25"}
	}
	authority, query, _ := strings.Cut(rest, "?")
	authority, _, _ = strings.Cut(authority, "/")
	if at := strings.LastIndexByte(authority, '@'); authority[at+1:] == "" || strings.HasPrefix(authority[at+1:], ":") {
		return uri, invalid{"has no host", "write amqp://user:password@host:5672/vhost"}
	}
	if uri.Port < 1 || uri.Port > 65535 {
		return uri, invalid{"has an invalid port", "write one from 1 to 65535"}
	}
	for part := range strings.SplitSeq(query, "&") {
		name, _, _ := strings.Cut(part, "=")
		switch {
		case name == "" || params[name]:
		case uri.CertFile != "" || uri.KeyFile != "" || uri.CACertFile != "" || uri.ServerName != "":
			return uri, invalid{"has TLS parameters", "write the section `tls`"}
		default:
			return uri, invalid{"has an unknown parameter",
				"write heartbeat, connection_timeout, channel_max or auth_mechanism"}
		}
	}
	for _, m := range uri.AuthMechanism {
		if m = strings.ToUpper(m); m != "PLAIN" && m != "AMQPLAIN" && m != "EXTERNAL" {
			return uri, invalid{"has an unknown auth_mechanism", "write plain, amqplain or external"}
		}
	}
	return uri, nil
}

// uri returns the URL with index i, combined with the other fields of the configuration.
func (c *Connect) uri(i int) (amqp091.URI, error) {
	uri, err := parse(c.URL[i].Reveal())
	if err != nil {
		return uri, engine.Errorf(engine.Permanent, "url: %w (%s)", err, remedyOf(err))
	}
	if c.VHost != "" {
		uri.Vhost = c.VHost
	}
	if c.User != "" {
		uri.Username, uri.Password = c.User, c.Password.Reveal()
	}
	return uri, nil
}

func hostPort(uri amqp091.URI) string { return net.JoinHostPort(uri.Host, strconv.Itoa(uri.Port)) }

// shown returns a URL as logs and errors show it, without user and password.
func shown(uri amqp091.URI) string {
	return uri.Scheme + "://" + hostPort(uri) + "/" + strings.TrimPrefix(uri.Vhost, "/")
}
