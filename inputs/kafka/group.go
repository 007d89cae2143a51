package kafka

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/systems/queue/kafka"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Holds gives the input access to the pipeline's messages in flight.
func (in *input) Holds(h engine.Holding) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.holding, in.waits = h, false
	// Take away messages of partitions that were given up before h was known.
	last, live := in.serial, maps.Clone(in.slots)
	h.Take(func(ref uint64) bool { return slotOf(ref) <= last && live[slotOf(ref)] == nil })
}

// assign begins to follow a partition; in.mu is held.
func (in *input) assign(tp topicPartition) *partition {
	in.serial++
	p := &partition{topic: tp.topic, id: tp.id, slot: in.serial, from: -1, sent: -1}
	in.assigned[tp], in.slots[p.slot] = p, p
	in.share()
	return p
}

// share divides what may be fetched among the partitions; in.mu is held.
func (in *input) share() {
	if in.client != nil {
		in.client.UpdateFetchMaxBytes(in.cfg.maxBytes(in.inFlight, in.times),
			in.cfg.partitionBytes(in.inFlight, in.times, len(in.assigned)))
	}
}

func (in *input) onAssigned(_ context.Context, _ *kgo.Client, all map[string][]int32) {
	in.interrupt()
	in.mu.Lock()
	defer in.mu.Unlock()
	n := 0
	for tp := range each(all) {
		if old := in.assigned[tp]; old != nil && in.tx != nil { // until a transaction has ended, only the first move is told
			delete(in.slots, old.slot)
			in.assign(tp)
		} else if old == nil {
			in.assign(tp)
			n++
		}
	}
	if n > 0 {
		in.log.Info("partitions were assigned", "partitions", n, "now", len(in.assigned))
	}
}

// adjust has partitions that were not there when this input was opened read from their beginning: what was written
// before the group has noticed them is new as well.
func (in *input) adjust(_ context.Context, all map[string]map[int32]kgo.Offset) (map[string]map[int32]kgo.Offset, error) {
	in.mu.Lock()
	defer in.mu.Unlock()
	for topic, partitions := range all {
		known := in.counts[topic]
		for id, at := range partitions {
			if id >= known && at.EpochOffset().Offset < 0 {
				partitions[id] = kgo.NewOffset().AtStart()
			}
		}
	}
	return all, nil
}

// onRevoked gives up partitions, as soon as their messages in flight are settled or the time for that is over.
func (in *input) onRevoked(ctx context.Context, _ *kgo.Client, all map[string][]int32) {
	in.interrupt()
	leaving := in.leave(all)
	if len(leaving) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, in.cfg.RevokeTimeout)
	defer cancel()
	in.finish(ctx, leaving)
	unfinished, again := in.giveUp(ctx, leaving)
	in.log.Info("partitions were given up", "partitions", len(leaving), "now", in.count(), "unfinished", unfinished,
		"read again", again)
}

// giveUp stops reading partitions that leave, and commits what is settled. It returns how many messages were not finished, and how
// many others read again: these, and settled messages after an unsettled one.
func (in *input) giveUp(ctx context.Context, leaving []*partition) (unfinished, again int) {
	unfinished = in.takeAway(leaving)
	if err := in.commitLast(ctx, leaving); err != nil {
		in.log.Warn("settled messages of partitions that move could not be committed: they will be read again", "err", err)
	}
	again = in.forget(leaving)
	in.moved(len(leaving), again)
	return unfinished, again
}

// commitLast commits what is settled of partitions that leave, or of all, at the end. What may pass is tried again until
// ctx ends: a coordinator that moves, or an epoch that the group has raised since the last heartbeat (brokers before 4.3
// refuse that). Where partitions leave, an attempt that has begun may end after ctx.
func (in *input) commitLast(ctx context.Context, leaving []*partition) error {
	t := time.NewTicker(commitAgain)
	defer t.Stop()
	ask := ctx
	if leaving != nil {
		ask = context.WithoutCancel(ctx)
	}
	for {
		err := in.commit(ask, leaving)
		if err == nil || in.shutOut(err) || engine.ErrorOf(err, engine.Transient).Class != engine.Transient {
			return err
		}
		select {
		case <-t.C:
		case <-ctx.Done():
			return err
		}
	}
}

// commitAgain is how long to wait before a commit is tried again that can't wait for the next.
const commitAgain = 100 * time.Millisecond

// shutOut reports whether the group accepts no more commits of this member, or the client is closed.
func (in *input) shutOut(err error) bool {
	final := []error{kerr.UnknownMemberID, kerr.FencedMemberEpoch, kerr.GroupIDNotFound, kgo.ErrClientClosed,
		context.Canceled}
	if _, _, waits := in.joins.waiting(); !waits { // else this member is about to have the group's generation
		final = append(final, kerr.IllegalGeneration, kerr.RebalanceInProgress)
	}
	return slices.ContainsFunc(final, func(e error) bool { return errors.Is(err, e) })
}

