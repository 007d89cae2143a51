// Package nats has what the NATS components share: [Connect] for their configuration, [Connect.Dial] for connections, [Publisher]
// for messages that a stream confirms, [Declare] for streams, [Explain] for errors, and [Arrivals] for metadata. It also implements
// `flowd queue` for NATS.
package nats

import (
	"fmt"
	"net"
	"net/url"
	"strings"
	"time"

	"github.com/flowd-io/flowd/internal/components/controls"
	"github.com/flowd-io/flowd/internal/network/tlsconf"
	"github.com/flowd-io/flowd/schema"
)

// Connect configures connections. The configs of components include it inline.
type Connect struct {
	URL         schema.URLs     `yaml:"url" doc:"URL of a NATS server, such as nats://localhost:4222, tls:// for TLS, ws:// or wss:// for WebSockets. In a list, the next is tried when one does not answer."`
	Embedded    Embedded        `yaml:"embedded" doc:"A server in this process instead of url: true, or its settings. All components with the same store share it."`
	User        string          `yaml:"user" doc:"User, instead of the URL's."`
	Password    schema.Secret   `yaml:"password" doc:"Password, instead of the URL's."`
	Token       schema.Secret   `yaml:"token" doc:"Token to log in with."`
	NKey        string          `yaml:"nkey" doc:"File with the seed of an NKey to log in with. It is read at each connection."`
	Credentials string          `yaml:"credentials" doc:"File with credentials (a JWT and its seed, *.creds) to log in with. It is read at each connection."`
	TLS         *tlsconf.Client `yaml:"tls" doc:"Encrypt connections; {} trusts what the system trusts."`
	Name        string          `yaml:"name" doc:"Name of the connection that the server's own tools show; PIPELINE.COMPONENT by default."`
	Timeout     time.Duration   `yaml:"timeout" check:"min=100ms,max=10m" doc:"How long to wait for a connection, and for the response to a request."`
}

// Defaults are the default values of [Connect].
var Defaults = Connect{Timeout: 10 * time.Second}

// Embedded has the settings of a server in this process. It is nil if the server runs elsewhere.
type Embedded struct{ *Server }

// Server configures a server in this process.
type Server struct {
	Store  string        `yaml:"store" check:"nonempty" default:"flowd-nats" doc:"Folder in which the server keeps streams. Only one process can use it at a time."`
	Listen string        `yaml:"listen" doc:"Address at which other processes can connect, such as 127.0.0.1:4222; by default only this process can. An address other than loopback requires token."`
	Token  schema.Secret `yaml:"token" doc:"Token that other processes must present."`
	Sync   bool          `yaml:"sync" doc:"Write each message to disk before it is confirmed. Without it a crash of the machine, not of flowd, can lose the last second."`
}

// UnmarshalConfig decodes true, false or the settings.
func (e *Embedded) UnmarshalConfig(d *schema.Decoder, n *schema.Node) {
	if n.Kind != schema.MapNode {
		var on bool
		if d.Decode(n, &on); !on {
			return
		}
		n = &schema.Node{Kind: schema.MapNode, Pos: n.Pos}
	}
	e.Server = &Server{}
	d.Decode(n, e.Server)
}

// DescribeConfig describes true or settings.
func (*Embedded) DescribeConfig() *schema.Type {
	return schema.AnyOf("true, or settings of the server", false, Server{})
}

// ConfigFiles returns the files that the configuration names.
func (c Connect) ConfigFiles() []string { return []string{c.NKey, c.Credentials} }

// Words returns what users of other systems may write, and what to write instead.
func (*Connect) Words() map[string]string {
	return map[string]string{
		"urls": "write `url`", "servers": "write `url`", "server": "write `url`", "address": "write `url`",
		"host": "write `url`", "username": "write `user`", "pass": "write `password`", "creds": "write `credentials`",
		"auth":             "write `user` and `password`, `token`, `nkey` or `credentials`",
		"user_credentials": "write `credentials`", "user_credentials_file": "write `credentials`",
		"nkey_file": "write `nkey`", "seed": "write `nkey`: the file with it", "queue": "write `queue_group`",
		"subjects": "write `subject`", "durable": "write `consumer`", "bind": "remove it: a consumer is used as it is",
	}
}

