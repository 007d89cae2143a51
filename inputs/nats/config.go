// Package nats reads subjects of NATS and streams of JetStream. Start at [input]. pull.go reads streams, lease.go acknowledges their
// messages, and core.go reads subjects without a stream.
package nats

import (
	"cmp"
	"fmt"
	"strconv"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/systems/queue/nats"
	"github.com/flowd-io/flowd/schema"
	"github.com/nats-io/nats.go/jetstream"
)

// Config configures the input.
type Config struct {
	nats.Connect `yaml:",inline"`
	Subject      engine.Names `yaml:"subject" doc:"Subject to subscribe to, or a list, with * for one token and > for all that follow. Messages are delivered at most once: those that arrive while nobody listens, or are in flight in a crash, are lost. stream reads them at least once."`
	QueueGroup   string       `yaml:"queue_group" doc:"Each message of a subject goes to one of the subscribers that name the same group."`
	AtMostOnce   bool         `yaml:"at_most_once" doc:"Accept that messages of subject may be lost; otherwise lint warns."`
	Buffer       schema.Size  `yaml:"buffer" check:"min=64KiB,max=1GiB" doc:"Bytes of messages of subject that may wait to be read. Messages beyond that are dropped, counted and logged."`
	Stream       string       `yaml:"stream" doc:"JetStream stream to read. Messages are acknowledged when they are settled."`
	Consumer     string       `yaml:"consumer" doc:"Durable consumer of the stream, which keeps the position. All that name it share the messages."`
	Declare      *declare     `yaml:"declare" doc:"Create the consumer and the stream if they do not exist; without this, they must exist. If one exists with other settings, that is an error, and it stays as it is."`
	Prefetch     int          `yaml:"prefetch" check:"min=1,max=50000" doc:"Messages of the stream that may be requested ahead of being read. By default 1000 or, if the consumer has max_deliver, as many as workers and batches need: those that a stop returns count as delivered. Their bytes are at most about a quarter of max_in_flight."`
}

type declare struct {
	Stream   *nats.Declare `yaml:"stream" doc:"The stream; without this, it must exist."`
	Consumer *consumer     `yaml:"consumer" doc:"Settings of the consumer; without this, its defaults."`
}

type consumer struct {
	Start         string        `yaml:"start" doc:"Where a new consumer begins: all; new, messages that arrive after it was created; last, the newest message; last_per_subject; a sequence number; a time such as 2026-01-31T12:00:00Z; or an interval before now, such as 2h. By default all."`
	Filter        engine.Names  `yaml:"filter" doc:"Subjects to read, with * and >; all of the stream by default."`
	AckWait       time.Duration `yaml:"ack_wait" check:"min=1s,max=24h" doc:"Time after which a message that is not acknowledged is redelivered. The input extends it while a message is in flight. By default 30s."`
	MaxDeliver    int           `yaml:"max_deliver" check:"min=1" doc:"Maximum number of deliveries of a message; no limit by default, which is best: on_failure limits attempts without losing anything."`
	MaxAckPending int           `yaml:"max_ack_pending" check:"min=1" doc:"Maximum number of messages delivered but not acknowledged; by default 1000."`
	Replicas      int           `yaml:"replicas" check:"min=1,max=5" doc:"Servers in a cluster that keep the position; by default as many as keep the stream."`
}

// defaultAckPending is the server's max_ack_pending of a consumer that has none.
const defaultAckPending = 1000

