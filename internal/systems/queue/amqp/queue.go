package amqp

import (
	"context"
	"errors"
	"fmt"
	"net/url"

	"github.com/flowd-io/flowd/internal/systems/queue"
	"github.com/flowd-io/flowd/schema"
	amqp091 "github.com/rabbitmq/amqp091-go"
)

func init() {
	queue.Register("amqp", openServer)
	queue.Register("amqps", openServer)
}

// server is a RabbitMQ broker for `flowd queue`.
type server struct {
	conn       *Conn
	uri        amqp091.URI
	management string // URL of the management interface; "": the default
}

var (
	_ queue.Server = (*server)(nil)
	_ queue.Origin = (*server)(nil)
)

// openServer connects to a URL. Its parameter management is the URL of the management interface, unless that listens on the
// default port of the same host.
func openServer(ctx context.Context, u *url.URL) (queue.Server, error) {
	bare, query := *u, u.Query()
	s := &server{management: query.Get("management")}
	query.Del("management")
	bare.RawQuery = query.Encode()
	cfg := Defaults
	cfg.URL = schema.URLs{schema.NewSecret(bare.String())}
	var err error
	if s.uri, err = parse(bare.String()); err != nil {
		return nil, fmt.Errorf("the broker's address %w (%s)", err, remedyOf(err))
	}
	if s.conn, err = NewDialer(&cfg, "flowd queue").Dial(ctx); err != nil {
		return nil, err
	}
	return s, nil
}

// Close closes the connection.
func (s *server) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), dialTimeout)
	defer cancel()
	s.conn.Close(ctx)
	return nil
}

// inspect returns a queue's number of messages and consumers. It needs no permissions.
func (s *server) inspect(ctx context.Context, name string) (q amqp091.Queue, err error) {
	ch, err := s.channel(ctx)
	if err != nil {
		return q, err
	}
	defer ch.Close()
	err = s.conn.Within(ctx, "look for queue "+name, func() error {
		q, err = ch.QueueDeclarePassive(name, false, false, false, false, nil)
		return err
	})
	return q, err
}

func (s *server) channel(ctx context.Context) (ch *amqp091.Channel, err error) {
	err = s.conn.Within(ctx, "open a channel", func() error {
		ch, err = s.conn.Channel()
		return err
	})
	return ch, err
}

// Purge removes the ready messages of a queue.
func (s *server) Purge(ctx context.Context, name string) (int64, error) {
	ch, err := s.channel(ctx)
	if err != nil {
		return -1, err
	}
	defer ch.Close()
	n := 0
	err = s.conn.Within(ctx, "purge queue "+name, func() error {
		n, err = ch.QueuePurge(name, false)
		return err
	})
	return int64(n), err
}

// Origin returns the queue that dead-lettered a message last.
func (s *server) Origin(_ context.Context, _ string, m queue.Message) (string, error) {
	history, _ := m.Meta["x-death"].([]any)
	if len(history) == 0 {
		return "", errors.New("the message has no x-death header, so no queue has dead-lettered it")
	}
	newest, _ := history[0].(map[string]any)
	name, _ := newest["queue"].(string)
	if name == "" {
		return "", errors.New("the message's x-death header names no queue")
	}
	return name, nil
}
