package codec

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"unicode/utf8"

	"gopkg.in/yaml.v3"

	"github.com/flowd-io/flowd/engine/doc"
)

// YAML reads and writes one YAML document, and keeps the order of keys.
type YAML struct{}

// Decode decodes the document. Dates stay text, aliases are expanded.
func (c *YAML) Decode(dst, payload []byte) ([]byte, error) {
	return c.DecodeWithin(dst, payload, MaxSize)
}

// Working returns the memory for a tree of nodes: at most two of 140 bytes for each separator.
func (c *YAML) Working(payload []byte) int {
	n := 1
	for _, separator := range []byte(",:[{\n") {
		n += bytes.Count(payload, []byte{separator})
	}
	return 280*n + len(payload)
}

// DecodeWithin is like Decode.
func (c *YAML) DecodeWithin(dst, payload []byte, limit int) ([]byte, error) {
	r := yaml.NewDecoder(bytes.NewReader(payload))
	var root, more yaml.Node
	switch err := r.Decode(&root); {
	case errors.Is(err, io.EOF):
		return dst, errors.New("yaml: the payload is empty")
	case err != nil:
		return dst, yamlError(err)
	}
	if err := r.Decode(&more); !errors.Is(err, io.EOF) {
		return dst, errors.New("yaml: there is more than one document")
	}
	// Aliases let a few bytes expand to very many. A document without them hardly grows.
	most := min(1<<20+16*len(payload), MaxSize)
	w := yamlReader{dst: dst, limit: len(dst) + min(most, limit)}
	switch err := w.value(&root, 0); {
	case errors.Is(err, errTooLarge) && limit < most:
		return dst, ErrLimit
	case err != nil:
		return dst, yamlError(err)
	}
	return w.dst, nil
}

// yamlError gives errors of both sides the same form.
func yamlError(err error) error {
	return errors.New("yaml: " + strings.TrimPrefix(err.Error(), "yaml: "))
}

// Crowded returns the place of the mark that exceeds most in YAML text, or -1. Each value, key and comment line needs
// a mark of its own, so this bounds the parser's tree before it exists: a tree takes hundreds of bytes for two bytes
// of text. Marks in quotes and comments count, too. A directive counts as many marks, since the parser compares it
// with all before it.
func Crowded(text string, most int) int {
	const directive = 1000
	for i := range len(text) {
		weight := 1
		switch text[i] {
		case '-', '?':
			if i+1 < len(text) && text[i+1] > ' ' {
				continue
			}
		case '%':
			if i > 0 && text[i-1] >= ' ' && text[i-1] < utf8.RuneSelf { // not at the beginning of a line
				continue
			}
			weight = directive
		case ',', ':', '[', '{', '\n', '\r':
		default:
			continue
		}
		if most -= weight; most < 0 {
			return i
		}
	}
	return -1
}

type yamlReader struct {
	dst   []byte
	limit int
}

func (w *yamlReader) value(n *yaml.Node, depth int) error {
	switch {
	case depth > MaxDepth:
		return errTooDeep
	case len(w.dst) > w.limit:
		return errTooLarge
	}
	switch n.Kind {
	case yaml.DocumentNode:
		return w.value(n.Content[0], depth)
	case yaml.AliasNode:
		return w.value(n.Alias, depth+1)
	case yaml.SequenceNode:
		w.dst = append(w.dst, '[')
		for i, item := range n.Content {
			if i > 0 {
				w.dst = append(w.dst, ',')
			}
			if err := w.value(item, depth+1); err != nil {
				return err
			}
		}
		w.dst = append(w.dst, ']')
		return nil
	case yaml.MappingNode:
		return w.mapping(n, depth)
	}
	return w.scalar(n)
}

func (w *yamlReader) mapping(n *yaml.Node, depth int) error {
	w.dst = append(w.dst, '{')
	seen := make(map[string]bool, len(n.Content)/2)
	for i := 0; i < len(n.Content); i += 2 {
		k := n.Content[i]
		if k.Kind == yaml.AliasNode {
			k = k.Alias
		}
		switch {
		case k.Kind != yaml.ScalarNode:
			return fmt.Errorf("line %d: a key is a list or mapping", k.Line)
		case k.ShortTag() == "!!merge":
			return fmt.Errorf("line %d: merge keys are not supported", k.Line)
		case seen[k.Value]:
			return fmt.Errorf("line %d: key %.80q appears twice", k.Line, k.Value)
		}
		seen[k.Value] = true
		if i > 0 {
			w.dst = append(w.dst, ',')
		}
		var err error
		if w.dst, err = appendText(w.dst, k.Value); err != nil {
			return fmt.Errorf("line %d: a key %w", k.Line, err)
		}
		w.dst = append(w.dst, ':')
		if err := w.value(n.Content[i+1], depth+1); err != nil {
			return err
		}
	}
	w.dst = append(w.dst, '}')
	return nil
}

func (w *yamlReader) scalar(n *yaml.Node) (err error) {
	switch n.ShortTag() {
	case "!!null":
		w.dst = append(w.dst, "null"...)
		return nil
	case "!!bool", "!!int", "!!float":
		return w.plain(n)
	}
	if w.dst, err = appendText(w.dst, n.Value); err != nil {
		return fmt.Errorf("line %d: text %w", n.Line, err)
	}
	return nil
}

// plain writes a number or bool, with its spelling if JSON allows it.
func (w *yamlReader) plain(n *yaml.Node) error {
	if isNumber(n.Value) {
		w.dst = append(w.dst, n.Value...)
		return nil
	}
	var v any
	if err := n.Decode(&v); err != nil {
		return err
	}
	if f, ok := v.(float64); ok && (math.IsInf(f, 0) || math.IsNaN(f) || f == 0 && !doc.SpellsZero(n.Value)) {
		return fmt.Errorf("line %d: %s is not a JSON number", n.Line, n.Value)
	}
	out, err := doc.Append(w.dst, v)
	if err != nil {
		return fmt.Errorf("line %d: %w", n.Line, err)
	}
	w.dst = out
	return nil
}

// Encode writes the value as one YAML document.
func (c *YAML) Encode(dst, json []byte) ([]byte, error) {
	b := bytes.NewBuffer(dst)
	w := yaml.NewEncoder(b)
	w.SetIndent(2)
	if err := w.Encode(yamlNode(json)); err != nil {
		return dst, yamlError(err)
	}
	if err := w.Close(); err != nil {
		return dst, yamlError(err)
	}
	return b.Bytes(), nil
}

// yamlNode converts a valid JSON value to a node, with keys in order.
func yamlNode(json []byte) *yaml.Node {
	switch json[0] {
	case '{':
		n := &yaml.Node{Kind: yaml.MappingNode}
		at := map[string]int{}
		for key, value := range doc.Members(json) {
			if i, twice := at[key]; twice { // of duplicate keys the last counts
				n.Content[i] = yamlNode(value)
				continue
			}
			at[key] = len(n.Content) + 1
			n.Content = append(n.Content, yamlText(key), yamlNode(value))
		}
		return n
	case '[':
		n := &yaml.Node{Kind: yaml.SequenceNode}
		for element := range doc.Elements(json) {
			n.Content = append(n.Content, yamlNode(element))
		}
		return n
	case '"':
		return yamlText(text(json))
	}
	return &yaml.Node{Kind: yaml.ScalarNode, Value: string(json)}
}

func yamlText(s string) *yaml.Node {
	return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: s}
}
