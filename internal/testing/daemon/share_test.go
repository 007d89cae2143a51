//go:build linux

package daemon

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// A test runs this binary again, below scripts that are named go, to ask for a server. That runs sleep, and what listens
// for it is the test.
func TestMain(m *testing.M) {
	if os.Getenv("FLOWD_SHARE") == "" {
		os.Exit(m.Run())
	}
	home, err := Share("x", func(k Keep) (string, error) {
		home, err := Home("x", true)
		if err != nil {
			return "", err
		}
		_, err = Start(Server{Command: []string{"sh", "-c", os.Getenv("FLOWD_RUN")}, Home: home, Nobody: true, Keep: k,
			Address: os.Getenv("FLOWD_SHARE")})
		return home, err
	}, func(string) string { return os.Getenv("FLOWD_SHARE") })
	fmt.Println(home, err)
	if os.Getenv("FLOWD_STAY") != "" {
		_, _ = io.Copy(io.Discard, os.Stdin)
	}
}

// house is a directory for temporary files, with an address at which something listens.
type house struct {
	*testing.T
	dir, address string
}

func newHouse(t *testing.T) *house {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			c.Close()
		}
	}()
	h := &house{t, t.TempDir(), l.Addr().String()}
	for _, dir := range []string{h.dir, filepath.Dir(h.dir)} {
		if err := os.Chmod(dir, os.ModeSticky|0o777); err != nil { // as /tmp
			t.Fatal(err)
		}
	}
	return h
}

// command is a script of a name, which runs commands from its stdin.
type command struct {
	*house
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

func (h *house) command(name, run string) *command {
	h.Helper()
	path := filepath.Join(h.TempDir(), name)
	const script = "#!/bin/sh\nwhile read -r line; do eval \"$line\"; done\n"
	if err := os.WriteFile(path, []byte(script), 0o700); err != nil {
		h.Fatal(err)
	}
	c := &command{house: h, cmd: exec.Command(path)}
	c.cmd.Env = append(os.Environ(), "TMPDIR="+h.dir, "FLOWD_SHARE="+h.address, "FLOWD_RUN="+run, "BINARY="+os.Args[0])
	c.cmd.Stderr = os.Stderr
	var err error
	if c.in, err = c.cmd.StdinPipe(); err == nil {
		var out io.Reader
		out, err = c.cmd.StdoutPipe()
		c.out = bufio.NewReader(out)
	}
	if err == nil {
		err = c.cmd.Start()
	}
	if err != nil {
		h.Fatal(err)
	}
	h.Cleanup(c.kill)
	return c
}

var killed sync.Map

func (c *command) kill() {
	if _, twice := killed.LoadOrStore(c, true); !twice {
		_ = c.cmd.Process.Kill()
		_ = c.cmd.Wait()
	}
}

// ask runs a line, which starts binaries, and gives the server that each of them has been given.
func (c *command) ask(line string, n int) (homes []string) {
	c.Helper()
	fmt.Fprintln(c.in, line)
	for range n {
		said, err := c.out.ReadString('\n')
		home, ok := strings.CutSuffix(strings.TrimSpace(said), " <nil>")
		if err != nil || !ok {
			c.Fatalf("a binary says %q, %v", said, err)
		}
		homes = append(homes, home)
	}
	return homes
}

// until waits for what is to happen soon.
func (h *house) until(what string, f func() bool) {
	h.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for late := time.After(Starting); !f(); {
		select {
		case <-tick.C:
		case <-late:
			h.Fatalf("not yet: %s; there are %q", what, h.files())
		}
	}
}

func (h *house) files() []string {
	all, err := filepath.Glob(filepath.Join(h.dir, "*"))
	if err != nil {
		h.Fatal(err)
	}
	return all
}

// server is the process of a server.
func (h *house) server(home string) (pid int) {
	h.Helper()
	h.until("a pid", func() bool {
		text, _ := os.ReadFile(filepath.Join(home, "pid"))
		var err error
		pid, err = strconv.Atoi(strings.TrimSpace(string(text)))
		return err == nil
	})
	return pid
}

func gone(pid int) bool { name, _ := process(pid); return name != "sleep" }

const (
	sleeps = "echo $$ >pid; exec sleep 1000"
	three  = `"$BINARY" & "$BINARY" & "$BINARY" & wait`
)

func TestBinariesOfAGoCommandShareAServer(t *testing.T) {
	h := newHouse(t)
	stale := filepath.Join(h.dir, fmt.Sprintf(shared+"%d-1-x", os.Getpid()))
	if err := os.WriteFile(stale, []byte(`"another"`), 0o600); err != nil {
		t.Fatal(err)
	}
	first, second := h.command("go", sleeps), h.command("go", sleeps)
	one, two := first.ask(three, 3), second.ask(three, 3)
	later := first.ask(`"$BINARY"`, 1)[0]
	if one[0] != one[1] || one[0] != one[2] || one[0] != later {
		t.Errorf("one go command has the servers %q, later %s", one, later)
	}
	if two[0] != two[1] || two[0] != two[2] || two[0] == one[0] {
		t.Errorf("another has %q", two)
	}
	if _, err := os.Stat(stale); err == nil {
		t.Error("the file of a process that is gone is still there")
	}
	pid, other := h.server(one[0]), h.server(two[0])

	first.kill()
	h.until("the end of the server of the go command that was killed", func() bool { return gone(pid) })
	if gone(other) {
		t.Error("the server of the other go command has ended, too")
	}
	second.in.Close() // it ends by itself, and is not waited for at once
	h.until("nothing left behind", func() bool { return gone(other) && len(h.files()) == 0 })
}

func TestAServerThatHasCrashedIsStartedAgain(t *testing.T) {
	h := newHouse(t)
	c := h.command("go", sleeps)
	one := c.ask(`"$BINARY"`, 1)[0]
	if err := exec.Command("kill", "-KILL", strconv.Itoa(h.server(one))).Run(); err != nil {
		t.Fatal(err)
	}
	h.until("the keeper's end", func() bool { return len(h.files()) == 0 })
	if two := c.ask(`"$BINARY"`, 1)[0]; two == one || gone(h.server(two)) {
		t.Errorf("the servers are %s, then %s", one, two)
	}
	c.kill()
	h.until("nothing left behind", func() bool { return len(h.files()) == 0 })
}

func TestAServerThatDoesNotStartLeavesNothing(t *testing.T) {
	h := newHouse(t)
	h.address = "127.0.0.1:1"
	c := h.command("go", "echo no room; exit 1")
	for range 2 {
		fmt.Fprintln(c.in, `"$BINARY"`)
		if said, err := c.out.ReadString('\n'); err != nil || !strings.Contains(said, "the server ended: no room") {
			t.Fatalf("got %q, %v", said, err)
		}
	}
	h.until("nothing left behind", func() bool { return len(h.files()) == 0 })
}

func TestAServerOfABinaryWithoutAGoCommandEndsWithIt(t *testing.T) {
	h := newHouse(t)
	c := h.command("make", sleeps)
	one := c.ask(`exec 3<&0; export FLOWD_STAY=1; "$BINARY" <&3 & "$BINARY" <&3 & wait`, 2)
	if one[0] == one[1] {
		t.Errorf("two binaries share %s", one[0])
	}
	c.kill()
	c.in.Close()
	h.until("nothing left behind", func() bool { return len(h.files()) == 0 })
}
