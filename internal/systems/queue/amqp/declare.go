package amqp

import (
	"context"
	"strconv"

	amqp091 "github.com/rabbitmq/amqp091-go"
)

// Declare is the section `declare` of an input: a queue, an exchange and bindings to create before it consumes.
type Declare struct {
	Queue     Queue     `yaml:"queue" doc:"How to create the queue, if it does not exist."`
	Arguments Arguments `yaml:"arguments" doc:"Arguments of the queue, such as x-queue-type: quorum, x-dead-letter-exchange or x-message-ttl."`
	Exchange  *Exchange `yaml:"exchange" doc:"Exchange to create, too."`
	Bindings  []Binding `yaml:"bindings" doc:"Bindings of the queue to exchanges."`
}

// Queue has the properties of a queue to create.
type Queue struct {
	Durable    bool `yaml:"durable" default:"true" doc:"It survives a restart of the broker."`
	AutoDelete bool `yaml:"auto_delete" doc:"It is deleted with its last consumer."`
	Exclusive  bool `yaml:"exclusive" doc:"It belongs to this connection alone, and is deleted with it."`
}

// Exchange is an exchange to create.
type Exchange struct {
	Name string `yaml:"name" check:"required,nonempty" doc:"Its name."`
	Kind `yaml:",inline"`
}

// Kind has the properties of an exchange.
type Kind struct {
	Type       string    `yaml:"type" default:"direct" check:"nonempty" doc:"direct, fanout, topic, headers, or the type of a plugin."`
	Durable    bool      `yaml:"durable" default:"true" doc:"It survives a restart of the broker."`
	AutoDelete bool      `yaml:"auto_delete" doc:"It is deleted with its last binding."`
	Internal   bool      `yaml:"internal" doc:"Only other exchanges publish to it."`
	Arguments  Arguments `yaml:"arguments" doc:"Arguments, such as alternate-exchange."`
}

// Binding routes messages from an exchange to a queue.
type Binding struct {
	Exchange   string    `yaml:"exchange" doc:"Exchange; that of declare.exchange by default."`
	RoutingKey string    `yaml:"routing_key" doc:"Routing key, or its pattern."`
	Arguments  Arguments `yaml:"arguments" doc:"Arguments, for a headers exchange."`
}

// CheckConfig reports bindings without an exchange, and properties that a queue of its type can't have.
func (d *Declare) CheckConfig(report func(path, message, remedy string)) {
	for _, b := range d.Bindings {
		if b.Exchange == "" && d.Exchange == nil {
			report("bindings", "a binding names no exchange", "write `exchange` in it, or declare one")
		}
	}
	if kind, _ := d.Arguments["x-queue-type"].(string); (kind == "quorum" || kind == "stream") &&
		(!d.Queue.Durable || d.Queue.Exclusive || d.Queue.AutoDelete) {
		report("queue", "a "+kind+" queue is always durable, and neither exclusive nor auto_delete", "remove these")
	}
}

// Stream reports whether the queue is declared as a stream.
func (d *Declare) Stream() bool { return d != nil && d.Arguments["x-queue-type"] == "stream" }

// DeliveryLimit returns the delivery limit with which the queue is declared, or 0 if it has none.
func (d *Declare) DeliveryLimit() int {
	if d == nil {
		return 0
	}
	kind, _ := d.Arguments["x-queue-type"].(string)
	l := listed{Type: kind, Arguments: d.Arguments}
	return l.limit(false)
}

// Create creates the queue, the exchange and the bindings if they do not exist. It returns the queue's name, which the broker
// chooses if queue is "".
func (d *Declare) Create(ctx context.Context, c *Conn, ch *amqp091.Channel, queue string) (name string, err error) {
	if x := d.Exchange; x != nil {
		if err := x.Kind.Create(ctx, c, ch, x.Name); err != nil {
			return "", err
		}
	}
	err = c.Within(ctx, "declare queue "+strconv.Quote(queue), func() error {
		q, err := ch.QueueDeclare(queue, d.Queue.Durable, d.Queue.AutoDelete, d.Queue.Exclusive, false,
			d.Arguments.Table())
		name = q.Name
		return err
	})
	for _, b := range d.Bindings {
		if err != nil {
			return "", err
		}
		exchange := b.Exchange
		if exchange == "" {
			exchange = d.Exchange.Name
		}
		err = c.Within(ctx, "bind queue "+strconv.Quote(name)+" to exchange "+strconv.Quote(exchange), func() error {
			return ch.QueueBind(name, b.RoutingKey, exchange, false, b.Arguments.Table())
		})
	}
	return name, err
}

// Create creates an exchange of this kind if it does not exist.
func (k *Kind) Create(ctx context.Context, c *Conn, ch *amqp091.Channel, name string) error {
	return c.Within(ctx, "declare exchange "+strconv.Quote(name), func() error {
		return ch.ExchangeDeclare(name, k.Type, k.Durable, k.AutoDelete, k.Internal, false, k.Arguments.Table())
	})
}
