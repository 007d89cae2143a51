package abuse

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/flowd-io/flowd/internal/pool/wire"
	"github.com/flowd-io/flowd/test/flowdtest"
)

var cluster = []attack{
	{"a reply subject that is a request to JetStream", func(t *testing.T) { newPool(t).repliesElsewhere() }},
	{"a reply subject of another client", func(t *testing.T) { newPool(t).pullsElsewhere() }},
	{"forged results of jobs", func(t *testing.T) { newPool(t).forgesAnswers() }},
	{"forged heartbeats of workers", func(t *testing.T) { newPool(t).forgesBeats() }},
	{"invalid jobs at the head of the queue", jobsThatCannotBeRead},
}

// intruder is a client that has the token of a hub with a pool, but no other permissions.
type intruder struct {
	t       *testing.T
	dir     string
	addr    string
	hub     *flowdtest.Process
	nc      *nats.Conn
	id      string // of the client's connection, as flowd's own clients have
	refused chan error
}

const clusterToken = "of-the-cluster"

// poolFile is a pipeline with one pool.
func poolFile(cluster, do string) string {
	return `
inputs: {in: {stdin: {}}}
processors: [{pool: {name: embed, workers: remote, timeout: 10m, do: [` + do + `]}}]
outputs: {out: {stdout: {}}, dead: {file: {path: dead.ndjson, framing: messages}}}
batchers: {all: {batch: {timeout: 5ms}, output: out}}
engine: {on_failure: {dead_letter: dead}}
service: {cluster: {` + cluster + `}}
`
}

func newPool(t *testing.T) *intruder {
	t.Helper()
	p := &intruder{t: t, dir: t.TempDir(), id: "0123456789abcdef", refused: make(chan error, 1000)}
	flowdtest.Write(t, p.dir, "token", clusterToken)
	file := flowdtest.Write(t, p.dir, "p.yaml", poolFile(`listen: "127.0.0.1:0", token: `+clusterToken,
		`{exec: {command: [sh, -c, "while [ -e hold ]; do sleep 0.05; done; cat"]}}`))
	p.hub = flowdtest.Start(t, p.dir, "-c", file)
	_, addr, _ := strings.Cut(p.hub.Says("workers may join"), "addr=")
	p.addr, _, _ = strings.Cut(addr, " ")
	var err error
	p.nc, err = nats.Connect("nats://"+p.addr, nats.Token(clusterToken), nats.Name("intruder "+p.id),
		nats.CustomInboxPrefix("_INBOX."+p.id),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
			select {
			case p.refused <- err:
			default:
			}
		}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.nc.Close)
	return p
}

// request sends a request to the hub, to the subject followed by the id of the connection.
func (p *intruder) request(subject, text string) *nats.Msg {
	p.t.Helper()
	m, err := p.nc.Request(subject+"."+p.id, []byte(text), flowdtest.Deadline)
	if err != nil {
		p.t.Fatalf("%s: %v", subject, err)
	}
	return m
}

// welcome joins the pool, and returns the hub's answer to workers that join.
func (p *intruder) welcome() (w struct{ Hub, Consumer, Hash string }) {
	p.t.Helper()
	var ls struct{ Version string }
	if err := json.Unmarshal(p.request("flowd.ls", "").Data, &ls); err != nil {
		p.t.Fatal(err)
	}
	text := fmt.Sprintf(`{"Protocol":%d,"Version":%q,"Worker":"intruder/1"}`, wire.Protocol, ls.Version)
	if err := json.Unmarshal(p.request("flowd.join.embed", text).Data, &w); err != nil || w.Hub == "" {
		p.t.Fatalf("the client can't join: %v", err)
	}
	return w
}

// waitForPool waits until the output of flowd pool ls contains part.
func (p *intruder) waitForPool(part string) string {
	p.t.Helper()
	for deadline := time.Now().Add(flowdtest.Deadline); ; {
		r := flowdtest.Run(p.t, p.dir, "", "pool", "ls", "--join", p.addr, "--token-file", "token")
		if strings.Contains(r.Stdout, part) {
			return r.Stdout
		}
		if time.Now().After(deadline) {
			p.t.Fatalf("pool ls lacks %q:\n%s%s", part, r.Stdout, r.Stderr)
		}
	}
}

func (p *intruder) worker() *flowdtest.Process {
	p.t.Helper()
	return flowdtest.Start(p.t, p.dir, "worker", "--join", p.addr, "--pool", "embed", "--slots", "1", "--token-file",
		"token")
}