// CheckConfig reports fields that are not valid, and fields that contradict each other.
func (c *Connect) CheckConfig(report func(path, message, remedy string)) {
	ways := 0
	for _, set := range []bool{c.User != "", !c.Token.IsZero(), c.NKey != "", c.Credentials != ""} {
		if set {
			ways++
		}
	}
	switch {
	case len(c.URL) == 0 && c.Embedded.Server == nil:
		report("url", "required", "write nats://HOST:4222, or `embedded: true` for a server in this process")
	case len(c.URL) > 0 && c.Embedded.Server != nil:
		report("embedded", "the server runs either in this process or elsewhere", "remove `url` or `embedded`")
	case c.Embedded.Server != nil && (ways > 0 || c.TLS != nil):
		report("embedded", "a server in this process needs neither login nor encryption",
			"remove user, token, nkey, credentials and tls")
	case ways > 1:
		report("user", "there is more than one way to log in", "leave one of user, token, nkey and credentials")
	case (c.User == "") != c.Password.IsZero():
		report("user", "user and password must be set together", "write both, or both in the URL")
	}
	for i, u := range c.URL {
		if problem := checkURL(u.Reveal()); problem != "" {
			if len(c.URL) > 1 {
				problem = fmt.Sprintf("number %d of them %s", i+1, problem)
			}
			report("url", problem, "write nats://HOST:4222, or tls://HOST:4222")
		}
	}
	if e := c.Embedded.Server; e != nil && e.Listen != "" {
		host, message, remedy := tlsconf.Listening(e.Listen, "127.0.0.1:4222")
		switch {
		case message != "":
			report("embedded.listen", message, remedy)
		case !tlsconf.Loopback(host) && e.Token.IsZero():
			_, port, _ := net.SplitHostPort(e.Listen)
			report("embedded.listen", fmt.Sprintf("%q is not a loopback address: anyone could connect", e.Listen),
				fmt.Sprintf(`set token, too, or write "127.0.0.1:%s"`, port))
		}
	}
}

// checkURL returns what is wrong with a URL, or "". It does not quote the URL, which may contain a password.
func checkURL(text string) string {
	u, err := url.Parse(text)
	if err != nil || u.Hostname() == "" {
		return "is not a valid URL of a NATS server"
	}
	switch u.Scheme {
	case "nats", "tls", "ws", "wss":
	default:
		return "does not begin with nats://, tls://, ws:// or wss://"
	}
	if strings.Contains(text, ",") {
		return "has a comma in it: write several URLs as a list"
	}
	return ""
}

// CheckSubject returns what is wrong with a subject, or "". wild means that wildcards are allowed.
func CheckSubject(s string, wild bool) string {
	if s == "" {
		return "is empty"
	}
	for i, token := range strings.Split(s, ".") {
		switch {
		case token == "":
			return "has an empty part between dots"
		case strings.ContainsAny(token, " \t\r\n\x00"):
			return "has white space in it"
		case controls.In(token) != "":
			return controls.In(token)
		case (token == "*" || token == ">") && !wild:
			return "has a wildcard"
		case token == ">" && i < strings.Count(s, "."):
			return "has a > that is not at the end"
		}
	}
	return ""
}

// CheckName returns what is wrong with the name of a stream, consumer or bucket, or "".
func CheckName(s string) string {
	switch {
	case s == "":
		return "is empty"
	case strings.ContainsAny(s, " \t\r\n\x00.*>/\\"):
		return "has a character that names can't have: white space . * > / or \\"
	case len(s) > 255:
		return "is longer than 255 bytes"
	}
	return ""
}
