package config

import (
	"cmp"
	"slices"
	"strconv"

	"github.com/flowd-io/flowd/schema"
)

// sorted are the problems by file, line and column, each one once.
func sorted(problems []schema.Problem) []schema.Problem {
	slices.SortStableFunc(problems, func(a, b schema.Problem) int {
		return cmp.Or(
			cmp.Compare(a.Pos.File, b.Pos.File),
			cmp.Compare(a.Pos.Line, b.Pos.Line),
			cmp.Compare(a.Pos.Col, b.Pos.Col),
		)
	})
	seen := map[string]bool{}
	return slices.DeleteFunc(problems, func(p schema.Problem) bool {
		key := p.String()
		again := seen[key]
		seen[key] = true
		return again
	})
}

// problemAt is a complaint about a node.
func problemAt(n *schema.Node, p schema.Problem) schema.Problem {
	p.Pos = n.Pos
	if n.Excerpt != nil {
		p.Excerpt, p.Caret = n.Excerpt(n.Pos), n.Pos
	}
	return p
}

// orList writes names for people: a, b or c.
func orList(names []string) string {
	var text []byte
	for i, n := range names {
		switch {
		case i > 0 && i == len(names)-1:
			text = append(text, " or "...)
		case i > 0:
			text = append(text, ", "...)
		}
		text = strconv.AppendQuote(text, n)
	}
	return string(text)
}

// didYouMean is the remedy for an unknown name: the nearest one, else what
// there is, else what to write.
func didYouMean(name string, known []string, otherwise string) string {
	const few = 8
	if near := schema.Nearest(name, known); near != "" {
		return "did you mean " + strconv.Quote(near) + "?"
	}
	if len(known) == 0 || len(known) > few {
		return otherwise
	}
	return "write " + orList(known) + ", or " + otherwise
}
