package kafka

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/systems/queue"
	"github.com/flowd-io/flowd/internal/testing/kafkatest"
	"github.com/flowd-io/flowd/internal/testing/queuetest"
	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
)

// readSome reads n messages, or until the end if there are fewer.
func readSome(t *testing.T, s queue.Server, topic string, n int) (queue.Reader, []queue.Message) {
	t.Helper()
	r, err := s.Reader(t.Context(), topic)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	var all []queue.Message
	for len(all) < n {
		ms, err := r.Read(t.Context(), n-len(all))
		if err == engine.ErrEnd {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, ms...)
	}
	return r, all
}

func sortedPayloads(ms []queue.Message) string {
	var all []string
	for _, m := range ms {
		all = append(all, string(m.Payload))
	}
	slices.Sort(all)
	return strings.Join(all, "")
}

func refsOf(ms []queue.Message, payloads string) (refs []uint64) {
	for _, m := range ms {
		if strings.Contains(payloads, string(m.Payload)) {
			refs = append(refs, m.Ref)
		}
	}
	return refs
}

func ready(t *testing.T, s queue.Server, topic string) (ready, kept int64) {
	t.Helper()
	all, err := s.List(t.Context(), topic)
	if err != nil || len(all) != 1 {
		t.Fatal(err, all)
	}
	return all[0].Ready, all[0].Kept
}

func letters(topic string, partitions int, text string) (all []*kgo.Record) {
	for i, c := range text {
		all = append(all, &kgo.Record{Topic: topic, Partition: int32(i % partitions), Value: []byte(string(c))})
	}
	return all
}

func TestDoneMessagesAreNotReadAgain(t *testing.T) {
	c := kafkatest.Any(t)
	topic := c.Topic(t, 2)
	c.Send(t, letters(topic, 2, "abcdefgh")...)
	s := queuetest.Dial(t, "kafka://"+c.Brokers+"/?group=own-"+topic)
	if n, kept := ready(t, s, topic); n != 8 || kept != 0 {
		t.Errorf("%d are ready and %d kept, want 8 and 0", n, kept)
	}
	r, all := readSome(t, s, topic, 100)
	if got := sortedPayloads(all); got != "abcdefgh" {
		t.Fatalf("read %q", got)
	}
	for _, done := range []string{"cg", "ad"} { // b, e, f and h have failed
		if err := r.Done(t.Context(), refsOf(all, done)); err != nil {
			t.Fatal(err)
		}
	}
	c.Send(t, letters(topic, 1, "i")...)
	if n, kept := ready(t, s, topic); n != 5 || kept != 4 {
		t.Errorf("%d are ready and %d kept, want 5 and 4", n, kept)
	}
	if _, again := readSome(t, s, topic, 100); sortedPayloads(again) != "befhi" {
		t.Errorf("read %q again, want the messages that are not done, and the new one", sortedPayloads(again))
	}
	if _, others := readSome(t, queuetest.Dial(t, "kafka://"+c.Brokers), topic, 100); sortedPayloads(others) != "abcdefghi" {
		t.Errorf("another group reads %q, want all", sortedPayloads(others))
	}
	if n, err := s.Purge(t.Context(), topic); n != 9 || err != nil {
		t.Errorf("purged %d: %v", n, err)
	}
	if n, kept := ready(t, s, topic); n != 0 || kept != 0 {
		t.Errorf("%d are ready and %d kept after a purge", n, kept)
	}
	if _, left := readSome(t, s, topic, 1); len(left) != 0 {
		t.Errorf("read %q of an empty topic", sortedPayloads(left))
	}
}

func TestAReaderEndsBeforeLaterRecords(t *testing.T) {
	c := kafkatest.Any(t)
	topic := c.Topic(t, 1)
	c.Send(t, letters(topic, 1, "abc")...)
	s := queuetest.Dial(t, "kafka://"+c.Brokers)
	r, first := readSome(t, s, topic, 1)
	c.Send(t, letters(topic, 1, "de")...)
	rest, err := r.Read(t.Context(), 100)
	if err != nil || sortedPayloads(first) != "a" || sortedPayloads(rest) != "bc" {
		t.Errorf("read %q, then %q: %v", sortedPayloads(first), sortedPayloads(rest), err)
	}
	if _, err := r.Read(t.Context(), 100); err != engine.ErrEnd {
		t.Errorf("after the end: %v", err)
	}
}

