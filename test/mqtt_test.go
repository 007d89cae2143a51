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

// mqttRelaying is a flowd that relays from a topic to another.
type mqttRelaying struct {
	*testing.T
	*process
	observer  *mqtttest.Client
	dir, file string
	came      map[string]int // messages that have arrived, and how often
}

// testMQTTRelay has flowd relay n messages with each version and QoS, while disturb does something. Each message arrives,
// and nothing else.
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
						t.Errorf("%q has come, which nobody sent", m)
					}
					twice += times - 1
				}
				t.Logf("%d messages, %d came twice", n, twice)
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
			r.Fatalf("%d of %d messages have come; flowd says:\n%.4000s", len(r.came), n, r.Stderr.Text())
		}
	}
}

// TestMQTTKilled kills flowd in mid-stream, again and again: the session is resumed, and no message is lost.
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

// TestMQTTServerRestarted ends the server while messages flow, and starts it with what it has on disk.
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
			t.Fatalf("%d of %d messages have come; flowd says:\n%.4000s", len(lines), n, p.Stderr.Text())
		}
	}
	if len(lines) != n {
		t.Errorf("%d messages came of %d", len(lines), n)
	}
	p.Signal(syscall.SIGTERM)
	p.Wait().Want(t, 0)
}

// TestMQTTRivals runs two flowds with one client id: they take the session from each other, but not at full speed, and
// say why.
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
		t.Errorf("it has connected %d times", n)
	}
	for _, p := range []*process{a, b} {
		p.Signal(syscall.SIGTERM)
		p.Wait().Want(t, 0)
	}
}
