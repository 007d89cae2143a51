package test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/flowd-io/flowd/internal/testing/debian"
	"github.com/flowd-io/flowd/internal/testing/kafkatest"
	"github.com/google/go-cmp/cmp"
)

// runKcat runs kcat, a client based on librdkafka, with a cluster.
func runKcat(t *testing.T, c *kafkatest.Cluster, stdin string, args ...string) string {
	t.Helper()
	r := command(t, t.TempDir(), stdin, debian.Program(t, "kcat", "kcat"), append([]string{"-b", c.Brokers}, args...)...)
	if r.Code != 0 {
		t.Fatalf("kcat %q: %s", args, r.Stderr)
	}
	return r.Stdout
}

// kcatRead reads a topic to its end with kcat, and returns sorted lines of a record each.
func kcatRead(t *testing.T, c *kafkatest.Cluster, topic, format string, args ...string) []string {
	t.Helper()
	out := runKcat(t, c, "", append([]string{"-C", "-q", "-e", "-t", topic, "-f", format + "\n"}, args...)...)
	return slices.Sorted(strings.Lines(out))
}

// TestKcatReadsWhatFlowdWrites tests all compressions. Equal keys must go to the same partitions as with librdkafka.
func TestKcatReadsWhatFlowdWrites(t *testing.T) {
	t.Parallel()
	c := kafkatest.Any(t)
	now := time.Now().UnixMilli()
	for _, codec := range []string{"none", "gzip", "snappy", "lz4", "zstd"} {
		t.Run(codec, func(t *testing.T) {
			ours, theirs := c.Topic(t, 7), c.Topic(t, 7)
			var in, records strings.Builder
			for i := range 200 {
				fmt.Fprintf(&in, "{\"id\":%d,\"key\":\"key-%d-ü\"}\n", i, i)
				fmt.Fprintf(&records, "key-%d-ü|{\"id\":%d,\"key\":\"key-%d-ü\"}\n", i, i, i)
			}
			dir := t.TempDir()
			write(t, dir, "p.yaml", fmt.Sprintf(`
inputs:
  in: {stdin: {}}
processors:
  - meta: {tenant: '"t1"', via: '["b", "a"]'}
outputs:
  out: {kafka: {brokers: %q, topic: %s, key: key, timestamp: %d + id, headers: {id: "$(id)"}, compression: %s}}
`, c.Brokers, ours, now, codec))
			flowd(t, dir, in.String(), "-c", "p.yaml").Want(t, 0, "200 delivered")
			runKcat(t, c, records.String(), "-P", "-t", theirs, "-K", "|", "-X", "topic.partitioner=murmur2_random", "-z", codec)
			got, want := kcatRead(t, c, ours, "%p %k %s"), kcatRead(t, c, theirs, "%p %k %s")
			if diff := cmp.Diff(want, got); diff != "" || len(got) != 200 {
				t.Fatalf("flowd and librdkafka differ: %d records, -want +got\n%.2000s", len(got), diff)
			}
			rest := kcatRead(t, c, ours, "%T %h")
			for i := range 200 {
				if line := fmt.Sprintf("%d tenant=t1,via=b,via=a,id=%d\n", now+int64(i), i); !slices.Contains(rest, line) {
					t.Fatalf("no record has %q; one has %q", line, rest[:1])
				}
			}
		})
	}
}

// TestFlowdReadsWhatKcatWrites tests all compressions, with keys, headers, and empty and missing values.
func TestFlowdReadsWhatKcatWrites(t *testing.T) {
	t.Parallel()
	c := kafkatest.Any(t)
	for _, codec := range []string{"none", "gzip", "snappy", "lz4", "zstd"} {
		t.Run(codec, func(t *testing.T) {
			topic := c.Topic(t, 3)
			pad := strings.Repeat("pad", 1000)
			runKcat(t, c, "k1|one "+pad+"\nk2|two "+pad+"\n|none "+pad+"\nk3|\n", "-P", "-t", topic, "-K", "|", "-Z", "-z", codec,
				"-H", "a=1", "-H", "b=x y", "-H", "a=2")
			dir := t.TempDir()
			write(t, dir, "p.yaml", fmt.Sprintf(`
inputs:
  in: {kafka: {brokers: %q, topics: %s, group: g-%s, commit_interval: 50ms}}
processors:
  - map: '{"key": meta("key"), "text": raw(), "a": meta("a"), "b": meta("b"), "gone": meta("tombstone")}'
outputs:
  out: {file: {path: out.ndjson}}
`, c.Brokers, topic, topic))
			p := start(t, dir, "-c", "p.yaml")
			waitForCommits(t, c, "g-"+topic, topic, 4)
			p.Signal(syscall.SIGTERM)
			p.Wait().Want(t, 0, "4 delivered")
			got := slices.Sorted(strings.Lines(strings.ReplaceAll(read(t, dir, "out.ndjson"), pad, "…")))
			want := []string{
				`{"a":["1","2"],"b":"x y","gone":null,"key":"k1","text":"one …"}` + "\n",
				`{"a":["1","2"],"b":"x y","gone":null,"key":"k2","text":"two …"}` + "\n",
				`{"a":["1","2"],"b":"x y","gone":null,"key":null,"text":"none …"}` + "\n",
				`{"a":["1","2"],"b":"x y","gone":true,"key":"k3","text":""}` + "\n",
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
		})
	}
}

// TestKcatSeesEachMessageOfTransactionsOnce kills flowd several times during transactions. kcat must read each committed
// message once.
func TestKcatSeesEachMessageOfTransactionsOnce(t *testing.T) {
	t.Parallel()
	c := kafkatest.Start(t, quickGroups)
	in, out := c.Topic(t, 4), c.Topic(t, 4)
	const n = 4000
	c.Send(t, kafkatest.Numbered(in, 4, 0, n)...)
	r := &kafkaRelaying{T: t, c: c, in: in, dir: t.TempDir(), text: fmt.Sprintf(kafkaRelay, c.Brokers, in, out, true)}
	r.start()
	for i := range 2 {
		r.waitForCommits(1000 * (i + 1))
		r.Signal(syscall.SIGKILL)
		_ = r.Cmd.Wait()
		r.start()
	}
	r.waitForCommits(n)
	r.Signal(syscall.SIGTERM)
	r.Wait().Want(t, 0)
	c.Read(t, out) // waits until the transaction of the killed process has been aborted
	seen := map[string]int{}
	for _, line := range kcatRead(t, c, out, "%s", "-X", "isolation.level=read_committed") {
		seen[line]++
	}
	if most := slices.Max(slices.Collect(maps.Values(seen))); len(seen) != n || most > 1 {
		t.Errorf("kcat reads %d of %d messages, at least one of them %d times", len(seen), n, most)
	}
	if all := kcatRead(t, c, out, "%s", "-X", "isolation.level=read_uncommitted"); len(all) < n {
		t.Errorf("with read_uncommitted, kcat reads %d messages, want at least %d", len(all), n)
	}
}
