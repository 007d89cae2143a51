package schema

import (
	"slices"
	"strconv"
	"strings"
)

// Nearest returns the candidate that a misspelt word probably means, or "".
func Nearest(word string, candidates []string) string {
	best, least := "", limit(word)+1
	for _, c := range candidates {
		if plain(c) == plain(word) {
			return c
		}
		if d := distance(word, c); d < least && d < len([]rune(c)) && d <= limit(c) {
			best, least = c, d
		}
	}
	if best != "" {
		return best
	}
	for _, c := range candidates {
		if len(c) >= 3 && strings.HasPrefix(word, c+"_") || len(word) >= 3 && strings.HasPrefix(c, word+"_") {
			return c
		}
	}
	return ""
}

// didYouMean returns the remedy for a misspelt word, or "".
func didYouMean(word string, candidates []string) string {
	near := Nearest(word, candidates)
	if near == "" {
		return ""
	}
	return "did you mean " + strconv.Quote(near) + "?"
}

// Meant returns the known name that a name probably means, or name itself.
func Meant(name string, known []string) string {
	if near := Nearest(name, known); near != "" && !slices.Contains(known, name) {
		return near
	}
	return name
}

// Suggest returns the remedy for an unknown name: the nearest name, else the known names, else otherwise.
func Suggest(name string, known []string, otherwise string) string {
	const few = 8
	if near := didYouMean(name, known); near != "" {
		return near
	}
	if len(known) == 0 || len(known) > few {
		return otherwise
	}
	return "write " + AnyOfNames(known) + ", or " + otherwise
}

// AnyOfNames lists names: "a", "b" or "c".
func AnyOfNames(names []string) string {
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

// limit is how many slips a word of this length may have.
func limit(word string) int {
	switch n := len([]rune(word)); {
	case n <= 4:
		return 1
	case n <= 7:
		return 2
	default:
		return 3
	}
}

// plain removes what spellings differ in: maxInFlight, max-in-flight.
func plain(word string) string { return strings.ToLower(separators.Replace(word)) }

var separators = strings.NewReplacer("_", "", "-", "", " ", "")

// distance returns the number of slips between two words: a missing, additional, wrong or swapped letter. Words of
// very different length are just far apart.
func distance(a, b string) int {
	s, t := []rune(a), []rune(b)
	if d := len(s) - len(t); d > 3 || d < -3 || len(s) > 64 {
		return 64
	}
	rows := make([][]int, len(s)+1)
	for i := range rows {
		rows[i] = make([]int, len(t)+1)
		rows[i][0] = i
	}
	for j := range rows[0] {
		rows[0][j] = j
	}
	for i := 1; i <= len(s); i++ {
		for j := 1; j <= len(t); j++ {
			wrong := 1
			if s[i-1] == t[j-1] {
				wrong = 0
			}
			d := min(rows[i-1][j]+1, rows[i][j-1]+1, rows[i-1][j-1]+wrong)
			if i > 1 && j > 1 && s[i-1] == t[j-2] && s[i-2] == t[j-1] {
				d = min(d, rows[i-2][j-2]+1)
			}
			rows[i][j] = d
		}
	}
	return rows[len(s)][len(t)]
}
