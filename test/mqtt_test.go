package test

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/flowd-io/flowd/internal/testing/mqtttest"
)

const mqttRelay = `
inputs:
  in: {mqtt: {url: %[1]q, topics: %[2]s/#, client_id: %[2]s, version: %[3]q, qos: %[4]d, keep_alive: 5s}}
outputs:
  out: {mqtt: {url: %[1]q, topic: out/%[2]s, version: %[3]q, qos: %[4]d, keep_alive: 5s},
        breaker: {backoff: 100ms, max_backoff: 500ms}}
engine: {restart: {backoff: 50ms, max_backoff: 500ms}, rate_limit: {messages: 200, per: 50ms}}
`

// mqttRelaying is a flowd that copies messages from a topic to another.
type mqttRelaying struct {
	*testing.T
	*process
	observer  *mqtttest.Client
	dir, file string
	came      map[string]int // how often each message has arrived
}

// testMQTTRelay copies n messages with each version and QoS, and calls disturb meanwhile. Each message must arrive, and
// no others.
func testMQTTRelay(t *testing.T, n int, disturb func(r *mqttRelaying, p *proxy)) {
	s := mqtttest.Shared(t)
	for _, version := range []string{"5", "3.1.1"} {
		for qos := byte(1); qos <= 2; qos++ {
			t.Run(fmt.Sprintf("version %s QoS %d", version, qos), func(t *testing.T) {
				t.Parallel()
				p, topic := startProxy(t, s.Address()), mqtttest.Name()
				r := &mqttRelaying{T: t, dir: t.TempDir(), observer: s.Client(t), came: map[string]int{}}
				r.observer.Subscribe(t, "out/"+topic, 2)
				url := strings.Replace(s.URL, s.Address(), p.addr, 1)
				r.file = write(t, r.dir, "relay.yaml", fmt.Sprintf(mqttRelay, url, topic, version, qos))
				r.start()
				r.Says("msg=subscribed")
				c := s.Client(t)
				for i := range n {
					c.Publish(t, topic+"/a", qos, fmt.Sprintf("m%d", i))
				}
				disturb(r, p)
				r.waitForMessages(n)
				r.Signal(syscall.SIGTERM)
				r.Wait().Want(t, 0)
				twice := 0
				for m, times := range r.came {
					if !strings.HasPrefix(m, "m") {
						t.Errorf("%q has arrived, but was not sent", m)
					}
					twice += times - 1
				}
				t.Logf("%d messages, %d duplicates", n, twice)
			})
		}
	}
}

func (r *mqttRelaying) start() { r.process = start(r.T, r.dir, "-c", r.file) }

// waitForMessages waits until n different messages have arrived.
func (r *mqttRelaying) waitForMessages(n int) {
	r.Helper()
	for late := time.After(deadline); len(r.came) < n; {
		select {
		case p := <-r.observer.Came():
			r.came[string(p.Payload)]++
		case <-late:
			r.Fatalf("%d of %d messages have arrived; stderr:\n%.4000s", len(r.came), n, r.Stderr.Text())
		}
	}
}

// TestMQTTKilled kills flowd several times while messages flow. It resumes the session, and no message is lost.
func TestMQTTKilled(t *testing.T) {
	t.Parallel()
	testMQTTRelay(t, 600*(*kills+1), func(r *mqttRelaying, _ *proxy) {
		for i := range *kills {
			r.waitForMessages(400 * (i + 1))
			r.Signal(syscall.SIGKILL)
			_ = r.Cmd.Wait()
			r.start()
		}
	})
}

// TestMQTTNetwork cuts all connections while messages flow.
func TestMQTTNetwork(t *testing.T) {
	t.Parallel()
	testMQTTRelay(t, 2400, func(r *mqttRelaying, p *proxy) {
		for i := range 4 {
			r.waitForMessages(400 * (i + 1))
			p.cut()
		}
	})
}

// TestMQTTServerRestarted restarts the server with its data while messages flow.
func TestMQTTServerRestarted(t *testing.T) {
	t.Parallel()
	s := mqtttest.Own(t, nil, "allow_anonymous true", "max_queued_messages 0")
	dir := t.TempDir()
	out := filepath.Join(dir, "out")
	file := write(t, dir, "p.yaml", fmt.Sprintf(`
inputs:
  in: {mqtt: {url: %q, topics: a, client_id: c, qos: 2}}
outputs:
  out: {file: %q}
engine: {restart: {backoff: 50ms, max_backoff: 200ms}, rate_limit: {messages: 100, per: 50ms}}
`, s.URL, out))
	p := start(t, dir, "-c", file)
	p.Says("msg=subscribed")
	const n = 1000
	c := s.Client(t)
	for i := range n {
		c.Publish(t, "a", 2, fmt.Sprintf("m%d", i))
	}
	s.Stop(t)
	s.Start(t)
	var lines []string
	for late := time.Now().Add(deadline); ; time.Sleep(20 * time.Millisecond) {
		lines = strings.Fields(read(t, out))
		slices.Sort(lines)
		if lines = slices.Compact(lines); len(lines) >= n {
			break
		}
		if time.Now().After(late) {
			t.Fatalf("%d of %d messages have arrived; stderr:\n%.4000s", len(lines), n, p.Stderr.Text())
		}
	}
	if len(lines) != n {
		t.Errorf("%d different messages have arrived, want %d", len(lines), n)
	}
	p.Signal(syscall.SIGTERM)
	p.Wait().Want(t, 0)
}

// TestMQTTRivals runs two flowds with the same client id. They take the session from each other, with a back-off, and log
// why.
func TestMQTTRivals(t *testing.T) {
	t.Parallel()
	s := mqtttest.Shared(t)
	topic := mqtttest.Name()
	dir := t.TempDir()
	file := write(t, dir, "p.yaml", fmt.Sprintf(`
inputs:
  in: {mqtt: {url: %q, topics: %[2]s, client_id: %[2]s}}
outputs:
  out: {drop: {}}
engine: {restart: {backoff: 10ms, max_backoff: 20ms}}
`, s.URL, topic))
	a := start(t, dir, "-c", file)
	a.Says("msg=subscribed")
	b := start(t, dir, "-c", file)
	b.Says("another client may have the same client_id")
	if n := strings.Count(b.Stderr.Text(), "msg=subscribed"); n > 20 {
		t.Errorf("it has connected %d times, want at most 20", n)
	}
	for _, p := range []*process{a, b} {
		p.Signal(syscall.SIGTERM)
		p.Wait().Want(t, 0)
	}
}
