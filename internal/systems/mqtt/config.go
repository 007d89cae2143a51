package mqtt

import (
	"net"
	"net/url"
	"slices"
	"time"

	"github.com/flowd-io/flowd/internal/network/tlsconf"
	"github.com/flowd-io/flowd/schema"
)

// Connect configures connections. The configs of components include it inline.
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

// Will is a message that the server publishes when the connection is lost without a DISCONNECT.
type Will struct {
	Topic   string        `yaml:"topic" check:"required" doc:"Topic."`
	Payload string        `yaml:"payload" doc:"Payload."`
	QoS     int           `yaml:"qos" check:"min=0,max=2" doc:"Quality of service: 0, 1 or 2."`
	Retain  bool          `yaml:"retain" doc:"The server retains it as the topic's newest message."`
	Delay   time.Duration `yaml:"delay" check:"min=0s" doc:"How long the server waits for the client to come back before it publishes it; version 5 only."`
}

// Defaults are the default values of [Connect].
var Defaults = Connect{Version: v5, KeepAlive: 30 * time.Second, Timeout: 10 * time.Second}

// The versions of the protocol.
const (
	v5   = "5"
	v311 = "3.1.1"
)

// IsV311 reports whether the version is 3.1.1, which has no properties and few reason codes.
func (c *Connect) IsV311() bool { return c.Version == v311 }

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

// CheckConfig reports URLs and fields that are not valid, and fields that contradict each other.
func (c *Connect) CheckConfig(report func(path, message, remedy string)) {
	secure := 0
	for i, u := range c.URL {
		parsed, err := parse(u.Reveal())
		if err != nil {
			report("url", nth(c.URL, i)+err.message, err.remedy)
		} else if parsed.tls() {
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
		report("client_id", problem, "write another id")
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
	if c.IsV311() && c.Will.Delay > 0 {
		report("will.delay", "version 3.1.1 can't delay a will", "remove it, or write `version: 5`")
	}
}

// address is a parsed URL: where a server is, and the credentials for it.
type address struct {
	scheme, host, port, path string
	user, password           string
}

// ports are the default ports by scheme.
var ports = map[string]string{"mqtt": "1883", "mqtts": "8883", "ws": "80", "wss": "443"}

func (a address) tls() bool        { return a.scheme == "mqtts" || a.scheme == "wss" }
func (a address) webSocket() bool  { return a.scheme == "ws" || a.scheme == "wss" }
func (a address) hostPort() string { return net.JoinHostPort(a.host, a.port) }

// String returns the address as logs and errors show it, without credentials. They would mask the URL itself, as it is a
// secret.
func (a address) String() string { return a.hostPort() + a.path }

// invalid says what is wrong with a URL. It never contains the URL, nor the parser's error, which quotes the URL.
type invalid struct{ message, remedy string }

const example = "write mqtt://user:password@host:1883"

// parse parses the URL of a server.
func parse(text string) (address, *invalid) {
	u, err := url.Parse(text)
	switch {
	case err != nil:
		return address{}, &invalid{"is not a URL",
			example + "; in user and password write / : @ ? # % as %2F %3A %40 %3F %23 %25"}
	case u.Scheme == "tcp":
		return address{}, &invalid{"does not begin with mqtt://", "write mqtt:// instead of tcp://"}
	case slices.Contains([]string{"ssl", "tls", "tcps"}, u.Scheme):
		return address{}, &invalid{"does not begin with mqtts://", "write mqtts:// instead of " + u.Scheme + "://"}
	case ports[u.Scheme] == "":
		return address{}, &invalid{"does not begin with mqtt://, mqtts://, ws:// or wss://", example}
	case u.Hostname() == "":
		return address{}, &invalid{"has no host", example}
	}
	p := address{scheme: u.Scheme, host: u.Hostname(), port: u.Port(), user: u.User.Username()}
	p.password, _ = u.User.Password()
	if p.port == "" {
		p.port = ports[p.scheme]
	}
	switch {
	case u.RawQuery != "" || u.Fragment != "":
		return address{}, &invalid{"has parameters", "remove what follows ? or #, and write fields of the configuration"}
	case p.webSocket():
		if p.path = u.EscapedPath(); p.path == "" {
			p.path = "/mqtt"
		}
	case u.Path != "" && u.Path != "/":
		return address{}, &invalid{"has a path", "remove it: topics are written in the configuration"}
	}
	return p, nil
}

// nth says which URL of several an error is about. It returns "" if there is only one.
func nth(all schema.URLs, i int) string {
	if len(all) < 2 {
		return ""
	}
	return []string{"the first of them ", "the second of them ", "one of them "}[min(i, 2)]
}
