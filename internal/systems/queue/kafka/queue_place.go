package kafka

import (
	"cmp"
	"context"
	"errors"

	"github.com/flowd-io/flowd/engine"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
)

// place is a partition and what a group has done with in it.
type place struct {
	progress
	committed kadm.Offset // as the brokers have it; At -1: nothing
	start     int64       // of the first record
	stable    int64       // after the last that is not part of an open transaction
	end       int64
	err       error // why it is not known
}

// place is the partitions of a topic, all of them known.
func (s *server) place(ctx context.Context, topic string) (map[int32]*place, error) {
	asked, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	known, err := s.admin.ListTopicsWithInternal(asked, topic)
	if err = cmp.Or(err, known.Error()); err == nil && len(known[topic].Partitions) == 0 {
		err = kerr.UnknownTopicOrPartition
	}
	if errors.Is(err, kerr.UnknownTopicOrPartition) {
		return nil, engine.Errorf(engine.Permanent, "there is no topic %s (create it, or correct its name)", topic)
	}
	if err != nil {
		return nil, Explain(err, "look for topic "+topic)
	}
	all, err := s.places(ctx, topic)
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

// places is the partitions of topics. Those that can't be known have an error.
func (s *server) places(ctx context.Context, topics ...string) (map[string]map[int32]*place, error) {
	all := map[string]map[int32]*place{}
	if len(topics) == 0 {
		return all, nil // for the client no topic is all topics
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	done, err := s.committed(ctx)
	if err != nil {
		return nil, err
	}
	// In this order, so that no later number is less than one before.
	for _, ask := range []struct {
		of  func(context.Context, ...string) (kadm.ListedOffsets, error)
		set func(*place, int64)
	}{
		{s.admin.ListStartOffsets, func(p *place, n int64) { p.start = n }},
		{s.admin.ListCommittedOffsets, func(p *place, n int64) { p.stable = max(n, p.start) }},
		{s.admin.ListEndOffsets, func(p *place, n int64) { p.end = max(n, p.stable) }},
	} {
		listed, err := ask.of(ctx, topics...)
		if err != nil {
			return nil, Explain(err, "ask for the offsets of topics")
		}
		listed.Each(func(o kadm.ListedOffset) {
			if all[o.Topic] == nil {
				all[o.Topic] = map[int32]*place{}
			}
			p := all[o.Topic][o.Partition]
			if p == nil {
				p = &place{}
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

// resume sets what is done with to what the group has committed, as far as that is still there.
func (p *place) resume(done kadm.OffsetResponses, topic string, id int32) {
	p.committed.At = -1
	if o, ok := done.Lookup(topic, id); ok && o.At >= 0 {
		p.committed = o.Offset
		p.progress = noted(o.At, o.Metadata)
	}
	if p.last() > p.end { // the topic was deleted and created again
		p.progress = progress{}
	}
	p.add(0, p.start)
}

// committed is what the group has committed.
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

// free is an error when the group has members: these would not notice that its position moves, and move it again.
func (s *server) free(ctx context.Context) error {
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
		return engine.Errorf(engine.Permanent, "the group %s is in use (%s): only its members may move its position "+
			"(stop them, or name another group in the address, ?group=NAME)", s.group, state)
	}
}
