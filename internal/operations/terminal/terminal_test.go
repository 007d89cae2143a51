package terminal

import (
	"context"
	"errors"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/charmbracelet/x/ansi"
	"github.com/creack/pty"
	"github.com/flowd-io/flowd/internal/operations/service"
	"github.com/flowd-io/flowd/internal/operations/top"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const hostile = "evil\x1b[2J\x1b]0;owned\x07\u202e\xff"

// screen is a pseudo-terminal on which top runs.
type screen struct {
	*testing.T
	keys  *os.File
	ended chan error

	mu       sync.Mutex // guards the fields below
	text     string     // what was drawn
	requests []Request
	refuse   error
}

func open(t *testing.T, columns, rows uint16) *screen {
	t.Helper()
	ours, theirs, err := pty.Open()
	if err != nil {
		t.Skip(err)
	}
	if err := pty.Setsize(ours, &pty.Winsize{Cols: columns, Rows: rows}); err != nil {
		t.Fatal(err)
	}
	s := &screen{T: t, keys: ours, ended: make(chan error, 1)}
	ctx, cancel := context.WithCancel(t.Context())
	t.Setenv("TERM", "xterm-256color")
	read := make(chan struct{})
	go func() {
		defer close(read)
		buf := make([]byte, 64<<10)
		for {
			n, err := ours.Read(buf)
			s.mu.Lock()
			s.text += string(buf[:n])
			s.mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	go func() {
		s.ended <- Run(ctx, Options{Interval: 20 * time.Millisecond, Poll: s.poll, Do: s.do, In: theirs, Out: theirs, Color: true})
		_ = theirs.Close()
	}()
	t.Cleanup(func() {
		cancel()
		_ = ours.Close()
		<-read
	})
	return s
}

func (s *screen) poll(context.Context) []top.Seen {
	p := service.Pipeline{Name: "orders", State: "running", Lanes: service.Share{Max: 4}}
	p.Inputs = []service.Input{{Name: hostile, Type: "kafka", State: "reading", Error: hostile}}
	p.Outputs = []service.Output{{Name: "lake", Type: "s3", Breaker: "open", Error: "no route to " + strings.Repeat("x", 1<<20)}}
	p.Limits = []service.Rate{{Name: "engine", Messages: 10, Per: 1}}
	p.Waits = []service.Wait{{Who: "output lake", Why: service.WhyBreaker, Detail: "the breaker is open"}}
	return []top.Seen{{Addr: "a:9600", At: time.Now(), State: service.State{Pipelines: []service.Pipeline{p}}}}
}

func (s *screen) do(_ context.Context, r Request) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests = append(s.requests, r)
	return r.What + " done " + r.Rate, s.refuse
}

func (s *screen) press(keys string) {
	s.Helper()
	if _, err := s.keys.WriteString(keys); err != nil {
		s.Fatal(err)
	}
}

// shows waits until the screen has a text. It has the screen drawn as a whole, since otherwise only changes are drawn.
func (s *screen) shows(want string) {
	s.Helper()
	for deadline := time.Now().Add(10 * time.Second); ; {
		s.mu.Lock()
		s.text = ""
		s.mu.Unlock()
		s.press("\x0c") // Ctrl-L
		time.Sleep(30 * time.Millisecond)
		s.mu.Lock()
		drawn := ansi.Strip(s.text)
		s.mu.Unlock()
		if strings.Contains(drawn, want) {
			return
		}
		if time.Now().After(deadline) {
			s.Fatalf("the screen does not show %q:\n%s", want, drawn)
		}
	}
}

func (s *screen) asked() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Request(nil), s.requests...)
}

func TestKeys(t *testing.T) {
	for _, size := range [][2]uint16{{80, 24}, {200, 60}} {
		s := open(t, size[0], size[1])
		s.shows("bottleneck: output lake, breaker: the breaker is open")
		s.press("p")
		s.shows("pause done")
		s.press("d")
		s.shows("drain orders? (y)")
		s.press("n")
		s.press("r")
		s.shows("resume done")
		s.press("l")
		s.shows("select a limit first")
		s.press("G")
		s.press("l")
		s.shows("limit engine to messages/time:")
		s.press("500/s\r")
		s.shows("limit done 500/s")
		s.press("/")
		s.press("lake\r")
		s.shows("filter lake")
		s.press("s")
		s.shows("sorted by rate")
		s.press("j\r")
		s.shows("last error")
		s.press("\x1b[D") // left
		s.shows("sorted by rate")
		s.press("q")
		if err := <-s.ended; err != nil {
			t.Error(err)
		}
		var got []string
		for _, r := range s.asked() {
			got = append(got, r.What+" "+r.Key.Pipeline+" "+r.Key.Kind+" "+r.Key.Name+" "+r.Rate)
		}
		want := "pause orders   , resume orders   , limit orders limit engine 500/s"
		if all := strings.Join(got, ", "); all != want {
			t.Errorf("asked for %q, want %q", all, want)
		}
	}
}

func TestARefusalIsShown(t *testing.T) {
	s := open(t, 80, 24)
	s.mu.Lock()
	s.refuse = errors.New("there is no \x1b[2J pipeline")
	s.mu.Unlock()
	s.shows("orders")
	s.press("p")
	s.shows(`there is no \u001b[2J pipeline`)
	s.press("q")
	<-s.ended
}

// What is drawn fits the screen, and only the program's own sequences control it.
func TestHostileTextDoesNotControlTheTerminal(t *testing.T) {
	s := &screen{T: t}
	for _, size := range [][2]int{{80, 24}, {200, 60}, {20, 3}, {1, 1}} {
		m := &model{options: Options{Color: true}, ctx: t.Context(), width: size[0], height: size[1]}
		m.Update(seenMsg(s.poll(t.Context())))
		for _, keys := range []string{"", "s", "j", "enter", "pgdown", "esc", "/", "x"} {
			if keys == "x" {
				m.prompt.text = hostile
			} else if keys != "" {
				m.key(keys)
			}
			drawn := m.draw()
			lines := strings.Split(drawn, "\n")
			if len(lines) > max(size[1], 3) {
				t.Errorf("%d lines of %d", len(lines), size[1])
			}
			for _, l := range lines {
				if w := ansi.StringWidth(l); w > max(size[0], 40) {
					t.Errorf("after %q: %d columns of %d: %.100q", keys, w, size[0], l)
				}
			}
			for _, bad := range []string{"\x1b[2J", "\x1b]", "\x07", "\u202e", "\xff"} {
				if strings.Contains(drawn, bad) {
					t.Errorf("after %q it draws %q", keys, bad)
				}
			}
		}
	}
}

func TestItEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	ours, theirs, err := pty.Open()
	if err != nil {
		t.Skip(err)
	}
	defer ours.Close()
	defer theirs.Close()
	ended := make(chan error)
	s := &screen{T: t}
	go func() { ended <- Run(ctx, Options{Interval: time.Hour, Poll: s.poll, In: theirs, Out: theirs}) }()
	go func() { _, _ = ours.Read(make([]byte, 1<<16)) }()
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
