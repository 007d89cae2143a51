package test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/sns"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/flowd-io/flowd/internal/testing/npm"
)

// emulator is an SQS and SNS emulator that all tests share: the one in FLOWD_TEST_SQS, or
// fauxqs, which npm installs into the user's cache once.
type emulator struct {
	url string
	sqs *sqs.Client
	sns *sns.Client
}

// stopEmulator stops what startEmulator has started.
var stopEmulator = func() {}

var startEmulator = sync.OnceValues(func() (*emulator, error) {
	address := os.Getenv("FLOWD_TEST_SQS")
	if address == "" {
		dir, err := installFauxqs()
		if err != nil {
			return nil, err
		}
		if address, err = launchFauxqs(dir); err != nil {
			return nil, err
		}
	}
	client := &http.Client{Transport: readOnly{&http.Transport{}}}
	ends := stopEmulator
	stopEmulator = func() { client.CloseIdleConnections(); ends() }
	cfg := aws.Config{HTTPClient: client, Region: "us-east-1", BaseEndpoint: &address,
		Credentials: credentials.NewStaticCredentialsProvider("test", "test", "")}
	return &emulator{address, sqs.NewFromConfig(cfg), sns.NewFromConfig(cfg)}, nil
})

// readOnly is a transport that hides the WriteTo of bodies. With WriteTo, Amazon's client on a busy machine may drop a
// connection during the response, and the lost messages stay hidden for half a minute.
type readOnly struct{ *http.Transport }

func (n readOnly) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Body != nil && req.Body != http.NoBody {
		r := *req
		r.Body = struct{ io.ReadCloser }{req.Body}
		req = &r
	}
	return n.Transport.RoundTrip(req)
}

// withSQS returns the emulator, or skips the test.
func withSQS(t *testing.T) *emulator {
	t.Helper()
	e, err := startEmulator()
	if err != nil {
		t.Skipf("SKIPPED: no SQS to test against: %v (install Node 20 or newer with npm, or set FLOWD_TEST_SQS to the URL of an emulator)", err)
	}
	for name, value := range map[string]string{
		"AWS_ENDPOINT_URL": e.url, "AWS_REGION": "us-east-1", "AWS_ACCESS_KEY_ID": "test",
		"AWS_SECRET_ACCESS_KEY": "test",
		"AWS_CONFIG_FILE":       os.DevNull, "AWS_SHARED_CREDENTIALS_FILE": os.DevNull, "AWS_PROFILE": "",
	} {
		t.Setenv(name, value)
	}
	return e
}

// installFauxqs returns a directory with a version of fauxqs that runs with the installed Node.
func installFauxqs() (dir string, err error) {
	major, err := npm.Node()
	version := "2.4.1"
	switch {
	case err != nil:
		return "", err
	case major < 20:
		return "", fmt.Errorf("the version of node is %d", major)
	case major < 23:
		version = "1.9.2"
	}
	return npm.Install("fauxqs@" + version)
}

// program runs fauxqs until stdin ends, at the latest when the test binary exits.
const program = `
import { startFauxqs } from 'fauxqs';
const s = await startFauxqs({ port: 0, logger: false });
console.log(s.port);
process.stdin.on('end', () => process.exit(0)).resume();
`

func launchFauxqs(dir string) (address string, err error) {
	node := exec.Command("node", "--input-type=module", "--eval", program)
	node.Dir = dir
	stdout, err := node.StdoutPipe()
	if err != nil {
		return "", err
	}
	stdin, err := node.StdinPipe() // open as long as the tests run
	if err != nil {
		return "", err
	}
	if err := node.Start(); err != nil {
		return "", err
	}
	ended := make(chan struct{})
	go func() { _ = node.Wait(); close(ended) }()
	stopEmulator = func() { stdin.Close(); <-ended }
	lines := make(chan string, 1)
	go func() {
		line, _ := bufio.NewReader(stdout).ReadString('\n')
		lines <- strings.TrimSpace(line)
	}()
	select {
	case port := <-lines:
		if _, err := strconv.Atoi(port); err != nil {
			return "", fmt.Errorf("fauxqs did not start: %q", port)
		}
		return "http://127.0.0.1:" + port, nil
	case <-time.After(deadline):
		_ = node.Process.Kill()
		return "", fmt.Errorf("fauxqs did not start within %v", deadline)
	}
}

