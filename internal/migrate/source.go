package migrate

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"gopkg.in/yaml.v3"
)

// Limits of what is read: with anchors, small files make large trees.
const (
	maxNodes = 200_000
	maxDepth = 200
)

// source is a parsed configuration, without anchors and merge keys.
type source struct {
	root *yaml.Node // a mapping
	env  hidden

	others []*yaml.Node // other files with resources
}

// parse parses a file. Its errors name the place.
func parse(file string, data []byte) (*source, error) {
	if len(data) > 16<<20 {
		return nil, fmt.Errorf("%s: the file is larger than 16 MiB", file)
	}
	var env hidden
	root, err := parseWith(file, data, &env)
	if err != nil {
		return nil, err
	}
	return &source{root: root, env: env}, nil
}

// parseWith parses a file, and adds its placeholders to those of another.
func parseWith(file string, data []byte, env *hidden) (root *yaml.Node, err error) {
	defer func() {
		if r := recover(); r != nil { // the parser panics on some invalid texts
			root, err = nil, fmt.Errorf("%s: this is not YAML: %v", file, r)
		}
	}()
	text := env.hide(strings.TrimPrefix(string(data), "\ufeff"))
	dec := yaml.NewDecoder(strings.NewReader(text))
	var doc, second yaml.Node
	switch err := dec.Decode(&doc); {
	case errors.Is(err, io.EOF):
		return nil, fmt.Errorf("%s: the file contains no configuration", file)
	case err != nil:
		return nil, fmt.Errorf("%s: this is not YAML: %s", file, strings.TrimPrefix(err.Error(), "yaml: "))
	}
	if err := dec.Decode(&second); err == nil {
		return nil, fmt.Errorf("%s:%d:1: a second document begins here (migrate each in a file of its own)", file,
			second.Line)
	}
	if len(doc.Content) == 0 || doc.Content[0].Kind != yaml.MappingNode {
		return nil, fmt.Errorf("%s: a configuration is a mapping with input, pipeline and output", file)
	}
	left := maxNodes
	root, err = expand(doc.Content[0], maxDepth, &left)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	root.HeadComment = join(doc.HeadComment, root.HeadComment)
	root.FootComment = join(root.FootComment, doc.FootComment)
	return root, nil
}

var errTooLarge = errors.New("the configuration, with its anchors, is too large or too deep")

// expand copies a tree with anchors and merge keys resolved. Comments of an anchor stay there.
func expand(n *yaml.Node, depth int, left *int) (*yaml.Node, error) {
	if *left--; *left < 0 || depth < 0 {
		return nil, errTooLarge
	}
	if n.Kind == yaml.AliasNode {
		at, err := expand(n.Alias, depth-1, left)
		if err != nil {
			return nil, err
		}
		at.Line, at.Column = n.Line, n.Column
		strip(at)
		at.HeadComment, at.LineComment, at.FootComment = n.HeadComment, n.LineComment, n.FootComment
		return at, nil
	}
	copied := *n
	copied.Anchor, copied.Content = "", nil
	for i := 0; i < len(n.Content); i++ {
		if n.Kind == yaml.MappingNode && i%2 == 0 && n.Content[i].Tag == "!!merge" {
			merged, err := expand(n.Content[i+1], depth-1, left)
			if err != nil {
				return nil, err
			}
			strip(merged)
			i++
			for _, from := range mergedFrom(merged) {
				for _, p := range pairsOf(from) {
					if own := lookup(n, p.key.Value); own == nil && lookup(&copied, p.key.Value) == nil {
						copied.Content = append(copied.Content, p.key, p.value)
					}
				}
			}
			continue
		}
		c, err := expand(n.Content[i], depth-1, left)
		if err != nil {
			return nil, err
		}
		copied.Content = append(copied.Content, c)
	}
	return &copied, nil
}

