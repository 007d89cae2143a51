package abuse

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/flowd-io/flowd/internal/testing/servertest"
	"github.com/flowd-io/flowd/test/flowdtest"
)

// servers are hostile servers that flowd connects to. Each row is a protocol, whose attacks are in its own file.
var servers = []attack{
	{"kafka", kafkaServer},
	{"mqtt", mqttServer},
	{"nats: input", natsInput},
	{"nats: output and cache", natsOutput},
	{"rabbitmq", rabbitMQ},
	{"redis: streams", redisStream},
	{"redis: lists", redisList},
	{"redis: pub/sub", redisPubSub},
	{"redis: the step and the cache", redisStep},
	{"mysql: the input", mysqlInput},
	{"mysql: the output and the step", mysqlOutput},
	{"postgres: the input", postgresInput},
	{"postgres: the output and the step", postgresOutput},
	{"postgres: changes", postgresCDC},
	{"clickhouse: the input", clickhouseInput},
	{"clickhouse: the output", clickhouseOutput},
}

// These settings make clients retry at once and for ever: quick is for inputs, the others for steps and outputs.
const (
	quick        = "\nengine: {restart: {backoff: 1ms, max_backoff: 50ms}}\n"
	retryForever = `retry: {backoff: 1ms, max_backoff: 50ms, max_attempts: 0}`
	retryWrites  = retryForever + `, breaker: {backoff: 1ms, max_backoff: 50ms}`
)

// client is a pipeline that connects to a server.
type client struct {
	config  string                    // ADDR stands for the server's address
	good    string                    // address of the real server
	rewrite func(p []byte, to string) // replaces addresses in the server's data, if not nil
	send    func(p *flowdtest.Process, id string)
	arrives func(p *flowdtest.Process, id string) // waits until the message has been delivered at least once
}

// serverAttack is a hostile server. run handles one connection, the nth of the attack.
type serverAttack struct {
	name        string
	run         func(c net.Conn, s *standin, nth int)
	connections int // how many connections are attacked; 0 is two
	extraKiB    int // memory allowed for an attack with valid but excessive data, whose CPU time is not limited
}

// Limits of an attack.
const (
	mostGrowth      = 64 << 10                // KiB more than the idle process has
	mostUsed        = time.Second             // CPU time
	manyConnections = 20                      // for attacks that damage another byte in each connection
	manyTimeout     = 1500 * time.Millisecond // for further connections, after the first
	floodBytes      = 96 << 20
	holdTime        = 300 * time.Millisecond // the server resets a connection that the client keeps for so long
)

// survivesAttacks runs attacks against one process, one after the other, and checks their limits. After each attack, the
// stand-in connects clients with the real server, and the message that was sent meanwhile must arrive.
func survivesAttacks(t *testing.T, u client, ills ...serverAttack) {
	s := standIn(t, u)
	dir := t.TempDir()
	// GOGC=50, since memory in use should be measured, not garbage.
	config := flowdtest.Write(t, dir, "p.yaml", strings.ReplaceAll(u.config, "ADDR", s.address)+quick)
	p := flowdtest.StartAs(t, dir, "env", "GOGC=50", flowdtest.Binary, "-c", config)
	u.send(p, "first")
	u.arrives(p, "first")
	idle := rss(t, p)
	for i, attack := range ills {
		id := strconv.Itoa(i)
		resetPeak(t, p)
		began := time.Now()
		before := cpu(t, p)
		s.switchTo(&attack)
		u.send(p, id)
		attacked := s.waitForAttacks(cmp.Or(attack.connections, 2))
		used, peak := cpu(t, p)-before, kib(t, p, "VmHWM")-idle
		good := time.Now()
		s.switchTo(nil)
		if attacked == 0 {
			t.Errorf("%s: the client did not connect", attack.name)
		}
		if used > mostUsed && attack.extraKiB == 0 {
			t.Errorf("%s: used %v of CPU time, want at most %v", attack.name, used, mostUsed)
		}
		if peak > max(mostGrowth, attack.extraKiB) {
			t.Errorf("%s: used %d MiB more than the idle process", attack.name, peak>>10)
		}
		u.arrives(p, id)
		t.Logf("%s: %d connections in %v, %v of CPU time, %d KiB, recovered after %v", attack.name, attacked,
			good.Sub(began).Round(time.Millisecond), used, peak, time.Since(good).Round(time.Millisecond))
		if t.Failed() {
			t.Fatalf("after %q:\n%s", attack.name, p.Stderr.Text())
		}
	}
	p.Signal(os.Interrupt)
	if strings.Contains(u.config, "stdin") {
		p.Stdin.Close()
	}
	if r := p.Wait(); r.Code != 0 && r.Code != 3 { // 3: unacknowledged messages will be redelivered
		t.Errorf("exit code %d:\n%s", r.Code, r.Stderr)
	}
}