// queue creates a queue.
func (e *emulator) queue(t *testing.T, name string, attributes map[string]string) (url string) {
	t.Helper()
	if strings.HasSuffix(name, ".fifo") {
		attributes = maps.Clone(attributes)
		if attributes == nil {
			attributes = map[string]string{}
		}
		attributes["FifoQueue"] = "true"
	}
	out, err := e.sqs.CreateQueue(t.Context(), &sqs.CreateQueueInput{QueueName: &name, Attributes: attributes})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = e.sqs.DeleteQueue(context.Background(), &sqs.DeleteQueueInput{QueueUrl: out.QueueUrl}) })
	return *out.QueueUrl
}

// send sends bodies. In a FIFO queue, a body such as "a:1" goes to group a.
func (e *emulator) send(t *testing.T, url string, bodies ...string) {
	t.Helper()
	for n := range slices.Chunk(bodies, 10) {
		in := &sqs.SendMessageBatchInput{QueueUrl: &url}
		for i, b := range n {
			entry := types.SendMessageBatchRequestEntry{Id: aws.String(strconv.Itoa(i)), MessageBody: &b}
			if strings.HasSuffix(url, ".fifo") {
				group, _, _ := strings.Cut(b, ":")
				entry.MessageGroupId, entry.MessageDeduplicationId = &group, &b
			}
			in.Entries = append(in.Entries, entry)
		}
		if _, err := e.sqs.SendMessageBatch(t.Context(), in); err != nil {
			t.Fatal(err)
		}
	}
}

// counts returns how many messages of a queue are visible and hidden.
func (e *emulator) counts(t *testing.T, url string) (visible, hidden int) {
	t.Helper()
	out, err := e.sqs.GetQueueAttributes(t.Context(), &sqs.GetQueueAttributesInput{QueueUrl: &url,
		AttributeNames: []types.QueueAttributeName{types.QueueAttributeNameAll}})
	if err != nil {
		t.Fatal(err)
	}
	for name, n := range map[string]*int{"ApproximateNumberOfMessages": &visible,
		"ApproximateNumberOfMessagesNotVisible": &hidden} {
		if *n, err = strconv.Atoi(out.Attributes[name]); err != nil {
			t.Fatal(err)
		}
	}
	return visible, hidden
}

// wantCounts checks the result of counts.
func (e *emulator) wantCounts(t *testing.T, url string, visible, hidden int) {
	t.Helper()
	if a, b := e.counts(t, url); a != visible || b != hidden {
		t.Errorf("%d messages are visible and %d hidden, want %d and %d", a, b, visible, hidden)
	}
}

// receive receives up to 10 messages, with one call.
func (e *emulator) receive(t *testing.T, url string) []types.Message {
	t.Helper()
	out, err := e.sqs.ReceiveMessage(t.Context(), &sqs.ReceiveMessageInput{
		QueueUrl: &url, MaxNumberOfMessages: 10, WaitTimeSeconds: 15, MessageAttributeNames: []string{"All"},
		MessageSystemAttributeNames: []types.MessageSystemAttributeName{types.MessageSystemAttributeNameAll},
	})
	if err != nil {
		t.Fatal(err)
	}
	return out.Messages
}

func TestSQSToSQS(t *testing.T) {
	e := withSQS(t)
	from, to := e.queue(t, "copy-from", nil), e.queue(t, "copy-to", nil)
	var bodies []string
	for i := range 200 {
		bodies = append(bodies, fmt.Sprintf(`{"n":%d}`, i))
	}
	e.send(t, from, bodies...)
	dir := t.TempDir()
	p := start(t, dir, "-c", write(t, dir, "copy.yaml", `
inputs:
  in: {sqs: {queue: copy-from, wait: 1s}}
processors:
  - meta: {number: n, kind: '"x"'}
outputs:
  out: {sqs: copy-to}
  seen: {stdout: {}}
batchers:
  one: {output: out, continue: true, batch: {size: 100, timeout: 100ms}}
  two: {output: seen}
`))
	for range bodies {
		p.Line()
	}
	p.Signal(syscall.SIGTERM)
	p.Wait().Want(t, 0, "200 received")
	e.wantCounts(t, from, 0, 0)
	e.wantCounts(t, to, 200, 0)
	var doc struct{ N int }
	m := e.receive(t, to)[0]
	if err := json.Unmarshal([]byte(*m.Body), &doc); err != nil {
		t.Fatal(err)
	}
	n, kind := m.MessageAttributes["number"], m.MessageAttributes["kind"]
	if *n.DataType != "Number" || *n.StringValue != strconv.Itoa(doc.N) || *kind.DataType != "String" ||
		*kind.StringValue != "x" {
		t.Errorf("attributes of %s: %v", *m.Body, m.MessageAttributes)
	}
}

