package kafka

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/systems/queue/kafka"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// input reads with one client, and acknowledges the messages that it has read.
type input struct {
	cfg      Config
	log      *slog.Logger
	name     string // default client id
	member   string // instance id of a static member; "": the member is not static
	replay   int    // maximum number of messages to read ahead of unsettled ones, in all partitions together
	inFlight int    // maximum bytes of messages in flight
	growth   growth
	joins    joins

	stopLoops   context.CancelFunc // ends the goroutines of loops
	cutRequests context.CancelFunc // ends their requests
	cutClient   context.CancelFunc // ends all requests of the client
	loops       sync.WaitGroup

	tx *kafka.Session // nil: messages are delivered at least once

	poll sync.Mutex // held by Read from fetching records until they are added to a batch

	mu        sync.Mutex         // guards the fields below
	client    *kafka.Client      // nil: not connected; only Open and Close change it
	stopPoll  context.CancelFunc // makes the running PollRecords return; nil: none has run
	pollStops int                // number of goroutines that wait for PollRecords to return
	holding   engine.Holding     // nil: nothing was read
	waits     bool               // holding knows that partitions wait
	slots     map[uint64]*partition
	assigned  map[topicPartition]*partition
	serial    uint64           // number of the last assignment
	counts    map[string]int32 // number of partitions of each topic when this input was opened
	ratio     float64          // growth.ratio when the limits of fetches were last set
	span      int              // of all partitions together
	paused    int              // number of partitions that are not fetched
	changed   chan struct{}    // closed when a message is settled, or a round begins or ends; nil: no goroutine waits
	closing   bool
	round     *round                   // the open transaction; nil: there is none
	ending    chan struct{}            // closed when the transaction has ended; nil: it is not ending
	broken    error                    // why there can be no more transactions
	blocked   map[topicPartition]block // partitions that can't be read

	revoked, takenAway int64 // number of partitions that moved, and of their messages that other members read again
}

// block is why a partition can't be read, and since when.
type block struct {
	err   error
	since time.Time
}

type topicPartition struct {
	topic string
	id    int32
}

func (tp topicPartition) String() string { return fmt.Sprintf("%s/%d", tp.topic, tp.id) }

var (
	_ engine.Opener   = (*input)(nil)
	_ engine.Closer   = (*input)(nil)
	_ engine.Traited  = (*input)(nil)
	_ engine.Troubled = (*input)(nil)
	_ engine.Revoker  = (*input)(nil)
)

func newInput(c Config, env engine.Env) (engine.Input, error) {
	in := &input{cfg: c, log: env.Log, name: strings.Trim(env.Pipeline+"."+env.Name, "."), member: c.InstanceID,
		replay: max(1, env.MaxReplay/max(1, env.Instances)), inFlight: env.MaxBytes / max(1, env.Instances),
		ratio: initialRatio}
	if env.ExactlyOnce {
		in.tx = kafka.SessionOf(env.Shared, env.Pipeline)
	}
	if env.Instances > 1 {
		in.name = fmt.Sprintf("%s.%d", in.name, env.Index)
		if in.member != "" {
			in.member = fmt.Sprintf("%s-%d", in.member, env.Index)
		}
		if c.Group == "" {
			return nil, errors.New("without a group each instance would read everything (set `group`, or remove `concurrency`)")
		}
	}
	return in, nil
}

// Traits returns what the configuration implies.
func (in *input) Traits() engine.Traits { return in.cfg.Traits() }

// Open connects, checks the topics, and joins the group.
func (in *input) Open(ctx context.Context) error {
	if err := in.open(ctx); err != nil {
		in.shutDown(ctx)
		return err
	}
	in.log.Info("reading", "topics", strings.Join(in.cfg.Topics, ", "), "group", in.cfg.Group)
	return nil
}

