package test

import (
	"encoding/json"
	"flag"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/flowd-io/flowd/internal/testing/brokertest"
	"github.com/flowd-io/flowd/internal/testing/fakes3"
	"github.com/flowd-io/flowd/internal/testing/kafkatest"
	"github.com/flowd-io/flowd/internal/testing/natstest"
	"github.com/flowd-io/flowd/internal/testing/redistest"
)

var letters = flag.Int("letters", 1000, "how many dead letters TestReplayKilled replays")

const replayPipeline = `
inputs: {in: {stdin: {}}}
processors: [{set: {ok: "true"}}]
outputs: {out: {file: replayed.ndjson}}
`

// letterOf returns the payload and the metadata of a dead letter.
func letterOf(id int) (payload string, meta map[string]string) {
	return fmt.Sprintf(`{"id":%d}`, id), map[string]string{"error_class": "rejected", "error_message": "no",
		"error_output": "out", "error_first_failed": "2026-01-02T03:04:05Z"}
}

// replayed returns how often each id was written.
func replayed(t *testing.T, path string) map[int]int {
	t.Helper()
	return idsOf(t, readIfThere(t, path), func(m map[string]any) any { return m["id"] })
}

// idsOf counts the ids in lines of JSON. A line that a kill has cut short is left out.
func idsOf(t *testing.T, text string, of func(map[string]any) any) map[int]int {
	t.Helper()
	ids := map[int]int{}
	for line := range strings.Lines(text) {
		var m map[string]any
		if json.Unmarshal([]byte(line), &m) == nil {
			if id, ok := of(m).(float64); ok {
				ids[int(id)]++
			}
		}
	}
	return ids
}

func readIfThere(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return string(text)
}

// TestReplayKilled kills a replay ten times. Each letter must be written at least once, and none may have left its source
// before it was written.
func TestReplayKilled(t *testing.T) {
	for name, source := range map[string]func(t *testing.T, dir string, n int) []string{
		"file": func(t *testing.T, dir string, n int) []string {
			var b strings.Builder
			for i := range n {
				payload, meta := letterOf(i)
				line, _ := json.Marshal(map[string]any{"payload": json.RawMessage(payload), "meta": meta})
				b.Write(append(line, '\n'))
			}
			return []string{write(t, dir, "dead.ndjson", b.String())}
		},
		"rabbitmq": func(t *testing.T, _ string, n int) []string {
			b := brokertest.RabbitMQ(t)
			q := b.Queue(t, amqp091.Table{"x-queue-type": "classic"})
			all := make([]amqp091.Publishing, n)
			for i := range n {
				payload, meta := letterOf(i)
				all[i] = amqp091.Publishing{Body: []byte(payload), Headers: amqp091.Table{}, DeliveryMode: amqp091.Persistent}
				for k, v := range meta {
					all[i].Headers[k] = v
				}
			}
			b.Publish(t, q, all...)
			return []string{b.URL, q}
		},
		"kafka": func(t *testing.T, _ string, n int) []string {
			c := kafkatest.Any(t)
			topic := c.Topic(t, 3)
			all := make([]*kgo.Record, n)
			for i := range n {
				payload, meta := letterOf(i)
				all[i] = &kgo.Record{Topic: topic, Value: []byte(payload), Key: fmt.Append(nil, i)}
				for k, v := range meta {
					all[i].Headers = append(all[i].Headers, kgo.RecordHeader{Key: k, Value: []byte(v)})
				}
			}
			c.Send(t, all...)
			return []string{"kafka://" + c.Brokers + "/?group=" + topic, topic}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, n := t.TempDir(), *letters
			file := write(t, dir, "p.yaml", replayPipeline)
			args := append([]string{"dlq", "replay"}, append(source(t, dir, n), "-c", file)...)
			show := append([]string{"dlq", "show", "-n", "0", "--json"}, args[2:len(args)-2]...)
			out := filepath.Join(dir, "replayed.ndjson")
			for range 10 {
				before := len(replayed(t, out))
				p := start(t, dir, append(args, "--rate", fmt.Sprintf("%d/2s", n))...)
				for end := time.Now().Add(deadline); len(replayed(t, out)) < min(n, before+n/20); {
					if time.Sleep(5 * time.Millisecond); time.Now().After(end) {
						t.Fatal("nothing is replayed")
					}
				}
				p.Signal(syscall.SIGKILL)
				_ = p.Cmd.Wait()
				written := replayed(t, out)
				left := idsOf(t, flowd(t, dir, "", show...).Stdout, func(m map[string]any) any {
					payload, _ := m["payload"].(map[string]any)
					return payload["id"]
				})
				for id := range n {
					if written[id]+left[id] == 0 {
						t.Fatalf("letter %d is gone, and was not written", id)
					}
				}
			}
			flowd(t, dir, "", args...) // the last letters, if there are any
			twice := 0
			written := replayed(t, out)
			for id := range n {
				switch {
				case written[id] == 0:
					t.Errorf("letter %d was not written", id)
				case written[id] > 1:
					twice++
				}
			}
			t.Logf("%d of %d letters were written more than once", twice, n)
			if r := flowd(t, dir, "", show...); strings.Contains(r.Stdout, "payload") {
				t.Errorf("letters are left: %.200s", r.Stdout)
			}
		})
	}
}