func TestSQSReturnsMessagesOnDrain(t *testing.T) {
	e := withSQS(t)
	q := e.queue(t, "drain", map[string]string{"VisibilityTimeout": "600"})
	e.send(t, q, "a", "b", "c")
	dir := t.TempDir()
	p := start(t, dir, "-c", write(t, dir, "stuck.yaml", `
inputs:
  in: {sqs: drain}
processors:
  - log: arrived $(raw())
  - sleep: 1h
outputs:
  out: {drop: {}}
engine: {workers: 3, timeout: 2h, drain: {timeout: 1s}}
`))
	for _, body := range []string{"a", "b", "c"} {
		p.Says("arrived " + body)
	}
	e.wantCounts(t, q, 0, 3)
	p.Signal(syscall.SIGTERM)
	p.Wait().Want(t, 3, "3 returned")
	e.wantCounts(t, q, 3, 0)
}

func TestSQSRenewsLeases(t *testing.T) {
	e := withSQS(t)
	q := e.queue(t, "lease", map[string]string{"VisibilityTimeout": "1"})
	e.send(t, q, "a")
	dir := t.TempDir()
	p := start(t, dir, "-c", write(t, dir, "slow.yaml", `
inputs:
  in: {sqs: {queue: lease, wait: 1s}}
processors:
  - sleep: 3s
outputs:
  out: {stdout: {}}
`))
	if got := p.Line(); got != "a" {
		t.Errorf("got %q", got)
	}
	p.Signal(syscall.SIGTERM)
	p.Wait().Want(t, 0, "1 received: 1 delivered")
	e.wantCounts(t, q, 0, 0)
}

func TestSQSRetriesAndDeadLetters(t *testing.T) {
	e := withSQS(t)
	q, dead := e.queue(t, "retry", nil), e.queue(t, "retry-dead", nil)
	e.send(t, q, `{"ok":true}`, `{"ok":1}`)
	dir := t.TempDir()
	p := start(t, dir, "-c", write(t, dir, "retry.yaml", `
inputs:
  in: {sqs: {queue: retry, wait: 1s}}
processors:
  - filter: ok
outputs:
  out: {drop: {}}
  dead: {sqs: retry-dead}
engine:
  on_failure: {dead_letter: dead}
`))
	m := e.receive(t, dead)
	if len(m) != 1 {
		t.Fatalf("%d dead letters", len(m))
	}
	p.Signal(syscall.SIGTERM)
	p.Wait().Want(t, 0, "1 dead-lettered")
	if got := m[0]; *got.Body != `{"ok":1}` || *got.MessageAttributes["error_class"].StringValue != "expression" ||
		*got.MessageAttributes["error_attempt"].DataType != "Number" {
		t.Errorf("dead letter %s with %v", *got.Body, got.MessageAttributes)
	}
	e.wantCounts(t, q, 0, 0)
}

func TestSQSRedrivePolicy(t *testing.T) {
	e := withSQS(t)
	dead := e.queue(t, "redrive-dead", nil)
	q := e.queue(t, "redrive",
		map[string]string{"RedrivePolicy": `{"deadLetterTargetArn":"arn:aws:sqs:us-east-1:000000000000:redrive-dead","maxReceiveCount":"2"}`})
	e.send(t, q, "not json")
	dir := t.TempDir()
	p := start(t, dir, "-c", write(t, dir, "redrive.yaml", `
inputs:
  in: {sqs: {queue: redrive, wait: 1s}}
processors:
  - filter: ok
outputs:
  out: {drop: {}}
engine:
  on_failure: {then: return}
`))
	m := e.receive(t, dead)
	p.Signal(syscall.SIGTERM)
	p.Wait().Want(t, 0, "2 received: 2 returned")
	if len(m) != 1 || *m[0].Body != "not json" {
		t.Errorf("got %v", m)
	}
}

