package test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/flowd-io/flowd/internal/testing/natstest"
	"github.com/nats-io/nats.go/jetstream"
)

const natsRelay = `
inputs:
  in: {nats: {url: %[1]q, stream: IN, consumer: relay, timeout: 2s, declare: {consumer: {ack_wait: 2s, max_ack_pending: 500}}}}
outputs:
  out: {nats: {url: %[1]q, stream: OUT, subject: 'out.$(meta("subject"))', timeout: 2s}}
engine: {order_by: 'meta("subject")', rate_limit: {messages: 200, per: 50ms}}
`

// natsRelaying is a flowd that copies messages from a stream to another, with its server.
type natsRelaying struct {
	*testing.T
	*process
	s         *natstest.Server
	dir, text string
}

func (r *natsRelaying) start() {
	r.process = start(r.T, r.dir, "-c", write(r.T, r.dir, "relay.yaml", r.text))
}

// waitForAcks waits until the first n messages are acknowledged.
func (r *natsRelaying) waitForAcks(n int) {
	r.Helper()
	natstest.Until(r.T, fmt.Sprintf("%d acknowledged", n), func() bool {
		c, err := r.s.JS.Consumer(r.Context(), "IN", "relay")
		return err == nil && c.CachedInfo().AckFloor.Stream >= uint64(n)
	})
}

// testNATSRelay copies n messages of 97 subjects, and calls disturb meanwhile. Each message must arrive. It returns the
// number of duplicates, and how many messages arrived after a later one of the same subject.
func testNATSRelay(t *testing.T, n int, disturb func(r *natsRelaying)) (twice, late int) {
	t.Helper()
	s := natstest.Start(t, nil)
	s.Stream(t, jetstream.StreamConfig{Name: "IN", Subjects: []string{"in.*"}})
	s.Stream(t, jetstream.StreamConfig{Name: "OUT", Subjects: []string{"out.>"}})
	var subjects []string
	for i := range 97 {
		subjects = append(subjects, fmt.Sprintf("in.%d", i))
	}
	s.Fill(t, n, subjects...)
	r := &natsRelaying{T: t, s: s, dir: t.TempDir(), text: fmt.Sprintf(natsRelay, s.URL)}
	r.start()
	disturb(r)
	r.waitForAcks(n)
	r.Signal(syscall.SIGTERM)
	r.Wait().Want(t, 0)

	seen, last := map[int]bool{}, map[string]int{}
	for _, m := range s.All(t, "OUT") {
		var body struct{ ID int }
		if err := json.Unmarshal(m.Data, &body); err != nil || m.Subject != "out."+subjects[body.ID%97] {
			t.Fatalf("invalid message %s with the subject %s", m.Data, m.Subject)
		}
		if seen[body.ID] {
			twice++
			continue
		}
		if seen[body.ID] = true; body.ID < last[m.Subject] {
			late++
		}
		last[m.Subject] = max(last[m.Subject], body.ID)
	}
	if len(seen) != n {
		t.Errorf("%d of %d messages arrived", len(seen), n)
	}
	t.Logf("%d messages, %d duplicates, %d out of order", n, twice, late)
	return twice, late
}

// TestNATSKilled kills flowd several times while messages flow. Redelivered messages stay in order.
func TestNATSKilled(t *testing.T) {
	t.Parallel()
	_, late := testNATSRelay(t, 1500*(*kills+1), func(r *natsRelaying) {
		for i := range *kills {
			r.waitForAcks(1000 * (i + 1))
			r.Signal(syscall.SIGKILL)
			_ = r.Cmd.Wait()
			r.start()
		}
	})
	if late > 0 {
		t.Errorf("%d messages arrived after later ones of their subject", late)
	}
}

// TestNATSStopped stops flowd several times while messages flow. No message is duplicated or out of order.
func TestNATSStopped(t *testing.T) {
	t.Parallel()
	twice, late := testNATSRelay(t, 6000, func(r *natsRelaying) {
		for i := range 3 {
			r.waitForAcks(1000 * (i + 1))
			r.Signal(syscall.SIGTERM)
			r.Wait().Want(t, 0)
			r.start()
		}
	})
	if twice > 0 || late > 0 {
		t.Errorf("%d duplicates and %d messages out of order, want none", twice, late)
	}
}

// TestNATSNetwork cuts all connections while messages flow.
func TestNATSNetwork(t *testing.T) {
	t.Parallel()
	_, late := testNATSRelay(t, 4000, func(r *natsRelaying) {
		for i := range 4 {
			r.waitForAcks(800 * (i + 1))
			r.s.Cut(r.T)
		}
	})
	if late > 0 {
		t.Errorf("%d messages arrived after later ones of their subject", late)
	}
}

// TestNATSRestarted restarts the server with its data while messages flow.
func TestNATSRestarted(t *testing.T) {
	t.Parallel()
	testNATSRelay(t, 3000, func(r *natsRelaying) {
		for i := range 2 {
			r.waitForAcks(1000 * (i + 1))
			r.s.Restart(r.T, nil)
		}
	})
}

const natsEmbedded = `
inputs:
  lines: {file: {path: lines.ndjson, follow: true, checkpoint: place.json}}
outputs:
  out: {nats: {embedded: {store: streams}, stream: S, subject: s.all, declare: {subjects: [s.>]}}}
engine: {rate_limit: {messages: 200, per: 50ms}}
`

const natsEmbeddedOut = `
inputs:
  in: {nats: {embedded: {store: streams}, stream: S, consumer: c, declare: {stream: {subjects: [s.>]}, consumer: {ack_wait: 2s}}}}
outputs:
  out: {file: {path: out.ndjson}}
engine: {order_by: 'meta("subject")'}
`

