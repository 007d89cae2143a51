package config

import (
	"cmp"
	"slices"

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
