package expr

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/flowd-io/flowd/engine/expr/internal/codetext"
	"github.com/flowd-io/flowd/engine/expr/internal/hints"
	"github.com/flowd-io/flowd/engine/expr/internal/lang"
	"github.com/flowd-io/flowd/engine/expr/internal/memo"
	"github.com/flowd-io/flowd/schema"
)

// Translator translates Bloblang for the remedies of problems. Each function reports whether all of the code has a counterpart.
// A decoder's shared value of this type is in force: see [schema.Shared].
type Translator struct {
	Steps    func(mapping string) (steps []string, ok bool) // each as an item of a list of steps
	Query    func(query string) (code string, ok bool)
	Template func(text string) (template string, ok bool) // a text with ${! … }
}

// guide is the remedy for what has no translation.
const guide = "flowd docs migrate shows what is written how; flowd migrate benthos FILE translates whole configurations"

// Foreign explains code that is not valid because it is written in the language of another system: what is wrong at a byte of the
// code, and what to write instead. ok is false if the code does not look like another language.
func (t *Translator) Foreign(code string, scopes ...string) (problem, remedy string, at int, ok bool) {
	return t.explain(code, hints.InYAML, scopes)
}

// explain is Foreign with a function that quotes an expression for its place.
func (t *Translator) explain(code string, quoted func(code string) string, scopes []string) (problem, remedy string, at int, ok bool) {
	l := &hints.Language{
		Functions: lang.Names(scopes), Predicate: lang.TakesPredicate, Canonical: lang.Canonical,
		Compiles: func(code string) bool { return compiles(code, scopes) },
	}
	if len(code) > lang.MaxSource {
		return "", "", 0, false
	}
	begin := len(code) - len(strings.TrimLeft(code, " \n"))
	if hints.IsBloblang(code) {
		const problem = "this is a mapping in Bloblang; an expression only computes a value"
		if t.Steps != nil {
			if steps, ok := t.Steps(code); ok {
				return problem, writeSteps(steps), begin, true
			}
		}
		return problem, guide, begin, true
	}
	if len(code) > maxForeign {
		return "", "", 0, false
	}
	if hints.IsVRL(code) {
		const problem = "this is VRL, Vector's language; an expression only computes a value"
		if steps := hints.FromVRL(code, l); steps != nil {
			return problem, writeSteps(steps), begin, true
		}
		return problem, "write `set: {FIELD: value}`; flowd docs migrate shows what is written how", begin, true
	}
	if problem, remedy, at, ok := joined(code, quoted, scopes); ok {
		return problem, remedy, at, true
	}
	found, ok := hints.Foreign(code, l)
	if t.Query != nil && likeBloblang().MatchString(code) && (found.Code == "" || ofBloblang().MatchString(code)) {
		if query, whole := t.Query(code); whole && compiles(query, scopes) {
			return "this is Bloblang", "write " + quoted(query), begin, true
		}
	}
	switch {
	case !ok:
		return "", "", 0, false
	case found.Code != "":
		remedy = "write " + quoted(found.Code) + orNow(found.Code)
		if m := atName().FindStringSubmatch(found.Code); m != nil && !strings.Contains(code, "%{") {
			remedy += fmt.Sprintf(` for a field, meta("%s") for metadata`, m[1])
		}
		return found.Problem, remedy, found.Offset, true
	}
	return found.Problem, found.Remedy, found.Offset, true
}

// ofBloblang matches the names of its two documents.
var ofBloblang = memo.Regexp(`\b(?:this|root)\.`)

// atName matches a field whose name begins with @: such a name is metadata in Bloblang.
var atName = memo.Regexp(`this\["@(\w+)"\]`)

// likeBloblang matches what may be a query of Bloblang.
var likeBloblang = memo.Regexp(`\.[a-z_]\w*\(|->|\bmatch\b|\b(?:deleted|content|json|batch_index)\(`)

// maxForeign bounds code in which idioms of other languages are looked for, in bytes: that takes time with the square of its length.
const maxForeign = 2 << 10

// maxShown bounds steps in a remedy, in bytes.
const maxShown = 400

func writeSteps(steps []string) string {
	text := "`- " + strings.Join(steps, "`, `- ") + "`"
	switch {
	case len(steps) == 0:
		return "remove this step: it changes nothing"
	case len(text) > maxShown:
		return guide
	case len(steps) == 1:
		return "write the step " + text
	}
	return "write the steps " + text
}

// foreign replaces the error of code that is written in the language of another system.
func foreign(d *schema.Decoder, n *schema.Node, err error) error {
	e, ok := err.(*Error)
	if !ok {
		return err
	}
	problem, remedy, at, ok := schema.Shared[Translator](d).explain(n.Text, func(code string) string { return inPlace(n, code) }, scopesOf(d))
	if !ok {
		return err
	}
	better := *e
	better.Msg, better.Remedy, better.Offset = problem, remedy, at
	return &better
}

