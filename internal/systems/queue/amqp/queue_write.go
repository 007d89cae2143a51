package amqp

import (
	"context"
	"errors"
	"maps"
	"strings"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/systems/queue"
	amqp091 "github.com/rabbitmq/amqp091-go"
)

// Writer publishes to a queue through the default exchange.
func (s *server) Writer(ctx context.Context, name string) (queue.Writer, error) {
	if _, err := s.inspect(ctx, name); err != nil {
		return nil, err
	}
	p, err := NewPublisher(ctx, s.conn)
	if err != nil {
		return nil, err
	}
	return &writer{p, name, s.uri.Username}, nil
}

type writer struct {
	p     *Publisher
	queue string
	user  string // of the connection
}

// Write publishes and waits for the confirms.
func (w *writer) Write(ctx context.Context, ms []queue.Message) []error {
	errs := make([]error, len(ms))
	for from := 0; from < len(ms); from += Window {
		w.write(ctx, ms[from:min(len(ms), from+Window)], errs[from:])
	}
	if errors.Join(errs...) == nil {
		return nil
	}
	return errs
}

// write sends up to Window messages, and sets their errors.
func (w *writer) write(ctx context.Context, ms []queue.Message, errs []error) {
	all := make([]*Outgoing, 0, len(ms))
	index := make([]int, 0, len(ms)) // of each outgoing message in ms
	for i := range ms {
		o := &Outgoing{Key: w.queue}
		if err := w.prepare(&o.Pub, &ms[i]); err != nil {
			errs[i] = err
			continue
		}
		all, index = append(all, o), append(index, i)
	}
	_, err := w.p.Publish(ctx, "", true, all)
	for k, o := range all {
		if errs[index[k]] = o.Err; !o.Done {
			errs[index[k]] = err
		}
	}
}

// prepare restores the publishing of a message, including its dead-letter history. user_id is kept only if it is the current user,
// as the broker requires. CC is left out, since it would send the message to other queues.
func (w *writer) prepare(p *amqp091.Publishing, m *queue.Message) error {
	if d, ok := m.Raw.(*amqp091.Delivery); ok {
		w.copyDelivery(p, d)
		return CheckPublishing(p)
	}
	p.Body = m.Payload
	p.DeliveryMode = amqp091.Persistent
	if persistent, ok := m.Meta["persistent"].(bool); ok && !persistent {
		p.DeliveryMode = amqp091.Transient
	}
	p.Expiration, _ = m.Meta["expiration"].(string)
	meta := engine.Meta{}
	for name, v := range m.Meta {
		if !isDeathHeader(name) {
			meta = meta.With(name, v)
			continue
		}
		if p.Headers == nil {
			p.Headers = amqp091.Table{}
		}
		p.Headers[name] = toTable(v, 0)
	}
	return Fill(p, meta)
}

// copyDelivery is prepare for a message that was just read from a broker.
func (w *writer) copyDelivery(p *amqp091.Publishing, d *amqp091.Delivery) {
	*p = amqp091.Publishing{
		ContentType: d.ContentType, ContentEncoding: d.ContentEncoding, DeliveryMode: d.DeliveryMode,
		Priority:      d.Priority,
		CorrelationId: d.CorrelationId, ReplyTo: d.ReplyTo, Expiration: d.Expiration, MessageId: d.MessageId,
		Timestamp: d.Timestamp, Type: d.Type, AppId: d.AppId, Body: d.Body,
		Headers: maps.Clone(d.Headers),
	}
	if d.UserId == w.user {
		p.UserId = d.UserId
	}
	maps.DeleteFunc(p.Headers, func(name string, _ any) bool { return !maySetHeader(name) && !isDeathHeader(name) })
}

// isDeathHeader reports whether a header records that the message was dead-lettered.
func isDeathHeader(name string) bool {
	return name == "x-death" || strings.HasPrefix(name, "x-first-death-") || strings.HasPrefix(name, "x-last-death-")
}

// Close closes the channel.
func (w *writer) Close() error { return w.p.Channel.Close() }