func mergedFrom(n *yaml.Node) []*yaml.Node {
	if n.Kind == yaml.SequenceNode {
		return n.Content
	}
	return []*yaml.Node{n}
}

// strip removes the comments of a tree.
func strip(n *yaml.Node) {
	n.HeadComment, n.LineComment, n.FootComment = "", "", ""
	for _, c := range n.Content {
		strip(c)
	}
}

// pair is a key and its value in a mapping.
type pair struct{ key, value *yaml.Node }

func pairsOf(n *yaml.Node) []pair {
	if n == nil || n.Kind != yaml.MappingNode {
		return nil
	}
	var all []pair
	for i := 0; i+1 < len(n.Content); i += 2 {
		all = append(all, pair{n.Content[i], n.Content[i+1]})
	}
	return all
}

// lookup returns the value at a path of keys, or nil.
func lookup(n *yaml.Node, path ...string) *yaml.Node {
	for _, name := range path {
		var next *yaml.Node
		for _, p := range pairsOf(n) {
			if p.key.Value == name {
				next = p.value
			}
		}
		if next == nil {
			return nil
		}
		n = next
	}
	return n
}

// text returns the scalar at a path of keys, or "".
func text(n *yaml.Node, path ...string) string {
	if at := lookup(n, path...); at != nil && at.Kind == yaml.ScalarNode && at.Tag != "!!null" {
		return at.Value
	}
	return ""
}

// items returns the elements of a list, or a single value as a list.
func items(n *yaml.Node) []*yaml.Node {
	switch {
	case n == nil || isNull(n):
		return nil
	case n.Kind == yaml.SequenceNode:
		return n.Content
	}
	return []*yaml.Node{n}
}

func isNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.Tag == "!!null" }

// empty reports whether a value is null, "", {} or [].
func empty(n *yaml.Node) bool {
	return n == nil || isNull(n) || n.Kind == yaml.ScalarNode && n.Value == "" ||
		n.Kind != yaml.ScalarNode && len(n.Content) == 0
}

// join puts comments below each other.
func join(comments ...string) string {
	var all []string
	for _, c := range comments {
		if c != "" {
			all = append(all, c)
		}
	}
	return strings.Join(all, "\n")
}

// commentsOf returns the lines of all comments in a tree, in order.
func commentsOf(n *yaml.Node) []string {
	if n == nil {
		return nil
	}
	var all []string
	add := func(text string) {
		for line := range strings.Lines(text) {
			if line = strings.TrimSpace(line); line != "" {
				all = append(all, line)
			}
		}
	}
	add(n.HeadComment)
	add(n.LineComment)
	for _, c := range n.Content {
		all = append(all, commentsOf(c)...)
	}
	add(n.FootComment)
	return all
}

// adopt adds comments that are missing in a translation above it.
func adopt(to, from *yaml.Node) {
	if to == nil {
		return
	}
	to.HeadComment = join(missing(commentsOf(from), commentsOf(to)), to.HeadComment)
}

// adoptAll is adopt for several parts: the comments go above the first.
func adoptAll(to []*yaml.Node, from *yaml.Node) {
	if len(to) == 0 {
		return
	}
	var have []string
	for _, n := range to {
		have = append(have, commentsOf(n)...)
	}
	to[0].HeadComment = join(missing(commentsOf(from), have), to[0].HeadComment)
}

// missing returns the lines that others lack, also as quoted comments.
func missing(lines, among []string) string {
	plain := func(line string) string { return strings.TrimSpace(strings.TrimLeft(line, "# ")) }
	have := map[string]int{}
	for _, line := range among {
		have[plain(line)]++
		if _, behind, found := strings.Cut(strings.TrimLeft(line, "# "), " # "); found { // quoted, with its comment
			have[plain(behind)]++
		}
	}
	var lost []string
	for _, line := range lines {
		if have[plain(line)]--; have[plain(line)] < 0 {
			lost = append(lost, line)
		}
	}
	return strings.Join(lost, "\n")
}
