package nats

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/systems/queue/nats"
	"github.com/nats-io/nats.go/jetstream"
)

// consumer finds the consumer. If there is none and declare is set, it creates one. It never changes a consumer.
func (in *input) consumer(ctx context.Context, conn *nats.Conn) (*jetstream.ConsumerInfo, error) {
	c := &in.cfg
	what := "consumer " + c.Consumer + " of stream " + c.Stream
	var s jetstream.Stream
	err := conn.API(ctx, "look for stream "+c.Stream, func(ctx context.Context) (err error) {
		s, err = conn.JS.Stream(ctx, c.Stream)
		return err
	})
	if err != nil {
		return nil, err
	}
	var found jetstream.Consumer
	find := func(ctx context.Context) (err error) {
		found, err = s.Consumer(ctx, c.Consumer)
		return err
	}
	err = conn.API(ctx, what, find)
	if c.Declare != nil && errors.Is(err, jetstream.ErrConsumerNotFound) {
		want, bad := in.newConsumer(conn, s.CachedInfo())
		if bad != nil {
			return nil, engine.WithClass(engine.Permanent, fmt.Errorf("%s: %w", what, bad))
		}
		err = conn.API(ctx, what, func(ctx context.Context) (err error) {
			found, err = s.CreateConsumer(ctx, want)
			return err
		})
		if errors.Is(err, jetstream.ErrConsumerExists) { // another client has just created it
			err = conn.API(ctx, what, find)
		}
	}
	if err != nil {
		return nil, err
	}
	info := found.CachedInfo()
	in.created = s.CachedInfo().Created
	in.from.Store(info.AckFloor.Stream + 1)
	if info.Config.AckPolicy != jetstream.AckExplicitPolicy {
		return nil, engine.Errorf(engine.Permanent, "%s: its ack policy is %s (name a consumer whose policy is explicit)",
			what, info.Config.AckPolicy)
	}
	if c.Declare == nil || c.Declare.Consumer == nil {
		return info, nil
	}
	if other := c.Declare.Consumer.difference(&info.Config); other != "" {
		return nil, engine.Errorf(engine.Permanent, "%s was created with other settings: %s (change `declare` to match it, or "+
			"the consumer with `nats consumer edit`)", what, other)
	}
	return info, nil
}

// newConsumer returns the configuration of the consumer to create, as declared. If the consumer was deleted while it was read, the
// new one continues after the acknowledged messages.
func (in *input) newConsumer(conn *nats.Conn, s *jetstream.StreamInfo) (want jetstream.ConsumerConfig, err error) {
	var own consumer
	if d := in.cfg.Declare.Consumer; d != nil {
		own = *d
	}
	if want, err = own.config(in.cfg.Consumer, time.Now()); err != nil {
		return want, err
	}
	if version := conn.ConnectedServerVersion(); len(want.FilterSubjects) > 0 && !atLeast(version, 2, 10) {
		return want, fmt.Errorf("several filters need NATS 2.10, and the server has %s (upgrade it, or write one filter)",
			version)
	}
	if from := in.from.Load(); from > 0 && s.Created.Equal(in.created) {
		in.log.Warn("the consumer was deleted: recreating it after the last acknowledged message", "consumer",
			in.cfg.Consumer, "sequence", from)
		want.DeliverPolicy, want.OptStartSeq, want.OptStartTime = jetstream.DeliverByStartSequencePolicy, from, nil
	}
	return want, nil
}

// difference returns the declared settings in which a consumer differs, or "". Its start position no longer matters.
func (c *consumer) difference(has *jetstream.ConsumerConfig) string {
	var all []string
	compare := func(written bool, name string, has, want any) {
		if written && has != want {
			all = append(all, fmt.Sprintf("%s is %v, not %v", name, has, want))
		}
	}
	filters := func(one string, all []string) string {
		if one != "" {
			all = []string{one}
		}
		return strings.Join(slices.Sorted(slices.Values(all)), " ")
	}
	compare(len(c.Filter) > 0, "filter", filters(has.FilterSubject, has.FilterSubjects), filters("", c.Filter))
	compare(c.AckWait > 0, "ack_wait", has.AckWait, c.AckWait)
	compare(c.MaxDeliver > 0, "max_deliver", has.MaxDeliver, c.MaxDeliver)
	compare(c.MaxAckPending > 0, "max_ack_pending", has.MaxAckPending, c.MaxAckPending)
	compare(c.Replicas > 0, "replicas", has.Replicas, c.Replicas)
	return strings.Join(all, ", ")
}

// atLeast reports whether a version is at least want.
func atLeast(version string, want ...int) bool {
	for i, part := range strings.SplitN(strings.TrimPrefix(version, "v"), ".", len(want)) {
		digits := strings.IndexFunc(part, func(r rune) bool { return r < '0' || r > '9' })
		if digits >= 0 {
			part = part[:digits]
		}
		if n, _ := strconv.Atoi(part); n != want[i] {
			return n > want[i]
		}
	}
	return true
}
