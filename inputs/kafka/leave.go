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

// joins tracks whether this member has joined a rebalance (classic protocol) and waits for the other members. That can take
// the rebalance_timeout of one of them, and meanwhile the client can neither commit nor leave.
type joins struct {
	membership func() (member string, generation int32)

	mu         sync.Mutex // guards the fields below
	waits      bool
	member     string // member id with which the current partitions were assigned
	generation int32  // generation in which they were assigned
}

var (
	_ kgo.HookBrokerWrite = (*joins)(nil)
	_ kgo.HookBrokerRead  = (*joins)(nil)
)

// OnBrokerWrite is called for each request. One rebalance may need several JoinGroup requests. The first has the member id with
// which partitions are assigned; later ones may have another.
func (j *joins) OnBrokerWrite(_ kgo.BrokerMetadata, key int16, _ int, _, _ time.Duration, _ error) {
	if key != int16(kmsg.JoinGroup) {
		return
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if !j.waits {
		j.waits = true
		j.member, j.generation = j.membership()
	}
}

// OnBrokerRead is called for each response.
func (j *joins) OnBrokerRead(_ kgo.BrokerMetadata, key int16, _ int, _, _ time.Duration, err error) {
	if key == int16(kmsg.SyncGroup) && err == nil {
		j.mu.Lock()
		defer j.mu.Unlock()
		j.waits = false
	}
}

// waiting reports whether this member waits for others, and the member id and generation with which its partitions were
// assigned before.
func (j *joins) waiting() (member string, generation int32, waits bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.member, j.generation, j.waits
}

// shutDown commits settled offsets, and leaves the group. The end of the loops, the last commit, and leaving share the time
// until the deadline of ctx.
func (in *input) shutDown(ctx context.Context) {
	if in.client == nil {
		return
	}
	in.mu.Lock()
	in.closing = true
	in.signalChanged()
	in.mu.Unlock()
	if in.stopLoops != nil {
		in.stopLoops()
		first, cancel := fraction(ctx, 3)
		stop := context.AfterFunc(first, in.cutRequests)
		in.loops.Wait()
		stop()
		cancel()
		in.stopLoops = nil
	}
	in.takeAway(nil)
	if in.tx != nil {
		in.tx.Close()
	} else {
		last, cancel := fraction(ctx, 2)
		if err := in.commitLast(last, nil); err != nil {
			in.log.Warn("could not commit the offsets settled last: their messages will be read again", "err", err)
		}
		cancel()
	}
	in.leaveGroup(ctx)
	in.mu.Lock()
	defer in.mu.Unlock()
	in.client = nil
}

// fraction returns a context that ends after one nth of the time until the deadline of ctx.
func fraction(ctx context.Context, n int) (context.Context, context.CancelFunc) {
	at, ok := ctx.Deadline()
	if !ok {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, time.Until(at)/time.Duration(n))
}

// leaveGroup closes the client, which leaves the group. If the client waits for other members, its requests are cut off, and a
// second client reports that the member leaves.
func (in *input) leaveGroup(ctx context.Context) {
	client := in.client
	member, _ := client.GroupMetadata()
	if _, _, waits := in.joins.waiting(); waits {
		in.cutClient()
		if err := in.leaveWithSecondClient(ctx, member); err != nil {
			in.log.Warn("could not leave the group: it notices after session_timeout", "err", err)
		}
	}
	done := make(chan struct{})
	go func() { // leaving sends requests to brokers, which may not answer
		defer close(done)
		client.CloseAllowingRebalance()
	}()
	select {
	case <-done:
	case <-ctx.Done():
	}
	in.cutClient()
}

func (in *input) leaveWithSecondClient(ctx context.Context, member string) error {
	if member == "" || in.member != "" { // it is not a member yet, or a static one, which does not leave
		return nil
	}
	client, err := in.secondClient()
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

// commitWithSecondClient commits with a second client, as a member of the previous generation. Brokers accept that until all
// members have joined the next one.
func (in *input) commitWithSecondClient(ctx context.Context, member string, generation int32,
	due map[string]map[int32]kgo.EpochOffset) (*kmsg.OffsetCommitResponse, error) {
	client, err := in.secondClient()
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

// secondClient returns a client that is not a member of the group. Its requests name topics (OffsetCommit up to version 9), since
// only the first client knows their ids.
func (in *input) secondClient() (*kafka.Client, error) {
	versions := kversion.Stable()
	versions.SetMaxKeyVersion(int16(kmsg.OffsetCommit), 9)
	return in.cfg.Client(in.log, in.name, kgo.MaxVersions(versions))
}
