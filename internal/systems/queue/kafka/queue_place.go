package kafka

import (
	"cmp"
	"context"
	"errors"

	"github.com/flowd-io/flowd/engine"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
)

// partition is a partition and the progress of the group in it.
type partition struct {
	progress
	committed kadm.Offset // as the brokers have it; At -1: nothing
	start     int64       // offset of the first record
	stable    int64       // last stable offset: open transactions begin here
	end       int64       // offset after the last record
	err       error       // why the offsets are unknown
}

// lookUp returns the partitions of a topic. It is an error if any of them is unknown.
func (s *server) lookUp(ctx context.Context, topic string) (map[int32]*partition, error) {
	asked, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	known, err := s.admin.ListTopicsWithInternal(asked, topic)
	if err = cmp.Or(err, known.Error()); err == nil && len(known[topic].Partitions) == 0 {
		err = kerr.UnknownTopicOrPartition
	}
	if errors.Is(err, kerr.UnknownTopicOrPartition) {
		return nil, engine.Errorf(engine.Permanent, "the topic %s does not exist (create it, or correct its name)", topic)
	}
	if err != nil {
		return nil, Explain(err, "look for topic "+topic)
	}
	all, err := s.partitionsOf(ctx, topic)
	if err != nil {
		return nil, err
	}
	for _, p := range all[topic] {
		if p.err != nil {
			return nil, p.err
		}
	}
	return all[topic], nil
}

// partitionsOf returns the partitions of topics. A partition whose offsets are unknown has an error.
func (s *server) partitionsOf(ctx context.Context, topics ...string) (map[string]map[int32]*partition, error) {
	all := map[string]map[int32]*partition{}
	if len(topics) == 0 {
		return all, nil // the client would list all topics
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	done, err := s.committed(ctx)
	if err != nil {
		return nil, err
	}
	// The order ensures that start ≤ stable ≤ end although the topics may grow meanwhile.
	for _, ask := range []struct {
		list func(context.Context, ...string) (kadm.ListedOffsets, error)
		set  func(*partition, int64)
	}{
		{s.admin.ListStartOffsets, func(p *partition, n int64) { p.start = n }},
		{s.admin.ListCommittedOffsets, func(p *partition, n int64) { p.stable = max(n, p.start) }},
		{s.admin.ListEndOffsets, func(p *partition, n int64) { p.end = max(n, p.stable) }},
	} {
		listed, err := ask.list(ctx, topics...)
		if err != nil {
			return nil, Explain(err, "ask for the offsets of topics")
		}
		listed.Each(func(o kadm.ListedOffset) {
			if all[o.Topic] == nil {
				all[o.Topic] = map[int32]*partition{}
			}
			p := all[o.Topic][o.Partition]
			if p == nil {
				p = &partition{}
				all[o.Topic][o.Partition] = p
			}
			ask.set(p, o.Offset)
			if o.Err != nil {
				p.err = Explain(o.Err, "ask for the offsets of topic "+o.Topic)
			}
		})
	}
	for topic, partitions := range all {
		for id, p := range partitions {
			p.resume(done, topic, id)
		}
	}
	return all, nil
}

// resume sets the progress to what the group has committed. Offsets that no longer exist count as done.
func (p *partition) resume(done kadm.OffsetResponses, topic string, id int32) {
	p.committed.At = -1
	if o, ok := done.Lookup(topic, id); ok && o.At >= 0 {
		p.committed = o.Offset
		p.progress = decodeProgress(o.At, o.Metadata)
	}
	if p.last() > p.end { // the topic was deleted and created again
		p.progress = progress{}
	}
	p.add(0, p.start)
}

// committed returns the offsets that the group has committed.
func (s *server) committed(ctx context.Context) (kadm.OffsetResponses, error) {
	done, err := s.admin.FetchOffsets(ctx, s.group)
	switch err = cmp.Or(err, done.Error()); {
	case errors.Is(err, kerr.GroupIDNotFound):
		return nil, nil
	case err != nil:
		return nil, Explain(err, "ask for the position of group "+s.group)
	}
	return done, nil
}

// checkUnused returns an error if the group has members. They would not notice changes of its offsets, and overwrite them.
func (s *server) checkUnused(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	groups, err := s.admin.ListGroups(ctx)
	if err != nil {
		return Explain(err, "ask for the members of group "+s.group)
	}
	switch state := groups[s.group].State; state {
	case "", "Empty", "Dead":
		return nil
	default:
		return engine.Errorf(engine.Permanent, "the group %s is in use (%s): only its members may commit offsets "+
			"(stop them, or name another group in the address, ?group=NAME)", s.group, state)
	}
}