func TestSQSKeepsTheOrderOfGroups(t *testing.T) {
	e := withSQS(t)
	from, to := e.queue(t, "order-from.fifo", nil), e.queue(t, "order-to.fifo", nil)
	var bodies []string
	for i := range 15 {
		for _, g := range []string{"a", "b", "c"} {
			bodies = append(bodies, fmt.Sprintf("%s:%d", g, i))
		}
	}
	e.send(t, from, bodies...)
	dir := t.TempDir()
	p := start(t, dir, "-c", write(t, dir, "order.yaml", `
inputs:
  in: {sqs: {queue: order-from.fifo, wait: 1s}}
outputs:
  out: {sqs: {queue: order-to.fifo, group_id: 'meta("message_group_id")', dedupe_id: 'meta("dedupe_id")'}}
engine: {order_by: 'meta("message_group_id")'}
`))
	next := map[string]int{}
	for n := 0; n < len(bodies); {
		all := e.receive(t, to)
		for _, m := range all {
			if want := fmt.Sprintf("%s:%d", m.Attributes["MessageGroupId"],
				next[m.Attributes["MessageGroupId"]]); *m.Body != want {
				t.Fatalf("got %s, want %s", *m.Body, want)
			}
			next[m.Attributes["MessageGroupId"]]++
			n++
			if _, err := e.sqs.DeleteMessage(t.Context(),
				&sqs.DeleteMessageInput{QueueUrl: &to, ReceiptHandle: m.ReceiptHandle}); err != nil {
				t.Fatal(err)
			}
		}
		if len(all) == 0 {
			t.Fatalf("%d of %d messages arrived", n, len(bodies))
		}
	}
	p.Signal(syscall.SIGTERM)
	p.Wait().Want(t, 0, "45 received: 45 delivered")
}

func TestSQSMissingQueue(t *testing.T) {
	withSQS(t)
	dir := t.TempDir()
	got := flowd(t, dir, "", "-c", write(t, dir, "missing.yaml", `
inputs:
  in: {sqs: nowhere}
outputs:
  out: {drop: {}}
`))
	got.Want(t, 1, "queue nowhere in us-east-1: it does not exist (create it, or correct its name, `region` or `endpoint`)")
}

func TestSQSExample(t *testing.T) {
	example := filepath.Join(repo, "examples", "sqs", "pipeline.yaml")
	flowd(t, t.TempDir(), "", "lint", example).Want(t, 0, "0 errors, 0 warnings")
	e := withSQS(t)
	orders, reviews, refused := e.queue(t, "orders.fifo", nil), e.queue(t, "reviews.fifo", nil),
		e.queue(t, "orders-refused", nil)
	if _, err := e.sns.CreateTopic(t.Context(), &sns.CreateTopicInput{Name: aws.String("events")}); err != nil {
		t.Fatal(err)
	}
	e.send(t, orders, `{"id":1,"total":5,"customer":{"id":7}}`, `{"id":2,"total":5000,"customer":{"id":7}}`,
		`{"id":3,"total":"x"}`)
	p := start(t, t.TempDir(), "-c", example)
	review := e.receive(t, reviews)
	bad := e.receive(t, refused)
	p.Signal(syscall.SIGTERM)
	p.Wait().Want(t, 0, "3 received")
	if len(review) != 1 || !strings.Contains(*review[0].Body, `"id":2`) ||
		review[0].Attributes["MessageGroupId"] != "7" {
		t.Errorf("the queue reviews.fifo has %v, want order 2", review)
	}
	if len(bad) != 1 || !strings.Contains(*bad[0].Body, `"x"`) {
		t.Errorf("the queue orders-refused has %v, want order 3", bad)
	}
	e.wantCounts(t, orders, 0, 0)
}

func TestSNSToSQS(t *testing.T) {
	e := withSQS(t)
	q := e.queue(t, "sns-to", nil)
	topic, err := e.sns.CreateTopic(t.Context(), &sns.CreateTopicInput{Name: aws.String("events")})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := e.sns.Subscribe(t.Context(), &sns.SubscribeInput{
		TopicArn: topic.TopicArn, Protocol: aws.String("sqs"),
		Endpoint:   aws.String("arn:aws:sqs:us-east-1:000000000000:sns-to"),
		Attributes: map[string]string{"RawMessageDelivery": "true"},
	}); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	lines := ""
	for i := range 25 {
		lines += fmt.Sprintf(`{"n":%d}`+"\n", i)
	}
	flowd(t, dir, lines, "-c", write(t, dir, "sns.yaml", fmt.Sprintf(`
inputs:
  in: {stdin: {}}
processors:
  - meta: {kind: '"x"'}
outputs:
  out: {sns: {topic: %q}}
batchers:
  all: {output: out, batch: {size: 25}}
`, *topic.TopicArn))).Want(t, 0, "25 received: 25 delivered")
	e.wantCounts(t, q, 25, 0)
	if m := e.receive(t, q)[0]; aws.ToString(m.MessageAttributes["kind"].StringValue) != "x" {
		t.Errorf("attributes %v", m.MessageAttributes)
	}
}
