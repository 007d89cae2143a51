package expr

import (
	"fmt"
	"strings"

	"github.com/flowd-io/flowd/engine/expr/internal/codetext"
	"github.com/flowd-io/flowd/engine/expr/internal/lang"
	"github.com/flowd-io/flowd/engine/expr/internal/memo"
	"github.com/flowd-io/flowd/schema"
)

// trap says that YAML read an expression as something else.
type trap struct{ problem, remedy string }

// trapOf finds expressions that YAML read as something else. A value can be empty only in a list or mapping: an empty field counts
// as left out.
func trapOf(n *schema.Node) *trap {
	switch {
	case n.Kind == schema.NullNode && n.Text == "":
		return &trap{"there is no expression here", "write nil to set nothing"}
	case n.Kind == schema.NullNode:
		return &trap{fmt.Sprintf("YAML reads %s as no value", n.Text), "write nil"}
	case n.Tag == "!!timestamp":
		return &trap{
			fmt.Sprintf("YAML reads %s as a date", n.Text),
			fmt.Sprintf("write '%s' for a time, '%s' for text", `parse_time("`+n.Text+`")`, `"`+n.Text+`"`),
		}
	case strings.HasPrefix(n.Tag, "!!") && n.Tag != "!!str":
		return &trap{fmt.Sprintf("the tag %s has no meaning here", n.Tag), "write " + n.Text}
	case n.Tag != "" && n.Tag != "!!str":
		return &trap{
			fmt.Sprintf("YAML reads %s as a tag", n.Tag),
			"write " + strings.TrimRight(strings.ReplaceAll("not "+n.Tag[1:]+" "+n.Text, "  ", " "), " "),
		}
	case n.Kind == schema.MapNode && len(n.Keys) == 1 && n.Items[0].Kind == schema.TextNode && wrappers[n.Keys[0].Text]:
		return &trap{"expected an expression, got a mapping", "write " + n.Items[0].Text}
	case n.Kind == schema.ListNode && len(n.Items) == 1 && n.Items[0].Kind == schema.TextNode:
		return &trap{"expected an expression, got a list", fmt.Sprintf("write %s, or '[%[1]s]' for a list", n.Items[0].Text)}
	case n.Kind == schema.ListNode || n.Kind == schema.MapNode:
		return &trap{
			fmt.Sprintf("expected an expression, got %s", n.Kind),
			fmt.Sprintf("quote it: '%s'", strings.ReplaceAll(flow(n, 0), "'", "''")),
		}
	case n.Style != schema.SingleQuoted && n.Style != schema.DoubleQuoted:
		return nil
	case n.Text == "true" || n.Text == "false" || n.Text == "nil" || codetext.LastWord(n.Text) != n.Text || n.Text == "" ||
		n.Text[0] == '$': // a $ does not begin a field
		return nil
	}
	return &trap{
		fmt.Sprintf("quoted for YAML, this still reads the field %s", n.Text),
		fmt.Sprintf(`write %s without quotes for the field, '"%s"' for text`, n.Text, n.Text),
	}
}

// wrappers are keys of other systems around a condition or value.
var wrappers = map[string]bool{"condition": true, "expression": true, "expr": true, "query": true, "check": true, "source": true,
	"code": true, "if": true, "when": true, "match": true}

// warnTail warns of a comment that may be meant as a part of the value: it has no blank after its #.
func warnTail(d *schema.Decoder, n *schema.Node) {
	if n.Style != schema.Plain || len(n.Tail) < 2 || strings.ContainsAny(n.Tail[1:2], " \t#") {
		return
	}
	d.Report(n, schema.Problem{
		Code: problemCode, Warning: true, Caret: n.At(len(n.Text)),
		Message: fmt.Sprintf("YAML takes %s for a comment", n.Tail),
		Remedy:  "if it belongs to the value, put the whole value into quotes; otherwise write a blank after the #",
	})
}

// flow is a list or mapping as the expression that may have been meant.
func flow(n *schema.Node, depth int) string {
	var items []string
	for i, item := range n.Items {
		if depth > 3 || i > 7 {
			items = append(items, "…")
			break
		}
		text := flow(item, depth+1)
		if i < len(n.Keys) {
			text = flow(n.Keys[i], depth+1) + ": " + text
		}
		items = append(items, text)
	}
	switch n.Kind {
	case schema.ListNode:
		return "[" + strings.Join(items, ", ") + "]"
	case schema.MapNode:
		return "{" + strings.Join(items, ", ") + "}"
	case schema.NullNode:
		return "nil"
	}
	if n.Style == schema.SingleQuoted || n.Style == schema.DoubleQuoted {
		return codetext.Quote(n.Text)
	}
	return n.Text
}

// swallowed finds a // comment that swallows the code on the following lines, because YAML joins the lines.
func swallowed(n *schema.Node, code string, o *codetext.Origin) error {
	if n.Style == schema.Literal {
		return nil
	}
	var s codetext.Scanner
	for i := range len(code) {
		if s.Next(code[i]); s.Slash != '/' {
			continue
		}
		at := o.At(i - 1)
		end := max(at, len(strings.TrimRight(n.Text, " \n"))-1)
		if n.Style != schema.Folded && n.At(at).Line == n.At(end).Line {
			return nil
		}
		return lang.ErrorAt(o, i-1, "YAML joins these lines, so this comment swallows the code after it",
			"write the text with | in place of >")
	}
	return nil
}

// tailed adds a hint to the error of code that ends too early: YAML may have cut it off at a blank and a #.
func tailed(n *schema.Node, err error) error {
	e, ok := err.(*Error)
	if !ok || n.Tail == "" || n.Style != schema.Plain || !early(e) {
		return err
	}
	code := n.Text + " " + n.Tail
	if text := hashWord().ReplaceAllString(code, `"$0"`); !compiles(code, nil) && compiles(text, nil) {
		code = text // #fff is a text
	}
	full := strings.ReplaceAll(code, "'", "''")
	cut := *e
	cut.Msg = fmt.Sprintf("%s; YAML takes what follows a blank and # for a comment", e.Msg)
	cut.Remedy = fmt.Sprintf("quote it: '%s'", full)
	return &cut
}

var hashWord = memo.Regexp(`#[\w-]+`)

// early says whether a cut can be the cause of an error: it is at the end of the code, or at an open bracket, quote or $(.
func early(e *Error) bool {
	return e.Offset >= len(strings.TrimRight(e.Expr, " \t")) ||
		strings.Contains(e.Msg, "clos") || strings.Contains(e.Msg, "has no )")
}
