package docs

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"unicode"
)

// Passage is a part of the documentation that a reader can ask for.
type Passage struct {
	Page    string  // name of the page
	Title   string  // of the page, which counts as the heading of the text before the first one
	Section string  // heading; empty for the text before the first one
	Text    string  // Markdown without the heading
	Weight  float64 // of its score; guides have 1
}

// Sections splits a guide at its headings.
func Sections(page, markdown string) (all []Passage) {
	now, code := Passage{Page: page, Weight: 1}, false
	for line := range strings.Lines(markdown) {
		if strings.HasPrefix(line, "```") {
			code = !code
		}
		marks, heading, ok := strings.Cut(line, " ")
		if code || !ok || marks == "" || strings.Trim(marks, "#") != "" {
			now.Text += line
			continue
		}
		if marks == "#" {
			now.Title = strings.TrimSpace(heading)
			continue
		}
		all = append(all, now)
		now = Passage{Page: page, Section: strings.TrimSpace(heading), Weight: 1}
	}
	return append(all, now)
}

// Anchor returns the name of a section in links, as GitHub forms it.
func Anchor(section string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r):
			return unicode.ToLower(r)
		}
		return -1
	}, section)
}

// Index finds passages by their words. It ranks them by BM25.
type Index struct {
	passages []Passage
	terms    []map[string]float64 // of each passage: how often a term is in it
	lengths  []float64            // of each passage, in terms
	mean     float64              // of lengths
	in       map[string]float64   // how many passages have a term
}

// The usual constants of BM25, and how many times a word counts that is in a heading or in the name of a page.
const saturation, normalization, headingWeight = 1.2, 0.6, 4

// NewIndex returns an index of passages.
func NewIndex(passages []Passage) *Index {
	x := &Index{passages: passages, in: map[string]float64{}}
	for _, p := range passages {
		counts, length := map[string]float64{}, 0.0
		for _, t := range terms(p.Text) {
			counts[t]++
			length++
		}
		for _, t := range terms(p.Page + "\n" + p.Title + "\n" + p.Section) {
			counts[t] += headingWeight
		}
		for t := range counts {
			x.in[t]++
		}
		x.terms, x.lengths, x.mean = append(x.terms, counts), append(x.lengths, length), x.mean+length/float64(len(passages))
	}
	return x
}

// Hit is a passage that a search has found.
type Hit struct {
	Passage

	Excerpt string // the paragraph, row or item with most of the words
	score   float64
}

// Search returns the best passages for a question, which may be a few words: at most n, best first. Passages without any of
// the words are not among them.
func (x *Index) Search(question string, n int) (hits []Hit) {
	query := terms(question)
	var asked [][]string // each word with those that mean the same
	for _, word := range unique(words(question)) {
		same := append([]string{word}, terms(synonyms[word])...)
		asked = append(asked, same)
		query = append(query, same...)
	}
	query = unique(query)
	for i, p := range x.passages {
		score := 0.0
		for _, t := range query {
			count := x.terms[i][t]
			if count == 0 {
				continue
			}
			rarity := math.Log(1 + (float64(len(x.passages))-x.in[t]+0.5)/(x.in[t]+0.5))
			score += rarity * count * (saturation + 1) / (count + saturation*(1-normalization+normalization*x.lengths[i]/x.mean))
		}
		if score > 0 {
			found := 0.0
			for _, same := range asked {
				if slices.ContainsFunc(same, func(t string) bool { return x.terms[i][t] > 0 }) {
					found++
				}
			}
			hits = append(hits, Hit{Passage: p, score: score * max(found, 1) / float64(len(asked)) * p.Weight})
		}
	}
	slices.SortStableFunc(hits, func(a, b Hit) int { return cmp.Compare(b.score, a.score) })
	hits = hits[:min(n, len(hits))]
	for i := range hits {
		hits[i].Excerpt = x.excerpt(hits[i].Text, query)
	}
	return hits
}

