package kafka

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/systems/queue/kafka"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// outOfRange handles a partition whose messages were deleted before they were read. As out_of_range says, it continues after the
// gap and logs the number of missing messages, or returns an error.
func (in *input) outOfRange(ctx context.Context, tp topicPartition) error {
	ctx, cancel := context.WithTimeout(ctx, in.cfg.Timeout)
	defer cancel()
	admin := kadm.NewClient(in.client.Client)
	starts, err := admin.ListStartOffsets(ctx, tp.topic)
	if err != nil {
		return kafka.Explain(err, "ask for the first offset of "+tp.String())
	}
	ends, err := admin.ListEndOffsets(ctx, tp.topic)
	if err != nil {
		return kafka.Explain(err, "ask for the last offset of "+tp.String())
	}
	start, _ := starts.Lookup(tp.topic, tp.id)
	end, _ := ends.Lookup(tp.topic, tp.id)
	at, known := in.position(ctx, admin, tp)
	gone := "an unknown number"
	switch {
	case known && at < start.Offset:
		gone = fmt.Sprintf("%d (offsets %d to %d)", start.Offset-at, at, start.Offset-1)
	case known && at > end.Offset:
		gone = fmt.Sprintf("the topic was deleted and created again: the group is at %d, the topic ends at %d", at,
			end.Offset)
	}
	if in.cfg.OutOfRange == "fail" {
		return engine.Errorf(engine.Permanent, "partition %s: messages were deleted before they were read: %s (set "+
			"`out_of_range: earliest` to continue with the remaining messages, or reset the group)", tp, gone)
	}
	to := start.Offset
	if in.cfg.OutOfRange == latest {
		to = end.Offset
	}
	in.log.Error("messages were deleted before they were read", "partition", tp, "missing", gone, "continues at", to)
	in.client.SetOffsets(map[string]map[int32]kgo.EpochOffset{tp.topic: {tp.id: {Epoch: -1, Offset: to}}})
	in.mu.Lock()
	defer in.mu.Unlock()
	if p := in.assigned[tp]; p != nil {
		p.next = min(p.next, to)
	}
	return nil
}

// position returns the offset at which the input was in a partition.
func (in *input) position(ctx context.Context, admin *kadm.Client, tp topicPartition) (at int64, known bool) {
	in.mu.Lock()
	p := in.assigned[tp]
	if p != nil && p.read > 0 {
		defer in.mu.Unlock()
		return p.next, true
	}
	in.mu.Unlock()
	if in.cfg.Group == "" {
		return 0, false
	}
	all, err := admin.FetchOffsets(ctx, in.cfg.Group)
	if err != nil {
		return 0, false
	}
	o, ok := all.Lookup(tp.topic, tp.id)
	return o.At, ok && o.Err == nil && o.At >= 0
}

// Trouble reports what keeps the input from reading.
func (in *input) Trouble() *engine.Trouble {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.client == nil {
		return nil
	}
	if t := in.client.Link.Trouble("nothing is read"); t != nil {
		return t
	}
	if len(in.blocked) == 0 {
		return nil
	}
	var names []string
	var first block
	for tp, b := range in.blocked {
		if names = append(names, tp.String()); first.err == nil || b.since.Before(first.since) {
			first = b
		}
	}
	slices.Sort(names)
	return &engine.Trouble{Indicator: "partition_blocked", Impact: "nothing is read of " + strings.Join(names, ", "),
		Cause:  first.err.Error(),
		Action: "inspect the record at that offset, and skip it with kafka-consumer-groups --reset-offsets",
		Since:  first.since}
}
