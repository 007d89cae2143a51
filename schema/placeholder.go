package schema

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// Piece is a part of a scalar's text.
type Piece struct {
	Text        string // literal text, or the placeholder's value
	Offset      int    // in the node's text
	Placeholder bool
	Secret      bool   // from a file or a secrets manager: must be masked in messages
	Source      string // of a placeholder: as written

	// Of a parameter only:
	Quoted   bool    // written as text in quotes: in an expression it stays text, whatever it looks like
	Code     []Piece // the code of an expression; nil: a literal
	CodeOnly bool    // an expression, which is not allowed elsewhere
}

// Text returns a scalar's text with placeholders resolved. For a list or mapping it reports a problem, and ok is
// false.
func (d *Decoder) Text(n *Node) (text string, ok bool) {
	if n.Kind == ListNode || n.Kind == MapNode {
		d.Report(n, Problem{Code: WrongKind, Message: "expected text, got " + n.Kind.String()})
		return "", false
	}
	pieces, ok := d.resolve(n)
	return joined(pieces), ok
}

// Pieces returns the parts of a scalar's text, for a field that must not read the value of a placeholder as its own
// language. Unresolved placeholders are reported and empty.
func (d *Decoder) Pieces(n *Node) []Piece {
	pieces, _ := d.resolve(n)
	return pieces
}

// resolve is Code for a text that can't contain expressions.
func (d *Decoder) resolve(n *Node) (pieces []Piece, ok bool) {
	pieces, ok = d.Code(n)
	for _, p := range pieces {
		if p.CodeOnly {
			r := resolver{d: d, n: n}
			r.complain(p.Offset, BadPlaceholder, p.Source+" is an expression, which has no place here",
				"use it in an expression, or in $( ) of a template; or declare it with `type: value`")
			return pieces, false
		}
	}
	return pieces, ok
}

// Glance is Pieces without reports.
func (d *Decoder) Glance(n *Node) []Piece {
	problems, errors := d.problems, d.errors
	pieces, ok := d.resolve(n)
	if !ok {
		delete(d.resolved, n)
	}
	d.problems, d.errors = problems, errors
	return pieces
}

// Code is Pieces for a field with expressions: parameters may be code. ok is false if something can't be resolved.
// The result is cached per node.
func (d *Decoder) Code(n *Node) (pieces []Piece, ok bool) {
	tagged := strings.HasPrefix(n.Tag, "!") && !slices.Contains(usualTags, n.Tag)
	if !tagged && !strings.Contains(n.Text, "${") {
		return []Piece{{Text: n.Text}}, true
	}
	if known, ok := d.resolved[n]; ok {
		return known.pieces, known.ok
	}
	before := d.errors
	r := resolver{d: d, n: n}
	pieces = r.pieces()
	if tagged {
		d.Report(n, Problem{Code: WrongKind, Message: fmt.Sprintf("YAML reads %s as a tag", n.Tag),
			Remedy: "put the whole value into quotes"})
	}
	d.resolved[n] = resolved{pieces, d.errors == before, d.params}
	return pieces, d.errors == before
}

// usualTags do not change the meaning of a text.
var usualTags = []string{"!!str", "!!int", "!!float", "!!bool", "!!null", "!!timestamp"}

// resolved is a scalar with its placeholders resolved.
type resolved struct {
	pieces []Piece
	ok     bool
	params *Params // in force at that time
}

// resolver parses one scalar's text.
type resolver struct {
	d *Decoder
	n *Node
}

