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

// Holds receives access to the pipeline's messages in flight.
func (in *input) Holds(h engine.Holding) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.holding, in.waits = h, false
	// Take away messages of partitions that were given up before h was known.
	last, live := in.serial, maps.Clone(in.slots)
	h.Take(func(ref uint64) bool { return slotOf(ref) <= last && live[slotOf(ref)] == nil })
}

// assign starts to track a partition. in.mu is held.
func (in *input) assign(tp topicPartition) *partition {
	in.serial++
	p := &partition{topic: tp.topic, id: tp.id, slot: in.serial, from: -1, committed: -1}
	in.assigned[tp], in.slots[p.slot] = p, p
	in.limitFetches()
	return p
}

// limitFetches divides the bytes that may be fetched among the partitions. in.mu is held.
func (in *input) limitFetches() {
	if in.client != nil {
		in.client.UpdateFetchMaxBytes(in.cfg.maxBytes(in.inFlight, in.ratio),
			in.cfg.partitionBytes(in.inFlight, in.ratio, len(in.assigned)))
	}
}

// onAssigned starts to track partitions that were assigned.
func (in *input) onAssigned(_ context.Context, _ *kgo.Client, all map[string][]int32) {
	in.interruptPoll()
	in.mu.Lock()
	defer in.mu.Unlock()
	n := 0
	for tp := range eachPartition(all) {
		if old := in.assigned[tp]; old != nil && in.tx != nil { // until a transaction has ended, the client reports only the first revocation
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

// adjustOffsets makes the client read partitions from their beginning if they did not exist when this input was opened: all of
// their messages are new, including those that were written before the group noticed the partition.
func (in *input) adjustOffsets(_ context.Context, all map[string]map[int32]kgo.Offset) (map[string]map[int32]kgo.Offset, error) {
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

// onRevoked gives up partitions once their messages in flight are settled, or after revoke_timeout.
func (in *input) onRevoked(ctx context.Context, _ *kgo.Client, all map[string][]int32) {
	in.interruptPoll()
	leaving := in.markLeaving(all)
	if len(leaving) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, in.cfg.RevokeTimeout)
	defer cancel()
	in.awaitSettled(ctx, leaving)
	unfinished, again := in.giveUp(ctx, leaving)
	in.log.Info("partitions were given up", "partitions", len(leaving), "now", in.count(), "unfinished", unfinished,
		"read again", again)
}

// giveUp stops tracking partitions, and commits their settled offsets. It returns how many messages were not finished, and how
// many another member reads again: these, and settled messages after an unsettled one.
func (in *input) giveUp(ctx context.Context, leaving []*partition) (unfinished, again int) {
	unfinished = in.takeAway(leaving)
	if err := in.commitLast(ctx, leaving); err != nil {
		in.log.Warn("could not commit settled messages of partitions that move: they will be read again", "err", err)
	}
	again = in.forget(leaving)
	in.countMoved(len(leaving), again)
	return unfinished, again
}

// commitLast commits the settled offsets of partitions that are given up or, if leaving is nil, of all. It repeats a commit after a
// transient error until ctx ends. Such errors are a coordinator that moves, and an epoch that the group has raised since the last
// heartbeat (refused by brokers before 4.3). If partitions are given up, the last attempt may end after ctx.
func (in *input) commitLast(ctx context.Context, leaving []*partition) error {
	t := time.NewTicker(commitRetryDelay)
	defer t.Stop()
	requests := ctx
	if leaving != nil {
		requests = context.WithoutCancel(ctx)
	}
	for {
		err := in.commit(requests, leaving)
		if err == nil || in.fenced(err) || engine.ErrorOf(err, engine.Transient).Class != engine.Transient {
			return err
		}
		select {
		case <-t.C:
		case <-ctx.Done():
			return err
		}
	}
}

// commitRetryDelay is the delay before commitLast repeats a commit.
const commitRetryDelay = 100 * time.Millisecond

// fenced reports whether the group accepts no more commits from this member, or the client is closed.
func (in *input) fenced(err error) bool {
	final := []error{kerr.UnknownMemberID, kerr.FencedMemberEpoch, kerr.GroupIDNotFound, kgo.ErrClientClosed,
		context.Canceled}
	if _, _, waits := in.joins.waiting(); !waits { // otherwise this member is about to join the group's new generation
		final = append(final, kerr.IllegalGeneration, kerr.RebalanceInProgress)
	}
	return slices.ContainsFunc(final, func(e error) bool { return errors.Is(err, e) })
}

// onLost is called when the client assumes that the group has removed this member. Often only a connection was lost, and the
// group has not noticed. Then it still accepts a commit. If other members have the partitions, it refuses.
func (in *input) onLost(ctx context.Context, _ *kgo.Client, all map[string][]int32) {
	in.interruptPoll()
	leaving := in.markLeaving(all)
	if len(leaving) == 0 {
		return
	}
	once, cancel := context.WithCancel(ctx)
	cancel() // commitLast makes one attempt
	unfinished, again := in.giveUp(once, leaving)
	in.log.Warn("partitions were lost: the group has removed this member", "partitions", len(leaving), "now",
		in.count(), "unfinished", unfinished, "read again", again)
}

// markLeaving marks partitions that are given up, so that no more of their records are read. It returns those that were assigned.
func (in *input) markLeaving(all map[string][]int32) (leaving []*partition) {
	in.mu.Lock()
	defer in.mu.Unlock()
	for tp := range eachPartition(all) {
		if p := in.assigned[tp]; p != nil {
			p.leaving = true
			leaving = append(leaving, p)
		}
	}
	return leaving
}

// awaitSettled waits until all messages of partitions are settled, or ctx ends.
func (in *input) awaitSettled(ctx context.Context, leaving []*partition) {
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
		changed := in.nextChange()
		in.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}

// nextChange returns a channel that is closed at the next change of settled messages or of the round. in.mu is held.
func (in *input) nextChange() chan struct{} {
	if in.changed == nil {
		in.changed = make(chan struct{})
	}
	return in.changed
}

// signalChanged wakes goroutines that wait for the next change. in.mu is held.
func (in *input) signalChanged() {
	if in.changed != nil {
		close(in.changed)
		in.changed = nil
	}
}

// takeAway takes the messages in flight of partitions away from the pipeline or, if leaving is nil, those of all partitions. It
// returns their number.
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

// forget stops tracking partitions, and returns how many of their messages another member reads again.
func (in *input) forget(leaving []*partition) (again int) {
	in.mu.Lock()
	defer in.mu.Unlock()
	resume := map[string][]int32{}
	for _, p := range leaving {
		delete(in.slots, p.slot)
		delete(in.assigned, topicPartition{p.topic, p.id})
		delete(in.blocked, topicPartition{p.topic, p.id})
		in.span -= p.span()
		again += p.uncommitted()
		if p.paused {
			resume[p.topic] = append(resume[p.topic], p.id)
			in.paused--
		}
	}
	in.limitFetches()
	if len(resume) > 0 && in.client != nil { // a partition may be assigned again
		in.client.ResumeFetchPartitions(resume)
	}
	if in.tx == nil {
		in.pace()
	}
	return again
}

// count returns the number of assigned partitions.
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
		n := consecutive(results)
		in.settle(&results[0], n)
		results = results[n:]
	}
	in.signalChanged()
	if in.tx == nil {
		in.pace()
	}
	return nil, nil
}

// consecutive returns how many of the first results have the same fate and belong to consecutive messages of one partition.
func consecutive(results []engine.Result) (n int) {
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
		in.round.countEnded(r.Fate, n)
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
// ahead by max_replay. Below half of that, no partition is limited. in.mu is held.
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
			stop = togglePaused(stop, p)
			in.paused++
		case !far && p.paused && (!full || p.span() <= share/2):
			resume = togglePaused(resume, p)
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

// togglePaused changes p.paused, and adds p to all.
func togglePaused(all map[string][]int32, p *partition) map[string][]int32 {
	p.paused = !p.paused
	if all == nil {
		all = map[string][]int32{}
	}
	all[p.topic] = append(all[p.topic], p.id)
	return all
}

// commitLoop commits settled offsets at intervals, until ctx ends. A commit that is running then ends with requests.
func (in *input) commitLoop(ctx, requests context.Context) {
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
			continue // the client would wait for the other members, and shutDown for the client
		}
		err := in.commit(requests, nil)
		if failed++; err == nil || ctx.Err() != nil {
			failed = 0
		} else if failed&(failed-1) == 0 { // log powers of two
			in.log.Warn("commit failed", "err", err, "times", failed)
		}
	}
}

