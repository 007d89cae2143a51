package programs

import (
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/flowd-io/flowd/schema"
)

// Command is a program and its arguments.
type Command []string

// File returns the path of the program, relative to flowd's working directory, or "" if it is looked up in PATH. dir is the
// working directory of the program.
func (c Command) File(dir string) string {
	switch {
	case len(c) == 0 || !strings.Contains(c[0], "/"):
		return ""
	case filepath.IsAbs(c[0]):
		return c[0]
	}
	return filepath.Join(dir, c[0])
}

// UnmarshalConfig decodes a list, or a text of words.
func (c *Command) UnmarshalConfig(d *schema.Decoder, n *schema.Node) {
	const remedy = "write [program, argument, …]"
	switch n.Kind {
	case schema.ListNode:
		if !d.Decode(n, (*[]string)(c)) {
			return
		}
	case schema.MapNode:
		d.Report(n, schema.Problem{Code: schema.WrongKind, Message: "expected a command, got " + n.Kind.String(), Remedy: remedy})
		return
	default:
		text, ok := d.Text(n)
		if !ok {
			return
		}
		var message string
		if *c, message = split(text); message != "" {
			d.Report(n, schema.Problem{Code: schema.BadValue, Message: message, Remedy: remedy + ", or [sh, -c, '…'] for a shell"})
			return
		}
	}
	message := ""
	switch {
	case len(*c) == 0:
		message = "must not be empty"
	case (*c)[0] == "":
		message = "the program has no name"
	case slices.ContainsFunc(*c, func(arg string) bool { return strings.ContainsRune(arg, 0) }):
		d.Report(n, schema.Problem{Code: schema.BadValue, Message: "it contains a NUL byte", Remedy: "remove it"})
		return
	default:
		return
	}
	d.Report(n, schema.Problem{Code: schema.BadValue, Message: message, Remedy: remedy})
}

// DescribeConfig describes a text or a list.
func (c *Command) DescribeConfig() *schema.Type {
	return schema.AnyOf("text or list of text", "", []string(nil))
}

// CheckEnv reports variables of the config field env that are not valid.
func CheckEnv(env schema.Map[schema.Secret], report func(path, message, remedy string)) {
	for name, value := range env.All() {
		if name == "" || strings.ContainsAny(name, "=\x00") || strings.ContainsRune(value.Reveal(), 0) {
			report("env", strconv.Quote(name)+" is not a valid environment variable", "write NAME: value")
		}
	}
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