// cpu returns the CPU time of the process so far.
func cpu(t *testing.T, p *flowdtest.Process) time.Duration {
	t.Helper()
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.Cmd.Process.Pid))
	if err != nil {
		t.Fatalf("flowd has exited: %v\n%s", err, p.Stderr.Text())
	}
	all := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	user, _ := strconv.Atoi(all[11])
	system, _ := strconv.Atoi(all[12])
	return time.Duration(user+system) * (time.Second / 100)
}

// waitFor waits until there returns true, which means that the message has arrived.
func waitFor(p *flowdtest.Process, id string, there func() bool) {
	p.T.Helper()
	for late := time.Now().Add(flowdtest.Deadline); !there(); time.Sleep(10 * time.Millisecond) {
		if failIfExited(p); time.Now().After(late) {
			p.T.Fatalf("message %s does not arrive\n%s", id, p.Stderr.Text())
		}
	}
}

// failIfExited fails the test if the process has exited.
func failIfExited(p *flowdtest.Process) {
	p.T.Helper()
	rss(p.T, p)
}

func rss(t *testing.T, p *flowdtest.Process) int { return kib(t, p, "VmRSS") }

func kib(t *testing.T, p *flowdtest.Process, field string) (n int) {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.Cmd.Process.Pid))
	if err != nil {
		t.Fatalf("flowd has exited: %v\n%s", err, p.Stderr.Text())
	}
	_, rest, _ := strings.Cut(string(status), field+":")
	if _, err := fmt.Sscan(rest, &n); err != nil { // an exited process has no memory
		t.Fatalf("flowd has exited\n%s", p.Stderr.Text())
	}
	return n
}

// resetPeak resets the peak memory of the process to its current memory.
func resetPeak(t *testing.T, p *flowdtest.Process) {
	t.Helper()
	if err := os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", p.Cmd.Process.Pid), []byte("5"), 0); err != nil {
		t.Fatal(err)
	}
}

// standin is a server that either relays to the real server or runs an attack.
type standin struct {
	client
	address string

	mu    sync.Mutex    // guards the fields below
	now   *serverAttack // the current attack; nil: relays to the real server
	turns int           // calls of switchTo
	conns map[net.Conn]bool
	begun int           // connections since the last switchTo
	done  int           // of those, how many have ended
	some  chan struct{} // receives when done grows
}

func standIn(t *testing.T, u client) *standin {
	t.Helper()
	if _, err := os.Stat("/proc/self/clear_refs"); err != nil {
		t.Skip("THE PEAK MEMORY OF A PROCESS CAN'T BE MEASURED HERE: ", err)
	}
	s := &standin{client: u, conns: map[net.Conn]bool{}, some: make(chan struct{}, 1)}
	s.address = servertest.Serve(t, s.serve)
	t.Cleanup(func() { s.switchTo(nil) })
	return s
}

// switchTo sets the attack for new connections, and resets all others. nil relays to the real server.
func (s *standin) switchTo(to *serverAttack) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now, s.begun, s.done = to, 0, 0
	s.turns++
	for c := range s.conns {
		reset(c)
	}
	select {
	case <-s.some:
	default:
	}
}

