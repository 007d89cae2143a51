package expr

import (
	"strings"

	"github.com/flowd-io/flowd/engine/expr/internal/codetext"
	"github.com/flowd-io/flowd/engine/expr/internal/lang"
	"github.com/flowd-io/flowd/schema"
)

// inForce is the text and the pieces of a scalar with the values of ${param.…} in their places. A parameter that is code becomes
// an operand of its own, another one a literal. Errors show this text, and still point into the file.
func inForce(n *schema.Node, pieces []schema.Piece, template bool) (*schema.Node, []schema.Piece, error) {
	s := splicer{source: n, template: template, alone: len(pieces) == 1}
	for _, p := range pieces {
		if strings.HasPrefix(p.Source, "${param.") {
			s.params = true
		}
	}
	if !s.params {
		return n, pieces, nil
	}
	for i, p := range pieces {
		if err := s.add(p, i+1 < len(pieces) && !pieces[i+1].Placeholder && begins(pieces[i+1].Text)); err != nil {
			return n, nil, err
		}
	}
	shown := *n
	shown.Text, shown.Offset = string(s.text), s.place
	return &shown, s.pieces, nil
}

// splicer puts the values of parameters into their places.
type splicer struct {
	source   *schema.Node
	template bool // only what is in $( ) is code
	params   bool // there are parameters
	alone    bool // the text is one placeholder and nothing else

	text   []byte
	pieces []schema.Piece
	spots  []codetext.Run // where text is from; Run.Code is an offset in text
	scan   codetext.Scanner
	inCode bool // within $( ) of a template
}

// place is where a byte of the text is in the file.
func (s *splicer) place(i int) schema.Pos {
	o := codetext.Origin{Text: s.source.Text, Runs: s.spots}
	return s.source.At(o.At(i))
}

// add adds a piece. then says whether the following piece would form one word with it.
func (s *splicer) add(p schema.Piece, then bool) error {
	s.spots = append(s.spots, codetext.Run{Code: len(s.text), Text: p.Offset, Value: p.Placeholder})
	code := s.inCode || !s.template
	between := code && !s.scan.Plain()
	switch {
	case !p.Placeholder:
		s.put(p, p.Text)
		s.follow(p.Text)
	case !strings.HasPrefix(p.Source, "${param."):
		s.put(p, p.Source)
	case p.CodeOnly && (!code || between):
		remedy := "an expression stands outside of quotes: join texts with +"
		if !code {
			remedy = "write $(" + p.Source + ")"
		}
		return &Error{Expr: s.source.Text, Offset: p.Offset, Remedy: remedy,
			Msg: p.Source + " is an expression, which would be text here"}
	case p.Code == nil || !code || between:
		p.Code = nil
		s.put(p, s.reads(p, code))
	default:
		s.code(p, then, s.alone)
		s.scan.Last = 'a'
	}
	return nil
}

// code adds a parameter that is code. It was compiled by itself, so it must not mix with the code around it.
func (s *splicer) code(p schema.Piece, then, alone bool) {
	if !p.CodeOnly { // a path
		if ends(s.text) {
			s.literal(" ")
		}
		s.literal(p.Text)
		if then {
			s.literal(" ")
		}
		return
	}
	if !alone {
		s.literal("(")
		defer s.literal(")")
	}
	for i, part := range p.Code {
		switch {
		case len(s.text) > lang.MaxSource: // too long, which is reported later
			return
		case !part.Placeholder:
			s.literal(part.Text)
			for k := range len(part.Text) {
				s.scan.Next(part.Text[k])
			}
		case part.Code != nil:
			s.code(part, i+1 < len(p.Code) && begins(p.Code[i+1].Text), false)
		case strings.HasPrefix(part.Source, "${param.") && !part.Secret:
			s.put(part, s.reads(part, true))
		default:
			s.put(part, part.Source)
		}
	}
	if !alone && strings.Contains(p.Text, "//") { // a comment in it must end there
		s.literal("\n")
		s.scan.Next('\n')
	}
}

func (s *splicer) literal(code string) { s.put(schema.Piece{Text: code}, code) }

func (s *splicer) put(p schema.Piece, shown string) {
	p.Offset = len(s.text)
	s.pieces = append(s.pieces, p)
	s.text = append(s.text, shown...)
}

// reads is the text of a value in its place.
func (s *splicer) reads(p schema.Piece, code bool) string {
	switch {
	case p.Secret:
		return p.Source
	case !code:
		return strings.ReplaceAll(p.Text, "$(", "$$(")
	case s.scan.Quote != 0:
		return string(codetext.AppendEscaped(nil, p.Text, s.scan.Quote))
	case p.Quoted:
		return codetext.Quote(p.Text)
	}
	return codetext.Literal(p.Text)
}

// follow keeps track of quotes, comments and the code of a template in literal text.
func (s *splicer) follow(text string) {
	for i := 0; i < len(text); i++ {
		switch rest := text[i:]; {
		case !s.template || s.inCode && (rest[0] != ')' || s.scan.Depth > 0 || !s.scan.Plain()):
			s.scan.Next(rest[0])
		case s.inCode:
			s.inCode = false
		case strings.HasPrefix(rest, "$$("):
			i += 2
		case strings.HasPrefix(rest, "$("):
			s.inCode, s.scan = true, codetext.Scanner{}
			i++
		}
	}
}

// ends says whether code ends with a word or a value, which would form one word with a following one.
func ends(code []byte) bool {
	if len(code) == 0 {
		return false
	}
	c := code[len(code)-1]
	return begins(string(c)) || c == ')' || c == ']' || c == '"' || c == '\'' || c == '`'
}

// begins says whether code begins with a letter, a digit or a quote.
func begins(code string) bool {
	if code == "" {
		return false
	}
	c := code[0]
	return c == '_' || c == '$' || c >= '0' && c <= '9' || c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z' || c >= 0x80 ||
		c == '"' || c == '\'' || c == '`'
}

// codeOf is the text of a field and its pieces, with the values of parameters in their places. ok is false if a placeholder can't
// be resolved or must not be there, which is reported.
func codeOf(d *schema.Decoder, n *schema.Node, template bool) (*schema.Node, []schema.Piece, bool) {
	if n.Kind == schema.ListNode || n.Kind == schema.MapNode {
		d.Text(n) // which reports the mistake
		return n, nil, false
	}
	pieces, ok := d.Code(n)
	if !ok {
		return n, nil, false
	}
	shown, pieces, err := inForce(n, pieces, template)
	if err != nil {
		report(d, n, err, false)
		return n, nil, false
	}
	if shown != n {
		d.ShowAs(n, shown.Text)
	}
	return shown, pieces, true
}

// originOf is the origin of code that was read from n. Errors show it as another node.
func originOf(d *schema.Decoder, n, shown *schema.Node, runs []codetext.Run) *codetext.Origin {
	o := &codetext.Origin{Text: shown.Text, Place: d.Place(n), Decoder: d, Runs: runs}
	o.Place.Node = shown
	return o
}
