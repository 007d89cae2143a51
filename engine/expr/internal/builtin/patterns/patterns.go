// Package patterns has the functions for regular expressions. The operator matches, and how patterns are compiled and bounded,
// are in package lang.
package patterns

import (
	"regexp"
	"strings"

	"github.com/flowd-io/flowd/engine/expr/internal/lang"
	"github.com/flowd-io/flowd/engine/expr/internal/value"
)

// Declare declares the functions of regular expressions.
func Declare() {
	searches.Declare("patterns", true)
	lang.Lookup("re_find").Shortcuts = func(s *lang.Site, call *lang.Node, args []lang.Node) {
		if p, ok := s.Prepared(1).(*lang.Pattern); ok {
			call.Scalar = args[0].Scalar.Then(func(v lang.Scalar) (lang.Scalar, bool) { return matchShort(p, v) })
		}
	}
	for _, name := range []string{"re_groups", "re_groups_all"} {
		lang.Lookup(name).CheckArgs = func(s *lang.Site, args []lang.Node) {
			if p, known := s.Prepared(1).(*lang.Pattern); known {
				p.CheckNames(s.Argument(args[1]))
			}
		}
	}
	lang.Lookup("re_replace").CheckArgs = func(s *lang.Site, args []lang.Node) {
		p, known := s.Prepared(1).(*lang.Pattern)
		if to, ok := s.Prepared(2).(replacement); ok && known {
			s.SetPrepared(2, len(args), to.of(&lang.Site{Offset: args[2].Offset, Name: s.Name, Secret: s.Secret}, p.Re))
		}
	}
}

var searches = lang.Builtins{
	{"re_find(text, pattern) text|nil",
		"The first part of the text that the regular expression matches, or nil.",
		`re_find("order 42", "[0-9]+") → "42"
re_find("order", "[0-9]+") → nil
re_find("order", "[0-9+") → error: re_find(): text "[0-9+" is not a regular expression: missing closing ]`,
		func(f *lang.Frame, s *lang.Site, args []any) any {
			p, text := patternAt(f, s, args), args[0].(string)
			f.Step(s.Offset, len(text)*p.Size>>4)
			if part, ok := firstMatch(p, text); ok {
				return part
			}
			return nil
		}},
	{"re_find_all(text, pattern, [int]) list",
		"All parts of the text that the regular expression matches, from left to right, without overlaps; at most this" +
			" many.",
		`re_find_all("a1 b22", "[0-9]+") → ["1", "22"]
re_find_all("a1 b22", "[0-9]+", 1) → ["1"]`,
		func(f *lang.Frame, s *lang.Site, args []any) any {
			return eachMatch(f, s, args, func(p *lang.Pattern, at []int) any { return args[0].(string)[at[0]:at[1]] })
		}},
	{"re_groups(text, pattern) object|list|nil",
		"What the groups of the regular expression match, where it first matches, or nil. If groups are named," +
			" (?P<name>…), this is an object of those. Otherwise it is a list that begins with the whole match, so" +
			" [1] is the first group. A group that does not take part in the match is nil.",
		`re_groups("GET /a", "(?P<method>[A-Z]+) (?P<path>.*)") → {method: "GET", path: "/a"}
re_groups("GET /a", "([A-Z]+) (.*)") → ["GET /a", "GET", "/a"]
re_groups("/a", "([A-Z]+) (.*)") → nil`,
		func(f *lang.Frame, s *lang.Site, args []any) any {
			p, text := patternAt(f, s, args).CheckNames(s), args[0].(string)
			at := firstGroups(p, f, s, text)
			if at == nil {
				return nil
			}
			return groupsOf(p.Re, text, at)
		}},
	{"re_groups_all(text, pattern, [int]) list",
		"What re_groups() gives, for each match; at most this many.",
		`re_groups_all("a=1, b=2", "(?P<key>[a-z])=(?P<value>[0-9])") → [{key: "a", value: "1"}, {key: "b", value: "2"}]`,
		func(f *lang.Frame, s *lang.Site, args []any) any {
			patternAt(f, s, args).CheckNames(s)
			return eachMatch(f, s, args, func(p *lang.Pattern, at []int) any {
				groups := groupsOf(p.Re, args[0].(string), at)
				f.ChargeMade(s.Offset, groups)
				return groups
			})
		}},
	{"re_replace(text, pattern, replacement, [int]) text",
		"The text with matches of the regular expression replaced; at most this many times. In the replacement, $1 or" +
			" ${1} is the first group, ${name} a named one, $0 the whole match and $$ a dollar sign; a group that did not" +
			" take part is empty, and one that the pattern does not have is an error. In a pipeline file, where ${…} is a" +
			" placeholder, write `$${name}`.",
		`re_replace("card 4111-2222", "[0-9]", "*") → "card ****-****"
re_replace("2026-01-02", "(\\d+)-(\\d+)-(\\d+)", "$3.$2.$1") → "02.01.2026"
re_replace("ann@example.com", "(?P<user>.+)@", "${user} at ") → "ann at example.com"`,
		replaceMatches},
	{"re_split(text, pattern, [int]) list",
		"The parts of the text between matches of the regular expression; at most this many, the last of which is" +
			" the rest.",
		`re_split("a, b;c", "[,;] *") → ["a", "b", "c"]
re_split("a, b;c", "[,;] *", 2) → ["a", "b;c"]`,
		splitMatches},
	{"re_escape(text) text",
		"The text as a regular expression that matches nothing else.",
		`re_escape("1.5*") → "1\\.5\\*"
"a.b" matches re_escape("a.b") → true`,
		func(f *lang.Frame, s *lang.Site, args []any) any {
			f.CheckRoom(s.Offset, 2*len(args[0].(string)))
			return regexp.QuoteMeta(args[0].(string))
		}},
}

