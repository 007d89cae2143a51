// Package mqtttest gives tests a real server of MQTT: see [Shared] and [Own].
package mqtttest

import (
	"cmp"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/flowd-io/flowd/internal/testing/daemon"
	"github.com/flowd-io/flowd/internal/testing/debian"
)

// Variable names a server to use instead of a private one, as a URL mqtt://user:password@host:1883.
const Variable = "FLOWD_TEST_MQTT"

// Patience is how long tests wait for what is to happen.
const Patience = 2 * time.Minute

// Server is a server for tests. Tests of one binary share it, so each uses its own topics and client ids.
type Server struct {
	URL  string
	Web  string // URL of its WebSocket; "": not known
	node *node  // nil: not ours
}

// node is a Mosquitto that this test binary has started.
type node struct {
	home, address string
	process       *daemon.Process
}

var (
	once   sync.Once
	shared *Server
	errNo  error // why there is none
	named  atomic.Int64
)

// Shared is a server that lets everybody do everything, or the test is skipped, which stderr says, too.
//
// It is the one that the environment names, else a private one that is started with the first call and dies with the
// test binary. Where Debian's package is not installed, root installs it.
func Shared(t testing.TB) *Server {
	t.Helper()
	once.Do(func() { shared, errNo = find() })
	return given(t, shared, errNo)
}

// Own is a private server of this test alone. Lines are those of mosquitto.conf, for its listener and for all of it;
// its files are relative to [Server.Home].
func Own(t testing.TB, files map[string]string, lines ...string) *Server {
	t.Helper()
	s, err := start(files, lines)
	s = given(t, s, err)
	t.Cleanup(s.node.process.End)
	return s
}

func given(t testing.TB, s *Server, err error) *Server {
	t.Helper()
	if err != nil {
		why := fmt.Sprintf("no MQTT server to test with: %v (set %s=mqtt://host:1883, or install mosquitto)", err, Variable)
		fmt.Fprintf(os.Stderr, "SKIPPED %s: %s\n", t.Name(), why)
		t.Skip(why)
	}
	return s
}

func find() (*Server, error) {
	if address := os.Getenv(Variable); address != "" {
		if u, err := url.Parse(address); err != nil || u.Scheme != "mqtt" {
			return nil, fmt.Errorf("%s is not a URL mqtt://user:password@host:1883", Variable)
		}
		return &Server{URL: address}, nil
	}
	return start(nil, []string{"max_inflight_messages 0", "max_queued_messages 0", "allow_anonymous true"})
}

const program = "/usr/sbin/mosquitto"

// serving runs the server again whenever it ends, unless it is to be down.
const serving = `
while :; do
	while [ -e down ]; do sleep 0.05; done
	` + program + ` -c mosquitto.conf &
	echo $! >pid
	wait $!
done
`

// start starts a server on free ports and waits until it listens.
func start(files map[string]string, lines []string) (*Server, error) {
	if err := debian.Install("mosquitto", program); err != nil {
		return nil, err
	}
	home, err := daemon.Home("mqtt", true)
	if err != nil {
		return nil, err
	}
	ports, err := daemon.Ports(2)
	if err != nil {
		return nil, err
	}
	all := append([]string{"listener " + ports[0] + " 127.0.0.1"}, lines...)
	all = append(all, "listener "+ports[1]+" 127.0.0.1", "protocol websockets", "persistence true",
		"persistence_location "+home+"/")
	if err := write(home, "mosquitto.conf", strings.Join(all, "\n")+"\n"); err != nil {
		return nil, err
	}
	for name, text := range files {
		if err := write(home, name, text); err != nil {
			return nil, err
		}
	}
	n := &node{home: home, address: net.JoinHostPort("127.0.0.1", ports[0])}
	n.process, err = daemon.Start(daemon.Server{Command: []string{"sh", "-c", serving}, Home: home, Nobody: true,
		Address: n.address})
	return &Server{URL: "mqtt://" + n.address, Web: "ws://127.0.0.1:" + ports[1], node: n}, err
}

// write writes a file that the server, which is someone else, can read.
func write(home, name, text string) error {
	return os.WriteFile(filepath.Join(home, name), []byte(text), 0o644) //nolint:gosec // its reader is someone else
}

// Address is where the server listens.
func (s *Server) Address() string {
	u, err := url.Parse(s.URL)
	if err != nil {
		return s.URL
	}
	return net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), "1883"))
}

// Home is the directory of the server's files: only for [Own].
func (s *Server) Home() string { return s.node.home }

// Stop ends the server, which saves what it knows: only for [Own].
func (s *Server) Stop(t testing.TB) {
	t.Helper()
	if err := write(s.node.home, "down", ""); err != nil {
		t.Fatal(err)
	}
	s.signal(t, "TERM")
	s.until(t, false)
}

// Start starts the server again, on the same port: only for [Own].
func (s *Server) Start(t testing.TB) {
	t.Helper()
	if err := os.Remove(filepath.Join(s.node.home, "down")); err != nil {
		t.Fatal(err)
	}
	s.until(t, true)
}

// Reload has the server read its files of users and rights again: only for [Own].
func (s *Server) Reload(t testing.TB, name, text string) {
	t.Helper()
	if err := write(s.node.home, name, text); err != nil {
		t.Fatal(err)
	}
	s.signal(t, "HUP")
}

func (s *Server) signal(t testing.TB, name string) {
	t.Helper()
	pid, err := os.ReadFile(filepath.Join(s.node.home, "pid"))
	if err == nil {
		err = exec.Command("kill", "-"+name, strings.TrimSpace(string(pid))).Run()
	}
	if err != nil {
		t.Fatal(err)
	}
}

func (s *Server) until(t testing.TB, listens bool) {
	t.Helper()
	late := time.Now().Add(daemon.Starting)
	for ; daemon.Listens(s.node.address) != listens; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(late) {
			t.Fatalf("the server listens: %t", !listens)
		}
	}
}

// Passwords is the text of a password file.
func Passwords(t testing.TB, users map[string]string) string {
	t.Helper()
	tool := debian.Program(t, "mosquitto_passwd", "mosquitto")
	file := filepath.Join(t.TempDir(), "passwords")
	for user, password := range users {
		args := []string{"-b", file, user, password}
		if _, err := os.Stat(file); err != nil {
			args = append([]string{"-c"}, args...)
		}
		if out, err := exec.Command(tool, args...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// Name is a name, of a topic or a client, that no other test uses.
func Name() string { return fmt.Sprintf("flowd-%d-%d", os.Getpid(), named.Add(1)) }
