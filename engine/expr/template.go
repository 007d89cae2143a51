package expr

import (
	"github.com/flowd-io/flowd/engine/expr/internal/codetext"
	"github.com/flowd-io/flowd/engine/expr/internal/lang"
	"github.com/flowd-io/flowd/schema"
)

// Template is text with $(expr) parts, and a config field. The zero Template is unset. It is safe for concurrent use.
type Template struct{ t *lang.Template }

// CompileTemplate compiles a template; scopes are those of scoped functions. The error is an *Error.
func CompileTemplate(src string, scopes ...string) (Template, error) {
	t, errs := lang.ParseTemplate([]schema.Piece{{Text: src}}, &codetext.Origin{Text: src}, scopes)
	if len(errs) > 0 {
		return Template{}, errs[0]
	}
	return Template{t}, nil
}

// MustTemplate is CompileTemplate for tests and constants.
func MustTemplate(src string, scopes ...string) Template {
	return must(CompileTemplate(src, scopes...))
}

// IsZero says whether the field was left out.
func (t *Template) IsZero() bool { return t.t == nil }

// String is the source as written, with placeholders in place of their values.
func (t Template) String() string { return t.t.Source() }

// Place is where the template is in a configuration; zero when a program compiled it.
func (t *Template) Place() schema.Place { return t.t.Place() }

// Calls are the calls of registered functions in the template.
func (t *Template) Calls() (all Calls) {
	for _, p := range t.t.Programs() {
		all = append(all, p.Calls()...)
	}
	return all
}

// Const is the text of a template without expressions.
func (t *Template) Const() (string, bool) { return t.t.Const() }

// Prefix is the literal text before the first expression.
func (t *Template) Prefix() string { return t.t.Prefix() }

// Literal is the text outside of the expressions.
func (t *Template) Literal() string { return t.t.Literal() }

// Text is the text for a message; a part that is nil is an error, an *Error.
func (t *Template) Text(s Source) (string, error) { return t.t.Text(s) }

// Append is Text without the allocation. On an error dst is returned as it was.
func (t *Template) Append(dst []byte, s Source) ([]byte, error) { return t.t.Append(dst, s) }