func (in *input) open(ctx context.Context) error {
	opts, err := in.options()
	if err != nil {
		return err
	}
	counts, err := in.partitionCounts(ctx)
	if err != nil {
		return err
	}
	in.mu.Lock() // the client starts to fetch at once
	in.closing, in.span, in.paused, in.counts = false, 0, 0, counts
	in.round, in.ending, in.broken = nil, nil, nil
	in.slots, in.assigned = map[uint64]*partition{}, map[topicPartition]*partition{}
	in.blocked = map[topicPartition]block{}
	life, cutClient := context.WithCancel(context.WithoutCancel(ctx))
	in.cutClient = cutClient
	in.joins = joins{membership: in.membership}
	in.client, err = in.connect(append(opts, kgo.WithContext(life)))
	in.mu.Unlock()
	if err != nil {
		cutClient()
		return err
	}
	requests, cutRequests := context.WithCancel(life)
	loop, stop := context.WithCancel(requests)
	in.stopLoops, in.cutRequests = stop, cutRequests
	switch {
	case in.tx != nil:
		in.loops.Go(func() { in.endRounds(loop, requests) })
	case in.cfg.Group != "":
		in.loops.Go(func() { in.commitLoop(loop, requests) })
	}
	in.loops.Go(func() { in.endOffsetsLoop(loop) })
	return nil
}

func (in *input) connect(opts []kgo.Opt) (*kafka.Client, error) {
	if in.tx == nil {
		return in.cfg.Client(in.log, in.name, opts...)
	}
	return in.tx.Open(&in.cfg.Connect, in.log, in.name, in.failRound, append(opts, in.transactional()...)...)
}

// membership returns the member id and generation that the client uses in its group.
func (in *input) membership() (member string, generation int32) {
	in.mu.Lock()
	client := in.client
	in.mu.Unlock()
	if client == nil {
		return "", -1
	}
	return client.GroupMetadata()
}

// options returns the options of the consuming client.
func (in *input) options() ([]kgo.Opt, error) {
	c := &in.cfg
	start, err := c.offset(time.Now())
	if err != nil {
		return nil, err
	}
	isolation := kgo.ReadCommitted()
	if c.Isolation == "read_uncommitted" {
		isolation = kgo.ReadUncommitted()
	}
	opts := []kgo.Opt{
		kgo.ConsumeStartOffset(start), kgo.ConsumeResetOffset(kgo.NoResetOffset()), kgo.FetchIsolationLevel(isolation),
		kgo.FetchMaxBytes(c.maxBytes(in.inFlight, in.ratio)),
		kgo.FetchMaxPartitionBytes(c.partitionBytes(in.inFlight, in.ratio, 1)), kgo.WithHooks(&in.growth, &in.joins),
		kgo.FetchMinBytes(int32(c.Fetch.MinBytes)), kgo.FetchMaxWait(c.Fetch.MaxWait),
		kgo.MetadataMaxAge(time.Minute), kgo.Rack(c.Rack),
	}
	if len(c.Partitions) > 0 {
		direct := map[string]map[int32]kgo.Offset{}
		for _, t := range c.Topics {
			direct[t] = map[int32]kgo.Offset{}
			for _, p := range c.Partitions {
				direct[t][int32(p)] = start
			}
		}
		return append(opts, kgo.ConsumePartitions(direct)), nil
	}
	if c.pattern() {
		topics := make([]string, len(c.Topics))
		for i, t := range c.Topics {
			topics[i] = expression(t)
		}
		opts = append(opts, kgo.ConsumeRegex(), kgo.ConsumeTopics(topics...))
	} else {
		opts = append(opts, kgo.ConsumeTopics(c.Topics...))
	}
	if c.Group == "" {
		return opts, nil
	}
	opts = append(opts, kgo.ConsumerGroup(c.Group), kgo.DisableAutoCommit(), kgo.SessionTimeout(c.SessionTimeout),
		kgo.RebalanceTimeout(c.RebalanceTimeout), kgo.HeartbeatInterval(min(3*time.Second, c.SessionTimeout/4)),
		kgo.OnPartitionsAssigned(in.onAssigned), kgo.AdjustFetchOffsetsFn(in.adjustOffsets))
	if in.tx != nil {
		opts = append(opts, kgo.OnPartitionsRevoked(in.onMoved), kgo.OnPartitionsLost(in.onMoved))
	} else {
		opts = append(opts, kgo.OnPartitionsRevoked(in.onRevoked), kgo.OnPartitionsLost(in.onLost))
	}
	if c.Protocol == "consumer" {
		opts = append(opts, kgo.ServerSideBalancer(), kgo.Balancers(kgo.StickyBalancer()))
	} else {
		opts = append(opts, kgo.Balancers(kgo.CooperativeStickyBalancer()))
	}
	if in.member != "" {
		opts = append(opts, kgo.InstanceID(in.member))
	}
	return opts, nil
}

