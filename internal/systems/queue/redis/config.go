// Package redis has what the Redis components share: [Connect] for their configuration, [Connect.Client] for clients, [Explain] for
// errors, [Source] for the metadata of stream entries, and [Client.Send] for writes.
package redis

import (
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/network/tlsconf"
	"github.com/flowd-io/flowd/schema"
)

// Connect configures connections. The configs of components include it inline.
type Connect struct {
	URL      schema.Secret   `yaml:"url" doc:"Server: redis://user:password@host:6379/0, where 0 is the database; rediss:// uses TLS, and unix:///run/redis.sock?db=0 a socket."`
	Sentinel *Sentinel       `yaml:"sentinel" doc:"Sentinels that know which server is the master, instead of url."`
	Cluster  engine.Names    `yaml:"cluster" doc:"Nodes of a Redis Cluster, as HOST:PORT, instead of url; one that answers is enough."`
	User     string          `yaml:"user" doc:"User (ACL), instead of the URL's; without one, password is that of the default user."`
	Password schema.Secret   `yaml:"password" doc:"Password, instead of the URL's."`
	DB       int             `yaml:"db" check:"min=0,max=1000000" doc:"Database number, with sentinel; a URL has it as its path, and a cluster has only 0."`
	TLS      *tlsconf.Client `yaml:"tls" doc:"Encrypt connections; {} trusts what the system trusts. With url: for rediss://, TLS settings other than the system's defaults."`
	Timeout  time.Duration   `yaml:"timeout" check:"min=100ms,max=10m" doc:"How long to wait for a connection, and for a response, beyond what the command itself may wait."`
	MaxReply schema.Size     `yaml:"max_reply" check:"min=64KiB,max=1GiB" doc:"Largest reply that is read; a larger one ends the connection. Each part of a list counts as 32 bytes more than its text."`
}

// Sentinel says how to find the master.
type Sentinel struct {
	Master    string        `yaml:"master" check:"required,nonempty" doc:"Name by which the sentinels know the master."`
	Addresses engine.Names  `yaml:"addresses" check:"required" doc:"Sentinels, as HOST:PORT; the port is 26379 by default. One that answers is enough."`
	User      string        `yaml:"user" doc:"User of the sentinels themselves."`
	Password  schema.Secret `yaml:"password" doc:"Password of the sentinels themselves."`
}

// Defaults are the default values of [Connect].
var Defaults = Connect{Timeout: 5 * time.Second, MaxReply: 64 << 20}

// Words returns what users of other systems may write, and what to write instead.
func (*Connect) Words() map[string]string {
	return map[string]string{
		"address": "write `url`", "addr": "write `url`", "host": "write `url`", "hosts": "write `cluster`",
		"kind": "write `url`, `sentinel` or `cluster`", "master": "write `sentinel: {master: …}`",
		"username": "write `user`", "database": "write `db`", "nodes": "write `cluster`",
		"client_id": "write `consumer`", "limit": "remove it: as much is read as there is room for",
		"body_key": "write `field`", "max_in_flight": "write `concurrency` beside the type",
		"max_length": "write `max_len`", "create_streams": "write `create`", "metadata": "remove it: metadata is " +
			"fields of the entry",
		"streams": "write `key`", "stream": "write `key`", "keys": "write `key`",
		"start_from_oldest": "write `start: earliest` or `start: latest`",
	}
}

// CheckConfig reports addresses that are not valid, and fields that contradict each other.
func (c *Connect) CheckConfig(report func(path, message, remedy string)) {
	ways := 0
	for _, given := range []bool{!c.URL.IsZero(), c.Sentinel != nil, len(c.Cluster) > 0} {
		if given {
			ways++
		}
	}
	if ways != 1 {
		message := "no server is configured"
		if ways > 1 {
			message = "the server is configured in several ways"
		}
		report("url", message, "write one of `url`, `sentinel` and `cluster`")
	}
	if c.User != "" && c.Password.IsZero() {
		report("user", "has no password", "write `password`, too")
	}
	if !c.URL.IsZero() {
		c.checkURL(report)
	} else if c.DB > 0 && len(c.Cluster) > 0 {
		report("db", "a cluster has only database 0", "remove it")
	}
	for _, a := range c.Cluster {
		checkAddress("cluster", a, report)
	}
	if c.Sentinel != nil {
		if len(c.Sentinel.Addresses) == 0 {
			report("sentinel.addresses", "is empty", "name a sentinel as HOST:PORT")
		}
		for _, a := range c.Sentinel.Addresses {
			checkAddress("sentinel.addresses", a, report)
		}
	}
}

