package expr

import (
	"slices"
	"strings"

	"github.com/flowd-io/flowd/engine/expr/internal/codetext"
	"github.com/flowd-io/flowd/engine/expr/internal/hints"
	"github.com/flowd-io/flowd/engine/expr/internal/lang"
	"github.com/flowd-io/flowd/engine/expr/internal/memo"
	"github.com/flowd-io/flowd/schema"
)

// Body is an expression for a payload: text as it is, anything else as JSON. As a config field it refuses a template, and says
// which expression to write instead.
type Body struct{ Expr }

var _ schema.Unmarshaler = (*Body)(nil)

// UnmarshalConfig is that of Expr.
func (b *Body) UnmarshalConfig(d *schema.Decoder, n *schema.Node) {
	*b = Body{}
	if n.Kind == schema.TextNode {
		if at := strings.Index(n.Text, "$("); at >= 0 {
			d.Report(n, schema.Problem{Code: problemCode, Caret: n.At(at),
				Message: "this is an expression, not a template", Remedy: untemplated(n.Text, scopesOf(d))})
			return
		}
		if likeTemplate(n.Text) && !compiles(n.Text, scopesOf(d)) {
			d.Report(n, schema.Problem{Code: problemCode, Caret: n.At(0),
				Message: "this is an expression, not a template", Remedy: untemplated(ours(n.Text), scopesOf(d))})
			return
		}
		if prose(n.Text, scopesOf(d)) {
			d.Report(n, schema.Problem{Code: problemCode, Caret: n.At(0),
				Message: "this is an expression, and text in it must be in quotes",
				Remedy:  "write " + inYAML(codetext.Quote(n.Text))})
			return
		}
	}
	b.p = decode(d, n)
}

// AppendBody is that of Expr. It also fails if the document does not fit: see [Expr.Fits].
func (b *Body) AppendBody(dst []byte, s Source) ([]byte, error) {
	if err := b.Fits(s); err != nil {
		return dst, err
	}
	return b.Expr.AppendBody(dst, s)
}

// untemplated is the remedy for a template: the expression that gives the same text.
func untemplated(text string, scopes []string) string {
	t, errs := lang.ParseTemplate([]schema.Piece{{Text: text}}, &codetext.Origin{Text: text}, scopes)
	if len(errs) > 0 {
		return `write text in quotes, and fields without $( ): '"Hello " + string(name)'`
	}
	start := strings.TrimLeft(text, " \t\r\n")
	if strings.HasPrefix(start, "{") || strings.HasPrefix(start, "[") {
		if code := strings.TrimSpace(strings.ReplaceAll(t.AsJSON(), "\n", " ")); compiles(code, scopes) {
			return "write " + inYAML(code)
		}
	}
	return "write " + inYAML(t.AsText())
}

func compiles(code string, scopes []string) bool {
	_, err := Compile(code, scopes...)
	return err == nil
}

var plainWords = memo.Regexp(`^(?:<.*>|[\pL\pN][\pL\pN\s.,!?:;'’-]*)$`)

// prose says whether text is plain words, not an expression.
func prose(text string, scopes []string) bool {
	text = strings.TrimSpace(text)
	if compiles(text, scopes) || !plainWords().MatchString(text) {
		return false
	}
	words := strings.Fields(text)
	return (len(words) > 1 || strings.ContainsAny(text, "<!?")) &&
		!slices.ContainsFunc(words, func(w string) bool { return slices.Contains(hints.Reserved, w) })
}

// inYAML is code as a YAML value that is valid anywhere.
func inYAML(code string) string { return "'" + strings.ReplaceAll(code, "'", "''") + "'" }