// onLost is told when the group goes on without this member. Often it is a connection that was lost, and the group does
// not know yet: then it still takes a commit. If others have the partitions, it refuses.
func (in *input) onLost(ctx context.Context, _ *kgo.Client, all map[string][]int32) {
	in.interrupt()
	leaving := in.leave(all)
	if len(leaving) == 0 {
		return
	}
	once, cancel := context.WithCancel(ctx)
	cancel()
	unfinished, again := in.giveUp(once, leaving)
	in.log.Warn("partitions were lost: the group has gone on without this member", "partitions", len(leaving), "now",
		in.count(), "unfinished", unfinished, "read again", again)
}

// leave marks partitions: nothing more is read of them.
func (in *input) leave(all map[string][]int32) (leaving []*partition) {
	in.mu.Lock()
	defer in.mu.Unlock()
	for tp := range each(all) {
		if p := in.assigned[tp]; p != nil {
			p.leaves = true
			leaving = append(leaving, p)
		}
	}
	return leaving
}

// finish waits until all messages of partitions are settled, or ctx ends.
func (in *input) finish(ctx context.Context, leaving []*partition) {
	in.mu.Lock()
	holding := in.holding
	in.mu.Unlock()
	if holding == nil {
		return
	}
	defer holding.Hurry()()
	for {
		in.mu.Lock()
		open := slices.ContainsFunc(leaving, func(p *partition) bool { return p.span() > 0 })
		if !open || in.closing {
			in.mu.Unlock()
			return
		}
		news := in.newsOf()
		in.mu.Unlock()
		select {
		case <-news:
		case <-ctx.Done():
			return
		}
	}
}

// newsOf is closed when something changes; in.mu is held.
func (in *input) newsOf() chan struct{} {
	if in.news == nil {
		in.news = make(chan struct{})
	}
	return in.news
}

// wake wakes goroutines that wait for settled messages. in.mu is held.
func (in *input) wake() {
	if in.news != nil {
		close(in.news)
		in.news = nil
	}
}

// takeAway takes messages in flight of partitions, or of all, away from the pipeline.
func (in *input) takeAway(leaving []*partition) (unfinished int) {
	in.mu.Lock()
	holding := in.holding
	gone := map[uint64]bool{}
	for _, p := range leaving {
		gone[p.slot] = true
	}
	if leaving == nil {
		for slot := range in.slots {
			gone[slot] = true
		}
	}
	in.mu.Unlock()
	if holding == nil {
		return 0
	}
	return holding.Take(func(ref uint64) bool { return gone[slotOf(ref)] })
}

// forget stops following partitions, and returns how many messages are read again.
func (in *input) forget(leaving []*partition) (again int) {
	in.mu.Lock()
	defer in.mu.Unlock()
	resume := map[string][]int32{}
	for _, p := range leaving {
		delete(in.slots, p.slot)
		delete(in.assigned, topicPartition{p.topic, p.id})
		delete(in.blocked, topicPartition{p.topic, p.id})
		in.span -= p.span()
		again += p.again()
		if p.paused {
			resume[p.topic] = append(resume[p.topic], p.id)
			in.paused--
		}
	}
	in.share()
	if len(resume) > 0 && in.client != nil { // it may come back
		in.client.ResumeFetchPartitions(resume)
	}
	if in.tx == nil {
		in.pace()
	}
	return again
}

func (in *input) count() int {
	in.mu.Lock()
	defer in.mu.Unlock()
	return len(in.assigned)
}

// Ack records settled messages. It ignores those of partitions that were given up.
func (in *input) Ack(_ context.Context, results []engine.Result) ([]engine.Result, error) {
	in.mu.Lock()
	defer in.mu.Unlock()
	for len(results) > 0 {
		n := together(results)
		in.settle(&results[0], n)
		results = results[n:]
	}
	in.wake()
	if in.tx == nil {
		in.pace()
	}
	return nil, nil
}

// together is how many results, the first, are alike and of consecutive messages of a partition.
func together(results []engine.Result) (n int) {
	for n = 1; n < len(results); n++ {
		if results[n].Ref != results[0].Ref+uint64(n) || results[n].Fate != results[0].Fate {
			break
		}
	}
	return n
}