// partitionCounts returns the number of partitions of each topic. It runs before the consuming client starts, since that client
// waits for a missing topic without an error.
func (in *input) partitionCounts(ctx context.Context) (counts map[string]int32, err error) {
	client, err := in.cfg.Client(in.log, in.name)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	if err := client.Reach(ctx); err != nil {
		return nil, err
	}
	names := []string(in.cfg.Topics)
	if in.cfg.pattern() {
		names = nil // all
	}
	ctx, cancel := context.WithTimeout(ctx, in.cfg.Timeout)
	defer cancel()
	found, err := kadm.NewClient(client.Client).ListTopics(ctx, names...)
	if err != nil {
		return nil, kafka.Explain(err, "look for topics "+strings.Join(in.cfg.Topics, ", "))
	}
	counts = map[string]int32{}
	for _, t := range found {
		if !in.matches(t.Topic) {
			continue
		}
		if t.Err != nil {
			return nil, kafka.Explain(t.Err, "topic "+t.Topic)
		}
		counts[t.Topic] = int32(len(t.Partitions))
		for _, p := range in.cfg.Partitions {
			if p >= len(t.Partitions) {
				return nil, engine.Errorf(engine.Permanent, "topic %s has %d partitions, but `partitions` names %d", t.Topic,
					len(t.Partitions), p)
			}
		}
	}
	if len(counts) == 0 {
		in.log.Warn("no topic matches yet", "topics", strings.Join(in.cfg.Topics, ", "))
	}
	return counts, nil
}

// matches reports whether a topic is named or matches a pattern.
func (in *input) matches(topic string) bool {
	for _, t := range in.cfg.Topics {
		if t == topic {
			return true
		}
		if ok, err := path.Match(t, topic); err == nil && ok && isPattern(t) {
			return true
		}
	}
	return false
}

// Read waits for records, and adds all that have arrived.
func (in *input) Read(ctx context.Context, b *engine.Batch) (engine.Acker, error) {
	room := b.Room()
	if in.tx != nil {
		var err error
		if room, err = in.readable(ctx, room); room == 0 || err != nil {
			return in, err
		}
	}
	in.poll.Lock()
	defer in.poll.Unlock()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	in.mu.Lock()
	in.stopPoll = cancel
	if in.pollStops > 0 || in.ending != nil {
		cancel()
	}
	in.mu.Unlock()
	fetches := in.client.PollRecords(ctx, room)
	if in.tx != nil && fetches.NumRecords() > 0 {
		if err := in.beginRound(); err != nil {
			return in, err
		}
	}
	err := in.fetchErrors(ctx, fetches)
	in.addFetches(b, fetches)
	return in, err
}

// interruptPoll makes PollRecords return, and waits until all records that were fetched are added to a batch.
func (in *input) interruptPoll() {
	in.mu.Lock()
	in.pollStops++
	if in.stopPoll != nil {
		in.stopPoll()
	}
	in.mu.Unlock()
	in.poll.Lock()
	defer in.poll.Unlock()
	in.mu.Lock()
	defer in.mu.Unlock()
	in.pollStops--
}

// addFetches adds fetched records to b, except those of partitions that this member has given up.
func (in *input) addFetches(b *engine.Batch, fetches kgo.Fetches) {
	in.mu.Lock()
	defer in.mu.Unlock()
	for i := range fetches {
		for t := range fetches[i].Topics {
			topic := &fetches[i].Topics[t]
			for j := range topic.Partitions {
				if f := &topic.Partitions[j]; len(f.Records) > 0 {
					in.addRecords(b, topic.Topic, f)
				}
			}
		}
	}
	if now := in.growth.ratio(); now > 1.25*in.ratio || now < in.ratio/1.25 {
		in.ratio = now
		in.limitFetches()
	}
	if in.tx == nil {
		in.pace()
	} else if in.round != nil && in.round.read >= in.cfg.Transaction.Size {
		in.round.finish()
	}
}