func (r *resolver) pieces() []Piece {
	pieces, text, from, size := []Piece{}, r.n.Text, 0, 0
	literal := func(to int) {
		if from < to {
			pieces = append(pieces, Piece{Text: text[from:to], Offset: from})
		}
	}
	for {
		n := strings.Index(text[from:], "${")
		if n < 0 {
			literal(len(text))
			return pieces
		}
		at := from + n
		if n > 0 && text[at-1] == '$' {
			// An escape is a separate piece, so that an offset into any piece is an offset into the text.
			literal(at - 1)
			pieces = append(pieces, Piece{Text: "${", Offset: at})
			from = at + len("${")
			continue
		}
		literal(at)
		end := closing(text, at)
		if end < 0 {
			r.complain(at, BadPlaceholder, "a placeholder is not closed",
				"write "+closed(text[at:])+", or $${ for a literal ${")
			return pieces
		}
		from = end + 1
		var piece Piece
		if body := text[at+2 : end]; strings.HasPrefix(body, paramPrefix) {
			piece = r.param(body, at)
		} else {
			value, secret := r.value(body, at, 0)
			if secret {
				r.d.secrets.Add(value)
			}
			piece = Piece{Text: value, Offset: at, Placeholder: true, Secret: secret, Source: text[at:from]}
		}
		pieces = append(pieces, piece)
		if size += len(piece.Text); size > maxParam {
			r.complain(at, BadPlaceholder, "the text is longer than 1 MiB with the values of its placeholders",
				"use fewer of them, or shorter values")
			return pieces
		}
		if r.d.replaced += len(piece.Text); r.d.replaced > maxReplaced {
			r.complain(at, BadPlaceholder, fmt.Sprintf("the values of all placeholders are longer than %d MiB",
				maxReplaced>>20), "use fewer of them, or shorter values")
			r.d.replaced = 0 // starts over, or every further placeholder would be reported
			return pieces
		}
	}
}

// maxReplaced bounds the values of all placeholders that one decoder resolves, in bytes. One text is limited by
// maxParam.
const maxReplaced = 64 << 20

// closed adds the missing brace to a placeholder at the beginning of text: after its name or, if it has a default or
// is a file, at the end of the word.
func closed(text string) string {
	end := len("${")
	for end < len(text) && validName(text[len("${"):end+1]) {
		end++
	}
	if rest := text[end:]; strings.HasPrefix(rest, ":-") || strings.HasPrefix(rest, ":?") ||
		strings.HasPrefix(text, "${file:") || Managed(text[len("${"):]) {
		if end = strings.IndexAny(text, " \t\n\"',)]"); end < 0 {
			end = len(text)
		}
	}
	return text[:end] + "}"
}

// nested bounds placeholders in the defaults of placeholders.
const nested = 20

// value returns the value of a placeholder, given without its braces, at offset in the text.
func (r *resolver) value(body string, offset, depth int) (value string, secret bool) {
	if strings.HasPrefix(body, paramPrefix) { // in a default
		p := r.param(body, offset)
		return p.Text, p.Secret
	}
	name, op, arg := split(body)
	if !validName(name) || depth > nested {
		r.complain(offset, BadPlaceholder, fmt.Sprintf("${%s} names nothing", name), otherBraces(name))
		return "", false
	}
	secret = strings.HasPrefix(name, "file:") || Managed(name)
	value, found, err := r.d.lookup(name)
	if op != "" && errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	switch {
	case err != nil:
		why, ok := errors.AsType[*LookupError](err)
		if !ok {
			why = &LookupError{}
		}
		r.complain(offset, cmp.Or(why.Code, UnresolvedPlaceholder), fmt.Sprintf("${%s}: %v", name, err), why.Remedy)
	case found && (value != "" || op == ""):
		return value, secret
	case op == ":-":
		return r.fallback(arg, offset+len("${")+len(body)-len(arg), depth)
	case op == ":?" && arg != "":
		r.complain(offset, UnresolvedPlaceholder, fmt.Sprintf("${%s} is not set: %s", name, arg), "set "+name)
	case secret:
		r.complain(offset, UnresolvedPlaceholder, fmt.Sprintf("${%s} does not exist", name),
			"create the file, or give a default: ${"+name+":-…}")
	default:
		remedy := "set it, or give a default: ${" + name + ":-…}"
		if name != strings.ToUpper(name) {
			remedy += ofMessages(name)
		}
		r.complain(offset, UnresolvedPlaceholder, fmt.Sprintf("${%s} is not set", name), remedy)
	}
	return "", false
}