// interpolated reports Benthos's ${! … }, which otherwise is a placeholder with an odd name.
func interpolated(d *schema.Decoder, n *schema.Node, template bool) bool {
	at := interpolation(n.Text)
	if at < 0 || n.Kind == schema.ListNode || n.Kind == schema.MapNode {
		return false
	}
	t, remedy := schema.Shared[Translator](d), "write $( ) with an expression in place of ${! }"
	if !template {
		remedy = "write the expression by itself"
	}
	if t.Template != nil {
		text, ok := t.Template(n.Text)
		compiled, err := CompileTemplate(text, scopesOf(d)...)
		switch {
		case !ok || err != nil:
		case template:
			remedy = "write " + inPlace(n, text)
		default:
			if code := inCode(compiled.t); compiles(code, scopesOf(d)) {
				remedy = "write " + inPlace(n, code)
			}
		}
	}
	d.Report(n, schema.Problem{Code: problemCode, Message: "${! } belongs to Benthos", Remedy: remedy, Caret: n.At(at)})
	return true
}

// interpolation is where a text has a ${! that is not escaped, or -1.
func interpolation(text string) int {
	for from := 0; ; {
		i := strings.Index(text[from:], "${!")
		if i < 0 {
			return -1
		}
		if at := from + i; at == 0 || text[at-1] != '$' {
			return at
		}
		from += i + 1
	}
}

// inCode is the expression for a text in which another language puts values: within quotes they become terms of a sum.
func inCode(t *lang.Template) string {
	if strings.ContainsAny(t.Literal(), "\"'`") {
		return t.AsJSON()
	}
	return t.AsText()
}

// Code is an expression with values put into it, not text, if it has one of these outside of quotes.
var (
	operator  = memo.Regexp("[\"'`]|[=!<>]=|=~|&&|\\|\\|| [+*<>?] |\\w\\(")
	onlyWords = memo.Regexp(`^[()\s\d.]*(?:\b(?:and|or|not|in|contains|startsWith|endsWith|matches)\b[()\s\d.]*)+$`)
)

// joined explains a text with the placeholders of another system, or with $( ), in place of an expression: it says how to join the
// text and the values. ok is false if the code around the placeholders is an expression.
func joined(code string, quoted func(code string) string, scopes []string) (problem, remedy string, at int, ok bool) {
	at = strings.Index(code, "$(")
	problem = hints.Template
	for sign, belongs := range map[string]string{"{{": hints.Mustache, "%{": hints.Logstash} {
		if i := strings.Index(code, sign); i >= 0 && (at < 0 || i < at) && likeTemplate(code) {
			at, problem = i, belongs
		}
	}
	if at < 0 {
		return "", "", 0, false
	}
	text := strings.TrimRight(ours(code), "\n")
	t, errs := lang.ParseTemplate([]schema.Piece{{Text: text}}, &codetext.Origin{Text: text}, scopes)
	if len(errs) > 0 || len(t.Programs()) == 0 || operator().MatchString(t.Literal()) {
		return "", "", 0, false
	}
	sum := inCode(t)
	if !compiles(sum, scopes) {
		return "", "", 0, false
	}
	remedy = "write " + quoted(sum) + orNow(sum)
	if onlyWords().MatchString(t.Literal()) {
		remedy = fmt.Sprintf("write %s for a condition, %s for text", quoted(t.AsCode()), quoted(sum))
	}
	return problem, remedy, at, true
}

// orNow says in a remedy which time its code writes, if this is the time of the event.
func orNow(code string) string {
	if strings.Contains(code, "("+hints.LogstashTime) || strings.Contains(code, "("+hints.VectorTime) {
		return "; now() in place of parse_time(…) is the present time"
	}
	return ""
}

