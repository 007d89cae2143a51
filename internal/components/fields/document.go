package fields

import (
	"fmt"
	"math/big"
	"strconv"
	"strings"

	"github.com/flowd-io/flowd/engine/doc"
	"github.com/flowd-io/flowd/schema"
)

// Document is any value, written in YAML or JSON, as the text of JSON. It keeps the order of keys, and the spelling of
// numbers if JSON has it. A value of a placeholder is text.
type Document []byte

// UnmarshalConfig decodes any value.
func (v *Document) UnmarshalConfig(d *schema.Decoder, n *schema.Node) {
	w := jsonWriter{d: d, ok: true}
	w.value(n)
	if w.ok {
		*v = w.out
	}
}

// DescribeConfig describes any value.
func (*Document) DescribeConfig() *schema.Type {
	return schema.AnyOf("JSON value", (*schema.Node)(nil))
}

// jsonWriter writes nodes as JSON.
type jsonWriter struct {
	d   *schema.Decoder
	out []byte
	ok  bool
}

func (w *jsonWriter) value(n *schema.Node) {
	switch n.Kind {
	case schema.NullNode:
		w.out = append(w.out, "null"...)
	case schema.MapNode:
		w.out = append(w.out, '{')
		for i, key := range n.Keys {
			if i > 0 {
				w.out = append(w.out, ',')
			}
			w.text(key.Text)
			w.out = append(w.out, ':')
			w.value(n.Items[i])
		}
		w.out = append(w.out, '}')
	case schema.ListNode:
		w.out = append(w.out, '[')
		for i, item := range n.Items {
			if i > 0 {
				w.out = append(w.out, ',')
			}
			w.value(item)
		}
		w.out = append(w.out, ']')
	default:
		w.scalar(n)
	}
}

func (w *jsonWriter) scalar(n *schema.Node) {
	text, ok := w.d.Text(n)
	if !ok {
		w.ok = false
		return
	}
	switch n.Kind {
	case schema.BoolNode:
		w.out = strconv.AppendBool(w.out, strings.EqualFold(text, "true"))
	case schema.IntNode, schema.FloatNode:
		number := jsonNumber(text)
		if number == "" {
			w.ok = false
			w.d.Report(n, schema.Problem{Code: schema.BadValue, Message: fmt.Sprintf("%s is not a JSON number", text),
				Remedy: "put it into quotes if it is text"})
		}
		w.out = append(w.out, number...)
	default:
		w.text(text)
	}
}

func (w *jsonWriter) text(s string) {
	w.out, _ = doc.Append(w.out, s) // a string is always valid JSON
}

// jsonNumber spells a YAML number as JSON does. It returns "" for infinity and NaN.
func jsonNumber(text string) string {
	text = strings.TrimPrefix(text, "+")
	digits := strings.TrimPrefix(text, "-")
	sign := text[:len(text)-len(digits)]
	switch {
	case strings.HasPrefix(digits, "0x"), strings.HasPrefix(digits, "0o"):
		n, ok := new(big.Int).SetString(digits, 0)
		if !ok {
			return ""
		}
		return sign + n.String()
	case strings.HasPrefix(digits, "."):
		digits = "0" + digits
	}
	whole, fraction := digits, ""
	if i := strings.IndexAny(digits, ".eE"); i >= 0 {
		whole, fraction = digits[:i], digits[i:]
	}
	if whole = strings.TrimLeft(whole, "0"); whole == "" {
		whole = "0"
	}
	if fraction == "." {
		fraction = ""
	}
	fraction = strings.Replace(strings.Replace(fraction, ".e", "e", 1), ".E", "E", 1)
	var d doc.Doc
	d.Reset([]byte(sign+whole+fraction), nil)
	if d.Valid() != nil {
		return ""
	}
	return sign + whole + fraction
}