// deliverAll starts a worker, and expects the hub to deliver n jobs, each once.
func (p *intruder) deliverAll(n int) {
	p.t.Helper()
	p.hub.Stdin.Close()
	w := p.worker()
	r := p.hub.Wait()
	r.Want(p.t, 0, fmt.Sprintf("%d received: %d delivered", n, n))
	if got := strings.Count(r.Stdout, "\n"); got != n || strings.Contains(r.Stdout, "forged") {
		p.t.Errorf("%d lines, want %d:\n%s", got, n, r.Stdout)
	}
	for _, sign := range []string{"was gone", "have vanished", "a job can't be read"} {
		if strings.Contains(r.Stderr+w.Stderr.Text(), sign) {
			p.t.Errorf("the hub or its worker logs %q:\n%s\n%s", sign, r.Stderr, w.Stderr.Text())
		}
	}
	w.Signal(syscall.SIGTERM)
	w.Wait()
}

// waitUntilConnected waits until the client has reconnected.
func (p *intruder) waitUntilConnected() {
	p.t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for late := time.After(flowdtest.Deadline); !p.nc.IsConnected(); {
		select {
		case <-tick.C:
		case <-late:
			p.t.Fatal("the client does not reconnect")
		}
	}
}

// flushHub waits until the hub has handled all earlier messages of the client.
func (p *intruder) flushHub() {
	p.t.Helper()
	// The hub has a goroutine for each of these.
	for _, subject := range []string{"flowd.ls", "flowd.join.none", "flowd.hub." + p.welcome().Hub + ".stage"} {
		p.request(subject, "{}")
	}
}

// asksWithReply sends requests to subjects, with reply as the reply subject.
func (p *intruder) asksWithReply(reply string, subjects ...string) {
	p.t.Helper()
	for _, subject := range subjects {
		for _, from := range []string{"." + p.id, ""} {
			if err := p.nc.PublishRequest(subject+from, reply,
				fmt.Appendf(nil, `{"Protocol":%d,"Version":"x","Worker":"x"}`, wire.Protocol)); err != nil {
				p.t.Fatal(err)
			}
		}
	}
}

func (p *intruder) repliesElsewhere() {
	p.hub.Send("1\n2\n3\n")
	p.waitForPool("3 waiting")
	w := p.welcome()
	for _, request := range []string{"STREAM.DELETE.flowd-embed", "STREAM.PURGE.flowd-embed",
		"CONSUMER.DELETE.flowd-embed." + w.Consumer, "STREAM.CREATE.flowd-other"} {
		p.asksWithReply("$JS.API."+request, "flowd.ls", "flowd.join.embed", "flowd.join.none",
			"flowd.hub."+w.Hub+".stage", "flowd.hub."+w.Hub+".taken", "flowd.hub."+w.Hub+".answer")
		p.asksWithReply("$JS.API."+request, "$JS.API.CONSUMER.MSG.NEXT.flowd-embed."+w.Consumer)
	}
	p.flushHub()
	p.hub.Says("asks for an answer to an inbox that is not its own")
	p.deliverAll(3)
}

// pullsElsewhere tries to make the server send statuses and jobs to subjects to which the
// client may not publish.
func (p *intruder) pullsElsewhere() {
	p.hub.Send("1\n2\n3\n")
	p.waitForPool("3 waiting")
	w := p.welcome()
	for _, to := range []string{"flowd.jobs.embed." + w.Hub + ".0.99.1", "flowd.jobs.embed.x.0.1.1", "flowd.down.embed",
		"flowd.hub." + w.Hub + ".answer.0123", "flowd.beat.embed.0123"} {
		// The server rejects all but the last.
		for _, body := range []string{`{"batch":5}`, `{"batch":-1}`, `{"no_wait":true,"batch":7}`, `{"batch":1}`} {
			if err := p.nc.PublishRequest("$JS.API.CONSUMER.MSG.NEXT.flowd-embed."+w.Consumer, to,
				[]byte(body)); err != nil {
				p.t.Fatal(err)
			}
		}
	}
	p.flushHub()
	p.deliverAll(3)
}

// forgesAnswers sends the hub results of jobs that the client has not taken.
func (p *intruder) forgesAnswers() {
	p.hub.Send("1\n2\n3\n")
	p.waitForPool("3 waiting")
	hub := p.welcome().Hub
	for id := range 10 {
		for _, key := range []string{"", strings.Repeat("A", 20)} {
			answer := fmt.Sprintf("\x02\x00%c\x01%c%s\x00\x01\x00\x01\x01\x00\x02\x06forged", rune(id), rune(len(key)),
				key)
			told := fmt.Sprintf(`{"Pool":0,"ID":%d,"Try":1,"Key":%q}`, id, key)
			for what, text := range map[string]string{"answer": answer, "taken": told, "returned": told} {
				for _, from := range []string{"." + p.id, ""} {
					if err := p.nc.Publish("flowd.hub."+hub+"."+what+from, []byte(text)); err != nil {
						p.t.Fatal(err)
					}
				}
			}
		}
	}
	p.flushHub()
	p.waitForPool("3 waiting, 0 in flight")
	p.deliverAll(3)
}