// ofMessages says how a field of messages is written, whose name is in the place of a variable's.
func ofMessages(name string) string {
	return fmt.Sprintf("; a field of the message is %s in an expression, and $(%[1]s) in a template", name)
}

// otherBraces is the remedy for a placeholder without a valid name.
func otherBraces(name string) string {
	switch {
	case strings.HasPrefix(name, "!"):
		return "${! } belongs to Benthos: a template has $( ) with an expression, and this value is fixed"
	case shellDefault().MatchString(name):
		m := shellDefault().FindStringSubmatch(name)
		return fmt.Sprintf("write ${%s:-%s} for a default", m[1], m[2])
	case fieldPath().MatchString(name):
		return "write ${NAME} for a variable of the environment" + ofMessages(name)
	}
	return "write ${NAME}, ${file:/path}, or $${ for a literal ${"
}

var fieldPath = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^[a-z_]\w*(?:\.[a-z_]\w*|\[["']?[\w.-]+["']?\])+$`)
})

// shellDefault matches defaults as shells and other systems write them: ${NAME-x}, ${NAME:x}, ${NAME:=x}.
var shellDefault = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^([A-Z_][A-Z0-9_]*)(?::=|:|-|=)([^:].*)$`)
})

// fallback resolves a placeholder's default, which may contain placeholders.
func (r *resolver) fallback(text string, offset, depth int) (value string, secret bool) {
	var b strings.Builder
	for i := 0; i < len(text); {
		end := -1
		if strings.HasPrefix(text[i:], "${") {
			end = closing(text, i)
		}
		if end < 0 {
			b.WriteByte(text[i])
			i++
			continue
		}
		inner, hidden := r.value(text[i+2:end], offset+i, depth+1)
		if b.Len()+len(inner) > maxParam {
			r.complain(offset+i, BadPlaceholder, "the default is longer than 1 MiB", "write a shorter one")
			return "", false
		}
		b.WriteString(inner)
		secret = secret || hidden
		i = end + 1
	}
	return b.String(), secret
}

func (r *resolver) complain(offset int, code, message, remedy string) {
	at := r.n.At(offset)
	r.d.Report(r.n, Problem{Code: code, Message: message, Remedy: remedy, Pos: at, Caret: at})
}

// closing returns the index of the brace that closes the ${ at i, or -1.
func closing(text string, i int) int {
	depth := 0
	for ; i < len(text); i++ {
		switch {
		case strings.HasPrefix(text[i:], "${"):
			depth++
			i++
		case text[i] == '}':
			if depth--; depth == 0 {
				return i
			}
		}
	}
	return -1
}

// split splits a placeholder into its name and what applies without a value.
func split(body string) (name, op, arg string) {
	best := len(body)
	for _, o := range []string{":-", ":?"} {
		if i := strings.Index(body, o); i >= 0 && i < best {
			best, op = i, o
		}
	}
	return body[:best], op, body[best+len(op):]
}

func validName(name string) bool {
	if kind, path, ok := strings.Cut(name, ":"); ok && (kind == "file" || Managed(name)) {
		return path != "" && !strings.ContainsAny(path, "\x00\n${")
	}
	for i, r := range name {
		if r != '_' && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z') && (i == 0 || r < '0' || r > '9') {
			return false
		}
	}
	return name != ""
}

// hasPlaceholder reports whether a text has a ${ that is not escaped.
func hasPlaceholder(text string) bool {
	return strings.Contains(strings.ReplaceAll(text, "$${", ""), "${")
}

func joined(pieces []Piece) string {
	if len(pieces) == 1 {
		return pieces[0].Text
	}
	var b strings.Builder
	for _, p := range pieces {
		b.WriteString(p.Text)
	}
	return b.String()
}

func concealed(pieces []Piece) bool {
	return slices.ContainsFunc(pieces, func(p Piece) bool { return p.Secret })
}
