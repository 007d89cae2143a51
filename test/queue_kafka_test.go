package test

import (
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/flowd-io/flowd/internal/testing/kafkatest"
)

// topicValues returns the values of all records in a topic, sorted.
func topicValues(t *testing.T, c *kafkatest.Cluster, topic string) (all []string) {
	t.Helper()
	for _, r := range c.Read(t, topic) {
		all = append(all, string(r.Value))
	}
	slices.Sort(all)
	return all
}

func TestQueueOnKafka(t *testing.T) {
	c := kafkatest.Any(t)
	one, two, three := c.Topic(t, 3), c.Topic(t, 2), c.Topic(t, 1)
	t.Setenv("FLOWD_QUEUE_URL", "kafka://"+c.Brokers+"/?group="+one)
	const n = 5000
	c.Send(t, kafkatest.Numbered(one, 3, 0, n)...)
	want := topicValues(t, c, one)
	queue(t, "mv", one, two, "-n", "700", "--yes").Want(t, 0, "700 moved in ")
	queue(t, "mv", one, two, "--yes").Want(t, 0, "4,300 moved in ")
	if got := topicValues(t, c, two); !slices.Equal(got, want) {
		t.Errorf("%d records were moved, want each of %d once", len(got), n)
	}
	queue(t, "mv", one, two, "--yes").Want(t, 0, ": 0 moved in ")

	peeked := queue(t, "peek", two, "-n", "3")
	peeked.Want(t, 0, ": 3 shown in ")
	if n := strings.Count(peeked.Stdout, "\n"); n != 3 {
		t.Errorf("peek shows %d lines, want 3", n)
	}
	file := filepath.Join(t.TempDir(), "saved.jsonl")
	queue(t, "dump", two, file, "-n", "10").Want(t, 0, ": 10 written in ")
	queue(t, "dump", two, file+"2", "--delete", "--yes").Want(t, 0, ": 5,000 written in ")
	queue(t, "load", three, file+"2").Want(t, 0, ": 5,000 sent in ")
	if got := topicValues(t, c, three); !slices.Equal(got, want) {
		t.Errorf("%d records were loaded, want each of %d once", len(got), n)
	}
	var all []struct {
		Name  string
		Kind  string
		Ready int
	}
	r := queue(t, "ls", three, "--json")
	if err := json.Unmarshal([]byte(r.Stdout), &all); err != nil || len(all) != 1 || all[0].Ready != n ||
		all[0].Kind != "1 partition" {
		t.Errorf("%v %+v", err, all)
	}
	queue(t, "purge", two).Want(t, 2, "Permanently remove 5,000 messages from "+two+"? (add --yes)")
	queue(t, "purge", two, "--yes").Want(t, 0, two+": 5000 messages removed")
	queue(t, "dump", "kafka://"+c.Brokers+"/?group=new-"+two, two, "-").Want(t, 0, ": 0 written in ")
}

func TestQueueRedriveOnKafka(t *testing.T) {
	c := kafkatest.Any(t)
	home, dead := c.Topic(t, 3), c.Topic(t, 1)
	t.Setenv("FLOWD_QUEUE_URL", "kafka://"+c.Brokers+"/?group="+dead)
	for i, from := range []string{home, "no-such-topic", home, ""} {
		r := &kgo.Record{Topic: dead, Value: fmt.Append(nil, i)}
		if from != "" {
			r.Headers = []kgo.RecordHeader{{Key: "original_topic", Value: []byte(from)}}
		}
		c.Send(t, r)
	}
	queue(t, "redrive", dead).Want(t, 1, "the topic no-such-topic does not exist (create it, or correct its name)",
		"the message has no header original_topic", "2 sent back, 2 failed")
	if got := strings.Join(topicValues(t, c, home), " "); got != "0 2" {
		t.Errorf("sent back: %q", got)
	}
	queue(t, "redrive", dead, "--to", home).Want(t, 0, ": 2 sent back in ")
	if got := strings.Join(topicValues(t, c, home), " "); got != "0 1 2 3" {
		t.Errorf("sent back: %q, want each once", got)
	}
	queue(t, "redrive", dead).Want(t, 0, ": 0 sent back in ")
}

func TestQueueErrorsOfKafka(t *testing.T) {
	t.Parallel()
	c := kafkatest.Any(t)
	for _, tt := range []struct {
		args []string
		says string
	}{
		{[]string{"dump", "kafka://" + c.Brokers, "nope", "-"}, "the topic nope does not exist"},
		{[]string{"ls", "kafka://me:s3cret@127.0.0.1:1/?mechanism=PLAIN"}, "check that the broker runs, and its address"},
		{[]string{"ls", "kafka://me:s3cret@" + c.Brokers}, "write ?mechanism="},
		{[]string{"ls", "kafka://me:s3cret@a:9092,b"}, "the broker's address is not a URL"},
	} {
		r := queue(t, tt.args...)
		r.Want(t, 1, tt.says)
		if strings.Contains(r.Stderr, "s3cret") {
			t.Errorf("the output of %q contains the password:\n%s", tt.args, r.Stderr)
		}
	}
}

