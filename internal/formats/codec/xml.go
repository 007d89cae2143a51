package codec

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/flowd-io/flowd/engine/doc"
)

// XML reads and writes one XML element: {"order": {"-id": "7", "#text": "…"}}. An attribute is a key with a -. Text
// next to attributes or elements is #text. Elements with the same name are a list. An element that contains only text
// is text.
type XML struct {
	Numbers bool `yaml:"numbers" doc:"Decoding turns text that is a JSON number into a number."`

	unicode bool // documents are UTF-8, whatever they declare
}

// element is an element while it is read.
type element struct {
	name     string
	attrs    []xml.Attr
	children []*element
	text     strings.Builder
	from, to int // bounds of the text without layout
}

const blanks = " \t\r\n"

// add adds text. source is its spelling. Blanks at the ends are layout unless they are CDATA or character references.
func (e *element) add(text, source []byte) {
	lead, trail := 0, 0
	if !bytes.HasPrefix(source, []byte("<![CDATA[")) {
		inner := bytes.TrimLeft(source, blanks)
		lead = length(source[:len(source)-len(inner)])
		trail = length(inner[len(bytes.TrimRight(inner, blanks)):])
	}
	if lead+trail < len(text) {
		if e.to == 0 {
			e.from = e.text.Len() + lead
		}
		e.to = e.text.Len() + len(text) - trail
	}
	e.text.Write(text)
}

// length returns the length of blanks after normalization: a line end is one byte.
func length(blanks []byte) int { return len(blanks) - bytes.Count(blanks, []byte("\r\n")) }

// Decode decodes to an object with the root element as its only field. Namespaces, comments and processing
// instructions are left out. Entities that a document defines are rejected.
func (c *XML) Decode(dst, payload []byte) ([]byte, error) {
	root, err := c.parse(payload)
	if err != nil {
		return dst, xmlError(err)
	}
	o := newObject(dst, c.Numbers)
	if err := o.addRaw(root.name, ""); err != nil {
		return dst, xmlError(err)
	}
	if o.dst, err = c.element(o.dst, root); err != nil {
		return dst, xmlError(err)
	}
	return o.end(), nil
}

// Working returns the memory for the text and a tree of elements and attributes.
func (c *XML) Working(payload []byte) int {
	elements := bytes.Count(payload, []byte("<")) - bytes.Count(payload, []byte("</"))
	return 260*elements + 180*bytes.Count(payload, []byte("=")) + 7*len(payload)
}

// DecodeWithin is like Decode: the result is hardly longer than the input.
func (c *XML) DecodeWithin(dst, payload []byte, _ int) ([]byte, error) { return c.Decode(dst, payload) }

func xmlError(err error) error {
	if s, ok := errors.AsType[*xml.SyntaxError](err); ok {
		return fmt.Errorf("xml: line %d: %s", s.Line, s.Msg)
	}
	if errors.Is(err, io.EOF) {
		return errors.New("xml: there is no element")
	}
	return fmt.Errorf("xml: %w", err)
}

// Unicode returns a codec for documents that are UTF-8 because they were part of JSON, whatever encoding they
// declare.
func (c *XML) Unicode() *XML { return &XML{Numbers: c.Numbers, unicode: true} }

func (c *XML) parse(payload []byte) (*element, error) {
	if !c.unicode {
		var err error
		if payload, err = unicodeXML(payload); err != nil {
			return nil, err
		}
	}
	return parseXML(bytes.TrimPrefix(payload, utf8Mark))
}

// parseXML parses the root element.
func parseXML(payload []byte) (*element, error) {
	r := xml.NewDecoder(bytes.NewReader(payload))
	r.CharsetReader = func(_ string, in io.Reader) (io.Reader, error) { return in, nil } // already converted to UTF-8
	var root element                                                                     // the parent of the root element
	open := []*element{&root}
	for {
		begin := r.InputOffset()
		token, err := r.Token()
		if errors.Is(err, io.EOF) && len(root.children) == 1 {
			return root.children[0], nil
		}
		if err != nil {
			return nil, err
		}
		in := open[len(open)-1]
		switch t := token.(type) {
		case xml.StartElement:
			if len(open) > MaxDepth/2 {
				return nil, errTooDeep
			}
			if in == &root && len(root.children) > 0 {
				return nil, errors.New("there is more than one root element")
			}
			e := &element{name: t.Name.Local, attrs: attributes(t)}
			if twice, ok := duplicate(localNames(e.attrs)); ok {
				return nil, fmt.Errorf("line %d: element %s has two attributes %q, once namespaces are left out "+
					"(rename one before, as with replace())", line(r), e.name, twice)
			}
			in.children = append(in.children, e)
			open = append(open, e)
		case xml.EndElement:
			open = open[:len(open)-1]
		case xml.CharData:
			if in == &root && len(bytes.Trim(t, blanks)) > 0 {
				return nil, fmt.Errorf("line %d: there is text outside of the root element", line(r))
			}
			in.add(t, payload[begin:r.InputOffset()])
		}
	}
}

