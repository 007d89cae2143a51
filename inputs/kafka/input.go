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

// input is a client, and the acker of all that it reads.
type input struct {
	cfg      Config
	log      *slog.Logger
	name     string // of the client, where none is configured
	member   string // of a static member; "": this is not one
	replay   int    // how far to read ahead of what is settled, in all partitions
	inFlight int    // bytes
	swell    swell
	joins    joins

	stop  context.CancelFunc // ends the loop that commits
	cut   context.CancelFunc // ends what that loop still asks brokers
	quits context.CancelFunc // ends all that the client asks brokers
	loop  sync.WaitGroup

	tx *kafka.Session // nil: messages are delivered at least once

	poll sync.Mutex // held by Read: what was fetched and is not noted yet

	mu       sync.Mutex         // guards the fields below
	client   *kafka.Client      // nil: not connected; only Open and Close change it
	quit     context.CancelFunc // makes the call that fetches return; nil: none is running
	breaks   int                // how many wait for that call to end
	holding  engine.Holding     // nil: nothing was read
	waits    bool               // holding knows that partitions wait
	slots    map[uint64]*partition
	assigned map[topicPartition]*partition
	serial   uint64           // of the last assignment
	counts   map[string]int32 // how many partitions topics had when this input was opened
	times    float64          // of swell, when fetches were last made to fit
	span     int              // of all partitions
	paused   int              // partitions that are not fetched
	news     chan struct{}    // closed when something is settled; nil: nothing waits for it
	closing  bool
	round    *round                   // the transaction that is open; nil: none is
	ending   chan struct{}            // closed when it has ended; nil: it does not end yet
	broken   error                    // why there can be no more transactions
	blocked  map[topicPartition]block // partitions that can't be read

	revoked, takenAway int64 // partitions, and messages of them that others read again
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
		times: atFirst}
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

// Open connects, looks for the topics and joins the group.
func (in *input) Open(ctx context.Context) error {
	if err := in.open(ctx); err != nil {
		in.shut(ctx)
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
	counts, err := in.look(ctx)
	if err != nil {
		return err
	}
	in.mu.Lock() // the client begins at once
	in.closing, in.span, in.paused, in.counts = false, 0, 0, counts
	in.round, in.ending, in.broken = nil, nil, nil
	in.slots, in.assigned = map[uint64]*partition{}, map[topicPartition]*partition{}
	in.blocked = map[topicPartition]block{}
	life, quits := context.WithCancel(context.WithoutCancel(ctx))
	in.quits = quits
	in.joins = joins{now: in.membership}
	in.client, err = in.connect(append(opts, kgo.WithContext(life)))
	in.mu.Unlock()
	if err != nil {
		quits()
		return err
	}
	asks, cut := context.WithCancel(life)
	loop, stop := context.WithCancel(asks)
	in.stop, in.cut = stop, cut
	switch {
	case in.tx != nil:
		in.loop.Go(func() { in.rounds(loop, asks) })
	case in.cfg.Group != "":
		in.loop.Go(func() { in.commits(loop, asks) })
	}
	in.loop.Go(func() { in.ends(loop) })
	return nil
}

func (in *input) connect(opts []kgo.Opt) (*kafka.Client, error) {
	if in.tx == nil {
		return in.cfg.Client(in.log, in.name, opts...)
	}
	return in.tx.Open(&in.cfg.Connect, in.log, in.name, in.doom, append(opts, in.transactional()...)...)
}

// membership is as whom the client asks its group.
func (in *input) membership() (member string, generation int32) {
	in.mu.Lock()
	client := in.client
	in.mu.Unlock()
	if client == nil {
		return "", -1
	}
	return client.GroupMetadata()
}

// options are those of the client that consumes.
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
		kgo.FetchMaxBytes(c.maxBytes(in.inFlight, in.times)),
		kgo.FetchMaxPartitionBytes(c.partitionBytes(in.inFlight, in.times, 1)), kgo.WithHooks(&in.swell, &in.joins),
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
		kgo.OnPartitionsAssigned(in.onAssigned), kgo.AdjustFetchOffsetsFn(in.adjust))
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

