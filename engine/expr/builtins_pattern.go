package expr

import (
	"regexp"
	"strings"

	"github.com/flowd-io/flowd/engine/expr/internal/value"
)

var searches = builtins{
	{"re_find(text, pattern) text|nil",
		"The first part of the text that the regular expression matches, or nil.",
		`re_find("order 42", "[0-9]+") → "42"
re_find("order", "[0-9]+") → nil
re_find("order", "[0-9+") → error: re_find(): text "[0-9+" is not a regular expression: missing closing ]`,
		func(f *frame, s *site, args []any) any {
			p, text := f.pattern(s, args), args[0].(string)
			f.step(s.offset, len(text)*p.size>>4)
			if part, ok := p.first(text); ok {
				return part
			}
			return nil
		}},
	{"re_find_all(text, pattern, [int]) list",
		"All parts of the text that the regular expression matches, from left to right, without overlaps; at most this" +
			" many.",
		`re_find_all("a1 b22", "[0-9]+") → ["1", "22"]
re_find_all("a1 b22", "[0-9]+", 1) → ["1"]`,
		func(f *frame, s *site, args []any) any {
			return f.eachMatch(s, args, func(p *pattern, at []int) any { return args[0].(string)[at[0]:at[1]] })
		}},
	{"re_groups(text, pattern) object|list|nil",
		"What the groups of the regular expression match, where it first matches, or nil. If groups are named," +
			" (?P<name>…), this is an object of those. Otherwise it is a list that begins with the whole match, so" +
			" [1] is the first group. A group that does not take part in the match is nil.",
		`re_groups("GET /a", "(?P<method>[A-Z]+) (?P<path>.*)") → {method: "GET", path: "/a"}
re_groups("GET /a", "([A-Z]+) (.*)") → ["GET /a", "GET", "/a"]
re_groups("/a", "([A-Z]+) (.*)") → nil`,
		func(f *frame, s *site, args []any) any {
			p, text := f.pattern(s, args).ofNames(s), args[0].(string)
			at := p.groups(f, s, text)
			if at == nil {
				return nil
			}
			return groupsOf(p.re, text, at)
		}},
	{"re_groups_all(text, pattern, [int]) list",
		"What re_groups() gives, for each match; at most this many.",
		`re_groups_all("a=1, b=2", "(?P<key>[a-z])=(?P<value>[0-9])") → [{key: "a", value: "1"}, {key: "b", value: "2"}]`,
		func(f *frame, s *site, args []any) any {
			f.pattern(s, args).ofNames(s)
			return f.eachMatch(s, args, func(p *pattern, at []int) any {
				groups := groupsOf(p.re, args[0].(string), at)
				f.made(s.offset, groups)
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
		func(f *frame, s *site, args []any) any {
			f.room(s.offset, 2*len(args[0].(string)))
			return regexp.QuoteMeta(args[0].(string))
		}},
}

var (
	_ = inRole("pattern", value.Text, func(s *site, v any) any { return compilePattern(s, v.(string), maxProgram) })
	_ = inRole("replacement", value.Text, func(_ *site, v any) any { return parseReplacement(v.(string)) })
)

func init() {
	family(func() {
		searches.declare("patterns", true)
		functions["re_find"].compiled = func(s *site, call *node, args []node) {
			if p, ok := s.ready(1).(*pattern); ok {
				call.scalar = args[0].scalar.then(p.found)
			}
		}
		for _, name := range []string{"re_groups", "re_groups_all"} {
			functions[name].settle = func(s *site, args []node) {
				if p, known := s.ready(1).(*pattern); known {
					p.ofNames(s.argument(args[1]))
				}
			}
		}
		functions["re_replace"].settle = func(s *site, args []node) {
			p, known := s.ready(1).(*pattern)
			if to, ok := s.ready(2).(replacement); ok && known {
				s.prepared[2] = to.of(&site{offset: args[2].offset, name: s.name, secret: s.secret}, p.re)
			}
		}
	})
}

// pattern is the second argument of a call.
func (f *frame) pattern(s *site, args []any) *pattern {
	if p, ok := s.ready(1).(*pattern); ok {
		return p
	}
	return patternOf(f, s, args[1].(string))
}

// matches is where a call's pattern matches its text, as often as the argument most allows, if there is one.
func (f *frame) matches(s *site, p *pattern, args []any, most int) [][]int {
	n := -1
	if len(args) > most {
		n = args[most].(int)
	}
	return p.all(f, s, args[0].(string), n)
}

// eachMatch is a list of what of makes of each match.
func (f *frame) eachMatch(s *site, args []any, of func(p *pattern, at []int) any) any {
	p := f.pattern(s, args)
	found := f.matches(s, p, args, 2)
	f.room(s.offset, len(found)*elementSize)
	list := make([]any, len(found))
	for i, at := range found {
		list[i] = of(p, at)
	}
	return list
}

// groupsOf are the groups of a match: those that are named, or else all.
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

func replaceMatches(f *frame, s *site, args []any) any {
	text, p := args[0].(string), f.pattern(s, args)
	to, ok := s.ready(2).(replacement)
	if !ok {
		to = parseReplacement(args[2].(string))
	}
	to = to.of(s, p.re)
	if len(args) == 3 {
		if replaced, ok := p.replacePlain(f, s, text, to); ok {
			return replaced
		}
	}
	found := f.matches(s, p, args, 3)
	if len(found) == 0 {
		return text
	}
	f.step(s.offset, len(found)*len(to))
	size := len(text)
	for _, at := range found {
		size += to.size(at) - (at[1] - at[0])
		f.room(s.offset, size) // here, where size can't have overflowed
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

// replacePlain replaces all matches with text without groups, unless it might take long or much, which is found out only
// by looking for each match.
func (p *pattern) replacePlain(f *frame, s *site, text string, to replacement) (replaced string, ok bool) {
	const most = 4096 // steps
	with := ""
	if len(to) == 1 {
		with = to[0].text
	}
	worst := (len(text) + 1) * (1 + len(text)*p.size>>4)
	if len(to) > 1 || len(to) == 1 && with == "" || worst > most || (len(text)+1)*(len(with)+1) > f.memoryLeft() {
		return "", false
	}
	f.step(s.offset, worst)
	return p.re.ReplaceAllLiteralString(text, with), true
}

func splitMatches(f *frame, s *site, args []any) any {
	text := args[0].(string)
	most := -1
	if len(args) == 3 {
		most = args[2].(int)
	}
	if most == 0 {
		return []any{}
	}
	p := f.pattern(s, args)
	found := p.all(f, s, text, max(most, -1))
	f.room(s.offset, (len(found)+1)*elementSize)
	list, begin, end := make([]any, 0, len(found)+1), 0, 0
	for _, at := range found {
		if len(list) == most-1 {
			break
		}
		if end = at[0]; at[1] != 0 { // no part is before an empty match at the beginning
			list = append(list, text[begin:end])
		}
		begin = at[1]
	}
	if end != len(text) || text == "" {
		list = append(list, text[begin:])
	}
	return list
}