// commit commits the settled offsets of partitions or, if only is nil, of all that are not given up.
func (in *input) commit(ctx context.Context, only []*partition) error {
	if in.cfg.Group == "" {
		return nil
	}
	in.mu.Lock()
	client, closing := in.client, in.closing
	due, counts := map[string]map[int32]kgo.EpochOffset{}, map[topicPartition]uint64{}
	for _, p := range in.assigned {
		if only == nil && p.leaving || only != nil && !slices.Contains(only, p) {
			continue
		}
		if at, ok := p.commitOffset(); ok {
			if due[p.topic] == nil {
				due[p.topic] = map[int32]kgo.EpochOffset{}
			}
			due[p.topic][p.id], counts[topicPartition{p.topic, p.id}] = at, p.low.Low()
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
		answer, err := in.commitWithSecondClient(ctx, member, generation, due)
		if failed = err; err == nil {
			failed = in.noteCommitted(due, counts, answer)
		}
	} else {
		client.CommitOffsetsSync(ctx, due,
			func(_ *kgo.Client, _ *kmsg.OffsetCommitRequest, answer *kmsg.OffsetCommitResponse, err error) {
				if failed = err; err == nil {
					failed = in.noteCommitted(due, counts, answer)
				}
			})
	}
	return kafka.Explain(failed, "commit of group "+in.cfg.Group)
}

// noteCommitted records the offsets that an answer confirms, and returns the last error in it. counts are the numbers of messages
// before these offsets.
func (in *input) noteCommitted(due map[string]map[int32]kgo.EpochOffset, counts map[topicPartition]uint64,
	answer *kmsg.OffsetCommitResponse) (failed error) {
	in.mu.Lock()
	defer in.mu.Unlock()
	for _, t := range answer.Topics {
		for _, a := range t.Partitions {
			if err := kerr.ErrorForCode(a.ErrorCode); err != nil {
				failed = err
			} else if tp := (topicPartition{t.Topic, a.Partition}); in.assigned[tp] != nil {
				in.assigned[tp].committed, in.assigned[tp].committedCount = due[t.Topic][a.Partition].Offset, counts[tp]
			}
		}
	}
	return failed
}

// eachPartition yields all partitions, in the order of their topics.
func eachPartition(all map[string][]int32) func(yield func(topicPartition) bool) {
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
