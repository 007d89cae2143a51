package test

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/flowd-io/flowd/internal/testing/kafkatest"
)

// values are what is in a topic, sorted.
func values(t *testing.T, c *kafkatest.Cluster, topic string) (all []string) {
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
	want := values(t, c, one)
	queue(t, "mv", one, two, "-n", "700", "--yes").Want(t, 0, "700 moved in ")
	queue(t, "mv", one, two, "--yes").Want(t, 0, "4,300 moved in ")
	if got := values(t, c, two); !slices.Equal(got, want) {
		t.Errorf("%d records moved, want each of %d once", len(got), n)
	}
	queue(t, "mv", one, two, "--yes").Want(t, 0, ": 0 moved in ")

	file := filepath.Join(t.TempDir(), "saved.jsonl")
	queue(t, "dump", two, file, "-n", "10").Want(t, 0, ": 10 written in ")
	queue(t, "dump", two, file+"2", "--delete", "--yes").Want(t, 0, ": 5,000 written in ")
	queue(t, "load", three, file+"2").Want(t, 0, ": 5,000 sent in ")
	if got := values(t, c, three); !slices.Equal(got, want) {
		t.Errorf("%d records are loaded, want each of %d once", len(got), n)
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
	queue(t, "redrive", dead).Want(t, 1, "there is no topic no-such-topic (create it, or correct its name)",
		"it has no header original_topic", "2 sent back, 2 failed")
	if got := strings.Join(values(t, c, home), " "); got != "0 2" {
		t.Errorf("sent back: %q", got)
	}
	queue(t, "redrive", dead, "--to", home).Want(t, 0, ": 2 sent back in ")
	if got := strings.Join(values(t, c, home), " "); got != "0 1 2 3" {
		t.Errorf("sent back: %q, want each once", got)
	}
	queue(t, "redrive", dead).Want(t, 0, ": 0 sent back in ")
}

func TestQueueErrorsOfKafka(t *testing.T) {
	c := kafkatest.Any(t)
	for _, tt := range []struct {
		args []string
		says string
	}{
		{[]string{"dump", "kafka://" + c.Brokers, "nope", "-"}, "there is no topic nope"},
		{[]string{"ls", "kafka://me:s3cret@127.0.0.1:1/?mechanism=PLAIN"}, "check that the broker runs, and its address"},
		{[]string{"ls", "kafka://me:s3cret@" + c.Brokers}, "write ?mechanism="},
		{[]string{"ls", "kafka://me:s3cret@a:9092,b"}, "the broker's address is not a URL"},
	} {
		r := queue(t, tt.args...)
		r.Want(t, 1, tt.says)
		if strings.Contains(r.Stderr, "s3cret") {
			t.Errorf("%q says\n%s", tt.args, r.Stderr)
		}
	}
}
