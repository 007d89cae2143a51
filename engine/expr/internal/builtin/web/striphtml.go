package web

import (
	"bytes"
	"strings"
	"sync"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"

	"github.com/flowd-io/flowd/engine/expr/internal/lang"
)

// blocks are the elements of HTML that begin and end a line.
var blocks = sync.OnceValue(func() map[atom.Atom]bool {
	all := map[atom.Atom]bool{}
	for _, a := range []atom.Atom{
		atom.Address, atom.Article, atom.Aside, atom.Blockquote, atom.Br, atom.Caption, atom.Dd, atom.Details, atom.Div,
		atom.Dl, atom.Dt, atom.Fieldset, atom.Figcaption, atom.Figure, atom.Footer, atom.Form, atom.H1, atom.H2, atom.H3,
		atom.H4, atom.H5, atom.H6, atom.Header, atom.Hr, atom.Legend, atom.Li, atom.Main, atom.Nav, atom.Ol, atom.Option,
		atom.P, atom.Pre, atom.Section, atom.Summary, atom.Table, atom.Td, atom.Th, atom.Title, atom.Tr, atom.Ul,
	} {
		all[a] = true
	}
	return all
})

// attributeSize is how many bytes the tokenizer takes at most for the position of an attribute.
const attributeSize = 72

func stripHTML(f *lang.Frame, s *lang.Site, args []any) any {
	text := args[0].(string)
	f.Step(s.Offset, len(text)>>3)
	attributes := 0
	for i := range len(text) {
		if strings.IndexByte("\t\n\f\r /\"'", text[i]) >= 0 { // each attribute follows one of these
			attributes++
		}
	}
	f.CheckRoom(s.Offset, 4*len(text)+attributes*attributeSize)
	out := make([]byte, 0, len(text))
	hidden := false
	for z := html.NewTokenizer(strings.NewReader(text)); ; {
		kind := z.Next()
		switch kind {
		case html.ErrorToken: // the end
			return string(bytes.TrimSpace(out))
		case html.TextToken:
			if !hidden {
				out = append(out, z.Text()...)
			}
		case html.StartTagToken, html.SelfClosingTagToken, html.EndTagToken:
			name, _ := z.TagName()
			tag := atom.Lookup(name)
			hidden = kind != html.EndTagToken && (tag == atom.Script || tag == atom.Style)
			if blocks()[tag] {
				out = append(bytes.TrimRight(out, " \t\r\n"), '\n')
			}
		}
	}
}
