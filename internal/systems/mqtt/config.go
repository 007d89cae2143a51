package mqtt

import (
	"net"
	"net/url"
	"slices"
	"time"

	"github.com/flowd-io/flowd/internal/network/tlsconf"
	"github.com/flowd-io/flowd/schema"
)

// Connect is what the configuration says of connections. Components have it inline.
type Connect struct {
	URL       schema.URLs    `yaml:"url" check:"required,nonempty" doc:"URL of the server: mqtt://user:password@host:1883, mqtts:// for TLS (port 8883), ws://host:80/mqtt or wss://. In a list, the next is tried when one does not answer."`
	Version   string         `yaml:"version" check:"oneof=5|3.1.1" doc:"Version of the protocol."`
	ClientID  string         `yaml:"client_id" doc:"Name by which the server knows this client. A second client with the same one ends the connection of the first."`
	User      string         `yaml:"user" doc:"User, instead of the URL's."`
	Password  schema.Secret  `yaml:"password" doc:"Password, instead of the URL's."`
	TLS       tlsconf.Client `yaml:"tls" doc:"TLS settings other than the system's defaults; for mqtts:// and wss:// URLs."`
	ALPN      string         `yaml:"alpn" doc:"Application protocol that the TLS handshake asks for, such as x-amzn-mqtt-ca for AWS IoT on port 443."`
	KeepAlive time.Duration  `yaml:"keep_alive" check:"min=1s,max=18h" doc:"Each side considers the other dead when it has heard nothing for one and a half times this long. Servers may shorten it."`
	Timeout   time.Duration  `yaml:"timeout" check:"min=1s" doc:"How long the server may take to accept this client, or to answer a subscription."`
	Will      *Will          `yaml:"will" doc:"Message that the server publishes if this client disconnects without notice, as in a crash."`
}

// Will is what the server publishes in place of a client that has gone.
type Will struct {
	Topic   string        `yaml:"topic" check:"required" doc:"Topic."`
	Payload string        `yaml:"payload" doc:"Payload."`
	QoS     int           `yaml:"qos" check:"min=0,max=2" doc:"Quality of service: 0, 1 or 2."`
	Retain  bool          `yaml:"retain" doc:"The server retains it as the topic's newest message."`
	Delay   time.Duration `yaml:"delay" check:"min=0s" doc:"How long the server waits for the client to come back before it publishes it; version 5 only."`
}

// Defaults are those of [Connect].
var Defaults = Connect{Version: v5, KeepAlive: 30 * time.Second, Timeout: 10 * time.Second}

// The versions of the protocol.
const (
	v5   = "5"
	v311 = "3.1.1"
)

// Old says that the version is 3.1.1, which has no properties and no reasons.
func (c *Connect) Old() bool { return c.Version == v311 }

// Words returns what users of other systems may write, and what to write instead.
func (*Connect) Words() map[string]string {
	return map[string]string{
		"urls": "write `url`", "host": "write `url`", "broker": "write `url`", "server": "write `url`",
		"brokers": "write `url`", "servers": "write `url`", "address": "write `url`",
		"username": "write `user`", "clientid": "write `client_id`", "keepalive": "write `keep_alive`",
		"connect_timeout": "write `timeout`", "protocol_version": "write `version`",
		"max_in_flight": "write `concurrency` beside the type", "dynamic_client_id_suffix": "write `client_id`",
		"tls_enabled": "write mqtts:// in `url`",
	}
}

// CheckConfig reports what can't work.
func (c *Connect) CheckConfig(report func(path, message, remedy string)) {
	secure := 0
	for i, u := range c.URL {
		at, err := parse(u.Reveal())
		if err != nil {
			report("url", nth(c.URL, i)+err.message, err.remedy)
		} else if at.tls() {
			secure++
		}
	}
	switch {
	case c.User == "" && !c.Password.IsZero():
		report("password", "a password needs a user", "write `user`, too")
	case secure == 0 && c.TLS != (tlsconf.Client{}):
		report("tls", "the URL does not ask for TLS", "write mqtts:// (usually on port 8883), or remove `tls`")
	case secure == 0 && c.ALPN != "":
		report("alpn", "the URL does not ask for TLS", "write mqtts://, or remove `alpn`")
	}
	if problem := badText(c.ClientID); problem != "" {
		report("client_id", problem, "write another")
	}
	if c.KeepAlive%time.Second != 0 {
		report("keep_alive", "has a fraction of a second", "write whole seconds: MQTT counts in seconds")
	}
	if c.Will == nil {
		return
	}
	if problem := BadTopic(c.Will.Topic); problem != "" {
		report("will.topic", problem, "write a name without + and #, such as clients/flowd")
	}
	if len(c.Will.Payload) > longest {
		report("will.payload", "is longer than 65535 bytes", "shorten it")
	}
	if c.Will.Delay%time.Second != 0 {
		report("will.delay", "has a fraction of a second", "write whole seconds: MQTT counts in seconds")
	}
	if c.Old() && c.Will.Delay > 0 {
		report("will.delay", "version 3.1.1 can't delay a will", "remove it, or write `version: 5`")
	}
}

// place is where a server is, and as whom to connect.
type place struct {
	scheme, host, port, path string
	user, password           string
}

// ports are those of the schemes when a URL has none.
var ports = map[string]string{"mqtt": "1883", "mqtts": "8883", "ws": "80", "wss": "443"}

func (p place) tls() bool  { return p.scheme == "mqtts" || p.scheme == "wss" }
func (p place) web() bool  { return p.scheme == "ws" || p.scheme == "wss" }
func (p place) at() string { return net.JoinHostPort(p.host, p.port) }

// String is where, as logs and errors show it: a whole URL would be masked, as it is a secret.
func (p place) String() string { return p.at() + p.path }

// invalid is what is wrong with a URL. It never shows the URL, nor what a parser says of it: that quotes it.
type invalid struct{ message, remedy string }

const example = "write mqtt://user:password@host:1883"

// parse reads a URL without any I/O.
func parse(text string) (place, *invalid) {
	u, err := url.Parse(text)
	switch {
	case err != nil:
		return place{}, &invalid{"is not a URL",
			example + "; in user and password write / : @ ? # % as %2F %3A %40 %3F %23 %25"}
	case u.Scheme == "tcp":
		return place{}, &invalid{"does not begin with mqtt://", "write mqtt:// instead of tcp://"}
	case slices.Contains([]string{"ssl", "tls", "tcps"}, u.Scheme):
		return place{}, &invalid{"does not begin with mqtts://", "write mqtts:// instead of " + u.Scheme + "://"}
	case ports[u.Scheme] == "":
		return place{}, &invalid{"does not begin with mqtt://, mqtts://, ws:// or wss://", example}
	case u.Hostname() == "":
		return place{}, &invalid{"has no host", example}
	}
	p := place{scheme: u.Scheme, host: u.Hostname(), port: u.Port(), user: u.User.Username()}
	p.password, _ = u.User.Password()
	if p.port == "" {
		p.port = ports[p.scheme]
	}
	switch {
	case u.RawQuery != "" || u.Fragment != "":
		return place{}, &invalid{"has parameters", "remove what follows ? or #, and write fields of the configuration"}
	case p.web():
		if p.path = u.EscapedPath(); p.path == "" {
			p.path = "/mqtt"
		}
	case u.Path != "" && u.Path != "/":
		return place{}, &invalid{"has a path", "remove it: topics are written in the configuration"}
	}
	return p, nil
}

func nth(all schema.URLs, i int) string {
	if len(all) < 2 {
		return ""
	}
	return []string{"the first of them ", "the second of them ", "one of them "}[min(i, 2)]
}
