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

// servers are what flowd connects to. Each row is one protocol; its file has the attacks.
var servers = []attack{
	{"kafka", kafkas},
	{"mqtt", mqtts},
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

// Whoever is attacked tries again at once, and for ever: inputs in any configuration, outputs and steps with one of these.
const (
	quick    = "\nengine: {restart: {backoff: 1ms, max_backoff: 50ms}}\n"
	tryAgain = `retry: {backoff: 1ms, max_backoff: 50ms, max_attempts: 0}`
	writes   = tryAgain + `, breaker: {backoff: 1ms, max_backoff: 50ms}`
)

// uses is a pipeline that uses a server.
type uses struct {
	config  string                    // ADDR is the server's address
	good    string                    // the address of a real one
	rewrite func(p []byte, to string) // what a good server says, which is reached at to; nil: nothing
	send    func(p *flowdtest.Process, id string)
	arrives func(p *flowdtest.Process, id string) // waits until what was sent is where it should be, at least once
}

// ill is what a hostile server does with a connection, until it returns.
type ill struct {
	name  string
	does  func(c net.Conn, s *standin, nth int)
	times int // connections that are attacked before the server turns good; 0: two
	work  int // KiB that it may take, where what it sends is valid and only too much: CPU time is as messages need it
}

// What one attack may take.
const (
	mostGrowth = 64 << 10 // KiB above what the process has when it is idle
	mostUsed   = time.Second
	many       = 20                      // connections, each of which is cut, or broken, at another byte
	enough     = 1500 * time.Millisecond // for them, if there was one
	endless    = 96 << 20                // bytes
	holds      = 300 * time.Millisecond  // a connection that the client does not end
)

// survives attacks one process, one attack after the other. Each has its bounds; after each the server is a good one, and
// the message that was sent meanwhile arrives.
func survives(t *testing.T, u uses, ills ...ill) {
	s := standIn(t, u)
	dir := t.TempDir()
	// What is measured is memory that is used, not what waits for a collection.
	config := flowdtest.Write(t, dir, "p.yaml", strings.ReplaceAll(u.config, "ADDR", s.address)+quick)
	p := flowdtest.StartAs(t, dir, "env", "GOGC=50", flowdtest.Binary, "-c", config)
	u.send(p, "first")
	u.arrives(p, "first")
	idle := rss(t, p)
	for i, attack := range ills {
		id := strconv.Itoa(i)
		forget(t, p)
		began := time.Now()
		before := cpu(t, p)
		s.turn(&attack)
		u.send(p, id)
		attacked := s.attacked(cmp.Or(attack.times, 2))
		used, peak := cpu(t, p)-before, kib(t, p, "VmHWM")-idle
		good := time.Now()
		s.turn(nil)
		if attacked == 0 {
			t.Errorf("%s: it was not tried", attack.name)
		}
		if used > mostUsed && attack.work == 0 {
			t.Errorf("%s: %v of CPU time", attack.name, used)
		}
		if peak > max(mostGrowth, attack.work) {
			t.Errorf("%s: %d MiB more than when it is idle", attack.name, peak>>10)
		}
		u.arrives(p, id)
		t.Logf("%s: %d connections in %v, %v of CPU time, %d KiB, good again after %v", attack.name, attacked,
			good.Sub(began).Round(time.Millisecond), used, peak, time.Since(good).Round(time.Millisecond))
		if t.Failed() {
			t.Fatalf("after %q:\n%s", attack.name, p.Stderr.Text())
		}
	}
	p.Signal(os.Interrupt)
	if strings.Contains(u.config, "stdin") {
		p.Stdin.Close()
	}
	if r := p.Wait(); r.Code != 0 && r.Code != 3 { // 3: what could not be acknowledged comes again
		t.Errorf("exit code %d:\n%s", r.Code, r.Stderr)
	}
}

// cpu is the time that the process has computed so far.
func cpu(t *testing.T, p *flowdtest.Process) time.Duration {
	t.Helper()
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.Cmd.Process.Pid))
	if err != nil {
		t.Fatalf("the process is gone: %v\n%s", err, p.Stderr.Text())
	}
	all := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	user, _ := strconv.Atoi(all[11])
	system, _ := strconv.Atoi(all[12])
	return time.Duration(user+system) * (time.Second / 100)
}

// until waits until what was sent is there.
func until(p *flowdtest.Process, id string, there func() bool) {
	p.T.Helper()
	for late := time.Now().Add(flowdtest.Deadline); !there(); time.Sleep(10 * time.Millisecond) {
		if gone(p); time.Now().After(late) {
			p.T.Fatalf("%s does not arrive\n%s", id, p.Stderr.Text())
		}
	}
}

// gone fails the test when the process has ended.
func gone(p *flowdtest.Process) {
	p.T.Helper()
	rss(p.T, p)
}

func rss(t *testing.T, p *flowdtest.Process) int { return kib(t, p, "VmRSS") }

func kib(t *testing.T, p *flowdtest.Process, field string) (n int) {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.Cmd.Process.Pid))
	if err != nil {
		t.Fatalf("the process is gone: %v\n%s", err, p.Stderr.Text())
	}
	_, rest, _ := strings.Cut(string(status), field+":")
	if _, err := fmt.Sscan(rest, &n); err != nil { // a process that has ended has no memory
		t.Fatalf("the process has ended\n%s", p.Stderr.Text())
	}
	return n
}

// forget has the system reckon the peak of the process's memory from now on.
func forget(t *testing.T, p *flowdtest.Process) {
	t.Helper()
	if err := os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", p.Cmd.Process.Pid), []byte("5"), 0); err != nil {
		t.Fatal(err)
	}
}