var (
	_ = lang.Role("pattern", value.Text, func(s *lang.Site, v any) any { return lang.CompilePattern(s, v.(string), lang.MaxProgram) })
	_ = lang.Role("replacement", value.Text, func(_ *lang.Site, v any) any { return parseReplacement(v.(string)) })
)

// patternAt is the pattern of a call, its second argument.
func patternAt(f *lang.Frame, s *lang.Site, args []any) *lang.Pattern {
	if p, ok := s.Prepared(1).(*lang.Pattern); ok {
		return p
	}
	return lang.PatternOf(f, s, args[1].(string))
}

// matchesOf is where the pattern of a call matches its text. The argument with the index most, if there is one, limits how often.
func matchesOf(f *lang.Frame, s *lang.Site, p *lang.Pattern, args []any, most int) [][]int {
	n := -1
	if len(args) > most {
		n = args[most].(int)
	}
	return allMatches(p, f, s, args[0].(string), n)
}

// eachMatch is a list of the results of a function for each match.
func eachMatch(f *lang.Frame, s *lang.Site, args []any, of func(p *lang.Pattern, at []int) any) any {
	p := patternAt(f, s, args)
	found := matchesOf(f, s, p, args, 2)
	f.CheckRoom(s.Offset, len(found)*lang.ElementSize)
	list := make([]any, len(found))
	for i, at := range found {
		list[i] = of(p, at)
	}
	return list
}

// groupsOf are the named groups of a match, or all if none has a name.
func groupsOf(re *regexp.Regexp, text string, at []int) any {
	names := re.SubexpNames()
	named, all := map[string]any(nil), []any(nil)
	for i, name := range names {
		var group any
		if at[2*i] >= 0 {
			group = text[at[2*i]:at[2*i+1]]
		}
		if all = append(all, group); name == "" {
			continue
		}
		if named == nil {
			named = make(map[string]any, len(names)-1)
		}
		named[name] = group
	}
	if named != nil {
		return named
	}
	return all
}

func replaceMatches(f *lang.Frame, s *lang.Site, args []any) any {
	text, p := args[0].(string), patternAt(f, s, args)
	to, ok := s.Prepared(2).(replacement)
	if !ok {
		to = parseReplacement(args[2].(string))
	}
	to = to.of(s, p.Re)
	if len(args) == 3 {
		if replaced, ok := replacePlain(p, f, s, text, to); ok {
			return replaced
		}
	}
	found := matchesOf(f, s, p, args, 3)
	if len(found) == 0 {
		return text
	}
	f.Step(s.Offset, len(found)*len(to))
	size := len(text)
	for _, at := range found {
		size += to.size(at) - (at[1] - at[0])
		f.CheckRoom(s.Offset, size) // here, where size can't have overflowed
	}
	var b strings.Builder
	b.Grow(size)
	end := 0
	for _, at := range found {
		b.WriteString(text[end:at[0]])
		to.write(&b, text, at)
		end = at[1]
	}
	b.WriteString(text[end:])
	return b.String()
}

// replacePlain replaces all matches by a text without groups, in one go. ok is false if that could exceed the budget: only a
// search for one match after the other can tell.
func replacePlain(p *lang.Pattern, f *lang.Frame, s *lang.Site, text string, to replacement) (replaced string, ok bool) {
	const most = 4096 // steps
	with := ""
	if len(to) == 1 {
		with = to[0].text
	}
	worst := (len(text) + 1) * (1 + len(text)*p.Size>>4)
	if len(to) > 1 || len(to) == 1 && with == "" || worst > most || (len(text)+1)*(len(with)+1) > f.MemoryLeft() {
		return "", false
	}
	f.Step(s.Offset, worst)
	return p.Re.ReplaceAllLiteralString(text, with), true
}

func splitMatches(f *lang.Frame, s *lang.Site, args []any) any {
	text := args[0].(string)
	most := -1
	if len(args) == 3 {
		most = args[2].(int)
	}
	if most == 0 {
		return []any{}
	}
	p := patternAt(f, s, args)
	found := allMatches(p, f, s, text, max(most, -1))
	f.CheckRoom(s.Offset, (len(found)+1)*lang.ElementSize)
	list, begin, end := make([]any, 0, len(found)+1), 0, 0
	for _, at := range found {
		if len(list) == most-1 {
			break
		}
		if end = at[0]; at[1] != 0 { // an empty match at the beginning has no part before it
			list = append(list, text[begin:end])
		}
		begin = at[1]
	}
	if end != len(text) || text == "" {
		list = append(list, text[begin:])
	}
	return list
}
