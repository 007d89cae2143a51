package config

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/flowd-io/flowd/internal/codec"
	"github.com/flowd-io/flowd/schema"
)

const maxFile = 16 << 20 // bytes of one pipeline file

// parse turns a file's bytes into nodes. With a problem in the text itself the
// root is nil, for there is nothing to say about the rest.
func parse(file string, data []byte) (*schema.Node, []schema.Problem) {
	text := strings.TrimPrefix(string(data), "\ufeff")
	crowded := codec.Crowded(text, maxMarks)
	if crowded >= 0 {
		text = text[:crowded] // the rest isn't even indexed
	}
	src := newSource(file, text)
	one := func(off int, p schema.Problem) (*schema.Node, []schema.Problem) {
		return nil, []schema.Problem{src.problem(off, p)}
	}
	at := func(n *yaml.Node) int { return (&cursor{source: src}).offset(n.Line, n.Column) }
	if len(data) > maxFile {
		return one(0, schema.Problem{Code: "file-too-large", Message: fmt.Sprintf("the file is larger than %d MiB", maxFile>>20), Remedy: "check that it is a pipeline file"})
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
		return one(0, schema.Problem{Code: "empty-file", Message: "the file contains no pipeline", Remedy: "begin with `inputs:` and `outputs:`"})
	case second != nil:
		return one(at(second), schema.Problem{Code: "several-documents", Message: "a second document begins here", Remedy: "write each pipeline into its own file; -c takes several files and directories"})
	case root.Kind != yaml.MappingNode:
		return one(at(root), schema.Problem{Code: "not-a-pipeline", Message: "a pipeline is a mapping, but this is " + kindName(root), Remedy: "begin with `inputs:` and `outputs:`"})
	}
	return convert(src, root)
}

// documents parses text: its first document's content, nil when there is none,
// and the second's, nil when there is none.
func documents(text string) (first, second *yaml.Node, err error) {
	defer func() {
		// The parser is old and no longer repaired: what makes it panic is text
		// that it can't read.
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