// look asks how many partitions topics have, before the client begins: that would wait for a topic that is not there,
// and say nothing.
func (in *input) look(ctx context.Context) (counts map[string]int32, err error) {
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

// Read adds records as they come.
func (in *input) Read(ctx context.Context, b *engine.Batch) (engine.Acker, error) {
	room := b.Room()
	if in.tx != nil {
		var err error
		if room, err = in.turn(ctx, room); room == 0 || err != nil {
			return in, err
		}
	}
	in.poll.Lock()
	defer in.poll.Unlock()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	in.mu.Lock()
	in.quit = cancel
	if in.breaks > 0 || in.ending != nil {
		cancel()
	}
	in.mu.Unlock()
	fetches := in.client.PollRecords(ctx, room)
	if in.tx != nil && fetches.NumRecords() > 0 {
		if err := in.begin(); err != nil {
			return in, err
		}
	}
	err := in.faults(ctx, fetches)
	in.note(b, fetches)
	return in, err
}

// interrupt waits until all that was fetched is noted.
func (in *input) interrupt() {
	in.mu.Lock()
	in.breaks++
	if in.quit != nil {
		in.quit()
	}
	in.mu.Unlock()
	in.poll.Lock()
	defer in.poll.Unlock()
	in.mu.Lock()
	defer in.mu.Unlock()
	in.breaks--
}

// note adds what was fetched to b, of partitions that this member still has.
func (in *input) note(b *engine.Batch, fetches kgo.Fetches) {
	in.mu.Lock()
	defer in.mu.Unlock()
	for i := range fetches {
		for t := range fetches[i].Topics {
			topic := &fetches[i].Topics[t]
			for j := range topic.Partitions {
				if f := &topic.Partitions[j]; len(f.Records) > 0 {
					in.noteOne(b, topic.Topic, f)
				}
			}
		}
	}
	if now := in.swell.times(); now > 1.25*in.times || now < in.times/1.25 {
		in.times = now
		in.share()
	}
	if in.tx == nil {
		in.pace()
	} else if in.round != nil && in.round.read >= in.cfg.Transaction.Size {
		in.round.finish()
	}
}

// noteOne adds the records of a partition; in.mu is held.
func (in *input) noteOne(b *engine.Batch, topic string, f *kgo.FetchPartition) {
	tp := topicPartition{topic, f.Partition}
	p := in.assigned[tp]
	if p == nil {
		if in.cfg.Group != "" {
			return // it was given up, and these were not read
		}
		p = in.assign(tp)
	}
	if p.leaves {
		return
	}
	p.end = max(p.end, f.HighWatermark)
	delete(in.blocked, tp)
	records := f.Records
	for p.read > 0 && len(records) > 0 && records[0].Offset < p.next {
		records = records[1:] // it was read before
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

// faults are errors of what was fetched. One that ends the input is returned.
func (in *input) faults(ctx context.Context, fetches kgo.Fetches) (fatal error) {
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
				in.log.Warn("the group", "err", err)
				err = nil
			}
		case errors.Is(err, kerr.UnknownTopicID), errors.Is(err, kerr.UnknownTopicOrPartition):
			err = kafka.Explain(err, "topic "+topic) // it was deleted: Open finds out whether there is a new one
		default:
			err = in.partitionFault(tp, kafka.Explain(err, "read "+tp.String()))
		}
		if err != nil && !errors.Is(err, ctx.Err()) {
			fatal = errors.Join(fatal, err)
		}
	})
	return fatal
}

// partitionFault notes why a partition can't be read. Others go on, unless it is a matter of rights.
func (in *input) partitionFault(tp topicPartition, err error) error {
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

// Close commits what is settled, and leaves the group.
func (in *input) Close(ctx context.Context) error {
	in.shut(ctx)
	return nil
}

// expression is a pattern as a regular expression, which is how the client takes it.
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
