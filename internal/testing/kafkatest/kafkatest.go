// Package kafkatest has a Kafka cluster for tests: one in the process, or the one that FLOWD_TEST_KAFKA names.
package kafkatest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/flowd-io/flowd/engine/enginetest"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/plain"
)

// Cluster is a cluster with a client that is not flowd's.
type Cluster struct {
	Brokers string
	Fake    *kfake.Cluster // nil: it is a real one
	*kgo.Client
	Admin *kadm.Client
	opts  []kgo.Opt // of its clients
	wires *wires
	made  []kfake.Opt // it starts with them
}

// Start is a cluster of one's own, as options make it; it ends with the test.
func Start(t testing.TB, opts ...kfake.Opt) *Cluster {
	t.Helper()
	w := &wires{}
	opts = append([]kfake.Opt{kfake.NumBrokers(1), kfake.ListenFn(w.listen)}, opts...)
	fake, err := kfake.NewCluster(opts...)
	if err != nil {
		t.Fatal(err)
	}
	c := connect(t, strings.Join(fake.ListenAddrs(), ","))
	c.Fake, c.wires, c.made = fake, w, opts
	t.Cleanup(func() { c.Fake.Close() })
	return c
}

// Behind is a cluster whose brokers name the wire as their address. Its own client does not use the wire.
func Behind(t testing.TB, wire *enginetest.Wire) *Cluster {
	t.Helper()
	fake, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.ListenFn(wire.Listen))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(fake.Close)
	c := connect(t, wire.Address, kgo.Dialer(func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, wire.Target())
	}))
	c.Fake = fake
	return c
}

// Restart ends the brokers, and starts them again at the same addresses: options name where they keep what they have.
func (c *Cluster) Restart(t testing.TB) {
	t.Helper()
	var ports []int
	for _, a := range c.Fake.ListenAddrs() {
		_, port, _ := net.SplitHostPort(a)
		n, err := strconv.Atoi(port)
		if err != nil {
			t.Fatal(err)
		}
		ports = append(ports, n)
	}
	c.Fake.Close()
	fake, err := kfake.NewCluster(append(c.made, kfake.Ports(ports...))...)
	if err != nil {
		t.Fatal(err)
	}
	c.Fake = fake
}

// As is the cluster with a client that has further options, such as how to log in.
func (c *Cluster) As(t testing.TB, opts ...kgo.Opt) *Cluster {
	t.Helper()
	as := connect(t, c.Brokers, opts...)
	as.Fake, as.wires = c.Fake, c.wires
	return as
}

// Any is the cluster that FLOWD_TEST_KAFKA names, or one in the process.
func Any(t testing.TB) *Cluster {
	t.Helper()
	if address := os.Getenv("FLOWD_TEST_KAFKA"); address != "" {
		return connect(t, address)
	}
	return Start(t)
}

// Login is the option to log in with PLAIN.
func Login(user, password string) kgo.Opt {
	return kgo.SASL(plain.Auth{User: user, Pass: password}.AsMechanism())
}

func connect(t testing.TB, brokers string, opts ...kgo.Opt) *Cluster {
	t.Helper()
	opts = append(opts, kgo.SeedBrokers(strings.Split(brokers, ",")...))
	client, err := kgo.NewClient(append(slices.Clone(opts), kgo.ManualFlushing(), kgo.MaxBufferedRecords(1<<20),
		kgo.RecordPartitioner(kgo.ManualPartitioner()))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return &Cluster{Brokers: brokers, Client: client, Admin: kadm.NewClient(client), opts: opts}
}

var serial atomic.Int64

// Topic creates a topic with a name of its own.
func (c *Cluster) Topic(t testing.TB, partitions int) string {
	t.Helper()
	name := fmt.Sprintf("t-%d-%d", time.Now().UnixNano(), serial.Add(1))
	c.Create(t, name, partitions)
	return name
}

// Create creates a topic.
func (c *Cluster) Create(t testing.TB, name string, partitions int) {
	t.Helper()
	answer, err := c.Admin.CreateTopic(t.Context(), int32(partitions), 1, nil, name)
	if err == nil {
		err = answer.Err
	}
	if err != nil {
		t.Fatal(err)
	}
}

// Send writes records and waits until they are there.
func (c *Cluster) Send(t testing.TB, records ...*kgo.Record) {
	t.Helper()
	for _, r := range records {
		c.Produce(t.Context(), r, func(_ *kgo.Record, err error) {
			if err != nil {
				t.Error(err)
			}
		})
	}
	if err := c.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// Numbered are n records from a number on, spread over partitions, with keys of which each stays in one partition.
func Numbered(topic string, partitions, from, n int) []*kgo.Record {
	all := make([]*kgo.Record, n)
	for i := range all {
		id := from + i
		all[i] = &kgo.Record{Topic: topic, Partition: int32(id % partitions), Key: fmt.Appendf(nil, "k%d", id%(7*partitions)),
			Value: fmt.Appendf(nil, `{"id":%d}`, id)}
	}
	return all
}

// ends are the offsets at which a topic ends, once no transaction is open: that of a process that was killed is aborted
// when it is too old.
func (c *Cluster) ends(t testing.TB, topic string) kadm.ListedOffsets {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for range 60 * 50 {
		stable, err := c.Admin.ListCommittedOffsets(t.Context(), topic)
		if err != nil {
			t.Fatal(err)
		}
		ends, err := c.Admin.ListEndOffsets(t.Context(), topic)
		if err != nil {
			t.Fatal(err)
		}
		if reflect.DeepEqual(stable, ends) {
			return ends
		}
		<-tick.C
	}
	t.Fatalf("topic %s still has an open transaction after a minute", topic)
	return nil
}

// Read is what is in a topic, of transactions what is committed.
func (c *Cluster) Read(t testing.TB, topic string) (all []*kgo.Record) {
	t.Helper()
	ends := c.ends(t, topic)
	left := 0
	ends.Each(func(o kadm.ListedOffset) { left += int(min(o.Offset, 1)) })
	client, err := kgo.NewClient(append(slices.Clone(c.opts), kgo.ConsumeTopics(topic),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.KeepControlRecords())...)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for left > 0 {
		fetches := client.PollFetches(ctx)
		if ctx.Err() != nil {
			t.Fatalf("%d partitions of topic %s were not read to their end", left, topic)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			if !r.Attrs.IsControl() {
				all = append(all, r)
			}
			if end, ok := ends.Lookup(topic, r.Partition); ok && r.Offset == end.Offset-1 {
				left--
			}
		})
	}
	return all
}

// Committed is what a group has committed of a topic: records in all partitions.
func (c *Cluster) Committed(t testing.TB, group, topic string) (n int64) {
	t.Helper()
	all, err := c.Admin.FetchOffsets(t.Context(), group)
	for range 3 { // the connection may have been cut
		if err == nil || errors.Is(err, kerr.GroupIDNotFound) {
			break
		}
		all, err = c.Admin.FetchOffsets(t.Context(), group)
	}
	switch {
	case errors.Is(err, kerr.GroupIDNotFound): // nobody has committed yet
	case err != nil:
		t.Fatal(err)
	}
	all.Each(func(o kadm.OffsetResponse) {
		if o.Topic == topic {
			n += max(o.At, 0)
		}
	})
	return n
}
