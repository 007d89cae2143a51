package nats

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

	"github.com/flowd-io/flowd/internal/network/tlsconf"
	"github.com/flowd-io/flowd/internal/systems/queue"
	"github.com/flowd-io/flowd/schema"
	"github.com/nats-io/nats.go/jetstream"
)

func init() {
	for _, scheme := range []string{"nats", "tls", "ws", "wss"} {
		queue.Register(scheme, openServer)
	}
}

// server is a NATS server for `flowd queue`. A queue is a stream, or the pending messages of a consumer: STREAM/CONSUMER.
type server struct{ conn *Conn }

var (
	_ queue.Server = (*server)(nil)
	_ queue.Origin = (*server)(nil)
)

// parameters are the query parameters that an address may have.
var parameters = []string{"credentials", "nkey", "ca", "cert", "key", "server_name"}

// openServer connects to a URL.
func openServer(ctx context.Context, u *url.URL) (queue.Server, error) {
	if p := strings.Trim(u.Path, "/"); p != "" {
		return nil, fmt.Errorf("the address has the path %q, but streams are named separately (write %s://HOST:4222/)", p,
			u.Scheme)
	}
	q := u.Query()
	for name := range q {
		if !slices.Contains(parameters, name) {
			return nil, fmt.Errorf("the address has the unknown parameter %q (known are %s)", name,
				strings.Join(parameters, ", "))
		}
	}
	bare := *u
	bare.RawQuery, bare.Path = "", ""
	c := Defaults
	c.URL = schema.URLs{schema.NewSecret(bare.String())}
	c.Credentials, c.NKey = q.Get("credentials"), q.Get("nkey")
	if q.Has("ca") || q.Has("cert") || q.Has("key") || q.Has("server_name") {
		c.TLS = &tlsconf.Client{CA: q.Get("ca"), Cert: q.Get("cert"), Key: schema.NewSecret(q.Get("key")),
			ServerName: q.Get("server_name")}
	}
	var err error
	report := func(path, message, remedy string) {
		err = cmp.Or(err, fmt.Errorf("the server's address: %s %s (%s)", path, message, remedy))
	}
	if c.CheckConfig(report); c.TLS != nil {
		c.TLS.CheckConfig(report)
	}
	if err != nil {
		return nil, err
	}
	conn, err := c.Dial(ctx, slog.New(slog.DiscardHandler), "flowd queue")
	if err != nil {
		return nil, err
	}
	return &server{conn}, nil
}

// Close closes the connection.
func (s *server) Close() error {
	s.conn.Close()
	return nil
}

// within returns ctx with the timeout of one request.
func (s *server) within(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, s.conn.Timeout)
}

// stream returns the stream of a queue. consumer is "" if the queue is the stream itself.
func (s *server) stream(ctx context.Context, name string) (st jetstream.Stream, consumer string, err error) {
	ctx, cancel := s.within(ctx)
	defer cancel()
	name, consumer, _ = strings.Cut(name, "/")
	st, err = s.conn.JS.Stream(ctx, name)
	return st, consumer, Explain(err, "look for stream "+name)
}

// List returns the streams and consumers that match.
func (s *server) List(ctx context.Context, pattern string) (all []queue.Info, err error) {
	if _, err := path.Match(pattern, ""); err != nil {
		return nil, fmt.Errorf("%q is not a valid pattern: %w", pattern, err)
	}
	add := func(i queue.Info) {
		if ok, _ := path.Match(pattern, i.Name); ok || pattern == "" {
			all = append(all, i)
		}
	}
	asked, cancel := s.within(ctx)
	defer cancel()
	streams := s.conn.JS.ListStreams(asked)
	var names []string
	for info := range streams.Info() {
		names = append(names, info.Config.Name)
		add(queue.Info{Name: info.Config.Name, Kind: kinds[info.Config.Retention], Ready: int64(info.State.Msgs)})
	}
	if err := streams.Err(); err != nil {
		return nil, Explain(err, "list streams")
	}
	for _, name := range names {
		if err := s.addConsumers(ctx, name, add); err != nil {
			return nil, err
		}
	}
	slices.SortFunc(all, func(a, b queue.Info) int { return cmp.Compare(a.Name, b.Name) })
	return all, nil
}

var kinds = map[jetstream.RetentionPolicy]string{jetstream.LimitsPolicy: "stream", jetstream.InterestPolicy: "interest",
	jetstream.WorkQueuePolicy: "work queue"}

// addConsumers calls add for the consumers of a stream.
func (s *server) addConsumers(ctx context.Context, stream string, add func(queue.Info)) error {
	ctx, cancel := s.within(ctx)
	defer cancel()
	st, err := s.conn.JS.Stream(ctx, stream)
	if errors.Is(err, jetstream.ErrStreamNotFound) { // the stream was deleted meanwhile
		return nil
	}
	if err != nil {
		return Explain(err, "look for stream "+stream)
	}
	all := st.ListConsumers(ctx)
	for info := range all.Info() {
		add(queue.Info{Name: stream + "/" + info.Name, Kind: "consumer", Ready: int64(info.NumPending),
			InFlight: int64(info.NumAckPending)})
	}
	return Explain(all.Err(), "list consumers of stream "+stream)
}

// Purge removes all messages of a stream.
func (s *server) Purge(ctx context.Context, name string) (int64, error) {
	st, consumer, err := s.stream(ctx, name)
	if err != nil {
		return -1, err
	}
	if consumer != "" {
		return -1, fmt.Errorf("%s is a consumer, which can't be purged (purge its stream, or dump it with --delete)", name)
	}
	ctx, cancel := s.within(ctx)
	defer cancel()
	if err := st.Purge(ctx); err != nil {
		return -1, Explain(err, "purge stream "+name)
	}
	return int64(st.CachedInfo().State.Msgs), nil
}

// Origin returns the stream from which flowd has read a message before it became a dead letter.
func (s *server) Origin(_ context.Context, _ string, m queue.Message) (string, error) {
	if from, _ := m.Meta["original_stream"].(string); from != "" {
		return from, nil
	}
	return "", errors.New("the message has no header original_stream, so flowd has not written it as a dead letter")
}
