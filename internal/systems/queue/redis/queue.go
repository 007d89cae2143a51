package redis

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/network/tlsconf"
	"github.com/flowd-io/flowd/internal/systems/queue"
	"github.com/flowd-io/flowd/schema"
	goredis "github.com/redis/go-redis/v9"
)

func init() {
	queue.Register("redis", openServer)
	queue.Register("rediss", openServer)
}

const (
	stream = "stream"
	list   = "list"

	consumerName = "flowd-queue"
	callTimeout  = 30 * time.Second // of one request to the server
	mostReply    = 512 << 20        // bytes of an answer, which may have several entries
)

// server is a database for `flowd queue`. Its streams and lists are the queues.
type server struct {
	client *Client
	group  string // the consumer group that reads streams; "": all entries are read
	field  string // with the payload
	kind   string // of a queue that does not exist: stream or list
}

var (
	_ queue.Server = (*server)(nil)
	_ queue.Origin = (*server)(nil)
)

// openServer connects to a URL.
func openServer(ctx context.Context, u *url.URL) (queue.Server, error) {
	s, c, err := connectOf(u)
	if err != nil {
		return nil, err
	}
	c.MaxReply = mostReply
	if s.client, err = c.Client(0, 4); err != nil {
		return nil, err
	}
	if err := s.client.Reach(ctx); err != nil {
		s.client.Close()
		return nil, err
	}
	return s, nil
}

// parameters are the query parameters that an address may have.
var parameters = []string{"group", "field", "type", "sentinel", "cluster", "ca", "cert", "key", "server_name"}

// connectOf returns the configuration in an address: redis://USER:PASSWORD@HOST:PORT/DB?group=…, or rediss:// with TLS. With
// sentinel=MASTER or cluster=true, the address may have several HOST:PORT, separated by commas.
func connectOf(u *url.URL) (*server, *Connect, error) {
	q := u.Query()
	for name := range q {
		if !slices.Contains(parameters, name) {
			return nil, nil, fmt.Errorf("the address has the unknown parameter %q (known are %s)", name,
				strings.Join(parameters, ", "))
		}
	}
	s := &server{group: q.Get("group"), field: "payload", kind: cmp.Or(q.Get("type"), stream)}
	if q.Has("field") {
		s.field = q.Get("field")
	}
	if s.kind != stream && s.kind != list {
		return nil, nil, fmt.Errorf("the parameter type is %q (write stream or list)", s.kind)
	}
	c := Defaults
	c.Timeout = callTimeout
	if u.Scheme == "rediss" {
		c.TLS = &tlsconf.Client{CA: q.Get("ca"), Cert: q.Get("cert"), Key: schema.NewSecret(q.Get("key")),
			ServerName: q.Get("server_name")}
	} else if q.Has("ca") || q.Has("cert") || q.Has("key") || q.Has("server_name") {
		return nil, nil, errors.New("the address has TLS parameters, but does not ask for TLS (write rediss://)")
	}
	cluster, err := strconv.ParseBool(cmp.Or(q.Get("cluster"), "false"))
	if err != nil {
		return nil, nil, fmt.Errorf("the parameter cluster is %q (write true, or leave it out)", q.Get("cluster"))
	}
	if cluster || q.Has("sentinel") {
		password, _ := u.User.Password()
		c.User, c.Password = u.User.Username(), schema.NewSecret(password)
		hosts := engine.Names(strings.Split(u.Host, ","))
		if cluster {
			c.Cluster = hosts
		} else {
			c.Sentinel = &Sentinel{Master: q.Get("sentinel"), Addresses: hosts}
			c.DB, _ = strconv.Atoi(strings.Trim(u.Path, "/"))
		}
	} else {
		plain := *u
		plain.RawQuery = ""
		c.URL = schema.NewSecret(plain.String())
	}
	c.CheckConfig(func(path, message, remedy string) {
		err = cmp.Or(err, fmt.Errorf("the server's address: %s %s (%s)", path, message, remedy))
	})
	return s, &c, err
}

// Close closes the connections.
func (s *server) Close() error { return s.client.UniversalClient.Close() }

// List returns the streams and lists that match. The elements of a list that are in flight are in other lists, which are not queues
// themselves.
func (s *server) List(ctx context.Context, pattern string) ([]queue.Info, error) {
	if _, err := path.Match(pattern, ""); err != nil {
		return nil, fmt.Errorf("%q is not a valid pattern: %w", pattern, err)
	}
	all := map[string]*queue.Info{}
	for _, kind := range []string{stream, list} {
		names, err := s.names(ctx, kind)
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			queueName := name
			if kind == list {
				queueName, _ = processedList(name)
			}
			if ok, _ := path.Match(pattern, queueName); !ok && pattern != "" {
				continue
			}
			if all[queueName] == nil {
				all[queueName] = &queue.Info{Name: queueName, Kind: kind}
			}
			if kind == stream {
				err = s.streamInfo(ctx, all[queueName])
			} else {
				err = s.listInfo(ctx, all[queueName], name)
			}
			if err != nil {
				return nil, err
			}
		}
	}
	infos := make([]queue.Info, 0, len(all))
	for _, name := range slices.Sorted(maps.Keys(all)) {
		infos = append(infos, *all[name])
	}
	return infos, nil
}