// CheckConfig reports what can't work.
func (c *Config) CheckConfig(report func(path, message, remedy string)) {
	c.Connect.CheckConfig(report)
	if c.Stream == "" {
		c.checkCore(report)
		return
	}
	switch {
	case len(c.Subject) > 0:
		report("subject", "has no effect on a stream, which is read by its consumer",
			"remove `stream`, or write `declare: {consumer: {filter: …}}` instead of `subject`")
	case c.QueueGroup != "":
		report("queue_group", "has no effect on a stream: all readers of a consumer share its messages", "remove it")
	case c.AtMostOnce:
		report("at_most_once", "has no effect on a stream, which keeps its messages", "remove it")
	case c.Consumer == "":
		report("consumer", "required", "name a durable consumer; it is created with `declare: {consumer: {}}`")
	}
	for _, f := range []struct{ name, value string }{{"stream", c.Stream}, {"consumer", c.Consumer}} {
		if problem := nats.CheckName(f.value); problem != "" && f.value != "" {
			report(f.name, fmt.Sprintf("%q %s", f.value, problem), "correct it")
		}
	}
	if d := c.Declare; d != nil {
		if d.Stream != nil {
			d.Stream.Check("declare.stream", report)
		}
		if d.Consumer != nil {
			d.Consumer.check(report)
		}
	}
}

// checkCore checks a configuration without a stream.
func (c *Config) checkCore(report func(path, message, remedy string)) {
	if len(c.Subject) == 0 {
		report("subject", "required", "write `subject`, or `stream` and `consumer`")
	}
	for _, s := range c.Subject {
		if problem := nats.CheckSubject(s, true); problem != "" {
			report("subject", fmt.Sprintf("%q %s", s, problem), "write a subject such as orders.*")
		}
	}
	if problem := nats.CheckSubject(c.QueueGroup, false); problem != "" && c.QueueGroup != "" {
		report("queue_group", problem, "write a name")
	}
	for _, f := range []struct {
		name string
		set  bool
	}{{"consumer", c.Consumer != ""}, {"declare", c.Declare != nil}, {"prefetch", c.Prefetch > 0}} {
		if f.set {
			report(f.name, "has no effect without a stream", "write `stream`, or remove it")
		}
	}
}

func (c *consumer) check(report func(path, message, remedy string)) {
	for _, s := range c.Filter {
		if problem := nats.CheckSubject(s, true); problem != "" {
			report("declare.consumer.filter", fmt.Sprintf("%q %s", s, problem), "write a subject such as orders.*")
		}
	}
	if err := c.setStart(&jetstream.ConsumerConfig{}, time.Now()); err != nil {
		report("declare.consumer.start", err.Error(),
			"write all, new, last, last_per_subject, a number from 1 on, a time such as 2026-01-31T12:00:00Z, or an "+
				"interval such as 2h")
	}
}

// setStart sets where a new consumer begins.
func (c *consumer) setStart(to *jetstream.ConsumerConfig, now time.Time) error {
	switch c.Start {
	case "", "all":
		return nil
	case "new":
		to.DeliverPolicy = jetstream.DeliverNewPolicy
		return nil
	case "last":
		to.DeliverPolicy = jetstream.DeliverLastPolicy
		return nil
	case "last_per_subject":
		to.DeliverPolicy = jetstream.DeliverLastPerSubjectPolicy
		if len(c.Filter) == 0 {
			to.FilterSubject = ">" // the server requires a filter
		}
		return nil
	}
	if n, err := strconv.ParseUint(c.Start, 10, 63); err == nil && n > 0 {
		to.DeliverPolicy, to.OptStartSeq = jetstream.DeliverByStartSequencePolicy, n
		return nil
	}
	at, err := time.Parse(time.RFC3339, c.Start)
	if d, e := time.ParseDuration(c.Start); err != nil && e == nil && d > 0 {
		at, err = now.Add(-d), nil
	}
	if err != nil {
		return fmt.Errorf("%q is not a position to start at", c.Start)
	}
	at = at.UTC()
	to.DeliverPolicy, to.OptStartTime = jetstream.DeliverByStartTimePolicy, &at
	return nil
}

