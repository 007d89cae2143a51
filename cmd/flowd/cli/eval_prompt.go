package cli

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/operations/evaluate"
	"github.com/spf13/cobra"
	"golang.org/x/term"
)

const promptHelp = `An expression, such as: status >= 500
:next           the next message of the sample
:message TEXT   this message instead, such as :message {"status": 503}
:show           the message
:help, :quit    (or Ctrl-D)
Tab completes fields and functions; flowd docs NAME explains a function.
`

// dialog is the prompt of `flowd eval`.
type dialog struct {
	evaluation
	messages *evaluate.Messages
	current  *engine.Message
	number   int // of the current message; 0 if the user has typed it
}

// liner reads lines from a user and writes answers.
type liner interface {
	ReadLine() (string, error)
	io.Writer
}

func (e *evaluation) prompt(cmd *cobra.Command, messages *evaluate.Messages) error {
	d := &dialog{evaluation: *e, messages: messages}
	in, out := fileOf(cmd.InOrStdin()), fileOf(cmd.OutOrStdout())
	if os.Getenv("TERM") == "dumb" || out == nil || !isTerminal(out) {
		return d.run(&plainLiner{bufio.NewReader(in), cmd.OutOrStdout()})
	}
	before, err := term.MakeRaw(int(in.Fd()))
	if err != nil {
		return err
	}
	defer func() { _ = term.Restore(int(in.Fd()), before) }() // the terminal is gone otherwise
	t := term.NewTerminal(struct {
		io.Reader
		io.Writer
	}{in, out}, "> ")
	if columns, rows, err := term.GetSize(int(out.Fd())); err == nil && columns > 0 {
		_ = t.SetSize(columns, rows)
	}
	t.AutoCompleteCallback = func(line string, pos int, key rune) (string, int, bool) {
		if key != '\t' {
			return "", 0, false
		}
		return d.complete(t, line, pos)
	}
	return d.run(&terminal{t})
}

// terminal shows control characters in answers as a screen does.
type terminal struct{ *term.Terminal }

// Write writes an answer.
func (t *terminal) Write(p []byte) (int, error) {
	_, err := t.Terminal.Write(shownBytes(nil, p))
	return len(p), err
}

// plainLiner is for terminals without cursor movement.
type plainLiner struct {
	in *bufio.Reader
	io.Writer
}

// ReadLine reads one line. Its last line needs no line feed.
func (l *plainLiner) ReadLine() (string, error) {
	if _, err := io.WriteString(l, "> "); err != nil {
		return "", err
	}
	line, err := l.in.ReadString('\n')
	if line != "" {
		err = nil
	}
	return strings.TrimRight(line, "\r\n"), err
}

func (d *dialog) run(l liner) error {
	if err := d.answer(l, ":next"); err != nil {
		return err
	}
	for {
		line, err := l.ReadLine()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case errors.Is(err, term.ErrPasteIndicator):
		case err != nil:
			return err
		}
		if line = strings.TrimSpace(line); line == ":quit" {
			return nil
		}
		if err := d.answer(l, line); err != nil {
			return err
		}
	}
}

// answer carries out a line. The error is that of the terminal.
func (d *dialog) answer(l io.Writer, line string) (err error) {
	command, rest, _ := strings.Cut(line, " ")
	switch {
	case line == "":
	case command == ":help":
		_, err = io.WriteString(l, promptHelp)
	case command == ":next":
		return d.next(l)
	case command == ":message":
		d.current, d.number = evaluate.New([]byte(rest), evaluate.MetaOf(d.meta)), 0
	case command == ":show":
		_, err = fmt.Fprintln(l, cutValue(d.current.Bytes()))
	case strings.HasPrefix(command, ":"):
		_, err = fmt.Fprintf(l, "there is no command %s (see :help)\n", command)
	default:
		_, err = fmt.Fprintln(l, shownValue(d.current, line, d.template))
	}
	return err
}

// next goes to the next message of the sample.
func (d *dialog) next(l io.Writer) error {
	m, err := d.messages.Next()
	switch {
	case errors.Is(err, io.EOF) && d.current == nil:
		m = evaluate.New([]byte("{}"), evaluate.MetaOf(d.meta))
		_, err = fmt.Fprintln(l, "the sample has no message: this one is {}")
	case errors.Is(err, io.EOF):
		_, err = fmt.Fprintln(l, "the sample has no more messages")
		return err
	case err != nil && d.current != nil:
		_, err = fmt.Fprintln(l, err)
		return err
	case err != nil:
		return err
	}
	d.current, d.number = m, d.number+1
	return err
}

// mostNames bounds the names that a completion lists.
const mostNames = 60

// complete extends the name before the cursor as far as it is certain, or lists what it may be.
func (d *dialog) complete(w io.Writer, line string, pos int) (string, int, bool) {
	names, from := evaluate.Complete(line[:pos], d.current.Bytes())
	more := evaluate.Extend(names)
	if len(names) == 0 {
		return line, pos, true
	}
	if len(names) > 1 && more == line[from:pos] {
		list := strings.Join(names[:min(len(names), mostNames)], "  ")
		if len(names) > mostNames {
			list += fmt.Sprintf("  … %d more", len(names)-mostNames)
		}
		fmt.Fprintln(w, list)
	}
	return line[:from] + more + line[pos:], from + len(more), true
}