func (c *Connect) checkURL(report func(path, message, remedy string)) {
	a, wrong := parse(c.URL.Reveal())
	switch {
	case wrong.message != "":
		report("url", wrong.message, wrong.remedy)
	case c.TLS != nil && !a.tls:
		report("tls", "the URL does not ask for TLS", "write rediss://, or remove `tls`")
	case c.DB > 0:
		report("db", "the URL has the database", "write redis://host:6379/"+strconv.Itoa(c.DB))
	}
}

func checkAddress(path, address string, report func(path, message, remedy string)) {
	if problem := badAddress(address); problem != "" {
		report(path, strconv.Quote(address)+" "+problem, "write HOST:PORT, such as redis-1:6379")
	}
}

// badAddress returns what is wrong with HOST:PORT, or "".
func badAddress(address string) string {
	if strings.Contains(address, "://") {
		return "is a URL"
	}
	host, port, err := net.SplitHostPort(withPort(address, "1"))
	if err != nil || host == "" || strings.ContainsAny(address, " ,/@") {
		return "is not a valid address"
	}
	if n, err := strconv.Atoi(port); err != nil || n < 1 || n > 65535 {
		return "has an invalid port"
	}
	return ""
}

// withPort adds a port to an address without a port.
func withPort(address, port string) string {
	if strings.HasSuffix(address, "]") || strings.Count(address, ":") != 1 && !strings.Contains(address, "]:") {
		return net.JoinHostPort(strings.Trim(address, "[]"), port)
	}
	return address
}

// target is a parsed URL.
type target struct {
	network, address string
	user, password   string
	db               int
	tls              bool
}

// invalid says what is wrong with a URL. It never contains the URL, which may have a password.
type invalid struct{ message, remedy string }

const example = "write redis://user:password@host:6379/0"

// parse parses the URL of a server. wrong is zero if the URL is valid.
func parse(text string) (t target, wrong invalid) {
	u, err := url.Parse(text)
	if err != nil {
		return t, invalid{"is not a URL", example + "; in user and password write / : @ ? # % as %2F %3A %40 %3F %23 %25"}
	}
	t.user = u.User.Username()
	t.password, _ = u.User.Password()
	db := strings.Trim(u.Path, "/")
	switch u.Scheme {
	case "redis", "rediss":
		t.network, t.tls = "tcp", u.Scheme == "rediss"
		t.address = withPort(u.Host, "6379")
		if badAddress(t.address) != "" {
			return t, invalid{"has no valid host and port", example}
		}
	case "unix":
		t.network, t.address, db = "unix", u.Path, u.Query().Get("db")
		if u.Host != "" || t.address == "" {
			return t, invalid{"has no absolute path to a socket", "write unix:///run/redis.sock"}
		}
	default:
		return t, invalid{"does not begin with redis://, rediss:// or unix://", example}
	}
	for name := range u.Query() {
		if t.network != "unix" || name != "db" {
			return t, invalid{"has parameters", "remove what follows ?: the component has fields for it"}
		}
	}
	if db == "" {
		return t, wrong
	}
	if t.db, err = strconv.Atoi(db); err != nil || t.db < 0 {
		return t, invalid{"has a path that is not a database number", example}
	}
	return t, wrong
}

// Clustered reports whether the server is a cluster. There, all keys of a command must be in one slot.
func (c *Connect) Clustered() bool { return len(c.Cluster) > 0 }

// Tag returns the part of a key that determines its slot in a cluster.
func Tag(key string) string {
	if _, rest, ok := strings.Cut(key, "{"); ok {
		if tag, _, ok := strings.Cut(rest, "}"); ok && tag != "" {
			return tag
		}
	}
	return key
}

// SiblingKey returns another key in the same slot, with a suffix. Different keys have different siblings.
func SiblingKey(key, suffix string) string {
	if strings.ContainsAny(key, "{}") {
		return key + "~" + suffix
	}
	return "{" + key + "}" + suffix
}

// siblingOf is the inverse of [SiblingKey] without the suffix.
func siblingOf(name string) string {
	if key, ok := strings.CutSuffix(name, "~"); ok {
		return key
	}
	return strings.TrimSuffix(strings.TrimPrefix(name, "{"), "}")
}