// reset ends a connection with a TCP reset, as a network failure does.
func reset(c net.Conn) {
	_ = c.(*net.TCPConn).SetLinger(0)
	c.Close()
}

func (s *standin) serve(c net.Conn) {
	s.mu.Lock()
	now, nth, turn := s.now, s.begun, s.turns
	s.begun++
	s.conns[c] = true
	s.mu.Unlock()
	if now == nil {
		relay(c, s, nil, nil)
	} else {
		now.run(c, s, nth)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.conns, c)
	if s.turns == turn {
		s.done++
		select {
		case s.some <- struct{}{}:
		default:
		}
	}
}

// waitForAttacks waits until so many connections have been attacked, and returns how many were.
func (s *standin) waitForAttacks(times int) int {
	late := time.After(flowdtest.Deadline / 4)
	for soon := (<-chan time.Time)(nil); ; {
		s.mu.Lock()
		done := s.done
		s.mu.Unlock()
		if done >= times {
			return done
		}
		if done > 0 && soon == nil {
			soon = time.After(manyTimeout)
		}
		select {
		case <-s.some:
		case <-soon:
			return done
		case <-late:
			return done
		}
	}
}

// relay connects c with the real server. change may edit the server's data, and ends the connection if it returns false.
// heard sees the client's data, and ends the connection if it returns false. Both may be nil.
func relay(c net.Conn, s *standin, change func(p []byte) ([]byte, bool), heard func(p []byte) bool) {
	up, err := net.Dial("tcp", s.good)
	if err != nil {
		return
	}
	defer up.Close()
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() {
		defer c.Close()
		defer up.Close()
		for buf := make([]byte, 32<<10); ; {
			n, err := up.Read(buf)
			p, goes := buf[:n], true
			if s.rewrite != nil {
				s.rewrite(p, s.address)
			}
			if change != nil {
				p, goes = change(p)
			}
			if _, failed := c.Write(p); failed != nil || err != nil || !goes {
				return
			}
		}
	})
	defer up.Close()
	for buf := make([]byte, 32<<10); ; {
		n, err := c.Read(buf)
		if n > 0 && heard != nil && !heard(buf[:n]) {
			return
		}
		if _, failed := up.Write(buf[:n]); failed != nil || err != nil {
			return
		}
	}
}

// sendAndDrain writes text, and then reads until the client closes the connection or holdTime is over.
func sendAndDrain(c net.Conn, text string) {
	if _, err := io.WriteString(c, text); err != nil {
		return
	}
	_ = c.SetReadDeadline(time.Now().Add(holdTime))
	_, _ = io.Copy(io.Discard, c)
	reset(c)
}

// sendForever writes first, and then text again and again, up to floodBytes.
func sendForever(c net.Conn, first, text string) { sendRepeatedly(c, floodBytes, first, text) }

// sendRepeatedly is sendForever with another limit.
func sendRepeatedly(c net.Conn, bytes int, first, text string) {
	go func() { _, _ = io.Copy(io.Discard, c) }()
	if _, err := io.WriteString(c, first); err != nil {
		return
	}
	chunk := []byte(strings.Repeat(text, max(1, (64<<10)/len(text))))
	_ = c.SetWriteDeadline(time.Now().Add(4 * time.Second))
	for sent := 0; sent < bytes; sent += len(chunk) {
		if _, err := c.Write(chunk); err != nil {
			return
		}
	}
}

// alwaysSend is a server that sends text on each connection.
func alwaysSend(name, text string) serverAttack {
	return serverAttack{name: name, run: func(c net.Conn, _ *standin, _ int) { sendAndDrain(c, text) }}
}

// alwaysFlood is a server that sends text without end on each connection.
func alwaysFlood(name, first, text string) serverAttack {
	return serverAttack{name: name, run: func(c net.Conn, _ *standin, _ int) { sendForever(c, first, text) }}
}

