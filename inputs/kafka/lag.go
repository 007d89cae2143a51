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

// Progress returns the progress of the partitions that this input reads now. Where reading begins is unknown for a partition of which
// nothing was read or committed yet.
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

// settled returns the offset up to which all messages are settled; -1 means that it is unknown.
func (p *partition) settled() int64 {
	switch {
	case p.low.Low() > 0:
		at, _ := p.due()
		return at.Offset
	case p.read > 0:
		return p.runs[0].offset
	}
	return p.from
}

// moved counts partitions that others read now, and messages that they read again.
func (in *input) moved(partitions, again int) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if !in.closing { // else it leaves the group by itself
		in.revoked += int64(partitions)
	}
	in.takenAway += int64(again)
}

// ends asks for the ends of partitions, again and again until ctx ends: those that are not fetched grow as well.
func (in *input) ends(ctx context.Context) {
	t := time.NewTicker(min(10*in.cfg.CommitInterval, 10*time.Second))
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		if err := in.askEnds(ctx); err != nil && ctx.Err() == nil {
			in.log.Debug("the end offsets of partitions are unknown", "err", err)
		}
	}
}

func (in *input) askEnds(ctx context.Context) error {
	in.mu.Lock()
	client, topics := in.client, map[string]bool{}
	for tp := range in.assigned {
		topics[tp.topic] = true
	}
	in.mu.Unlock()
	if client == nil || len(topics) == 0 { // without a name, all topics would be asked for
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
			p.end = max(end.Offset, p.next) // what was read since the answer is there, too
		}
		if at := committed[tp.topic][tp.id].Offset; at > 0 && p.from < 0 { // the client says 0 where nothing is committed
			p.from = at
		}
	}
	return err // of some brokers, maybe
}
