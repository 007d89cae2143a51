package registry

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"github.com/flowd-io/flowd/engine/doc"
	"github.com/flowd-io/flowd/schema"
)

// Source is a config field with a schema in JSON, as text or YAML, or the name of its file. The zero Source is unset.
type Source struct {
	File string
	Text string // in place of the file
}

// IsZero reports whether the field is unset.
func (s Source) IsZero() bool { return s == Source{} }

// Name returns the file name, or words for an inline schema.
func (s Source) Name() string {
	if s.File != "" {
		return s.File
	}
	return "the schema"
}

// UnmarshalConfig decodes a schema, or the name of its file.
func (s *Source) UnmarshalConfig(d *schema.Decoder, n *schema.Node) {
	if n.Kind == schema.MapNode || n.Kind == schema.ListNode {
		s.Text = string(appendNode(nil, d, n))
		return
	}
	text, ok := d.Text(n)
	switch inner := strings.TrimSpace(text); {
	case !ok:
	case inner == "":
		d.Report(n, schema.Problem{Code: schema.BadValue, Message: "the file's name is empty",
			Remedy: "write the name of a file, or the schema itself"})
	case strings.ContainsAny(inner[:1], `{["`):
		s.Text = inner
	default:
		s.File = text
	}
}

// DescribeConfig describes any mapping or list, or a file's name.
func (s *Source) DescribeConfig() *schema.Type {
	return schema.AnyOf("schema or PATH", "", map[string]*schema.Node(nil), []*schema.Node(nil))
}

// appendNode appends a node as JSON, with keys in order.
func appendNode(dst []byte, d *schema.Decoder, n *schema.Node) []byte {
	switch n.Kind {
	case schema.MapNode:
		dst = append(dst, '{')
		for i, key := range n.Keys {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = append(doc.AppendString(dst, key.Text), ':')
			dst = appendNode(dst, d, n.Items[i])
		}
		return append(dst, '}')
	case schema.ListNode:
		dst = append(dst, '[')
		for i, item := range n.Items {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = appendNode(dst, d, item)
		}
		return append(dst, ']')
	case schema.NullNode:
		return append(dst, "null"...)
	}
	text, _ := d.Text(n)
	if n.Kind == schema.BoolNode || n.Kind == schema.IntNode || n.Kind == schema.FloatNode {
		var v doc.Doc
		if v.Reset([]byte(strings.ToLower(text)), nil); v.Valid() == nil {
			return append(dst, strings.ToLower(text)...)
		}
	}
	return doc.AppendString(dst, text)
}

// Read returns the text of the schema.
func (s Source) Read() (string, error) {
	if s.File == "" {
		return s.Text, nil
	}
	text, err := ReadFile(s.File)
	return string(text), err
}

// ReadFile reads a schema file, which is part of the configuration.
func ReadFile(name string) ([]byte, error) {
	return ReadFrom(os.Stat, func(name string) (fs.File, error) { return os.Open(name) }, name) // #nosec G304 -- the configuration names it
}

// ReadFrom is ReadFile for other file systems, such as an [os.Root].
func ReadFrom(stat func(string) (fs.FileInfo, error), open func(string) (fs.File, error), name string) ([]byte, error) {
	info, err := stat(name)
	if place, ok := errors.AsType[*fs.PathError](err); ok {
		err = place.Err
	}
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s: %w", name, err)
	case !info.Mode().IsRegular(): // a pipe may never end
		return nil, fmt.Errorf("%s is not a file", name)
	case info.Size() > maxSchema:
		return nil, fmt.Errorf("%s is larger than %d MiB", name, maxSchema>>20)
	}
	f, err := open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, maxSchema))
}
