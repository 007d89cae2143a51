// Package yamltext contains everything that depends on YAML: it parses pipeline files, says where and why a text is
// not valid YAML, and edits files so that comments stay. Package config calls it, and works with the resulting
// [schema.Node] values. yamltext knows neither pipelines nor plugins. Start at [Parse]. [Salvage] reads what is left
// of a file with mistakes, [Source.Value] parses an override, and [Edit] changes a file.
//
// gopkg.in/yaml.v3 is the only parser. It gives no column for a mistake, and often the wrong line. So diagnose
// searches a rejected text line by line for the usual mistakes. In examples with one wrong character, it explained
// 5,633 of 5,903 texts and named the right line in 4,734. For the others the line is the parser's.
//
// The parser stops at the first mistake, which would hide all later ones. Salvage removes the entry with that mistake
// and tries again, so that lint shows the others, too.
//
// github.com/goccy/go-yaml (1.19.2) names columns, but can't replace yaml.v3. It accepted 713 of 6,063 invalid texts
// (a value that begins with %, a ? inside braces), rejected 265 of 13,834 valid ones, and read 371 differently: it
// loses a tab inside a word, and keeps Windows line breaks in a quoted text of several lines. Its cost grows with the
// square of the depth of brackets: 20,000 of them, 40 KB, take 640 MB. A block of 14 MB takes 1.1 s and 510 MB
// instead of 0.2 s and 107 MB, a list of steps of 800 KB 90 ms instead of 43.
package yamltext

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"gopkg.in/yaml.v3"

	"github.com/flowd-io/flowd/internal/formats/codec"
	"github.com/flowd-io/flowd/schema"
)

// MaxFile is the maximum size of a pipeline file, in bytes.
const MaxFile = 16 << 20

// Parse parses a file. If the text itself has a problem, the root is nil.
func Parse(file string, data []byte) (*schema.Node, []schema.Problem) {
	text := strings.TrimPrefix(string(data), "\ufeff")
	crowded := codec.Crowded(text, maxMarks)
	if crowded >= 0 {
		text = text[:crowded] // the rest is not even indexed
	}
	src := newSource(file, text)
	one := func(off int, p schema.Problem) (*schema.Node, []schema.Problem) {
		return nil, []schema.Problem{src.Problem(off, p)}
	}
	at := func(n *yaml.Node) int { return (&cursor{Source: src}).offset(n.Line, n.Column) }
	if len(data) > MaxFile {
		return one(0, schema.Problem{Code: "file-too-large", Message: fmt.Sprintf("the file is larger than %d MiB",
			MaxFile>>20), Remedy: "check that it is a pipeline file"})
	}
	if off, p, bad := refuse([]byte(text)); bad {
		return one(off, p)
	}
	if crowded >= 0 {
		return one(crowded, tooLarge)
	}
	root, second, err := documents(text)
	switch {
	case err != nil:
		return one(syntaxProblem(src, err))
	case root == nil:
		return one(0, schema.Problem{Code: "empty-file", Message: "the file contains no pipeline",
			Remedy: "begin with `inputs:` and `outputs:`"})
	case second != nil:
		return one(at(second), schema.Problem{Code: "several-documents", Message: "a second document begins here",
			Remedy: "write each pipeline into its own file; -c takes several files and directories"})
	case root.Kind != yaml.MappingNode:
		return one(at(root), schema.Problem{Code: "not-a-pipeline", Message: "a pipeline is a mapping, but this is " +
			kindName(root), Remedy: "begin with `inputs:` and `outputs:`"})
	}
	return convert(src, root)
}

// Value parses the value that begins at byte from of an override. path is for problems. It returns nil if the text is
// not valid YAML.
func (s *Source) Value(from int, path string) (*schema.Node, []schema.Problem) {
	// Blanks in place of the path keep the columns right.
	blanks := utf8.RuneCountInString(s.text[:from])
	src := NewOverride(s.file, strings.Repeat(" ", blanks)+s.text[from:])
	root, second, err := documents(src.text)
	if err == nil && second != nil {
		err = errors.New("yaml: a second document begins in it")
	}
	if err != nil {
		off, p := syntaxProblem(src, err)
		p.Path = path
		p = src.Problem(off, p)
		p.Excerpt = s.text
		return nil, []schema.Problem{p}
	}
	if root == nil {
		root = &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!null", Line: 1, Column: blanks + 1}
	}
	return convert(src, root)
}

// documents returns the content of the first and of the second document in text, or nil if there is none.
func documents(text string) (first, second *yaml.Node, err error) {
	defer func() {
		// The parser is no longer maintained, and panics on some texts that it can't read.
		if r := recover(); r != nil {
			err = fmt.Errorf("yaml: %v", r)
		}
	}()
	dec := yaml.NewDecoder(strings.NewReader(text))
	var docs [2]yaml.Node
	for i := range docs {
		err := dec.Decode(&docs[i])
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, nil, err
		}
	}
	if first = content(&docs[0]); first != nil && first.Kind == yaml.ScalarNode && first.Tag == "!!null" {
		first = nil
	}
	return first, content(&docs[1]), nil
}

func content(doc *yaml.Node) *yaml.Node {
	if len(doc.Content) == 0 {
		return nil
	}
	return doc.Content[0]
}

func kindName(n *yaml.Node) string {
	if n.Kind == yaml.SequenceNode {
		return "a list"
	}
	return "text"
}
