package kafka

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/twmb/franz-go/pkg/kadm"
)

var _ engine.Positioned = (*input)(nil)

// Progress returns the progress of all assigned partitions. A partition of which no message was read or committed yet has no
// settled position.
func (in *input) Progress() engine.Progress {
	in.mu.Lock()
	defer in.mu.Unlock()
	all := engine.Progress{Revoked: in.revoked, TakenAway: in.takenAway}
	if in.client == nil {
		return all
	}
	all.Positions = make([]engine.Position, 0, len(in.assigned))
	for tp, p := range in.assigned {
		all.Positions = append(all.Positions, engine.Position{Name: tp.String(), Settled: p.settled(),
			Read: max(p.next, p.from), End: p.end})
	}
	slices.SortFunc(all.Positions, func(a, b engine.Position) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// settled returns the offset before which all messages are settled; -1: it is unknown.
func (p *partition) settled() int64 {
	switch {
	case p.low.Low() > 0:
		at, _ := p.commitOffset()
		return at.Offset
	case p.read > 0:
		return p.runs[0].offset
	}
	return p.from
}

// countMoved counts partitions that other members read now, and messages that they read again.
func (in *input) countMoved(partitions, again int) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if !in.closing { // partitions do not count if this member leaves
		in.revoked += int64(partitions)
	}
	in.takenAway += int64(again)
}

// endOffsetsLoop asks for the end offsets of partitions at intervals, until ctx ends. Fetches report them as well, but not for
// paused partitions.
func (in *input) endOffsetsLoop(ctx context.Context) {
	t := time.NewTicker(min(10*in.cfg.CommitInterval, 10*time.Second))
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		if err := in.updateEnds(ctx); err != nil && ctx.Err() == nil {
			in.log.Debug("the end offsets of partitions are unknown", "err", err)
		}
	}
}

// updateEnds asks the brokers for the end offsets of all assigned partitions.
func (in *input) updateEnds(ctx context.Context) error {
	in.mu.Lock()
	client, topics := in.client, map[string]bool{}
	for tp := range in.assigned {
		topics[tp.topic] = true
	}
	in.mu.Unlock()
	if client == nil || len(topics) == 0 { // a request without a topic would be about all topics
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, in.cfg.Timeout)
	defer cancel()
	ends, err := kadm.NewClient(client.Client).ListEndOffsets(ctx, slices.Sorted(maps.Keys(topics))...)
	committed := client.CommittedOffsets()
	in.mu.Lock()
	defer in.mu.Unlock()
	for tp, p := range in.assigned {
		if end, ok := ends.Lookup(tp.topic, tp.id); ok && end.Err == nil {
			p.end = max(end.Offset, p.next) // records may have been read since the answer
		}
		if at := committed[tp.topic][tp.id].Offset; at > 0 && p.from < 0 { // the client returns 0 if nothing is committed
			p.from = at
		}
	}
	return err // possibly of some brokers only
}
