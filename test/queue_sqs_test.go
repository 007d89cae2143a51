package test

import (
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
)

// onSQS makes `flowd queue` use the emulator.
func onSQS(t *testing.T) *emulator {
	t.Helper()
	e := withSQS(t)
	t.Setenv("FLOWD_QUEUE_URL", "sqs://us-east-1/")
	return e
}

// sendWithAttributes sends n messages with attributes, of types that metadata can represent. If
// exact is set, it adds attributes of other types.
func (e *emulator) sendWithAttributes(t *testing.T, url string, n int, exact bool) {
	t.Helper()
	value := func(kind, text string) types.MessageAttributeValue {
		return types.MessageAttributeValue{DataType: &kind, StringValue: &text}
	}
	for from := 0; from < n; from += 10 {
		in := &sqs.SendMessageBatchInput{QueueUrl: &url}
		for i := from; i < min(n, from+10); i++ {
			a := map[string]types.MessageAttributeValue{
				"n": value("Number", strconv.Itoa(i)), "text": value("String", "é 1"),
				"raw": {DataType: aws.String("Binary"), BinaryValue: []byte{0, 255}},
			}
			if exact {
				a["long"], a["price"], a["queue"] = value("Number", "1.50"), value("Number.price", "2"),
					value("String.name", "mine")
				a["letters"] = types.MessageAttributeValue{DataType: aws.String("Binary"), BinaryValue: []byte("abc")}
			}
			in.Entries = append(in.Entries, types.SendMessageBatchRequestEntry{Id: aws.String(strconv.Itoa(i)),
				MessageBody: aws.String(fmt.Sprintf("<%d>\n\t é", i)), MessageAttributes: a})
		}
		if _, err := e.sqs.SendMessageBatch(t.Context(), in); err != nil {
			t.Fatal(err)
		}
	}
}

// receiveAll receives and deletes all messages, and returns them in the order of arrival.
func (e *emulator) receiveAll(t *testing.T, url string) (all []types.Message) {
	t.Helper()
	for {
		out, err := e.sqs.ReceiveMessage(t.Context(), &sqs.ReceiveMessageInput{
			QueueUrl: &url, MaxNumberOfMessages: 10, MessageAttributeNames: []string{"All"},
			MessageSystemAttributeNames: []types.MessageSystemAttributeName{types.MessageSystemAttributeNameAll},
		})
		if err != nil {
			t.Fatal(err)
		}
		if len(out.Messages) == 0 {
			e.wantCounts(t, url, 0, 0)
			return all
		}
		in := &sqs.DeleteMessageBatchInput{QueueUrl: &url}
		for i, m := range out.Messages {
			all = append(all, m)
			in.Entries = append(in.Entries, types.DeleteMessageBatchRequestEntry{Id: aws.String(strconv.Itoa(i)),
				ReceiptHandle: m.ReceiptHandle})
		}
		if _, err := e.sqs.DeleteMessageBatch(t.Context(), in); err != nil {
			t.Fatal(err)
		}
	}
}

// formatMessages formats each message with its attributes. The result is sorted.
func formatMessages(all []types.Message) (texts []string) {
	for _, m := range all {
		var b strings.Builder
		fmt.Fprintf(&b, "%q", *m.Body)
		for _, name := range slices.Sorted(maps.Keys(m.MessageAttributes)) {
			a := m.MessageAttributes[name]
			fmt.Fprintf(&b, " %s=%s %q%q", name, *a.DataType, aws.ToString(a.StringValue), a.BinaryValue)
		}
		texts = append(texts, b.String())
	}
	slices.Sort(texts)
	return texts
}

// TestQueueOnSQS moves messages between queues, and dumps and loads them.
func TestQueueOnSQS(t *testing.T) {
	e := onSQS(t)
	one, two, original := e.queue(t, "q-one", nil), e.queue(t, "q-two", nil), e.queue(t, "q-original", nil)
	const n = 510
	same := func(exact bool) {
		t.Helper()
		e.sendWithAttributes(t, original, n, exact)
		if got, want := formatMessages(e.receiveAll(t, two)), formatMessages(e.receiveAll(t, original)); !slices.Equal(got, want) {
			t.Errorf("got %d messages, want %d", len(got), len(want))
		}
	}
	e.sendWithAttributes(t, one, n, true)
	queue(t, "mv", "q-one", "q-two", "--yes").Want(t, 0, "q-one → q-two: 510 moved in ")
	same(true)

	file := filepath.Join(t.TempDir(), "saved.jsonl")
	e.sendWithAttributes(t, one, n, false)
	queue(t, "dump", "q-one", file).Want(t, 0, ": 510 written in ")
	e.wantCounts(t, one, n, 0)
	queue(t, "load", "q-two", file).Want(t, 0, ": 510 sent in ")
	same(false)

	var all []struct {
		Name     string
		Ready    int
		InFlight int `json:"in_flight"`
	}
	r := queue(t, "ls", "q-o*", "--json")
	if err := json.Unmarshal([]byte(r.Stdout), &all); err != nil || len(all) != 2 || all[0].Name != "q-one" ||
		all[0].Ready != n || all[0].InFlight != 0 {
		t.Errorf("%v %+v", err, all)
	}
	queue(t, "purge", "q-one").Want(t, 2, "Permanently remove 510 messages from q-one? (add --yes)")
	queue(t, "purge", "q-one", "--yes").Want(t, 0, "q-one: all messages removed")
	e.wantCounts(t, one, 0, 0)
}