func TestOnlyOneOfTwoReadersCommits(t *testing.T) {
	c := kafkatest.Any(t)
	topic := c.Topic(t, 1)
	c.Send(t, letters(topic, 1, "abc")...)
	s := queuetest.Dial(t, "kafka://"+c.Brokers+"/?group=two-"+topic)
	one, all := readSome(t, s, topic, 3)
	two, same := readSome(t, s, topic, 3)
	if err := one.Done(t.Context(), refsOf(all, "b")); err != nil {
		t.Fatal(err)
	}
	err := two.Done(t.Context(), refsOf(same, "a"))
	if err == nil || !strings.Contains(err.Error(), "another command has committed offsets of group two-") {
		t.Errorf("the second: %v", err)
	}
	if _, left := readSome(t, s, topic, 3); sortedPayloads(left) != "ac" {
		t.Errorf("%q are left, want a and c", sortedPayloads(left))
	}
}

func TestAGroupWithMembersIsLeftAlone(t *testing.T) {
	c := kafkatest.Any(t)
	topic := c.Topic(t, 1)
	c.Send(t, letters(topic, 1, "a")...)
	group := "busy-" + topic
	member, err := kgo.NewClient(kgo.SeedBrokers(strings.Split(c.Brokers, ",")...), kgo.ConsumerGroup(group),
		kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		t.Fatal(err)
	}
	defer member.Close()
	member.PollFetches(t.Context())
	s := queuetest.Dial(t, "kafka://"+c.Brokers+"/?group="+group)
	_, err = s.Reader(t.Context(), topic)
	if err == nil || !strings.Contains(err.Error(), "the group "+group+" is in use") {
		t.Errorf("got %v", err)
	}
	if n, _ := ready(t, s, topic); n != 1 {
		t.Errorf("%d are ready, want the group's lag", n)
	}
}

func TestTransactionsAreReadWhenTheyAreCommitted(t *testing.T) {
	c := kafkatest.Any(t)
	topic := c.Topic(t, 1)
	tx, err := kgo.NewClient(kgo.SeedBrokers(strings.Split(c.Brokers, ",")...), kgo.TransactionalID(topic),
		kgo.DefaultProduceTopic(topic))
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Close()
	write := func(text string, commit kgo.TransactionEndTry) {
		t.Helper()
		if err := errors.Join(tx.BeginTransaction(), tx.ProduceSync(t.Context(), letters(topic, 1, text)...).FirstErr(),
			tx.EndTransaction(t.Context(), commit)); err != nil {
			t.Fatal(err)
		}
	}
	write("ab", kgo.TryCommit)
	write("xy", kgo.TryAbort)
	write("c", kgo.TryCommit)
	if err := errors.Join(tx.BeginTransaction(),
		tx.ProduceSync(t.Context(), letters(topic, 1, "zz")...).FirstErr()); err != nil {
		t.Fatal(err)
	}
	s := queuetest.Dial(t, "kafka://"+c.Brokers+"/?group=tx-"+topic)
	began := time.Now()
	r, all := readSome(t, s, topic, 100)
	if got := sortedPayloads(all); got != "abc" || time.Since(began) > pollTimeout {
		t.Fatalf("read %q in %v", got, time.Since(began))
	}
	if err := r.Done(t.Context(), refsOf(all, "abc")); err != nil {
		t.Fatal(err)
	}
	infos, err := s.List(t.Context(), topic)
	if err != nil || infos[0].Ready != 0 || infos[0].Delayed != 2 {
		t.Errorf("%+v: %v; want none ready, since markers are not messages, and two delayed", infos, err)
	}
}

