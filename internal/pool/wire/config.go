// Package wire is shared by a hub and its workers: the section `service.cluster` ([Config]), how to connect
// ([Target]), and the protocol (wire.go, values.go, stage.go).
package wire

import (
	"fmt"
	"net"
	"strings"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/network/tlsconf"
	"github.com/flowd-io/flowd/schema"
)

// Port is the default port of hubs.
const Port = "5019"

// Config is the section `service.cluster`.
type Config struct {
	Listen      string         `yaml:"listen" doc:"Address at which workers join this process, such as 127.0.0.1:5019. An address other than loopback requires token."`
	URL         schema.Secret  `yaml:"url" doc:"A NATS server with JetStream, such as nats://10.0.0.5:4222, instead of one in this process."`
	Token       schema.Secret  `yaml:"token" doc:"The token that workers present to join or, with url, that this process presents to connect."`
	Credentials string         `yaml:"credentials" doc:"File with NATS credentials (a JWT and its seed), with url."`
	TLS         tlsconf.Client `yaml:"tls" doc:"TLS. With listen: cert and key of this process, and ca if workers must present certificates. With url: as for any client."`
	Store       string         `yaml:"store" check:"oneof=memory|file" default:"memory" doc:"Where jobs wait for a worker: in memory, or in files, for many large ones. Neither outlives this process: its inputs redeliver unfinished messages."`
	Dir         string         `yaml:"dir" doc:"Directory for store: file, used by this process alone; a temporary one by default."`
	MaxPayload  schema.Size    `yaml:"max_payload" check:"min=1024,max=67108864" default:"1MiB" doc:"Maximum size of a job or answer: payload and metadata of a message or, in batch steps, of a batch. At most 64MiB. With url the server's own limit applies."`
}

// ConfigFiles returns the files that are read.
func (c Config) ConfigFiles() []string { return []string{c.Credentials} }

// Words are words of other systems, with what to write instead.
func (*Config) Words() map[string]string {
	return map[string]string{"port": "write `listen: 127.0.0.1:PORT`", "addr": "write `listen`",
		"urls": "write `url`, with commas between servers", "servers": "write `url`, with commas between servers",
		"password": "write `token`", "storage": "write `store`"}
}

// CheckConfig reports settings that can't work.
func (c *Config) CheckConfig(report func(path, message, remedy string)) {
	switch {
	case c.Listen == "" && c.URL.IsZero():
		report("", "there is no address for workers to join",
			"write `listen: 127.0.0.1:"+Port+"`, or the `url` of a NATS server")
		return
	case c.Listen != "" && !c.URL.IsZero():
		report("url", "a process either listens itself or uses another server", "remove `listen` or `url`")
		return
	}
	if !c.URL.IsZero() {
		c.checkURL(report)
		return
	}
	if c.Credentials != "" {
		report("credentials", "credentials are for a NATS server", "write `token`, or set `url`")
	}
	if c.TLS.CA != "" && c.TLS.Cert == "" {
		report("tls.ca", "TLS needs a certificate for this process", "set `cert` and `key`, too")
	}
	host, message, remedy := tlsconf.Listening(c.Listen, "127.0.0.1:"+Port)
	if message != "" {
		report("listen", message, remedy)
		return
	}
	if !tlsconf.Loopback(host) && c.Token.IsZero() {
		_, port, _ := net.SplitHostPort(c.Listen)
		report("listen", fmt.Sprintf("%q is not a loopback address: anyone could take jobs", c.Listen),
			fmt.Sprintf(`set token, too (and tls, if others can listen in), or write "127.0.0.1:%s"`, port))
	}
}

func (c *Config) checkURL(report func(path, message, remedy string)) {
	if !c.Token.IsZero() && c.Credentials != "" {
		report("credentials", "there is already a token", "remove one of them")
	}
	for one := range strings.SplitSeq(c.URL.Reveal(), ",") {
		scheme, rest, ok := strings.Cut(strings.TrimSpace(one), "://")
		if !ok || rest == "" || scheme != "nats" && scheme != "tls" && scheme != "ws" && scheme != "wss" {
			report("url", "this is not a valid address of a NATS server", "write nats://HOST:4222, or tls://HOST:4222")
			return
		}
	}
}

// Process is what the pipelines of a process know about its cluster. It is set before they are built, and then only
// read.
type Process struct {
	Config    *Config // `service.cluster`, or nil
	Rehearsal bool    // for tests: remote steps run in this process
}

type processKey struct{}

// Of returns the cluster of the process of these pipelines.
func Of(shared *engine.Shared) *Process {
	return engine.Common(shared, processKey{}, func() *Process { return &Process{} })
}