// names returns the keys of a type.
func (s *server) names(ctx context.Context, kind string) (all []string, err error) {
	var mu sync.Mutex // guards all
	scan := func(ctx context.Context, c goredis.Cmdable) error {
		it := c.ScanType(ctx, 0, "", 1000, kind).Iterator()
		for it.Next(ctx) {
			mu.Lock()
			all = append(all, it.Val())
			mu.Unlock()
		}
		return it.Err()
	}
	if cluster, ok := s.client.UniversalClient.(*goredis.ClusterClient); ok {
		err = cluster.ForEachMaster(ctx, func(ctx context.Context, c *goredis.Client) error { return scan(ctx, c) })
	} else {
		err = scan(ctx, s.client)
	}
	slices.Sort(all)
	return slices.Compact(all), Explain(err, "list keys")
}

// Processing returns the list of the elements that a consumer of a list has in flight.
func Processing(key, consumer string) string { return SiblingKey(key, ":processing:"+consumer) }

// processedList is the inverse of [Processing]: it returns the list whose elements in flight are in the list with this name. ok is
// false, and key is name, if the list has another purpose.
func processedList(name string) (key string, ok bool) {
	const mark = ":processing:"
	i := strings.LastIndex(name, mark)
	if i < 0 {
		return name, false
	}
	if key = siblingOf(name[:i]); Processing(key, name[i+len(mark):]) != name {
		return name, false
	}
	return key, true
}

// listInfo adds the length of one list of a queue.
func (s *server) listInfo(ctx context.Context, i *queue.Info, name string) error {
	n, err := s.length(ctx, "llen", name)
	if name == i.Name {
		i.Ready += n
	} else {
		i.InFlight += n
	}
	return err
}

// streamInfo sets the counts of a stream: those of the configured group, or else of the whole stream.
func (s *server) streamInfo(ctx context.Context, i *queue.Info) (err error) {
	if i.Ready, err = s.length(ctx, "xlen", i.Name); err != nil {
		return err
	}
	groups, err := s.groups(ctx, i.Name)
	if err != nil {
		return err
	}
	switch len(groups) {
	case 0:
	case 1:
		i.Kind = "stream, 1 group"
	default:
		i.Kind = fmt.Sprintf("stream, %d groups", len(groups))
	}
	g, ok := groups[s.group]
	if s.group == "" || !ok {
		return nil
	}
	total := i.Ready
	i.Ready, i.InFlight, i.Kept = g.Lag, g.Pending, max(0, total-g.Lag-g.Pending)
	if g.Lag < 0 {
		i.Kept = -1
	}
	return nil
}

// groups returns the groups of a stream by name. The lag of a group is -1 if the server does not know it.
func (s *server) groups(ctx context.Context, name string) (map[string]goredis.XInfoGroup, error) {
	ctx, cancel := s.client.Within(ctx)
	defer cancel()
	all, err := s.client.XInfoGroups(ctx, name).Result()
	if err != nil {
		return nil, Explain(err, "ask for the groups of stream "+name)
	}
	byName := map[string]goredis.XInfoGroup{}
	for _, g := range all {
		byName[g.Name] = g
	}
	return byName, nil
}

// length returns the answer to a command that returns the length of a queue.
func (s *server) length(ctx context.Context, command, name string) (int64, error) {
	v, err := s.client.Ask(ctx, 1, command, name)
	n, _ := v.(int64)
	return n, Explain(err, "ask for the length of "+name)
}

// typeOf returns the type of a queue, or "" if the key does not exist.
func (s *server) typeOf(ctx context.Context, name string) (string, error) {
	v, err := s.client.Ask(ctx, 1, "type", name)
	if err != nil {
		return "", Explain(err, "ask for the type of "+name)
	}
	switch kind := fmt.Sprint(v); kind {
	case stream, list:
		return kind, nil
	case "none":
		return "", nil
	default:
		return "", engine.Errorf(engine.Permanent, "the key %s is a %s, not a stream or a list", name, kind)
	}
}

// Purge removes all messages of a queue. The groups of a stream stay.
func (s *server) Purge(ctx context.Context, name string) (n int64, err error) {
	kind, err := s.typeOf(ctx, name)
	switch {
	case err != nil:
		return -1, err
	case kind == stream:
		v, err := s.client.Ask(ctx, 1, "xtrim", name, "maxlen", 0)
		n, _ = v.(int64)
		return n, Explain(err, "trim stream "+name)
	case kind == "":
		return -1, missing(name)
	}
	if n, err = s.length(ctx, "llen", name); err == nil {
		_, err = s.client.Ask(ctx, 1, "del", name)
	}
	return n, Explain(err, "delete list "+name)
}

func missing(name string) error {
	return engine.Errorf(engine.Permanent, "the stream or list %s does not exist (a list that is empty does not exist, either)", name)
}

// Origin returns the stream from which flowd has read a message before it became a dead letter.
func (s *server) Origin(_ context.Context, _ string, m queue.Message) (string, error) {
	if from := originOf(m.Meta); from != "" {
		return from, nil
	}
	return "", errors.New("the message has no field original_stream, so the output redis_stream has not written it as a dead " +
		"letter of a stream (flowd queue mv moves messages to a queue that you name)")
}

// originOf returns the original stream of a dead letter, or "".
func originOf(meta map[string]any) string {
	from, _ := meta["original_stream"].(string)
	return from
}
