package migrate

import (
	"maps"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"
)

func has(n *yaml.Node, key string) bool { return lookup(n, key) != nil }

// pairOf returns a key with its value, both nil if missing.
func pairOf(n *yaml.Node, key string) pair {
	for _, p := range pairsOf(n) {
		if p.key.Value == key {
			return p
		}
	}
	return pair{}
}

// mentions reports whether a tree contains a text.
func mentions(n *yaml.Node, what string) bool {
	return strings.Contains(n.Value, what) ||
		slices.ContainsFunc(n.Content, func(c *yaml.Node) bool { return mentions(c, what) })
}

// drop removes a key of a mapping.
func drop(n *yaml.Node, key string) {
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == key {
			n.Content = slices.Delete(n.Content, i, i+2)
			return
		}
	}
}

func lookupOr(n *yaml.Node, keys ...string) *yaml.Node {
	for _, key := range keys {
		if v := lookup(n, key); v != nil {
			return v
		}
	}
	return n
}

// without returns a mapping without a key.
func without(n *yaml.Node, key string) *yaml.Node {
	c := *n
	c.Content = nil
	for _, p := range pairsOf(n) {
		if p.key.Value != key {
			c.Content = append(c.Content, p.key, p.value)
		}
	}
	return &c
}

func seq(all []*yaml.Node) *yaml.Node { return &yaml.Node{Kind: yaml.SequenceNode, Content: all} }

// plainComments copies a tree: several routes may have the same batch.
func plainComments(n *yaml.Node) *yaml.Node {
	c := *n
	c.Content = copies(n.Content)
	return &c
}

func copies(all []*yaml.Node) []*yaml.Node {
	var done []*yaml.Node
	for _, n := range all {
		done = append(done, plainComments(n))
	}
	return done
}

func sortedFields(f fields) []string { return slices.Sorted(maps.Keys(f)) }