// config returns the configuration of a new consumer.
func (c *consumer) config(name string, now time.Time) (to jetstream.ConsumerConfig, err error) {
	to = jetstream.ConsumerConfig{Durable: name, AckPolicy: jetstream.AckExplicitPolicy, AckWait: c.AckWait,
		MaxDeliver: cmp.Or(c.MaxDeliver, -1), MaxAckPending: c.MaxAckPending, Replicas: c.Replicas}
	if len(c.Filter) == 1 {
		to.FilterSubject = c.Filter[0] // servers before NATS 2.10 understand one filter only
	} else {
		to.FilterSubjects = c.Filter
	}
	return to, c.setStart(&to, now)
}

// Traits says that a stream settles each message separately, and that messages of a subject can't be redelivered.
func (c Config) Traits() engine.Traits {
	if c.Stream == "" {
		return engine.Traits{TakesBack: engine.TakesNothing, Forgets: true, Lossy: c.AtMostOnce}
	}
	t := engine.Traits{TakesBack: engine.TakesOne, Delays: maxDelay, OrderBy: `meta("subject")`, HandsBack: c.Prefetch}
	if c.Declare != nil {
		own := consumer{}
		if c.Declare.Consumer != nil {
			own = *c.Declare.Consumer
		}
		t.Unsettled, t.DeliveryLimit = cmp.Or(own.MaxAckPending, defaultAckPending), own.MaxDeliver
	}
	return t
}

// Words returns what users of other systems may write, and what to write instead.
func (c *Config) Words() map[string]string {
	words := c.Connect.Words()
	for word, remedy := range map[string]string{
		"deliver": "write `declare: {consumer: {start: …}}`", "ack_wait": "write `declare: {consumer: {ack_wait: …}}`",
		"max_ack_pending": "write `declare: {consumer: {max_ack_pending: …}}`", "prefetch_count": "write `prefetch`",
		"create_if_not_exists": "write `declare: {consumer: {}}`", "nak_delay": "write `on_failure: {retry: …}`",
		"start": "write `declare: {consumer: {start: …}}`", "filter": "write `declare: {consumer: {filter: …}}`",
		"pending_limit": "write `buffer`",
	} {
		words[word] = remedy
	}
	return words
}

const about = `
Reads NATS subjects, or a JetStream stream.

With stream and consumer, each message is acknowledged when it is settled, and redelivered after a crash. The
server confirms the last acknowledgement of a group, and with it those before; they are resent until it does.
While a message is in flight, its ack_wait is extended well before it ends. A dead-lettered message is
terminated, which the server reports in an advisory. A returned message is redelivered after the interval of a
retry, otherwise after 1s, 2s, 4s and so on. attempt() counts deliveries.

Leave max_deliver unlimited: a message that is not settled at its last delivery, because of a crash or a stop,
stays in the stream, and no consumer gets it. A message that has failed for good at its last delivery is terminated
and logged instead of returned; longer retries are made without redelivery.

With order_by: meta("subject"), the messages of a subject are processed in stream order, as long as one instance
reads the consumer. After a crash, new messages wait until the outstanding ones are redelivered, which takes up to
ack_wait. A message that is returned while others are in flight (then: return, or an ack_wait that passed while the
server could not be reached) may arrive after later ones; max_ack_pending: 1 prevents that.

Without a stream, messages of subject are delivered at most once: the server keeps none. Messages that arrive
faster than they are read are dropped beyond buffer; drops are counted, logged, and shown by /ready. Requests have
reply as metadata: a nats output with subject: $(meta("reply")) answers them.

Metadata: subject; reply of a request; for a stream, stream, consumer, sequence, delivery (the consumer's own
number), deliveries (how many so far), pending (messages after it) and timestamp; and headers by name, repeated
ones as a list. A header with one of the names above becomes header_NAME.

    inputs:
      orders: {nats: {url: "nats://localhost:4222", stream: ORDERS, consumer: shop}}
    engine: {order_by: meta("subject")}
`

// maxDelay is the longest delay before a returned message is redelivered. Meanwhile the message counts towards max_ack_pending.
const maxDelay = 24 * time.Hour

func init() {
	engine.Register(engine.Inputs, "nats", about, Config{Connect: nats.Defaults, Buffer: 64 << 20}, newInput)
}
