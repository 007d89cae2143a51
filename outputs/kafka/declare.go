package kafka

import (
	"context"
	"errors"
	"fmt"

	"github.com/flowd-io/flowd/internal/systems/queue/kafka"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// mostDeclared bounds the topics that are remembered to exist.
const mostDeclared = 10_000

// declareAll creates those topics of the records that do not exist.
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
	admin := kadm.NewClient(o.client.Client)
	answer, err := admin.CreateTopic(ctx, partitions, replication, settings, topic)
	if err == nil {
		err = answer.Err
	}
	switch {
	case err == nil:
		o.log.Info("topic created", "topic", topic, "partitions", max(partitions, answer.NumPartitions))
	case errors.Is(err, kerr.TopicAlreadyExists):
		o.compare(ctx, admin, topic)
	default:
		return kafka.Explain(fmt.Errorf("%w %s", err, answer.ErrMessage), "create topic "+topic)
	}
	if len(o.declared) >= mostDeclared {
		clear(o.declared)
	}
	o.declared[topic] = true
	return nil
}

// compare logs where an existing topic differs from `declare`.
func (o *output) compare(ctx context.Context, admin *kadm.Client, topic string) {
	found, err := admin.ListTopics(ctx, topic)
	n, declared := len(found[topic].Partitions), o.cfg.Declare.Partitions
	if err == nil && n > 0 && declared > 0 && n != declared {
		o.log.Warn("topic has another number of partitions than `declare` says; it is not changed", "topic", topic,
			"partitions", n, "declared", declared)
	}
}

// undeclare forgets that a topic exists, so that it is created again after it was deleted.
func (o *output) undeclare(topic string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.declared, topic)
}
