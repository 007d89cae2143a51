package kafka

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/queue/kafka"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

type output struct {
	cfg   Config
	log   *slog.Logger
	name  string
	topic string // the one to which all messages go; "": there are others

	client *kafka.Client
	tx     *kafka.Session // writes instead of client; nil: messages are delivered at least once

	mu       sync.Mutex // guards the field below
	declared map[string]bool
}

var (
	_ engine.Opener  = (*output)(nil)
	_ engine.Closer  = (*output)(nil)
	_ engine.Prober  = (*output)(nil)
	_ engine.Traited = (*output)(nil)
)

func newOutput(c Config, env engine.Env) (engine.Output, error) {
	o := &output{cfg: c, log: env.Log, name: strings.Trim(env.Pipeline+"."+env.Name, "."), declared: map[string]bool{}}
	o.topic, _ = c.Topic.Const()
	if env.ExactlyOnce {
		o.tx = kafka.SessionOf(env.Shared, env.Pipeline)
	}
	return o, nil
}

// Traits says that a partition keeps the order of a write, and that what is behind a message that can't be sent is not
// sent.
func (o *output) Traits() engine.Traits { return engine.Traits{Sequential: true} }

// Open connects. Brokers that can't be reached are not a mistake in the configuration: the first write tries again.
func (o *output) Open(ctx context.Context) (err error) {
	if o.tx != nil {
		o.tx.Offer(o.cfg.producing()...)
	}
	if o.client, err = o.cfg.Client(o.log, o.name, o.cfg.options()...); err != nil {
		return err
	}
	if err = o.client.Reach(ctx); err == nil && o.topic != "" {
		err = o.declare(ctx, o.topic)
	}
	if err != nil && engine.ErrorOf(err, engine.Transient).Class == engine.Transient {
		o.log.Warn("the brokers can't be reached yet", "err", err)
		return nil
	}
	return err
}

// Close drops the connections. What is not confirmed by now has failed.
func (o *output) Close(context.Context) error {
	if o.client != nil {
		o.client.Close()
	}
	return nil
}

// Probe asks a broker for the topic.
func (o *output) Probe(ctx context.Context) error {
	if err := o.client.Reach(ctx); err != nil || o.topic == "" || o.cfg.Declare == nil {
		return err
	}
	return o.declare(ctx, o.topic)
}

// Write sends the batch and waits until all of it is confirmed, or has failed.
func (o *output) Write(ctx context.Context, b *engine.Batch) error {
	if err := o.client.Link.Down(); err != nil {
		return held(kafka.Explain(err, "reach a broker"))
	}
	records, msgs := o.compose(b)
	if err := o.declareAll(ctx, records); err != nil {
		return held(err)
	}
	if len(records) == 0 {
		return nil
	}
	w := write{done: make(chan struct{})}
	w.left.Store(int64(len(records)))
	if o.tx != nil {
		return o.transact(ctx, &w, records, msgs)
	}
	confirmed := w.confirmed // one for all
	for i := range records {
		o.client.Produce(ctx, &records[i], confirmed)
	}
	<-w.done
	return o.conclude(&w, records, msgs)
}

// write counts what is confirmed of one.
type write struct {
	left atomic.Int64
	done chan struct{} // closed when nothing is left

	mu     sync.Mutex // guards the field below
	failed []failure
}

type failure struct {
	record *kgo.Record
	err    error
}

func (w *write) confirmed(r *kgo.Record, err error) {
	if err != nil {
		w.mu.Lock()
		w.failed = append(w.failed, failure{r, err})
		w.mu.Unlock()
	}
	if w.left.Add(-1) == 0 {
		close(w.done)
	}
}

// conclude gives each message that has failed its error. The error of the output is returned.
func (o *output) conclude(w *write, records []kgo.Record, msgs []*engine.Message) error {
	if len(w.failed) == 0 {
		return nil
	}
	errs := make(map[*kgo.Record]error, len(w.failed))
	for _, f := range w.failed {
		errs[f.record] = f.err
	}
	var all error
	for i, m := range msgs {
		err := errs[&records[i]]
		if err == nil {
			m.Done()
			continue
		}
		err = o.judge(err, records[i].Topic)
		if e := engine.ErrorOf(err, engine.Transient); e.HoldsOutput() {
			all = err
			continue
		}
		m.Fail(err)
	}
	return all
}

// judge says whether a record is to blame, or all would fail.
func (o *output) judge(err error, topic string) error {
	why := kafka.Explain(err, "write to topic "+topic)
	switch e := engine.ErrorOf(why, engine.Transient); {
	case o.client.Link.Down() != nil:
		return held(kafka.Explain(o.client.Link.Down(), "reach a broker"))
	case errors.Is(err, kerr.UnknownTopicOrPartition) && o.topic != "" && o.cfg.Partition.IsZero():
		return held(why)
	case errors.Is(err, kerr.TopicAuthorizationFailed) && o.topic == "":
		return engine.Errorf(engine.Rejected, "%w", e.Err)
	case errors.Is(err, kerr.UnknownTopicOrPartition), e.Class == engine.Transient && kafka.Final(err):
		return engine.Errorf(engine.Rejected, "%w", e.Err)
	}
	return why
}

// held is an error of the output: no message is to blame.
func held(err error) error {
	e := *engine.ErrorOf(err, engine.Transient)
	e.Holds = true
	return &e
}

// mostDeclared is of how many topics it is remembered that they exist.
const mostDeclared = 10_000

// declareAll creates the topics of records that do not exist.
func (o *output) declareAll(ctx context.Context, records []kgo.Record) error {
	if o.cfg.Declare == nil {
		return nil
	}
	last := ""
	for i := range records {
		if t := records[i].Topic; t != last {
			if err := o.declare(ctx, t); err != nil {
				return err
			}
			last = t
		}
	}
	return nil
}

// declare creates a topic if it does not exist.
func (o *output) declare(ctx context.Context, topic string) error {
	d := o.cfg.Declare
	if d == nil {
		return nil
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.declared[topic] {
		return nil
	}
	settings := map[string]*string{}
	for name, value := range d.Config.All() {
		settings[name] = &value
	}
	partitions, replication := int32(-1), int16(-1)
	if d.Partitions > 0 {
		partitions = int32(d.Partitions)
	}
	if d.Replication > 0 {
		replication = int16(d.Replication)
	}
	ctx, cancel := context.WithTimeout(ctx, o.cfg.Timeout)
	defer cancel()
	answer, err := kadm.NewClient(o.client.Client).CreateTopic(ctx, partitions, replication, settings, topic)
	if err == nil {
		err = answer.Err
	}
	switch {
	case err == nil:
		o.log.Info("topic created", "topic", topic, "partitions", answer.NumPartitions)
	case !errors.Is(err, kerr.TopicAlreadyExists):
		return kafka.Explain(fmt.Errorf("%w %s", err, answer.ErrMessage), "create topic "+topic)
	}
	if len(o.declared) >= mostDeclared {
		clear(o.declared)
	}
	o.declared[topic] = true
	return nil
}