func TestRecordsAreMovedUnchanged(t *testing.T) {
	c := kafkatest.Any(t)
	from, to := c.Topic(t, 3), c.Topic(t, 3)
	sentAt := time.Date(2026, 1, 2, 3, 4, 5, 6e6, time.UTC)
	want := []*kgo.Record{
		{Topic: from, Partition: 2, Key: nil, Value: []byte("x\x00\xff"), Timestamp: sentAt, Headers: []kgo.RecordHeader{
			{Key: "a", Value: []byte("1")}, {Key: "b", Value: []byte("\xff")}, {Key: "a", Value: nil},
			{Key: "topic", Value: []byte{}}}},
		{Topic: from, Partition: 2, Key: nil, Value: nil, Timestamp: sentAt.Add(time.Hour)},
		{Topic: from, Partition: 2, Key: nil, Value: []byte{}, Timestamp: sentAt},
	}
	c.Send(t, want...)
	s := queuetest.Dial(t, "kafka://"+c.Brokers)
	_, all := readSome(t, s, from, 100)
	w, err := s.Writer(t.Context(), to)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	if errs := w.Write(t.Context(), all); errs != nil {
		t.Fatal(errs)
	}
	for i := range all { // as read from a dump, without the record itself
		all[i].Raw = nil
	}
	if errs := w.Write(t.Context(), all); errs != nil {
		t.Fatal(errs)
	}
	got := c.Read(t, to)
	if len(got) != 6 {
		t.Fatalf("got %d records", len(got))
	}
	for i, r := range got {
		x := want[i%3]
		if diff := cmp.Diff([]any{x.Partition, x.Key, x.Value, x.Headers, x.Timestamp.UTC()},
			[]any{r.Partition, r.Key, r.Value, r.Headers, r.Timestamp.UTC()}); diff != "" {
			t.Errorf("record %d: -want +got\n%s", i, diff)
		}
	}
}

func TestADeadLetterReturnsUnchanged(t *testing.T) {
	c := kafkatest.Any(t)
	home, dead := c.Topic(t, 4), c.Topic(t, 1)
	at := time.Date(2026, 1, 2, 3, 4, 5, 6e6, time.UTC)
	c.Send(t, &kgo.Record{Topic: dead, Key: []byte("k"), Value: []byte("x"), Headers: []kgo.RecordHeader{
		{Key: "tenant", Value: []byte("t")}, {Key: "error_class", Value: []byte("rejected")},
		{Key: "original_topic", Value: []byte("before")}, {Key: "error_code", Value: []byte("the sender's")},
		{Key: "original_topic", Value: []byte(home)}, {Key: "original_partition", Value: []byte("3")},
		{Key: "original_timestamp", Value: []byte(at.Format(time.RFC3339Nano))}}},
		&kgo.Record{Topic: dead, Value: []byte("stray")})
	s := queuetest.Dial(t, "kafka://"+c.Brokers)
	_, all := readSome(t, s, dead, 10)
	if from, err := s.(queue.Origin).Origin(t.Context(), dead, all[0]); from != home || err != nil {
		t.Errorf("it came from %q (%v), want %q", from, err, home)
	}
	if from, err := s.(queue.Origin).Origin(t.Context(), dead, all[1]); from != "" || err == nil {
		t.Errorf("a message without a history came from %q (%v)", from, err)
	}
	for topic, headers := range map[string]int{home: 2, c.Topic(t, 1): 7} {
		w, err := s.Writer(t.Context(), topic)
		if err != nil {
			t.Fatal(err)
		}
		if errs := w.Write(t.Context(), all[:1]); errs != nil {
			t.Error(errs)
		}
		w.Close()
		r := c.Read(t, topic)[0]
		if len(r.Headers) != headers || topic == home && (r.Partition != 3 || !r.Timestamp.Equal(at)) {
			t.Errorf("in %s: partition %d, %v, %v", topic, r.Partition, r.Timestamp, r.Headers)
		}
	}
}

func TestAddresses(t *testing.T) {
	c := kafkatest.Start(t, kfake.EnableSASL(), kfake.Superuser("SCRAM-SHA-256", "me", "s3cret"))
	queuetest.Dial(t, "kafka://me:s3cret@"+c.Brokers+","+c.Brokers+"/?mechanism=SCRAM-SHA-256")
	c.RefuseLogins()
	for address, want := range map[string]string{
		"kafka://" + c.Brokers + "/x":                                       "the path \"x\"",
		"kafka://" + c.Brokers + "?mechanisme=PLAIN":                        "unknown parameter \"mechanisme\" (known are mechanism",
		"kafka://me:s3cret@" + c.Brokers:                                    "the mechanism \"\" is not supported here (write ?mechanism=",
		"kafka://me@" + c.Brokers + "?mechanism=PLAIN":                      "PLAIN needs a user and a password",
		"kafka://" + c.Brokers + "?ca=x":                                    "(write kafkas://)",
		"kafka://" + c.Brokers + "?tls=no":                                  "the parameter tls is \"no\"",
		"kafkas://" + c.Brokers + "?cert=x":                                 "key",
		"kafka:///":                                                         "is not a valid address",
		"kafka://me:wrong-s3cret@" + c.Brokers + "?mechanism=SCRAM-SHA-256": "USER:PASSWORD@ and the parameters mechanism",
	} {
		u, err := url.Parse(address)
		if err != nil {
			t.Fatal(err)
		}
		_, err = openServer(t.Context(), u)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s: got %v, want %q", address, err, want)
		}
	}
}