func (c *XML) element(dst []byte, e *element) ([]byte, error) {
	text := e.text.String()[e.from:e.to]
	if len(e.attrs) == 0 && len(e.children) == 0 {
		if c.Numbers && isNumber(text) {
			return append(dst, text...), nil
		}
		return appendText(dst, text)
	}
	o := newObject(dst, c.Numbers)
	for _, a := range e.attrs {
		if err := o.add("-"+a.Name.Local, a.Value); err != nil {
			return dst, err
		}
	}
	if text != "" {
		if err := o.add("#text", text); err != nil {
			return dst, err
		}
	}
	names, groups := group(e.children)
	for _, name := range names {
		same := groups[name]
		if err := o.addRaw(name, ""); err != nil {
			return dst, err
		}
		if len(same) > 1 {
			o.dst = append(o.dst, '[')
		}
		for i, child := range same {
			if i > 0 {
				o.dst = append(o.dst, ',')
			}
			var err error
			if o.dst, err = c.element(o.dst, child); err != nil {
				return dst, err
			}
		}
		if len(same) > 1 {
			o.dst = append(o.dst, ']')
		}
	}
	return o.end(), nil
}

func line(r *xml.Decoder) int {
	n, _ := r.InputPos()
	return n
}

// attributes returns the attributes of an element, without namespace declarations.
func attributes(t xml.StartElement) []xml.Attr {
	return slices.DeleteFunc(t.Copy().Attr, func(a xml.Attr) bool { return a.Name.Space == "xmlns" })
}

func localNames(attrs []xml.Attr) []string {
	names := make([]string, len(attrs))
	for i, a := range attrs {
		names[i] = a.Name.Local
	}
	return names
}

// group groups elements by name, in order of appearance.
func group(children []*element) (names []string, groups map[string][]*element) {
	groups = make(map[string][]*element, len(children))
	for _, e := range children {
		if groups[e.name] == nil {
			names = append(names, e.name)
		}
		groups[e.name] = append(groups[e.name], e)
	}
	return names, groups
}

// Encode writes an object with one field as a root element with that name.
func (c *XML) Encode(dst, json []byte) ([]byte, error) {
	if json[0] != '{' {
		return dst, fmt.Errorf("xml: %s is not an object with the root element as its only field", kind(json))
	}
	b := bytes.NewBuffer(dst)
	w := xmlWriter{xml.NewEncoder(b), b}
	roots := 0
	for name, value := range doc.Members(json) {
		roots++
		if roots > 1 || value[0] == '[' {
			return dst, errors.New("xml: an element needs one root (put the fields under one with `map`)")
		}
		if err := w.element(name, value); err != nil {
			return dst, xmlError(err)
		}
	}
	if roots == 0 {
		return dst, errors.New("xml: an empty object has no root element")
	}
	if err := w.Close(); err != nil {
		return dst, xmlError(err)
	}
	return b.Bytes(), nil
}

// xmlWriter writes elements into a buffer.
type xmlWriter struct {
	*xml.Encoder
	b *bytes.Buffer
}

// text writes text. Blanks at its ends become character references, so that readers keep them.
func (w xmlWriter) text(s string) error {
	if err := allChars(s); err != nil {
		return err
	}
	rest := strings.TrimLeft(s, blanks)
	inner := strings.TrimRight(rest, blanks)
	return errors.Join(w.numbered(s[:len(s)-len(rest)]), w.EncodeToken(xml.CharData(inner)), w.numbered(rest[len(inner):]))
}

// allChars rejects characters that the encoder would replace.
func allChars(s string) error {
	for _, r := range s {
		if r < ' ' && r != '\t' && r != '\n' && r != '\r' || r == 0xfffe || r == 0xffff {
			return fmt.Errorf("%U is not a character of XML (remove it, or use `encode: base64` for bytes)", r)
		}
	}
	return nil
}

func (w xmlWriter) numbered(blanks string) error {
	if blanks == "" {
		return nil
	}
	if err := w.Flush(); err != nil {
		return err
	}
	for i := range len(blanks) {
		fmt.Fprintf(w.b, "&#%d;", blanks[i])
	}
	return nil
}

// element writes an element, or one for each item of a list.
func (w xmlWriter) element(name string, value []byte) error {
	if !isXMLName(name) {
		return fmt.Errorf("%.80q is not a valid element name", name)
	}
	if value[0] == '[' {
		for item := range doc.Elements(value) {
			if item[0] == '[' {
				return fmt.Errorf("%q is a list of lists, which elements can't express", name)
			}
			if err := w.element(name, item); err != nil {
				return err
			}
		}
		return nil
	}
	start := xml.StartElement{Name: xml.Name{Local: name}}
	if value[0] != '{' {
		return errors.Join(w.EncodeToken(start), w.text(Cell(value)), w.EncodeToken(start.End()))
	}
	for key, v := range doc.Members(value) {
		if local, ok := strings.CutPrefix(key, "-"); ok {
			if !isXMLName(local) {
				return fmt.Errorf("%.80q is not a valid attribute name", local)
			}
			if err := allChars(Cell(v)); err != nil {
				return err
			}
			start.Attr = append(start.Attr, xml.Attr{Name: xml.Name{Local: local}, Value: Cell(v)})
		}
	}
	if twice, ok := duplicate(localNames(start.Attr)); ok {
		return fmt.Errorf("element %q has the attribute %q twice", name, twice)
	}
	if err := w.EncodeToken(start); err != nil {
		return err
	}
	for key, v := range doc.Members(value) {
		var err error
		switch {
		case strings.HasPrefix(key, "-"):
		case key == "#text":
			err = w.text(Cell(v))
		default:
			err = w.element(key, v)
		}
		if err != nil {
			return err
		}
	}
	return w.EncodeToken(start.End())
}

// isXMLName is stricter than XML, so that a key can't inject markup.
func isXMLName(s string) bool {
	for i, r := range s {
		letter := r == '_' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= 0xC0
		if !letter && (i == 0 || r != '-' && r != '.' && (r < '0' || r > '9')) {
			return false
		}
	}
	return s != ""
}