// onRequest relays until the client sends data that contains word, in any case. Then it calls answer instead.
func onRequest(word, name string, answer func(c net.Conn)) serverAttack {
	return serverAttack{name: name + ", in response to " + word, run: func(c net.Conn, s *standin, _ int) {
		relay(c, s, nil, func(p []byte) bool {
			if !bytes.Contains(bytes.ToLower(p), []byte(strings.ToLower(word))) {
				return true
			}
			answer(c)
			return false
		})
	}}
}

// onRequestSend answers with text, onRequestFlood with text without end.
func onRequestSend(word, name, text string) serverAttack {
	return onRequest(word, name, func(c net.Conn) { sendAndDrain(c, text) })
}

func onRequestFlood(word, name, first, text string) serverAttack {
	return onRequest(word, name, func(c net.Conn) { sendForever(c, first, text) })
}

// afterResponse relays until the server has sent data that contains word. Then it sends text, and nothing more.
func afterResponse(word, name, text string) serverAttack {
	return serverAttack{name: name + ", after " + word, run: func(c net.Conn, s *standin, _ int) {
		timer := time.AfterFunc(holdTime, func() { reset(c) })
		defer timer.Stop()
		said := false
		relay(c, s, func(p []byte) ([]byte, bool) {
			switch {
			case said:
				return nil, true
			case bytes.Contains(p, []byte(word)):
				said = true
				return append(bytes.Clone(p), text...), true
			}
			return p, true
		}, nil)
	}}
}

// allowMemory sets the memory that an attack with valid but excessive data may use.
func allowMemory(kib int, attack serverAttack) serverAttack {
	attack.extraKiB = kib
	return attack
}

// cutConnections relays, and closes the first connection after from bytes, and each further one after step bytes more.
func cutConnections(from, step int) serverAttack {
	name := fmt.Sprintf("connections are cut after %d bytes, and %d more each time", from, step)
	return serverAttack{connections: manyConnections, name: name, run: func(c net.Conn, s *standin, nth int) {
		left := from + step*nth
		relay(c, s, func(p []byte) ([]byte, bool) {
			n := min(left, len(p))
			left -= n
			return p[:n], left > 0
		}, nil)
	}}
}

// flipBytes relays, and replaces one byte of the server's data, another one in each connection.
func flipBytes(from, step int, by byte) serverAttack {
	name := fmt.Sprintf("byte %d, and %d later each time, is replaced with %#x", from, step, by)
	return serverAttack{connections: manyConnections, name: name, run: func(c net.Conn, s *standin, nth int) {
		at := from + step*nth
		timer := time.AfterFunc(holdTime, func() { c.Close() })
		defer timer.Stop()
		relay(c, s, func(p []byte) ([]byte, bool) {
			if at >= 0 && at < len(p) {
				p[at] = by
			}
			at -= len(p)
			return p, true
		}, nil)
	}}
}

// genericAttacks are servers of other protocols, servers that send data at once, and connections that fail.
func genericAttacks() []serverAttack {
	return []serverAttack{
		{name: "it closes the connection", run: func(net.Conn, *standin, int) {}},
		{name: "it says nothing", run: func(c net.Conn, _ *standin, _ int) { sendAndDrain(c, "") }},
		alwaysSend("it speaks HTTP", "HTTP/1.1 400 Bad Request\r\nContent-Length: 3\r\nConnection: close\r\n\r\nno\n"),
		alwaysSend("it speaks SSH", "SSH-2.0-OpenSSH_9.2\r\n"),
		alwaysSend("it speaks TLS", "\x15\x03\x01\x00\x02\x02\x46"),
		alwaysFlood("endless zeros", "", "\x00"),
		alwaysFlood("endless ones", "", "\xff"),
		alwaysFlood("endless text", "", "0123456789"),
		alwaysFlood("endless lines", "", "+\r\n"),
		cutConnections(1, 1), cutConnections(21, 7), flipBytes(0, 1, 0), flipBytes(1, 1, 0xff), flipBytes(20, 3, 0x7f),
	}
}