// forgesBeats sends heartbeats in the name of an existing worker, and of 50,000 that don't exist.
func (p *intruder) forgesBeats() {
	w := p.worker()
	p.hub.Says("a worker has joined the pool")
	var ls struct {
		Pools []struct{ Members []struct{ Worker string } }
	}
	if err := json.Unmarshal(p.request("flowd.ls", "").Data, &ls); err != nil {
		p.t.Fatal(err)
	}
	victim := ls.Pools[0].Members[0].Worker
	for _, subject := range []string{"flowd.beat.embed", "flowd.beat.embed." + p.id, "flowd.beat.embed." + victim} {
		if err := p.nc.Publish(subject, fmt.Appendf(nil, `{"Worker":%q,"Name":"victim","Slots":0}`,
			victim)); err != nil {
			p.t.Fatal(err)
		}
	}
	select {
	case err := <-p.refused:
		if !errors.Is(err, nats.ErrPermissionViolation) {
			p.t.Error(err)
		}
	case <-time.After(flowdtest.Deadline):
		p.t.Error("a client may send heartbeats of another worker")
	}
	reason := strings.Repeat("x", 2000)
	for i := range 50_000 {
		text := fmt.Appendf(nil, `{"Worker":"w%d","Name":"false/%d","Slots":%d,"Refused":"%d %s"}`, i, i, 1+i%2, i,
			reason)
		// A busy server may close the connection of a client that floods it. The client then reconnects.
		err := p.nc.Publish("flowd.beat.embed."+p.id, text)
		if err == nil && i%1000 == 0 {
			err = p.nc.FlushTimeout(flowdtest.Deadline)
		}
		if err != nil {
			p.t.Logf("heartbeat %d: %v", i, err)
			p.waitUntilConnected()
		}
	}
	p.waitUntilConnected()
	p.flushHub()
	if text := p.waitForPool("embed of"); strings.Count(text, "\n") > 6 ||
		!strings.Contains(text, fmt.Sprintf("/%d ", w.Cmd.Process.Pid)) {
		p.t.Errorf("pool ls lists workers that don't exist, or lacks the real one:\n%s", text)
	}
	p.hub.Send("1\n")
	if got := p.hub.Line(); got != "1" {
		p.t.Errorf("got %q on stdout, want 1", got)
	}
	p.hub.Stdin.Close()
	r := p.hub.Wait()
	r.Want(p.t, 0, "1 received: 1 delivered")
	if strings.Contains(r.Stderr, "has left the pool") {
		p.t.Error("another worker has left the pool")
	}
	if n := len(r.Stderr); n > 500_000 {
		p.t.Errorf("the log has %d bytes", n)
	}
	w.Signal(syscall.SIGTERM)
	w.Wait()
}

// jobsThatCannotBeRead puts invalid jobs into the queue, in a shared NATS server.
func jobsThatCannotBeRead(t *testing.T) {
	s, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: server.RANDOM_PORT, JetStream: true,
		StoreDir: t.TempDir(), NoSigs: true, NoLog: true})
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	if !s.ReadyForConnections(flowdtest.Deadline) {
		t.Fatal("the NATS server does not start")
	}
	p := &intruder{t: t, dir: t.TempDir(), addr: s.ClientURL()}
	flowdtest.Write(t, p.dir, "token", "")
	file := flowdtest.Write(t, p.dir, "p.yaml", poolFile(`url: "`+p.addr+`"`, "{set: {a: 1}}"))
	p.hub = flowdtest.Start(t, p.dir, "-c", file)
	p.waitForPool("embed of")
	nc, err := nats.Connect(p.addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	const odd = 20
	for i := range odd {
		for subject, text := range map[string]string{"flowd.jobs.embed.nobody.0.%d.1": "\x63",
			"flowd.jobs.embed.%d": "", "flowd.jobs.embed.nobody.0.x.%d": "\x02\x00"} {
			if _, err := nc.Request(fmt.Sprintf(subject, i), []byte(text), flowdtest.Deadline); err != nil {
				t.Fatal(err)
			}
		}
	}
	w := flowdtest.Start(t, p.dir, "worker", "--join", p.addr, "--pool", "embed", "--slots", "1")
	for i := range 10 {
		p.hub.Send(fmt.Sprintf("{\"n\":%d}\n", i))
		if got, want := p.hub.Line(), fmt.Sprintf(`{"n":%d,"a":1}`, i); got != want {
			t.Errorf("got %s on stdout, want %s", got, want)
		}
	}
	w.Says("a job can't be read")
	w.Says("it is removed from the queue")
	p.hub.Stdin.Close()
	p.hub.Wait().Want(t, 0, "10 received: 10 delivered")
	w.Signal(syscall.SIGTERM)
	w.Wait()
}