// TestNATSEmbedded kills a flowd with an embedded server that two pipelines share. The streams must survive.
func TestNATSEmbedded(t *testing.T) {
	t.Parallel()
	dir, n := t.TempDir(), 1000*(*kills+1)
	var lines strings.Builder
	for i := range n {
		fmt.Fprintf(&lines, `{"id":%d}`+"\n", i)
	}
	write(t, dir, "lines.ndjson", lines.String())
	in, out := write(t, dir, "in.yaml", natsEmbedded), write(t, dir, "out.yaml", natsEmbeddedOut)
	seen := func() map[string]bool {
		all := map[string]bool{}
		text, _ := os.ReadFile(filepath.Join(dir, "out.ndjson"))
		for line := range strings.Lines(string(text)) {
			all[strings.TrimSpace(line)] = true
		}
		return all
	}
	for i := range *kills {
		p := start(t, dir, "-c", in, out)
		p.Says("reading consumer c of stream S") // now it owns the directory
		natstest.Until(t, "under way", func() bool { return len(seen()) > 700*(i+1) })
		other := start(t, dir, "-c", out)
		other.Says("belongs to another flowd: process")
		other.Signal(syscall.SIGTERM)
		other.Wait().Want(t, 0)
		p.Signal(syscall.SIGKILL)
		_ = p.Cmd.Wait()
	}
	p := start(t, dir, "-c", in, out)
	p.Says("reading consumer c of stream S")
	natstest.Until(t, "complete", func() bool { return len(seen()) >= n })
	p.Signal(syscall.SIGTERM)
	p.Wait().Want(t, 0)
	for line := range seen() {
		if !strings.HasPrefix(line, `{"id":`) || !strings.HasSuffix(line, "}") {
			t.Errorf("invalid line %q", line)
		}
	}
}

// TestNATSUnavailable checks the errors when the server or the stream is missing.
func TestNATSUnavailable(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	p := start(t, dir, "-c", write(t, dir, "relay.yaml", fmt.Sprintf(natsRelay, "nats://me:s3cret@127.0.0.1:1")))
	p.Says("check that the server runs, and its address")
	p.Signal(syscall.SIGTERM)
	if got := p.Wait(); strings.Contains(got.Stderr, "s3cret") {
		t.Error(got.Stderr)
	}
	s := natstest.Start(t, nil)
	p = start(t, dir, "-c", write(t, dir, "relay.yaml", fmt.Sprintf(natsRelay, s.URL)))
	p.Says("look for stream IN: stream not found (create the stream, write `declare`, or correct its name)")
	p.Signal(syscall.SIGTERM)
	p.Wait().Want(t, 0)
}

// TestWebhookToQueue runs the commands in the example's README.md.
func TestWebhookToQueue(t *testing.T) {
	readme := blocks(read(t, repo, "examples", "webhook-to-queue", "README.md"))
	flowd(t, repo, "", words(t, readme[len(readme)-1].text)...).Want(t, 0, "4 passed, 0 failed")
	for _, name := range []string{"intake.yaml", "worker.yaml"} {
		flowd(t, repo, "", "lint", example("webhook-to-queue", name)).Want(t, 0, "0 errors, 0 warnings")
	}
	s := natstest.Start(t, nil)
	listen, ledger := freeAddress(t), filepath.Join(t.TempDir(), "ledger.ndjson")
	t.Setenv("NATS", s.URL)
	t.Setenv("LISTEN", listen)
	t.Setenv("LEDGER", ledger)
	intake := start(t, repo, words(t, readme[1].text)...)
	send := func(body, want string) {
		t.Helper()
		natstest.Until(t, "answered with "+want, func() bool {
			return strings.HasPrefix(postSigned(t, "http://"+listen+"/hooks", "sesame", body), want)
		})
	}
	for line := range strings.Lines(readme[2].text) {
		if body, ok := strings.CutPrefix(line, "send '"); ok {
			send(strings.TrimSuffix(strings.TrimSpace(body), "'"), "200")
		}
	}
	send(`{"id": "e9"}`, "422")
	worker := start(t, repo, words(t, readme[3].text)...)
	natstest.Until(t, "processed", func() bool {
		text, _ := os.ReadFile(ledger)
		st, err := s.JS.Stream(t.Context(), "HOOKS_DEAD")
		return strings.Count(string(text), "\n") == 2 && err == nil && st.CachedInfo().State.Msgs == 1
	})
	if got := read(t, ledger); !strings.Contains(got, `"id":"e1","customer":7,"amount":12.5`) || !strings.Contains(got, `"amount":-2`) {
		t.Errorf("the ledger has\n%s", got)
	}
	worker.Signal(syscall.SIGTERM)
	worker.Wait().Want(t, 0)
	at := func(i int) []string {
		return words(t, strings.ReplaceAll(readme[i].text, "nats://localhost:4222", s.URL))
	}
	if got := flowd(t, repo, "", at(4)...); !strings.Contains(got.Stdout, `"original_stream":"HOOKS"`) {
		t.Errorf("peek shows %s%s", got.Stdout, got.Stderr)
	}
	flowd(t, repo, "", at(5)...).Want(t, 0, "1 sent back")
	all := s.All(t, "HOOKS")
	if m := all[len(all)-1]; len(all) != 4 || m.Subject != "hooks.paid" || m.Header.Get("error_class") != "" {
		t.Errorf("sent back as message %d: %+v", len(all), m)
	}
	intake.Signal(syscall.SIGTERM)
	intake.Wait().Want(t, 0)
}