// TestDeadLettersOfEachSystem writes dead letters with each output for queues, lists them, replays them, and checks that
// the messages are as they were read.
func TestDeadLettersOfEachSystem(t *testing.T) {
	for name, system := range map[string]func(t *testing.T) (output string, source []string){
		"file": func(*testing.T) (string, []string) {
			return "file: {path: dead.ndjson.gz, framing: messages}", []string{"dead.ndjson.gz"}
		},
		"rabbitmq": func(t *testing.T) (string, []string) {
			b := brokertest.RabbitMQ(t)
			q := b.Queue(t, nil)
			return fmt.Sprintf("rabbitmq: {url: %q, routing_key: %q}", b.URL, q), []string{b.URL + "#" + q}
		},
		"kafka": func(t *testing.T) (string, []string) {
			c := kafkatest.Any(t)
			topic := c.Topic(t, 2)
			return fmt.Sprintf("kafka: {brokers: %q, topic: %q}", c.Brokers, topic),
				[]string{"kafka://" + c.Brokers + "/?group=" + topic, topic}
		},
		"nats": func(t *testing.T) (string, []string) {
			s := natstest.Start(t, nil)
			s.Stream(t, jetstream.StreamConfig{Name: "DEAD", Subjects: []string{"dead"}})
			return fmt.Sprintf("nats: {url: %q, subject: dead, stream: DEAD}", s.URL), []string{s.URL, "DEAD"}
		},
		"redis": func(t *testing.T) (string, []string) {
			r := redistest.Own(t)
			return fmt.Sprintf("redis_stream: {url: %q, key: dead}", r.URL()), []string{r.URL(), "dead"}
		},
		"s3": func(t *testing.T) (string, []string) {
			s := fakes3.Start(t)
			t.Setenv("AWS_ACCESS_KEY_ID", "test")
			t.Setenv("AWS_SECRET_ACCESS_KEY", "test")
			return fmt.Sprintf("s3: {%s, key: 'dead/$(uuid()).json'}", s.Fields()),
				[]string{"s3://" + fakes3.Bucket + "/dead/?region=us-east-1&endpoint=" + url.QueryEscape(s.URL)}
		},
		"sqs": func(t *testing.T) (string, []string) {
			e := withSQS(t)
			e.queue(t, "letters-dead", nil)
			return "sqs: letters-dead", []string{"sqs://us-east-1/", "letters-dead"}
		},
	} {
		t.Run(name, func(t *testing.T) {
			output, source := system(t)
			dir := t.TempDir()
			const pipeline = `
inputs: {in: {stdin: {}}}
processors:
  - meta: {trace: '"t" + string(id)'}
    when: meta("trace") == nil
  - fail: {reason: 'order $(id) is unknown', class: rejected}
    when: %s
outputs:
  out: {file: {path: out.ndjson, framing: messages}}
  dead: {%s}
engine: {order_by: nil, on_failure: {dead_letter: dead}}
`
			write(t, dir, "p.yaml", fmt.Sprintf(pipeline, "id < 3", output))
			write(t, dir, "fixed.yaml", fmt.Sprintf(pipeline, "id == 2", output))
			flowd(t, dir, "{\"id\":1}\n{\"id\":2}\n{\"id\":3}\n", "-c", "p.yaml").Want(t, 0, "2 dead-lettered")
			r := flowd(t, dir, "", append([]string{"dlq", "ls", "--json"}, source...)...)
			var list struct {
				Letters int
				Groups  []struct{ Class, Step, Reason, First string }
			}
			if err := json.Unmarshal([]byte(r.Stdout), &list); err != nil || list.Letters != 2 || len(list.Groups) != 1 ||
				list.Groups[0].Class != "rejected" || list.Groups[0].Step != "fail" || list.Groups[0].First == "" ||
				list.Groups[0].Reason != "order … is unknown" {
				t.Fatalf("%v: %+v\n%s", err, list, r.Stderr)
			}
			before := readIfThere(t, filepath.Join(dir, "out.ndjson"))
			flowd(t, dir, "", append([]string{"dlq", "replay", "-c", "fixed.yaml"}, source...)...).Want(t, 1,
				": 1 replayed, 1 is a dead letter again in ")
			got := strings.TrimPrefix(readIfThere(t, filepath.Join(dir, "out.ndjson")), before)
			if !strings.HasPrefix(got, `{"payload":{"id":1},`) || strings.Contains(got, "error_") || !strings.Contains(got, `"trace":"t1"`) ||
				strings.Count(got, "\n") != 1 {
				t.Errorf("replayed %s", got)
			}
			flowd(t, dir, "", append([]string{"dlq", "drop", "--yes"}, source...)...).Want(t, 0, "1 dead letter removed")
		})
	}
}
