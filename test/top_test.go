package test

import (
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/charmbracelet/x/ansi"
	"github.com/creack/pty"
)

// TestTop runs flowd top on terminals of two sizes, beside a flowd in which a message waits for a retry, with an error
// that would clear the screen.
func TestTop(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	address := freeAddress(t)
	write(t, dir, "orders.yaml", `
service: {listen: "`+address+`", token_file: token}
inputs:
  in: {stdin: {}}
  nightly: {generate: {interval: "0 2 * * *", body: "1"}}
processors: [{fail: {class: transient, reason: "$(e)", after: 1h}, when: n > 1}]
outputs: {out: {stdout: {}}}
engine: {rate_limit: {messages: 1000, per: 1s}}
`)
	p := start(t, dir, "-c", "orders.yaml")
	p.Send(`{"n":1}` + "\n" + `{"n":2,"e":"\u001b[2Jowned \u202e"}` + "\n")
	if got := p.Line(); got != `{"n":1}` {
		t.Fatalf("stdout %s", got)
	}
	for _, size := range []pty.Winsize{{Cols: 80, Rows: 24}, {Cols: 200, Rows: 60}} {
		cmd := exec.CommandContext(t.Context(), binary, "top", "--addr", address, "--token-file", "token", "--interval", "100ms")
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "TERM=xterm-256color")
		s := &onTerminal{T: t}
		var err error
		if s.f, err = pty.StartWithSize(cmd, &size); err != nil {
			t.Skip(err)
		}
		s.shows("bottleneck: step fail, hold: 1 message held")
		s.shows("due ")
		s.press("p")
		s.shows("paused orders")
		s.press("\r")
		s.shows(`\u001b[2Jowned \u202e`)
		s.press("\x1b[D") // left
		s.press("r")
		s.shows("resumed orders")
		s.press("q")
		s.shows("") // everything until it ends
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
		if strings.Contains(s.all, "\x1b[2Jowned") || strings.Contains(s.all, "\u202e") || !strings.Contains(s.all, "\x1b[?1049l") {
			t.Errorf("the terminal got\n%q", s.all)
		}
		_ = s.f.Close()
	}
	got := flowd(t, dir, "", "top", "--addr", address, "--token-file", "token", "--once")
	got.Want(t, 0)
	if !strings.Contains(got.Stdout, "* step    fail") || strings.Contains(got.Stdout, "\x1b") {
		t.Errorf("--once shows\n%s", got.Stdout)
	}
	p.Signal(syscall.SIGINT)
	p.Signal(syscall.SIGINT)
	p.Wait()
}

// onTerminal is a program on a terminal.
type onTerminal struct {
	*testing.T
	f    *os.File
	all  string // everything it has written
	from int    // where in all the search begins

	asked time.Time // when it was last to draw everything
}

func (s *onTerminal) press(keys string) {
	s.Helper()
	s.from = len(s.all)
	if _, err := s.f.WriteString(keys); err != nil {
		s.Fatal(err)
	}
}

// shows reads until a text was drawn after the last key, or to the end if it is "". It has the screen drawn as a whole now and
// then, since otherwise only changes are drawn.
func (s *onTerminal) shows(want string) {
	s.Helper()
	buf := make([]byte, 64<<10)
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); {
		if want != "" && strings.Contains(ansi.Strip(s.all[s.from:]), want) {
			return
		}
		n, err := s.f.Read(buf)
		if s.all += string(buf[:n]); err != nil {
			if want == "" {
				return
			}
			break
		}
		if now := time.Now(); want != "" && now.Sub(s.asked) > 100*time.Millisecond {
			s.asked = now
			_, _ = s.f.WriteString("\x0c") // Ctrl-L
		}
	}
	s.Fatalf("the screen does not show %q:\n%s", want, ansi.Strip(s.all[s.from:]))
}