// addRecords adds the records of a partition. in.mu is held.
func (in *input) addRecords(b *engine.Batch, topic string, f *kgo.FetchPartition) {
	tp := topicPartition{topic, f.Partition}
	p := in.assigned[tp]
	if p == nil {
		if in.cfg.Group != "" {
			return // the partition was given up, and another member reads these records
		}
		p = in.assign(tp)
	}
	if p.leaving {
		return
	}
	p.end = max(p.end, f.HighWatermark)
	delete(in.blocked, tp)
	records := f.Records
	for p.read > 0 && len(records) > 0 && records[0].Offset < p.next {
		records = records[1:] // it was already read
	}
	ref, meta := p.add(records), engine.MetaFrom(kafka.RecordsOf(topic, f.Partition, records))
	for i, r := range records {
		m := b.Add(r.Value)
		m.Ref, m.Meta = ref+uint64(i), meta.At(i)
	}
	in.span += len(records)
	if in.round != nil {
		in.round.read += len(records)
		in.round.left += len(records)
	}
}

// fetchErrors handles the errors of a fetch. It returns those for which the input must be reopened, or ends.
func (in *input) fetchErrors(ctx context.Context, fetches kgo.Fetches) (fatal error) {
	fetches.EachError(func(topic string, id int32, err error) {
		tp := topicPartition{topic, id}
		switch {
		case ctx.Err() != nil && errors.Is(err, ctx.Err()):
		case errors.Is(err, kerr.OffsetOutOfRange):
			err = in.outOfRange(ctx, tp)
		case errors.As(err, new(*kgo.ErrDataLoss)):
			in.log.Error("the brokers have lost messages: a leader was elected that did not have them", "partition", tp,
				"err", err)
			err = nil
		case topic == "":
			err = kafka.Explain(err, "group "+in.cfg.Group)
			if engine.ErrorOf(err, engine.Transient).Class == engine.Transient {
				in.log.Warn("the group reports an error", "err", err)
				err = nil
			}
		case errors.Is(err, kerr.UnknownTopicID), errors.Is(err, kerr.UnknownTopicOrPartition):
			err = kafka.Explain(err, "topic "+topic) // it was deleted; Open finds out whether it was recreated
		default:
			err = in.blockPartition(tp, kafka.Explain(err, "read "+tp.String()))
		}
		if err != nil && !errors.Is(err, ctx.Err()) {
			fatal = errors.Join(fatal, err)
		}
	})
	return fatal
}

// blockPartition records why a partition can't be read, so that the others are still read. It returns err if a permission is
// missing.
func (in *input) blockPartition(tp topicPartition, err error) error {
	if engine.ErrorOf(err, engine.Transient).Class == engine.Auth {
		return err
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	since := in.blocked[tp].since
	if since.IsZero() {
		since = time.Now()
		in.log.Error("a partition can't be read", "partition", tp, "err", err)
	}
	in.blocked[tp] = block{err, since}
	return nil
}

// Close commits settled offsets, and leaves the group.
func (in *input) Close(ctx context.Context) error {
	in.shutDown(ctx)
	return nil
}

// expression returns a pattern as a regular expression, since the client expects one.
func expression(pattern string) string {
	var b strings.Builder
	b.WriteByte('^')
	class := false // within [ ]
	for i := 0; i < len(pattern); i++ {
		switch c := pattern[i]; {
		case c == '*' && !class:
			b.WriteString(".*")
		case c == '?' && !class:
			b.WriteByte('.')
		case c == '[' && !class, c == ']' && class:
			class = !class
			b.WriteByte(c)
		case (c == '-' || c == '^') && class:
			b.WriteByte(c)
		case c == '\\' && i+1 < len(pattern):
			i++
			b.WriteString(regexp.QuoteMeta(pattern[i : i+1]))
		default:
			b.WriteString(regexp.QuoteMeta(pattern[i : i+1]))
		}
	}
	b.WriteByte('$')
	return b.String()
}
