package kafka

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/network/tlsconf"
	"github.com/flowd-io/flowd/internal/systems/queue"
	"github.com/flowd-io/flowd/schema"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
)

func init() {
	queue.Register("kafka", openServer)
	queue.Register("kafkas", openServer)
}

const (
	defaultGroup = "flowd-queue"
	callTimeout  = 30 * time.Second // of one request to the brokers
)

// server is a cluster for `flowd queue`. Reading does not remove records from a topic. So the committed offsets of a consumer group
// record which messages are done, and its lag is the content of the queue.
type server struct {
	connect *Connect
	client  *Client
	admin   *kadm.Client
	group   string // the consumer group
}

var (
	_ queue.Server = (*server)(nil)
	_ queue.Origin = (*server)(nil)
)

// openServer connects to a URL.
func openServer(ctx context.Context, u *url.URL) (queue.Server, error) {
	c, group, err := connectOf(u)
	if err != nil {
		return nil, err
	}
	client, err := c.Client(slog.New(slog.DiscardHandler), "flowd queue")
	if err != nil {
		return nil, err
	}
	if err := client.Reach(ctx); err != nil {
		client.Close()
		if engine.ErrorOf(err, engine.Transient).Class == engine.Auth {
			return nil, fmt.Errorf("%w; in the address, the credentials are USER:PASSWORD@ and the parameters %s", err,
				strings.Join(parameters, ", "))
		}
		return nil, err
	}
	return &server{c, client, kadm.NewClient(client.Client), group}, nil
}

// parameters are the query parameters that an address may have.
var parameters = []string{"mechanism", "group", "tls", "ca", "cert", "key", "server_name"}

// mechanisms are the mechanisms whose credentials fit into an address.
var mechanisms = []string{"PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "AWS_MSK_IAM"}

// connectOf returns the configuration in an address: kafka://USER:PASSWORD@HOST:PORT,HOST:PORT/?mechanism=…&group=…, or kafkas://
// with TLS.
func connectOf(u *url.URL) (c *Connect, group string, err error) {
	if p := strings.Trim(u.Path, "/"); p != "" {
		return nil, "", fmt.Errorf("the address has the path %q, but topics are named separately (write %s://HOST:PORT/)",
			p, u.Scheme)
	}
	q := u.Query()
	for name := range q {
		if !slices.Contains(parameters, name) {
			return nil, "", fmt.Errorf("the address has the unknown parameter %q (known are %s)", name,
				strings.Join(parameters, ", "))
		}
	}
	conf := Defaults
	c = &conf
	c.Brokers = strings.Split(u.Host, ",")
	if encrypted := u.Scheme == "kafkas" || q.Has("tls"); encrypted {
		c.TLS = &tlsconf.Client{CA: q.Get("ca"), Cert: q.Get("cert"), Key: schema.NewSecret(q.Get("key")),
			ServerName: q.Get("server_name")}
	} else if q.Has("ca") || q.Has("cert") || q.Has("key") || q.Has("server_name") {
		return nil, "", errors.New("the address has TLS parameters, but does not ask for TLS (write kafkas://)")
	}
	if v := q.Get("tls"); v != "" && v != "true" {
		return nil, "", fmt.Errorf("the parameter tls is %q (write kafkas://, or leave it out)", v)
	}
	if u.User != nil || q.Has("mechanism") {
		password, _ := u.User.Password()
		c.SASL = &SASL{Mechanism: q.Get("mechanism"), User: u.User.Username(), Password: schema.NewSecret(password)}
		if !slices.Contains(mechanisms, c.SASL.Mechanism) {
			return nil, "", fmt.Errorf("the mechanism %q is not supported here (write ?mechanism= and one of %s)",
				c.SASL.Mechanism, strings.Join(mechanisms, ", "))
		}
	}
	c.CheckConfig(func(path, message, remedy string) {
		err = cmp.Or(err, fmt.Errorf("the broker's address: %s %s (%s)", path, message, remedy))
	})
	if c.TLS != nil {
		c.TLS.CheckConfig(func(path, message, remedy string) {
			err = cmp.Or(err, fmt.Errorf("the broker's address: %s %s (%s)", path, message, remedy))
		})
	}
	return c, cmp.Or(q.Get("group"), defaultGroup), err
}

// Close closes the connections.
func (s *server) Close() error {
	s.client.Close()
	return nil
}

// List returns the topics that match. Ready is the lag of the group, in offsets. So it also counts the markers of transactions and
// records that compaction has removed. Delayed counts the offsets from the first open transaction on.
func (s *server) List(ctx context.Context, pattern string) ([]queue.Info, error) {
	if _, err := path.Match(pattern, ""); err != nil {
		return nil, fmt.Errorf("%q is not a valid pattern: %w", pattern, err)
	}
	asked, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	known, err := s.admin.ListTopics(asked)
	if err != nil {
		return nil, Explain(err, "list topics")
	}
	var names []string
	for _, name := range known.Names() {
		if ok, _ := path.Match(pattern, name); ok || pattern == "" {
			names = append(names, name)
		}
	}
	all, err := s.partitionsOf(ctx, names...)
	if err != nil {
		return nil, err
	}
	infos := make([]queue.Info, 0, len(names))
	for _, name := range names {
		infos = append(infos, info(name, all[name]))
	}
	return infos, nil
}

func info(name string, all map[int32]*partition) queue.Info {
	i := queue.Info{Name: name, Kind: fmt.Sprintf("%d partitions", len(all))}
	if len(all) == 1 {
		i.Kind = "1 partition"
	}
	for _, p := range all {
		if p.err != nil {
			i.Ready, i.Delayed = -1, -1
			return i
		}
		ready := p.left(p.stable)
		i.Ready += ready
		i.Delayed += p.end - p.stable
		i.Kept += p.stable - p.start - ready
	}
	return i
}

// Purge removes all records of a topic, including those that are done, and returns how many offsets they had.
func (s *server) Purge(ctx context.Context, name string) (int64, error) {
	all, err := s.lookUp(ctx, name)
	if err != nil {
		return -1, err
	}
	to, n := kadm.Offsets{}, int64(0)
	for id, p := range all {
		to.AddOffset(name, id, p.end, -1)
		n += p.end - p.start
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	answers, err := s.admin.DeleteRecords(ctx, to)
	if err = cmp.Or(err, answers.Error()); errors.Is(err, kerr.PolicyViolation) {
		return -1, engine.Errorf(engine.Rejected, "%w (the topic is compacted: its records can only be deleted if "+
			"its cleanup.policy has delete)", err)
	}
	return n, Explain(err, "delete the records of topic "+name)
}

// Origin returns the topic from which flowd has read a message before it became a dead letter.
func (s *server) Origin(_ context.Context, _ string, m queue.Message) (string, error) {
	if from := originOf(m.Meta); from != "" {
		return from, nil
	}
	return "", errors.New("the message has no header original_topic, so flowd has not written it as a dead letter")
}

// originOf returns the original topic of a dead letter, or "". After several failures, the last header is the newest.
func originOf(meta map[string]any) string {
	v := meta["original_topic"]
	if all, several := v.([]any); several && len(all) > 0 {
		v = all[len(all)-1]
	}
	topic, _ := v.(string)
	return topic
}
