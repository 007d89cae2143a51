package schema

import (
	"strings"
	"unicode"
)

// Problem is one problem of a configuration: its place and path, what is wrong, and what to do.
type Problem struct {
	Pos     Pos    `json:"pos"`
	Path    string `json:"path,omitempty"` // "inputs.orders.rabbitmq"
	Code    string `json:"code"`           // stable: "unknown-field"
	Message string `json:"message"`
	Remedy  string `json:"remedy,omitempty"`
	Warning bool   `json:"warning,omitempty"`
	Excerpt string `json:"excerpt,omitempty"` // the source line
	Caret   Pos    `json:"-"`                 // under the excerpt; zero: no excerpt is shown
}

// String formats the problem on one line: file:line:col: path: problem (remedy) [code].
func (p Problem) String() string {
	var b strings.Builder
	if place := p.Pos.String(); place != "" {
		b.WriteString(place + ": ")
	}
	if p.Path != "" {
		b.WriteString(p.Path + ": ")
	}
	if p.Warning {
		b.WriteString("warning: ")
	}
	b.WriteString(p.Message)
	if p.Remedy != "" {
		b.WriteString(" (" + p.Remedy + ")")
	}
	b.WriteString(" [" + p.Code + "]")
	return b.String()
}

// Render formats the problem for a terminal: its line and, if an excerpt is known, the source line with a caret
// beneath. There is no final newline.
func (p Problem) Render() string {
	if p.Excerpt == "" || p.Caret.Col < 1 {
		return p.String()
	}
	line, before := window([]rune(strings.TrimRight(p.Excerpt, "\r\n")), p.Caret.Col-1)
	const indent = "\n    "
	return p.String() + indent + string(line) + indent + blank(line[:before]) + "^"
}

// widest is how many characters of a source line are shown.
const widest = 120

// window cuts a long line to the part around the character at caret, and makes it safe for a terminal.
func window(line []rune, caret int) (shown []rune, at int) {
	caret = min(caret, len(line))
	from, to := 0, len(line)
	if len(line) > widest {
		from = max(0, min(caret-widest/2, len(line)-widest))
		to = from + widest
	}
	if from > 0 {
		shown = append(shown, '…')
	}
	at = len(shown) + caret - from
	for _, r := range line[from:to] {
		if r != '\t' && !unicode.IsPrint(r) && !unicode.Is(unicode.Mn, r) {
			r = unicode.ReplacementChar
		}
		shown = append(shown, r)
	}
	if to < len(line) {
		shown = append(shown, '…')
	}
	return shown, at
}

// blank returns white space as wide as text. Tabs stay tabs, so that the caret is right for any tab width.
func blank(text []rune) string {
	var b strings.Builder
	for _, r := range text {
		switch {
		case r == '\t':
			b.WriteByte('\t')
		case unicode.Is(unicode.Mn, r): // combines with the character before it
		case unicode.Is(wide, r):
			b.WriteString("  ")
		default:
			b.WriteByte(' ')
		}
	}
	return b.String()
}

// wide are the characters that take two columns of a terminal.
var wide = &unicode.RangeTable{
	R16: []unicode.Range16{
		{Lo: 0x1100, Hi: 0x115f, Stride: 1},
		{Lo: 0x2e80, Hi: 0xa4cf, Stride: 1},
		{Lo: 0xac00, Hi: 0xd7a3, Stride: 1},
		{Lo: 0xf900, Hi: 0xfaff, Stride: 1},
		{Lo: 0xfe30, Hi: 0xfe6f, Stride: 1},
		{Lo: 0xff00, Hi: 0xff60, Stride: 1},
		{Lo: 0xffe0, Hi: 0xffe6, Stride: 1},
	},
	R32: []unicode.Range32{
		{Lo: 0x1f300, Hi: 0x1faff, Stride: 1},
		{Lo: 0x20000, Hi: 0x3fffd, Stride: 1},
	},
}