func TestErrorsNameTheTopic(t *testing.T) {
	c := kafkatest.Start(t)
	s := queuetest.Dial(t, "kafka://"+c.Brokers)
	ctx := context.Background()
	_, reading := s.Reader(ctx, "nope")
	_, writing := s.Writer(ctx, "nope")
	_, purging := s.Purge(ctx, "nope")
	for _, err := range []error{reading, writing, purging} {
		if err == nil || err.Error() != "the topic nope does not exist (create it, or correct its name)" {
			t.Errorf("got %v", err)
		}
	}
	topic := c.Topic(t, 1)
	w, err := s.Writer(ctx, topic)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	errs := w.Write(ctx, []queue.Message{{Payload: []byte("a")}, {Payload: make([]byte, 2<<20)}, {Payload: []byte("b")}})
	if len(errs) != 3 || errs[0] != nil || errs[2] != nil || errs[1] == nil || !strings.Contains(errs[1].Error(), topic) {
		t.Errorf("got %v, want an error of the second one only", errs)
	}
	if all, err := s.List(ctx, "no*"); err != nil || len(all) != 0 {
		t.Errorf("%v: %v", all, err)
	}
}

func TestProgressFitsIntoTheMetadataOfACommit(t *testing.T) {
	p := progress{at: 5}
	for _, s := range []span{{7, 8}, {10, 12}, {8, 9}, {3, 6}, {20, 30}, {11, 21}} {
		p.add(s.from, s.to)
	}
	if want := (progress{6, []span{{7, 9}, {10, 30}}}); !cmp.Equal(p, want, cmp.AllowUnexported(progress{}, span{})) {
		t.Errorf("got %+v, want %+v", p, want)
	}
	if p.left(35) != 7 || p.left(28) != 2 || p.isDone(6) || !p.isDone(7) || p.isDone(9) || !p.isDone(29) || p.isDone(30) || !p.isDone(0) {
		t.Errorf("%+v: %d left", p, p.left(35))
	}
	text, complete := p.encode()
	if back := decodeProgress(6, text); !complete || !cmp.Equal(back, p, cmp.AllowUnexported(progress{}, span{})) {
		t.Errorf("%q is read as %+v", text, back)
	}
	for i := range int64(5000) {
		p.add(100+2*i, 101+2*i)
	}
	text, complete = p.encode()
	back := decodeProgress(6, text)
	if complete || len(text) > longestEncoded || back.isDone(10_001) || len(back.spans) < 900 {
		t.Errorf("%d bytes for %d spans", len(text), len(back.spans))
	}
}

func FuzzDecodeProgress(f *testing.F) {
	f.Add(int64(6), "flowd 1 2 1 k")
	f.Add(int64(1<<47), "flowd zzzzzzzzz 1 1 zzzzzzzzz")
	f.Add(int64(0), "flowd 0 1")
	f.Fuzz(func(t *testing.T, at int64, text string) {
		if at < 0 || at > mostOffset {
			return
		}
		p := decodeProgress(at, text)
		if p.at != at || p.last() < at || p.last() > mostOffset {
			t.Fatalf("%q at %d: %+v", text, at, p)
		}
		last := p.at
		for _, s := range p.spans {
			if s.from <= last || s.to <= s.from {
				t.Fatalf("%q at %d: %+v", text, at, p)
			}
			last = s.to
		}
		if again, complete := p.encode(); complete && fmt.Sprint(decodeProgress(at, again)) != fmt.Sprint(p) {
			t.Fatalf("%q at %d is written as %q", text, at, again)
		}
	})
}
