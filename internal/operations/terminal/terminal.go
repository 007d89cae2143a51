// Package terminal draws `flowd top` on a terminal, and obeys its keys. It is the only package that knows bubbletea: what is
// shown comes from package top. Start at [Run].
package terminal

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/flowd-io/flowd/internal/operations/top"
)

// Options say what to show, and how to obey.
type Options struct {
	Interval time.Duration
	// Poll asks all processes for their states. It returns when ctx ends.
	Poll func(ctx context.Context) []top.Seen
	// Do carries out a request, and returns what to say about it.
	Do func(ctx context.Context, r Request) (said string, err error)

	View  top.View
	In    io.Reader
	Out   io.Writer
	Color bool
}

// Request is what a key asks for.
type Request struct {
	What string // pause, resume, drain or limit
	Key  top.Key
	Rate string // of a limit, such as 500/1s
}

// Run shows a frame per interval until q is pressed or ctx ends.
func Run(ctx context.Context, o Options) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	m := &model{options: o, ctx: ctx, view: o.View}
	p := tea.NewProgram(m, tea.WithInput(o.In), tea.WithOutput(o.Out), tea.WithEnvironment(os.Environ()))
	defer context.AfterFunc(ctx, p.Quit)() // its own WithContext would leave the terminal's reader behind
	_, err := p.Run()
	if errors.Is(err, tea.ErrInterrupted) {
		return nil
	}
	return err
}

// model is the state of the screen. Bubbletea calls its methods from one goroutine.
type model struct {
	options       Options
	ctx           context.Context //nolint:containedctx // of requests, which bubbletea starts
	width, height int

	seen  []top.Seen
	frame top.Frame
	view  top.View

	cursor  top.Key
	scroll  int
	details bool
	prompt  *prompt // nil: keys are commands
	said    string  // about the last request
	failed  bool
}

// prompt asks for text, or for y.
type prompt struct {
	label string
	text  string
	yes   bool // one key answers it
	done  func(text string) tea.Cmd
}

type (
	seenMsg []top.Seen
	tickMsg struct{}
	saidMsg struct {
		said string
		err  error
	}
)

// Init polls for the first time.
func (m *model) Init() tea.Cmd { return m.poll }

func (m *model) poll() tea.Msg { return seenMsg(m.options.Poll(m.ctx)) }

// Update obeys a message.
func (m *model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.width, m.height = msg.Width, msg.Height
	case seenMsg:
		m.frame = top.Of(m.seen, msg)
		m.seen = msg
		return m, tea.Tick(m.options.Interval, func(time.Time) tea.Msg { return tickMsg{} })
	case tickMsg:
		return m, m.poll
	case saidMsg:
		m.said, m.failed = msg.said, msg.err != nil
		if msg.err != nil {
			m.said = msg.err.Error()
		}
		return m, nil
	case tea.KeyPressMsg:
		if msg.String() == "ctrl+l" {
			return m, tea.ClearScreen
		}
		if m.prompt != nil {
			return m, m.answer(msg)
		}
		return m, m.key(msg.String())
	}
	return m, nil
}

// key obeys a key.
func (m *model) key(key string) tea.Cmd {
	m.said = ""
	switch key {
	case "q", "ctrl+c":
		return tea.Quit
	case "esc", "left":
		m.details, m.scroll = false, 0
	case "enter", "right":
		m.details, m.scroll = true, 0
	case "up", "k":
		m.move(-1)
	case "down", "j":
		m.move(1)
	case "pgup":
		m.move(-m.body() / 2)
	case "pgdown", "space":
		m.move(m.body() / 2)
	case "home", "g":
		m.move(-1 << 20)
	case "end", "G":
		m.move(1 << 20)
	case "s":
		i := slices.Index(top.Sorts, m.view.Sort)
		m.view.Sort = top.Sorts[(max(i, 0)+1)%len(top.Sorts)]
	case "/":
		m.prompt = &prompt{label: "filter: ", text: m.view.Filter, done: func(text string) tea.Cmd {
			m.view.Filter = text
			return nil
		}}
	case "p":
		return m.do(Request{What: "pause", Key: m.cursor})
	case "r":
		return m.do(Request{What: "resume", Key: m.cursor})
	case "d":
		m.ask(Request{What: "drain", Key: m.cursor})
	case "l":
		m.limit()
	}
	return nil
}

// ask asks before it drains, since only a reload starts the pipeline again.
func (m *model) ask(r Request) {
	if r.Key.Pipeline == "" {
		return
	}
	m.prompt = &prompt{label: r.What + " " + r.Key.Pipeline + "? (y) ", yes: true, done: func(text string) tea.Cmd {
		if text != "y" {
			return nil
		}
		return m.do(r)
	}}
}

// limit asks for the new value of the selected limit.
func (m *model) limit() {
	key := m.cursor
	if key.Kind != "limit" {
		m.said, m.failed = "select a limit first", true
		return
	}
	m.prompt = &prompt{label: "limit " + key.Name + " to messages/time: ", done: func(text string) tea.Cmd {
		return m.do(Request{What: "limit", Key: key, Rate: text})
	}}
}

