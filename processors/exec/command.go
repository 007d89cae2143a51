package exec

import (
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/flowd-io/flowd/schema"
)

// command is a program and its arguments.
type command []string

// ConfigFiles returns the program, if it is given by a path.
func (c Config) ConfigFiles() []string {
	if len(c.Command) == 0 || !strings.Contains(c.Command[0], "/") {
		return nil
	}
	if filepath.IsAbs(c.Command[0]) {
		return c.Command[:1]
	}
	return []string{filepath.Join(c.Dir, c.Command[0])}
}

// UnmarshalConfig decodes a list, or a text of words.
func (c *command) UnmarshalConfig(d *schema.Decoder, n *schema.Node) {
	switch n.Kind {
	case schema.ListNode:
		d.Decode(n, (*[]string)(c))
	case schema.MapNode:
		d.Report(n, schema.Problem{Code: schema.WrongKind, Message: "expected a command, got " + n.Kind.String(),
			Remedy: "write [program, argument, …]"})
		return
	default:
		text, ok := d.Text(n)
		if !ok {
			return
		}
		var message string
		if *c, message = split(text); message != "" {
			d.Report(n, schema.Problem{Code: schema.BadValue, Message: message,
				Remedy: "write [program, argument, …], or [sh, -c, '…'] for a shell"})
			return
		}
	}
	if len(*c) == 0 {
		d.Report(n, schema.Problem{Code: schema.BadValue, Message: "must not be empty",
			Remedy: "write [program, argument, …]"})
	}
}

// DescribeConfig describes a text or a list.
func (c *command) DescribeConfig() *schema.Type {
	return schema.AnyOf("text or list of text", "", []string(nil))
}

// shell are words that only a shell understands.
var shell = []string{"|", "||", "&", "&&", ";", "<", ">", ">>", "2>", "2>&1"}

// split splits a text at blanks outside quotes. Nothing else has a special meaning. message says what is not
// possible.
func split(text string) (all []string, message string) {
	for text = strings.TrimLeft(text, " \t\r\n"); text != ""; text = strings.TrimLeft(text, " \t\r\n") {
		var word strings.Builder
		quoted := false
		for text != "" && !strings.ContainsRune(" \t\r\n", rune(text[0])) {
			quote := text[0]
			if quote != '\'' && quote != '"' {
				word.WriteByte(quote)
				text = text[1:]
				continue
			}
			inner, rest, closed := strings.Cut(text[1:], string(quote))
			if !closed {
				return nil, "the quote " + string(quote) + " is not closed"
			}
			word.WriteString(inner)
			text, quoted = rest, true
		}
		if !quoted && slices.Contains(shell, word.String()) {
			return nil, "there is no shell to interpret " + strconv.Quote(word.String())
		}
		all = append(all, word.String())
	}
	return all, ""
}