// settle records the results of n messages, of which r is the first. in.mu is held.
func (in *input) settle(r *engine.Result, n int) {
	p := in.slots[slotOf(r.Ref)]
	if p == nil {
		return
	}
	if in.round != nil {
		in.round.ended(r.Fate, n)
	}
	if r.Fate == engine.Returned {
		return
	}
	before := p.span()
	if p.settle(seqOf(r.Ref), n) {
		in.span -= before - p.span()
	}
}

// pace pauses partitions that are too far ahead of their settled messages, and resumes the others. All partitions together may be
// ahead by max_replay. Below that, each may use what it needs. in.mu is held.
func (in *input) pace() {
	full := in.span >= in.replay/2
	if in.client == nil || len(in.assigned) == 0 || !full && in.paused == 0 && !in.waits {
		return
	}
	share := max(1, in.replay/2/len(in.assigned))
	var stop, resume map[string][]int32
	for _, p := range in.assigned {
		switch far := full && p.span() >= share; {
		case far && !p.paused:
			stop = with(stop, p)
			in.paused++
		case !far && p.paused && (!full || p.span() <= share/2):
			resume = with(resume, p)
			in.paused--
		}
	}
	if stop != nil {
		in.client.PauseFetchPartitions(stop)
	}
	if resume != nil {
		in.client.ResumeFetchPartitions(resume)
	}
	if in.holding != nil && in.waits != full {
		in.waits = full
		in.holding.Waits(full)
	}
}

// with adds a partition, whose state changes.
func with(all map[string][]int32, p *partition) map[string][]int32 {
	p.paused = !p.paused
	if all == nil {
		all = map[string][]int32{}
	}
	all[p.topic] = append(all[p.topic], p.id)
	return all
}

// commits commits what is settled, again and again until ctx ends; what it asks brokers then ends with asks.
func (in *input) commits(ctx, asks context.Context) {
	t := time.NewTicker(in.cfg.CommitInterval)
	defer t.Stop()
	failed := 0
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		if _, _, waits := in.joins.waiting(); waits {
			continue // the client would wait, and the end for it
		}
		err := in.commit(asks, nil)
		if failed++; err == nil || ctx.Err() != nil {
			failed = 0
		} else if failed&(failed-1) == 0 {
			in.log.Warn("commit", "err", err, "times", failed)
		}
	}
}

// commit commits the settled offsets of partitions, or of all that stay.
func (in *input) commit(ctx context.Context, only []*partition) error {
	if in.cfg.Group == "" {
		return nil
	}
	in.mu.Lock()
	client, closing := in.client, in.closing
	due, kept := map[string]map[int32]kgo.EpochOffset{}, map[topicPartition]uint64{}
	for _, p := range in.assigned {
		if only == nil && p.leaves || only != nil && !slices.Contains(only, p) {
			continue
		}
		if at, ok := p.due(); ok {
			if due[p.topic] == nil {
				due[p.topic] = map[int32]kgo.EpochOffset{}
			}
			due[p.topic][p.id], kept[topicPartition{p.topic, p.id}] = at, p.low.Low()
		}
	}
	in.mu.Unlock()
	if len(due) == 0 || client == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, in.cfg.Timeout)
	defer cancel()
	var failed error
	if member, generation, waits := in.joins.waiting(); waits && closing {
		answer, err := in.commitBeside(ctx, member, generation, due)
		if failed = err; err == nil {
			failed = in.committed(due, kept, answer)
		}
	} else {
		client.CommitOffsetsSync(ctx, due,
			func(_ *kgo.Client, _ *kmsg.OffsetCommitRequest, answer *kmsg.OffsetCommitResponse, err error) {
				if failed = err; err == nil {
					failed = in.committed(due, kept, answer)
				}
			})
	}
	return kafka.Explain(failed, "commit of group "+in.cfg.Group)
}

// committed notes what the group remembers now.
func (in *input) committed(due map[string]map[int32]kgo.EpochOffset, kept map[topicPartition]uint64,
	answer *kmsg.OffsetCommitResponse) (failed error) {
	in.mu.Lock()
	defer in.mu.Unlock()
	for _, t := range answer.Topics {
		for _, a := range t.Partitions {
			if err := kerr.ErrorForCode(a.ErrorCode); err != nil {
				failed = err
			} else if tp := (topicPartition{t.Topic, a.Partition}); in.assigned[tp] != nil {
				in.assigned[tp].sent, in.assigned[tp].kept = due[t.Topic][a.Partition].Offset, kept[tp]
			}
		}
	}
	return failed
}

// each yields partitions in a form that can be a key.
func each(all map[string][]int32) func(yield func(topicPartition) bool) {
	return func(yield func(topicPartition) bool) {
		for _, topic := range slices.Sorted(maps.Keys(all)) {
			for _, id := range all[topic] {
				if !yield(topicPartition{topic, id}) {
					return
				}
			}
		}
	}
}