func (m *model) do(r Request) tea.Cmd {
	if r.Key.Pipeline == "" {
		return nil
	}
	return func() tea.Msg {
		said, err := m.options.Do(m.ctx, r)
		return saidMsg{said, err}
	}
}

// answer obeys a key while a prompt asks.
func (m *model) answer(msg tea.KeyPressMsg) tea.Cmd {
	p := m.prompt
	switch key := msg.String(); {
	case key == "ctrl+c":
		return tea.Quit
	case key == "esc":
		m.prompt = nil
	case key == "enter":
		m.prompt = nil
		return p.done(p.text)
	case p.yes:
		m.prompt = nil
		return p.done(key)
	case key == "backspace":
		if all := []rune(p.text); len(all) > 0 {
			p.text = string(all[:len(all)-1])
		}
	default:
		if len(p.text) < 200 {
			p.text += msg.Key().Text
		}
	}
	return nil
}

// body is how many lines are between the title and the help.
func (m *model) body() int { return max(1, m.height-2) }

// lines returns what the body shows, before it is scrolled.
func (m *model) lines() []top.Line {
	if m.details {
		return m.frame.Detail(m.cursor, m.width)
	}
	return m.frame.Lines(m.view, m.width)
}

// move moves the cursor by lines that can be selected, or scrolls details.
func (m *model) move(by int) {
	if m.details {
		m.scroll = min(max(0, m.scroll+by), max(0, len(m.lines())-m.body()))
		return
	}
	var keys []top.Key
	for _, l := range m.lines() {
		if l.Key != (top.Key{}) {
			keys = append(keys, l.Key)
		}
	}
	if len(keys) == 0 {
		return
	}
	at := slices.Index(keys, m.cursor)
	m.cursor = keys[min(max(0, at+by), len(keys)-1)]
}

// View draws the screen.
func (m *model) View() tea.View {
	v := tea.NewView(m.draw())
	v.AltScreen = true
	return v
}

func (m *model) draw() string {
	if m.width <= 0 || m.height <= 0 || m.frame.Processes == nil {
		return "asking…"
	}
	lines := m.lines()
	if !m.details {
		m.follow(lines)
	}
	var b strings.Builder
	title := fmt.Sprintf("flowd top  %s  sorted by %s", m.frame.At.UTC().Format("15:04:05 UTC"), orFlow(m.view.Sort))
	if m.view.Filter != "" {
		title += "  filter " + m.view.Filter
	}
	b.WriteString(m.paint(top.Line{Text: top.Fit(title, m.width), Style: top.Dim}, false) + "\n")
	from := min(m.scroll, max(0, len(lines)-1))
	for i := range m.body() {
		if from+i < len(lines) {
			l := lines[from+i]
			b.WriteString(m.paint(l, !m.details && l.Key != (top.Key{}) && l.Key == m.cursor))
		}
		b.WriteByte('\n')
	}
	b.WriteString(m.foot())
	return b.String()
}

func orFlow(sort string) string {
	if sort == "" {
		return top.Sorts[0]
	}
	return sort
}

// follow scrolls to the cursor, which is on the first line if its own is gone.
func (m *model) follow(lines []top.Line) {
	at := slices.IndexFunc(lines, func(l top.Line) bool { return l.Key != (top.Key{}) && l.Key == m.cursor })
	if at < 0 {
		at = slices.IndexFunc(lines, func(l top.Line) bool { return l.Key != (top.Key{}) })
		if at < 0 {
			m.scroll = 0
			return
		}
		m.cursor = lines[at].Key
	}
	m.scroll = min(m.scroll, at-1) // the line above shows what the first one belongs to
	m.scroll = max(m.scroll, at-m.body()+1, 0)
}

// foot is the last line: a prompt, what a request has said, or the keys.
func (m *model) foot() string {
	switch {
	case m.prompt != nil:
		return top.Fit(m.prompt.label+m.prompt.text+"█", m.width)
	case m.said != "":
		style := top.Plain
		if m.failed {
			style = top.Failure
		}
		return m.paint(top.Line{Text: top.Fit(m.said, m.width), Style: style}, false)
	case m.details:
		return m.paint(top.Line{Text: top.Fit("esc back  up/down scroll  p pause  r resume  d drain  q quit", m.width), Style: top.Dim}, false)
	}
	return m.paint(top.Line{Text: top.Fit("enter details  s sort  / filter  p pause  r resume  d drain  l limit  q quit", m.width),
		Style: top.Dim}, false)
}

// The control sequences of styles.
var sequences = map[top.Style]string{top.Bold: "1", top.Dim: "2", top.Warning: "33", top.Failure: "31"}

// paint adds colours to a line. Its text contains no control sequences.
func (m *model) paint(l top.Line, selected bool) string {
	code := sequences[l.Style]
	if !m.options.Color && l.Style > top.Dim {
		code = ""
	}
	if selected {
		code = strings.TrimPrefix(code+";7", ";")
	}
	if code == "" {
		return l.Text
	}
	return "\x1b[" + code + "m" + l.Text + "\x1b[0m"
}