// TestKafkaDeadLettersAreRedriven makes a pipeline fail a message, and another one fail its dead letter. Headers of dead
// letters have the error and the origin, each once. Redriving sends each record back to its topic and partition, with its
// key, headers and time.
func TestKafkaDeadLettersAreRedriven(t *testing.T) {
	t.Parallel()
	c := kafkatest.Start(t)
	orders, dead, hopeless := c.Topic(t, 3), c.Topic(t, 1), c.Topic(t, 1)
	at := time.Now().Add(-time.Hour).Truncate(time.Millisecond).UTC()
	c.Send(t, &kgo.Record{Topic: orders, Partition: 0, Value: []byte("good")},
		&kgo.Record{Topic: orders, Partition: 2, Key: []byte("k"), Value: []byte("bad"), Timestamp: at,
			Headers: []kgo.RecordHeader{{Key: "tenant", Value: []byte("t")}, {Key: "via", Value: []byte("a")},
				{Key: "via", Value: []byte("b")}}})
	dir := t.TempDir()
	relay := func(name, from, to string) {
		write(t, dir, name+".yaml", fmt.Sprintf(`
inputs:
  in: {kafka: {brokers: %[1]q, topics: %[2]s, group: %[4]s, commit_interval: 50ms}}
processors:
  - fail: refused by %[4]s
    when: raw() == "bad"
outputs:
  out: {drop: {}}
  dead: {kafka: {brokers: %[1]q, topic: %[3]s}}
engine: {on_failure: {dead_letter: dead}}
`, c.Brokers, from, to, name))
	}
	run := func(name, topic string, n int64) {
		p := start(t, dir, "-c", name+".yaml")
		waitForCommits(t, c, name, topic, n)
		p.Signal(syscall.SIGTERM)
		p.Wait().Want(t, 0)
	}
	// last returns the last of n bad records, and its headers by name. Each header except via must be there once.
	last := func(topic string, n int) (*kgo.Record, map[string]string) {
		t.Helper()
		all := slices.DeleteFunc(c.Read(t, topic), func(r *kgo.Record) bool { return string(r.Value) != "bad" })
		if len(all) != n {
			t.Fatalf("topic %s has %d records, want %d", topic, len(all), n)
		}
		headers := map[string]string{}
		for _, h := range all[n-1].Headers {
			if before, twice := headers[h.Key]; twice && h.Key != "via" {
				t.Errorf("the record has the header %s twice: %s and %s", h.Key, before, h.Value)
			}
			headers[h.Key] += string(h.Value)
		}
		return all[n-1], headers
	}
	relay("first", orders, dead)
	relay("second", dead, hopeless)
	run("first", orders, 2)
	r, headers := last(dead, 1)
	for name, want := range map[string]string{"tenant": "t", "via": "ab", "error_message": "refused by first",
		"original_topic": orders, "original_partition": "2", "original_offset": "0",
		"original_timestamp": at.Format(time.RFC3339Nano)} {
		if headers[name] != want {
			t.Errorf("header %s is %q, want %q", name, headers[name], want)
		}
	}
	if string(r.Key) != "k" || headers["error_class"] == "" {
		t.Errorf("the dead letter has the key %s and the headers %v", r.Key, headers)
	}
	run("second", dead, 1)
	_, headers = last(hopeless, 1)
	if headers["original_topic"] != dead || headers["error_message"] != "refused by second" {
		t.Errorf("the dead letter of a dead letter has the headers %v", headers)
	}

	address := "kafka://" + c.Brokers
	queue(t, "redrive", address, dead).Want(t, 0, ": 1 sent back in ")
	r, headers = last(orders, 2)
	original := map[string]string{"tenant": "t", "via": "ab"}
	if !maps.Equal(headers, original) || string(r.Key) != "k" || r.Partition != 2 || !r.Timestamp.Equal(at) {
		t.Errorf("the redriven record has key %s, partition %d, time %v and headers %v", r.Key, r.Partition, r.Timestamp, headers)
	}
	queue(t, "redrive", address, hopeless).Want(t, 0, ": 1 sent back in ")
	if _, headers = last(dead, 2); !maps.Equal(headers, original) {
		t.Errorf("the redriven dead letter has the headers %v", headers)
	}
}
