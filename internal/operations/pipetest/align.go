package pipetest

import "slices"

// Pair is an expected item with an actual one; -1 means none.
type Pair struct{ Want, Got int }

// mostCells bounds the table of Align. Longer lists are compared by position.
const mostCells = 4 << 20

// Align pairs two lists so that as many items as possible are equal. Items between two matches are paired in order.
func Align(n, m int, same func(want, got int) bool) (pairs []Pair) {
	from := 0
	for from < n && from < m && same(from, from) {
		pairs = append(pairs, Pair{from, from})
		from++
	}
	if (n-from)*(m-from) > mostCells {
		return gap(pairs, from, n, from, m)
	}
	width := m - from + 1
	common := make([]int32, (n-from+1)*width) // longest common list from here on
	at := func(i, j int) *int32 { return &common[(i-from)*width+j-from] }
	for i := n - 1; i >= from; i-- {
		for j := m - 1; j >= from; j-- {
			if same(i, j) {
				*at(i, j) = *at(i+1, j+1) + 1
			} else {
				*at(i, j) = max(*at(i+1, j), *at(i, j+1))
			}
		}
	}
	i, j := from, from
	wi, gj := i, j // where the gap begins
	for i < n && j < m {
		switch {
		case same(i, j) && *at(i, j) == *at(i+1, j+1)+1:
			pairs = gap(pairs, wi, i, gj, j)
			pairs = append(pairs, Pair{i, j})
			i, j = i+1, j+1
			wi, gj = i, j
		case *at(i+1, j) >= *at(i, j+1):
			i++
		default:
			j++
		}
	}
	return gap(pairs, wi, n, gj, m)
}

// gap pairs wants i to n with gots j to m in order.
func gap(pairs []Pair, i, n, j, m int) []Pair {
	for ; i < n || j < m; i, j = i+1, j+1 {
		p := Pair{i, j}
		if i >= n {
			p.Want = -1
		}
		if j >= m {
			p.Got = -1
		}
		pairs = append(pairs, p)
	}
	return pairs
}

// assign pairs as many wants as possible with equal gots, in any order. The rest is paired in order.
func assign(n, m int, same func(want, got int) bool) (pairs []Pair) {
	owner := slices.Repeat([]int{-1}, m) // by index of got
	var find func(i int, seen []bool) bool
	find = func(i int, seen []bool) bool {
		for j := range m {
			if !seen[j] && same(i, j) {
				seen[j] = true
				if owner[j] < 0 || find(owner[j], seen) {
					owner[j] = i
					return true
				}
			}
		}
		return false
	}
	found := make([]bool, n)
	for i := range n {
		find(i, make([]bool, m))
	}
	var free []int
	for j, i := range owner {
		if i < 0 {
			free = append(free, j)
			continue
		}
		found[i] = true
		pairs = append(pairs, Pair{i, j})
	}
	for i := range n {
		switch {
		case found[i]:
		case len(free) > 0:
			pairs, free = append(pairs, Pair{i, free[0]}), free[1:]
		default:
			pairs = append(pairs, Pair{i, -1})
		}
	}
	for _, j := range free {
		pairs = append(pairs, Pair{-1, j})
	}
	return pairs
}