func TestQueueKeepsTheOrderOfGroups(t *testing.T) {
	e := onSQS(t)
	one, two := e.queue(t, "g-one.fifo", nil), e.queue(t, "g-two.fifo", nil)
	var bodies []string
	for i := range 60 {
		bodies = append(bodies, fmt.Sprintf("%c:%03d", 'a'+i%5, i))
	}
	e.send(t, one, bodies...)
	queue(t, "mv", "g-one.fifo", "g-two.fifo", "--yes").Want(t, 0, "60 moved")
	file := filepath.Join(t.TempDir(), "saved.jsonl")
	queue(t, "dump", "g-two.fifo", file).Want(t, 1,
		"messages can't be read: a FIFO queue delivers the next messages of a group when the earlier ones are removed (dump with --delete")
	queue(t, "dump", "g-two.fifo", file+"2", "--delete", "--yes").Want(t, 0, "60 written")
	queue(t, "load", "g-one.fifo", file+"2").Want(t, 0, "60 sent")
	e.wantCounts(t, two, 0, 0)
	last := map[string]string{}
	got := e.receiveAll(t, one)
	for _, m := range got {
		group := m.Attributes["MessageGroupId"]
		if *m.Body <= last[group] || !strings.HasPrefix(*m.Body, group+":") {
			t.Errorf("%s arrived after %s, in group %s", *m.Body, last[group], group)
		}
		last[group] = *m.Body
	}
	if len(got) != len(bodies) {
		t.Errorf("%d messages arrived, want %d", len(got), len(bodies))
	}
}

func TestQueueRedriveOnSQS(t *testing.T) {
	e := onSQS(t)
	dead := e.queue(t, "r-dead", nil)
	policy := map[string]string{"RedrivePolicy": `{"deadLetterTargetArn":"arn:aws:sqs:us-east-1:000000000000:r-dead","maxReceiveCount":"1"}`}
	one := e.queue(t, "r-one", policy)
	e.send(t, dead, "a", "b", "c")
	queue(t, "redrive", "r-dead").Want(t, 0, "r-dead: 3 sent back in ")
	e.wantCounts(t, one, 3, 0)
	e.queue(t, "r-two", policy)
	e.send(t, dead, "d")
	queue(t, "redrive", "r-dead").Want(t, 1,
		"r-dead gets the dead letters of several queues: r-one, r-two (write --to QUEUE)",
		"0 sent back, 1 failed")
	queue(t, "redrive", "r-dead", "--to", "r-two").Want(t, 0, "1 sent back")
}

func TestAStoppedMoveOnSQSLosesNothing(t *testing.T) {
	e := onSQS(t)
	const n = 3000
	for _, s := range []syscall.Signal{syscall.SIGKILL, syscall.SIGINT} {
		one, two := e.queue(t, "k-one", nil), e.queue(t, "k-two", nil)
		e.sendWithAttributes(t, one, n, false)
		p := start(t, t.TempDir(), "queue", "mv", "k-one", "k-two", "--yes")
		if _, err := e.sqs.ReceiveMessage(t.Context(),
			&sqs.ReceiveMessageInput{QueueUrl: &two, WaitTimeSeconds: 15, VisibilityTimeout: 1}); err != nil {
			t.Fatal(err)
		}
		p.Signal(s)
		r := p.Wait()
		left, hidden := e.counts(t, one)
		moved, taken := e.counts(t, two)
		moved += taken
		twice := left + hidden + moved - n
		t.Logf("%v: %d left, %d hidden, %d moved, %d in both", s, left, hidden, moved, twice)
		if twice < 0 || twice > hidden || moved == 0 || left == 0 {
			t.Errorf("%v: %d left, %d hidden, %d moved, %d in both", s, left, hidden, moved, twice)
		}
		if s == syscall.SIGINT {
			r.Want(t, 3, fmt.Sprintf(": %s moved in ", thousands(moved)),
				"interrupted: the other messages that were taken are handed back")
			if hidden != 0 || twice != 0 {
				t.Errorf("%d messages are hidden and %d in both queues, want none", hidden, twice)
			}
		}
		for _, url := range []string{one, two} {
			if _, err := e.sqs.DeleteQueue(t.Context(), &sqs.DeleteQueueInput{QueueUrl: &url}); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func TestQueueErrorsOfSQS(t *testing.T) {
	e := onSQS(t)
	e.send(t, e.queue(t, "e-one", nil), "a")
	for _, tt := range []struct {
		args []string
		says string
	}{
		{[]string{"mv", "nope", "e-one", "--yes"}, "queue nope in us-east-1: it does not exist (create it, or correct"},
		{[]string{"mv", "e-one", "nope", "--yes"}, "queue nope in us-east-1: it does not exist"},
		{[]string{"purge", "nope", "--yes"}, "queue nope in us-east-1: it does not exist"},
		{[]string{"dump", "nope", "-"}, "queue nope in us-east-1: it does not exist"},
		{[]string{"redrive", "e-one"}, "no queue sends its dead letters to e-one (write --to QUEUE)"},
		{[]string{"dump", "a b", "-"}, `"a b" is not a valid queue name`},
		{[]string{"ls", "sqs://me:s3cret@us-east-1/"}, "the address contains credentials (set AWS_ACCESS_KEY_ID"},
		{[]string{"ls", "sqs://?region=us-east-1&endpoint=http://127.0.0.1:1"}, "127.0.0.1:1"},
	} {
		r := queue(t, tt.args...)
		r.Want(t, 1, tt.says)
		if strings.Contains(r.Stderr, "s3cret") {
			t.Errorf("the output of %q contains the password:\n%s", tt.args, r.Stderr)
		}
	}
}