// standin stands in for a good server, as which it acts until it turns.
type standin struct {
	uses
	address string

	mu    sync.Mutex // guards the fields below
	now   *ill       // nil: it is good
	turns int
	conns map[net.Conn]bool
	begun int           // connections that were attacked
	done  int           // of them, those that have ended
	some  chan struct{} // receives when done grows
}

func standIn(t *testing.T, u uses) *standin {
	t.Helper()
	if _, err := os.Stat("/proc/self/clear_refs"); err != nil {
		t.Skip("WHAT A PROCESS TAKES CAN'T BE MEASURED HERE: ", err)
	}
	s := &standin{uses: u, conns: map[net.Conn]bool{}, some: make(chan struct{}, 1)}
	s.address = servertest.Serve(t, s.serve)
	t.Cleanup(func() { s.turn(nil) })
	return s
}

// turn changes what the server is, for new connections; the others end.
func (s *standin) turn(to *ill) {
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

// reset ends a connection as a network does, and not as a server that has had enough of its client.
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
		now.does(c, s, nth)
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

// attacked waits until enough connections were attacked, and says how many.
func (s *standin) attacked(times int) int {
	late := time.After(flowdtest.Deadline / 4)
	for soon := (<-chan time.Time)(nil); ; {
		s.mu.Lock()
		done := s.done
		s.mu.Unlock()
		if done >= times {
			return done
		}
		if done > 0 && soon == nil {
			soon = time.After(enough)
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

// relay connects c with a good server. What the server says goes through change, which ends the connection with false;
// what the client says goes to heard first, which keeps it from the server with false. nil lets everything pass.
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

// tell writes text, and then reads until the client ends the connection, for a while.
func tell(c net.Conn, text string) {
	if _, err := io.WriteString(c, text); err != nil {
		return
	}
	_ = c.SetReadDeadline(time.Now().Add(holds))
	_, _ = io.Copy(io.Discard, c)
	reset(c)
}

// flood writes a beginning, and then the same for as long as it is read, within bounds.
func flood(c net.Conn, first, text string) { floodOf(c, endless, first, text) }

// floodOf is flood of so many bytes.
func floodOf(c net.Conn, bytes int, first, text string) {
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

// says is a server that says the same to everybody.
func says(name, text string) ill {
	return ill{name: name, does: func(c net.Conn, _ *standin, _ int) { tell(c, text) }}
}

// floods is a server that does not end.
func floods(name, first, text string) ill {
	return ill{name: name, does: func(c net.Conn, _ *standin, _ int) { flood(c, first, text) }}
}

// upon is a good server until the client says something that contains a word, in whatever case; it answers that itself.
func upon(word, name string, answer func(c net.Conn)) ill {
	return ill{name: name + ", upon " + word, does: func(c net.Conn, s *standin, _ int) {
		relay(c, s, nil, func(p []byte) bool {
			if !bytes.Contains(bytes.ToLower(p), []byte(strings.ToLower(word))) {
				return true
			}
			answer(c)
			return false
		})
	}}
}

// uponSays answers with a text, uponFloods without end.
func uponSays(word, name, text string) ill {
	return upon(word, name, func(c net.Conn) { tell(c, text) })
}

func uponFloods(word, name, first, text string) ill {
	return upon(word, name, func(c net.Conn) { flood(c, first, text) })
}

// after is a good server until it has said something that contains a word; then it says a text, and no more.
func after(word, name, text string) ill {
	return ill{name: name + ", after " + word, does: func(c net.Conn, s *standin, _ int) {
		timer := time.AfterFunc(holds, func() { reset(c) })
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

// works is an attack by more of what is valid than anybody needs.
func works(kib int, attack ill) ill {
	attack.work = kib
	return attack
}

// cuts is a good server that ends each connection after some bytes more than the one before. The first has none.
func cuts(from, step int) ill {
	name := fmt.Sprintf("it is cut after %d bytes and %d more each time", from, step)
	return ill{times: many, name: name, does: func(c net.Conn, s *standin, nth int) {
		left := from + step*nth
		relay(c, s, func(p []byte) ([]byte, bool) {
			n := min(left, len(p))
			left -= n
			return p[:n], left > 0
		}, nil)
	}}
}

// flips is a good server of whose bytes one is replaced, another one in each connection.
func flips(from, step int, by byte) ill {
	name := fmt.Sprintf("byte %d and then each %dth is %#x", from, step, by)
	return ill{times: many, name: name, does: func(c net.Conn, s *standin, nth int) {
		at := from + step*nth
		timer := time.AfterFunc(holds, func() { c.Close() })
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

// anything is what listens at an address by mistake, or answers before it was asked.
func anything() []ill {
	return []ill{
		{name: "it closes the connection", does: func(net.Conn, *standin, int) {}},
		{name: "it says nothing", does: func(c net.Conn, _ *standin, _ int) { tell(c, "") }},
		says("it speaks HTTP", "HTTP/1.1 400 Bad Request\r\nContent-Length: 3\r\nConnection: close\r\n\r\nno\n"),
		says("it speaks SSH", "SSH-2.0-OpenSSH_9.2\r\n"),
		says("it speaks TLS", "\x15\x03\x01\x00\x02\x02\x46"),
		floods("zeros without end", "", "\x00"),
		floods("ones without end", "", "\xff"),
		floods("text without end", "", "0123456789"),
		floods("lines without end", "", "+\r\n"),
		cuts(1, 1), cuts(21, 7), flips(0, 1, 0), flips(1, 1, 0xff), flips(20, 3, 0x7f),
	}
}