// inPlace is an expression or template as the value of a node, in the quotes that the node has: it is right whether it replaces
// them or only what is between them.
func inPlace(n *schema.Node, text string) string {
	switch plain := hints.InYAML(text); {
	case n.Style == schema.Literal || n.Style == schema.Folded:
		return text
	case plain == text || n.Style != schema.DoubleQuoted || strings.Contains(text, `\`):
		return plain
	case !strings.Contains(text, `"`):
		return `"` + text + `"`
	case strings.Contains(text, "'") || strings.Contains(n.Text, `"`):
		return plain
	}
	return `"` + strings.ReplaceAll(text, `"`, "'") + `"`
}

// Literal text of a template that other systems replace, and the number of the group that is a name.
var (
	mustache = memo.Regexp(`\{\{-?\s*([\w.$@]+(?:\s*\|\s*\w+)*)\s*-?\}\}`)
	logstash = memo.Regexp(`%\{(\+[^{}]*|\[[^{}]*\]|[\w.@-]+)\}`)
	dated    = memo.Regexp(`%[YmdHMSj](?:[^%$(){}]{0,3}%[YmdHMSj])*`) // asked only where there is a %Y
)

// checkLiteral reports text in a template that other systems replace and flowd does not, and a template that is an expression. It
// returns false if it reports an error.
func checkLiteral(d *schema.Decoder, n *schema.Node, t *lang.Template) bool {
	text := t.Blanked()
	for _, in := range []struct {
		sign    string // which is looked for first, as patterns are compiled for mistakes only
		pattern func() *regexp.Regexp
		problem string
		warning bool
	}{
		{"{{", mustache, hints.Mustache + ": here it is plain text", forPeople(d, n)},
		{"%{", logstash, hints.Logstash + ": here it is plain text", forPeople(d, n)},
		{"%Y", dated, "this is plain text: nothing replaces it by the time", true},
	} {
		if !strings.Contains(text, in.sign) {
			continue
		}
		m := in.pattern().FindStringIndex(text)
		if m == nil {
			continue
		}
		fixed := ours(n.Text)
		p := schema.Problem{Code: problemCode, Message: in.problem, Warning: in.warning, Caret: n.At(m[0]),
			Remedy: "write " + inPlace(n, fixed) + orNow(fixed)}
		if _, err := CompileTemplate(fixed, scopesOf(d)...); err != nil {
			p.Remedy = "write $( ) around an expression"
		}
		d.Report(n, p)
		return in.warning
	}
	if text == n.Text && strings.ContainsAny(text, `"'(`) && looksLikeCode(text) && compiles(text, scopesOf(d)) {
		d.Report(n, schema.Problem{Code: problemCode, Warning: true, Caret: n.At(0),
			Message: "this is text as it stands: only $( ) is an expression",
			Remedy:  "write " + hints.InYAML("$("+text+")") + " for its value"})
	}
	return true
}

// forPeople reports whether the field is text for people, in which anything may stand.
func forPeople(d *schema.Decoder, n *schema.Node) bool {
	path := d.Place(n).Path
	return strings.HasSuffix(path, ".fail") || strings.HasSuffix(path, ".log") || strings.HasSuffix(path, ".log.message")
}

// likeTemplate reports whether another system would put values into a text.
func likeTemplate(text string) bool {
	return strings.Contains(text, "{{") && mustache().MatchString(text) || strings.Contains(text, "%{") && logstash().MatchString(text)
}

var (
	callAlone = memo.Regexp(`^[a-z]\w*\(.*\)$`)
	sumOfText = memo.Regexp(`^\s*["'].*\+|\+\s*["']|["']\s*\+`)
)

// looksLikeCode says whether a text may be meant as an expression: a call, or texts in quotes that are joined.
func looksLikeCode(text string) bool {
	return callAlone().MatchString(text) || sumOfText().MatchString(text)
}

// ours is a template of another system as one of flowd.
func ours(text string) string {
	if strings.Contains(text, "%Y") {
		text = dated().ReplaceAllStringFunc(text, func(layout string) string {
			return `$(format_time(` + hints.VectorTime + `, ` + codetext.Quote(layout) + `))`
		})
	}
	of := func(pattern func() *regexp.Regexp) {
		text = pattern().ReplaceAllStringFunc(text, func(match string) string {
			l := &hints.Language{Compiles: func(string) bool { return true }, Predicate: lang.TakesPredicate, Canonical: lang.Canonical}
			found, _ := hints.Foreign(match, l)
			return "$(" + strings.TrimPrefix(found.Code, ".") + ")"
		})
	}
	of(mustache)
	of(logstash)
	return text
}

// warnConstant warns of a text that other systems would fill in with fields.
func warnConstant(d *schema.Decoder, n *schema.Node, p *lang.Program) {
	if !p.Const || strings.Contains(n.Text, "${") || !strings.Contains(n.Text, "$(") && !strings.Contains(n.Text, "{{") {
		return
	}
	text, ok := p.ConstantText()
	if !ok {
		return
	}
	t, errs := lang.ParseTemplate([]schema.Piece{{Text: ours(text)}}, &codetext.Origin{Text: ours(text)}, scopesOf(d))
	if len(errs) > 0 || !slices.ContainsFunc(t.Programs(), (*lang.Program).ReadsDocument) {
		return
	}
	d.Report(n, schema.Problem{Code: problemCode, Warning: true, Caret: n.At(0),
		Message: "a text in quotes is not a template: it is kept as it is",
		Remedy:  "join texts and fields with +: " + hints.InYAML(t.AsText())})
}
