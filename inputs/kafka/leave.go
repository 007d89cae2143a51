package kafka

import (
	"context"
	"sync"
	"time"

	"github.com/flowd-io/flowd/internal/systems/queue/kafka"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"
)

// joins knows whether this member has joined a round of its group (classic protocol) and waits for the other members.
// That can take the rebalance_timeout of one of them, and meanwhile the client neither commits nor leaves.
type joins struct {
	now func() (member string, generation int32)

	mu         sync.Mutex // guards the fields below
	waits      bool
	member     string // as which its partitions were assigned
	generation int32
}

var (
	_ kgo.HookBrokerWrite = (*joins)(nil)
	_ kgo.HookBrokerRead  = (*joins)(nil)
)

// OnBrokerWrite is told of each request. A round may need several: then the first one is by the member that has the
// partitions, and others may be by one that the group does not take for the same.
func (j *joins) OnBrokerWrite(_ kgo.BrokerMetadata, key int16, _ int, _, _ time.Duration, _ error) {
	if key != int16(kmsg.JoinGroup) {
		return
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if !j.waits {
		j.waits = true
		j.member, j.generation = j.now()
	}
}

// OnBrokerRead is told of each answer.
func (j *joins) OnBrokerRead(_ kgo.BrokerMetadata, key int16, _ int, _, _ time.Duration, err error) {
	if key == int16(kmsg.SyncGroup) && err == nil {
		j.mu.Lock()
		defer j.mu.Unlock()
		j.waits = false
	}
}

// waiting reports whether this member waits for others, and as whom it has had its partitions since the round before.
func (j *joins) waiting() (member string, generation int32, waits bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.member, j.generation, j.waits
}

// shut commits what is settled, and leaves the group. The loop that commits, the last commit and the leave share the
// time that ctx leaves.
func (in *input) shut(ctx context.Context) {
	if in.client == nil {
		return
	}
	in.mu.Lock()
	in.closing = true
	in.wake()
	in.mu.Unlock()
	if in.stop != nil {
		in.stop()
		first, cancel := part(ctx, 3)
		stop := context.AfterFunc(first, in.cut)
		in.loop.Wait()
		stop()
		cancel()
		in.stop = nil
	}
	in.takeAway(nil)
	if in.tx != nil {
		in.tx.Close()
	} else {
		last, cancel := part(ctx, 2)
		if err := in.commitLast(last, nil); err != nil {
			in.log.Warn("what was settled last could not be committed: it will be read again", "err", err)
		}
		cancel()
	}
	in.leaveGroup(ctx)
	in.mu.Lock()
	defer in.mu.Unlock()
	in.client = nil
}

// part is a context that ends after one of n parts of the time that ctx leaves.
func part(ctx context.Context, n int) (context.Context, context.CancelFunc) {
	at, ok := ctx.Deadline()
	if !ok {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, time.Until(at)/time.Duration(n))
}

// leaveGroup closes the client. One that waits for other members is cut off, and its member leaves by another
// connection.
func (in *input) leaveGroup(ctx context.Context) {
	client := in.client
	member, _ := client.GroupMetadata()
	if _, _, waits := in.joins.waiting(); waits {
		in.quits()
		if err := in.leaveBeside(ctx, member); err != nil {
			in.log.Warn("the group was not told that this member leaves: it notices after session_timeout", "err", err)
		}
	}
	done := make(chan struct{})
	go func() { // leaving asks brokers, which may not answer
		defer close(done)
		client.CloseAllowingRebalance()
	}()
	select {
	case <-done:
	case <-ctx.Done():
	}
	in.quits()
}

func (in *input) leaveBeside(ctx context.Context, member string) error {
	if member == "" || in.member != "" { // it is none yet, or one that stays
		return nil
	}
	client, err := in.beside()
	if err != nil {
		return err
	}
	defer client.Close()
	req := kmsg.NewPtrLeaveGroupRequest()
	req.Group, req.MemberID = in.cfg.Group, member
	one := kmsg.NewLeaveGroupRequestMember()
	one.MemberID = member
	req.Members = append(req.Members, one)
	_, err = req.RequestWith(ctx, client.Client)
	return kafka.Explain(err, "leave group "+in.cfg.Group)
}

// commitBeside commits by another connection, as a member of the generation before. Brokers take that until all have
// joined the next.
func (in *input) commitBeside(ctx context.Context, member string, generation int32,
	due map[string]map[int32]kgo.EpochOffset) (*kmsg.OffsetCommitResponse, error) {
	client, err := in.beside()
	if err != nil {
		return nil, err
	}
	defer client.Close()
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Group, req.MemberID, req.Generation = in.cfg.Group, member, generation
	if in.member != "" {
		req.InstanceID = &in.member
	}
	for topic, partitions := range due {
		t := kmsg.NewOffsetCommitRequestTopic()
		t.Topic = topic
		for id, at := range partitions {
			p := kmsg.NewOffsetCommitRequestTopicPartition()
			p.Partition, p.Offset, p.LeaderEpoch, p.Metadata = id, at.Offset, at.Epoch, &req.MemberID
			t.Partitions = append(t.Partitions, p)
		}
		req.Topics = append(req.Topics, t)
	}
	return req.RequestWith(ctx, client.Client)
}

// beside is a client that is no member of the group. It names topics: their ids are known to the other one.
func (in *input) beside() (*kafka.Client, error) {
	versions := kversion.Stable()
	versions.SetMaxKeyVersion(int16(kmsg.OffsetCommit), 9)
	return in.cfg.Client(in.log, in.name, kgo.MaxVersions(versions))
}