// excerpt returns the part of a text that has most of the terms, with rare ones counting more.
func (x *Index) excerpt(text string, query []string) (best string) {
	most := -1.0
	for _, part := range parts(text) {
		score := 0.0
		have := terms(part)
		for _, t := range query {
			if slices.Contains(have, t) {
				score += 1 / x.in[t]
			}
		}
		if score > most {
			best, most = part, score
		}
	}
	return best
}

// parts divides Markdown into paragraphs, items of lists, rows of tables and lines of code, each on one line.
func parts(text string) (all []string) {
	joins := false // the next line continues the last part
	code := false
	for line := range strings.Lines(text) {
		trimmed := strings.TrimSpace(line)
		fence := strings.HasPrefix(trimmed, "```")
		row := strings.HasPrefix(trimmed, "|")
		switch {
		case fence:
			code, joins = !code, false
		case trimmed == "", strings.Trim(trimmed, "|- ") == "", strings.HasSuffix(trimmed, "`:"): // the last names a file
			joins = false
		case joins && !code && !row && !strings.HasPrefix(trimmed, "- "):
			all[len(all)-1] += " " + trimmed
		default:
			all = append(all, trimmed)
			joins = !row && !code
		}
	}
	return all
}

// terms returns the words of a text, and each pair of neighbours as one term: "time zone" has the term "timezon", too.
func terms(text string) []string {
	words := words(text)
	all := slices.Clone(words)
	for i := 1; i < len(words); i++ {
		all = append(all, words[i-1]+words[i])
	}
	return all
}

// words returns the words of a text without their endings, and without words that say nothing. A name such as order_by counts
// as a whole, too.
func words(text string) (all []string) {
	isSeparator := func(r rune) bool { return r != '_' && !unicode.IsLetter(r) && !unicode.IsDigit(r) }
	for name := range strings.FieldsFuncSeq(strings.ToLower(text), isSeparator) {
		whole := ""
		for word := range strings.SplitSeq(name, "_") {
			if word != "" && !slices.Contains(stopWords, word) {
				all = append(all, stem(word))
			}
			whole += stem(word)
		}
		if strings.Contains(name, "_") {
			all = append(all, whole)
		}
	}
	return all
}

var stopWords = strings.Fields("a an and are as at be by can do does for from go goes how i if in into is it its me my of on or " +
	"happens so t that the their them then there they this to what when where which will with you your")

// synonyms are words of users, without their endings, and what the documentation says instead.
var synonyms = map[string]string{
	"dlq": "dead letter", "regex": "regular expression", "regexp": "regular expression", "string": "text", "k8": "kubernetes",
	"deduplicat": "dedupe duplicates", "throttl": "rate limit", "shutdown": "stop drain", "postgresql": "postgres",
	"elasticsearch": "search engine bulk", "opensearch": "search engine bulk", "tz": "time zone", "enrich": "lookup",
}

// stem removes the endings of plurals and verbs: retries, retried and retrying become retry.
func stem(word string) string {
	for _, e := range []struct{ ending, instead string }{
		{"ies", "y"}, {"ied", "y"}, {"sses", "ss"}, {"ss", "ss"}, {"us", "us"}, {"is", "is"}, {"s", ""},
	} {
		if root, ok := strings.CutSuffix(word, e.ending); ok && len(root) > 1 {
			word = root + e.instead
			break
		}
	}
	for _, ending := range []string{"ing", "ed"} {
		if root, ok := strings.CutSuffix(word, ending); ok && len(root) > 2 {
			word = root
			if n := len(root); root[n-1] == root[n-2] && root[n-1] != 'l' && root[n-1] != 's' { // dropped
				word = root[:n-1]
			}
		}
	}
	if len(word) > 3 {
		word = strings.TrimSuffix(word, "e") // caches, caching
	}
	return word
}

func unique(words []string) []string {
	slices.Sort(words)
	return slices.Compact(words)
}
