package jsonschema

import (
	"net/netip"
	"net/url"
	"regexp/syntax"
	"strings"
	"time"
)

// formatOf returns the check of a value of the keyword format, or nil: unknown formats allow everything.
func formatOf(name string) func(string) bool {
	switch name {
	case "regex":
		return isExpression
	case "uuid":
		return isUUID
	case "ipv4":
		return func(s string) bool { a, err := netip.ParseAddr(s); return err == nil && a.Is4() }
	case "ipv6":
		return isIPv6
	case "hostname":
		return isHostname
	case "email":
		return isEmail
	case "date":
		return isDate
	case "time":
		return isTime
	case "date-time":
		return isDateTime
	case "duration":
		return isDuration
	case "period":
		return isPeriod
	case "json-pointer":
		return isPointer
	case "relative-json-pointer":
		return isRelativePointer
	case "uri":
		return func(s string) bool { u, ok := reference(s, false); return ok && u.IsAbs() }
	case "uri-reference":
		return func(s string) bool { _, ok := reference(s, false); return ok }
	case "iri":
		return func(s string) bool { u, ok := reference(s, true); return ok && u.IsAbs() }
	case "iri-reference":
		return func(s string) bool { _, ok := reference(s, true); return ok }
	case "uri-template":
		return isTemplate
	case "semver":
		return isSemver
	}
	return nil
}

// isExpression parses a regular expression, without compiling it: that could take 100 MiB for an expression from a
// message.
func isExpression(s string) bool {
	if len(s) > longestPattern {
		return false
	}
	_, err := syntax.Parse(s, syntax.Perl)
	return err == nil
}

// spans reports whether a text is not empty and contains only allowed bytes.
func spans(s string, allowed func(c byte) bool) bool {
	for i := range len(s) {
		if !allowed(s[i]) {
			return false
		}
	}
	return s != ""
}

func digit(c byte) bool    { return c >= '0' && c <= '9' }
func alpha(c byte) bool    { return c|0x20 >= 'a' && c|0x20 <= 'z' }
func alnum(c byte) bool    { return digit(c) || alpha(c) }
func hexDigit(c byte) bool { return digit(c) || c|0x20 >= 'a' && c|0x20 <= 'f' }

func isUUID(s string) bool {
	groups := strings.Split(s, "-")
	if len(groups) != 5 {
		return false
	}
	for i, n := range [...]int{8, 4, 4, 4, 12} {
		if len(groups[i]) != n || !spans(groups[i], hexDigit) {
			return false
		}
	}
	return true
}

func isIPv6(s string) bool {
	a, err := netip.ParseAddr(s)
	return err == nil && a.Is6() && a.Zone() == ""
}

// isHostname checks a host name by RFC 1123.
func isHostname(s string) bool {
	s = strings.TrimSuffix(s, ".")
	if len(s) > 253 {
		return false
	}
	for label := range strings.SplitSeq(s, ".") {
		if len(label) > 63 || !spans(label, func(c byte) bool { return alnum(c) || c == '-' }) ||
			label[0] == '-' || label[len(label)-1] == '-' {
			return false
		}
	}
	return true
}

// isEmail checks an address by RFC 5321.
func isEmail(s string) bool {
	at := strings.LastIndexByte(s, '@')
	if at < 0 || len(s) > 254 || at > 64 {
		return false
	}
	local, domain := s[:at], s[at+1:]
	if len(local) > 1 && local[0] == '"' && local[len(local)-1] == '"' {
		if strings.ContainsAny(local[1:len(local)-1], `\"`) {
			return false
		}
	} else {
		for word := range strings.SplitSeq(local, ".") {
			if !spans(word, func(c byte) bool { return alnum(c) || strings.IndexByte("!#$%&'*+-/=?^_`{|}~", c) >= 0 }) {
				return false
			}
		}
	}
	if inside, ok := strings.CutPrefix(domain, "["); ok {
		inside, ok = strings.CutSuffix(inside, "]")
		if six, is := strings.CutPrefix(inside, "IPv6:"); is {
			return ok && isIPv6(six)
		}
		a, err := netip.ParseAddr(inside)
		return ok && err == nil && a.Is4()
	}
	return isHostname(domain)
}

func isDate(s string) bool {
	_, err := time.Parse(time.DateOnly, s)
	return err == nil
}

// isTime checks a time by RFC 3339, including leap seconds.
func isTime(s string) bool {
	if len(s) < 9 || s[2] != ':' || s[5] != ':' {
		return false
	}
	h, okH := two(s, 0, 23)
	m, okM := two(s, 3, 59)
	sec, okS := two(s, 6, 60)
	if !okH || !okM || !okS {
		return false
	}
	zone := s[8:]
	if zone[0] == '.' {
		n := 1
		for n < len(zone) && digit(zone[n]) {
			n++
		}
		if n == 1 {
			return false
		}
		zone = zone[n:]
	}
	offset := 0
	if zone != "z" && zone != "Z" {
		if len(zone) != 6 || zone[3] != ':' || zone[0] != '+' && zone[0] != '-' {
			return false
		}
		zh, okH := two(zone, 1, 23)
		zm, okM := two(zone, 4, 59)
		if !okH || !okM {
			return false
		}
		if offset = zh*60 + zm; zone[0] == '+' {
			offset = -offset
		}
	}
	const day = 24 * 60
	return sec < 60 || (h*60+m+offset+day)%day == day-1
}

// two parses two digits.
func two(s string, at, most int) (n int, ok bool) {
	if !digit(s[at]) || !digit(s[at+1]) {
		return 0, false
	}
	n = int(s[at]-'0')*10 + int(s[at+1]-'0')
	return n, n <= most
}

func isDateTime(s string) bool {
	return len(s) > 11 && s[10]|0x20 == 't' && isDate(s[:10]) && isTime(s[11:])
}

// isDuration checks an ISO 8601 duration, as in RFC 3339.
func isDuration(s string) bool {
	s, ok := strings.CutPrefix(s, "P")
	if !ok {
		return false
	}
	if weeks, ok := strings.CutSuffix(s, "W"); ok {
		return spans(weeks, digit)
	}
	days, clock, hasClock := strings.Cut(s, "T")
	return (days != "" || hasClock) && units(days, "YMD") && (!hasClock || clock != "" && units(clock, "HMS"))
}

// units parses numbers, each with a unit. Units between the first and the last must not be missing.
func units(s, all string) bool {
	next := -1
	for s != "" {
		n := 0
		for n < len(s) && digit(s[n]) {
			n++
		}
		if n == 0 || n == len(s) {
			return false
		}
		unit := strings.IndexByte(all, s[n])
		if unit < 0 || next >= 0 && unit != next {
			return false
		}
		next, s = unit+1, s[n+1:]
	}
	return true
}

// isPeriod checks an ISO 8601 interval: two times, or a time and a duration.
func isPeriod(s string) bool {
	from, to, ok := strings.Cut(s, "/")
	switch {
	case !ok:
		return false
	case isDateTime(from):
		return isDateTime(to) || isDuration(to)
	}
	return isDuration(from) && isDateTime(to)
}

// isPointer checks a JSON pointer (RFC 6901).
func isPointer(s string) bool {
	if s != "" && s[0] != '/' {
		return false
	}
	for i := range len(s) {
		if s[i] == '~' && (i+1 == len(s) || s[i+1] != '0' && s[i+1] != '1') {
			return false
		}
	}
	return true
}

func isRelativePointer(s string) bool {
	n := 0
	for n < len(s) && digit(s[n]) {
		n++
	}
	if n == 0 || n > 1 && s[0] == '0' {
		return false
	}
	return s[n:] == "#" || isPointer(s[n:])
}

// reference parses a URI reference (RFC 3986), or an IRI reference (RFC 3987).
func reference(s string, international bool) (*url.URL, bool) {
	for i := range len(s) {
		c := s[i]
		switch {
		case c == '%':
			if i+2 >= len(s) || !hexDigit(s[i+1]) || !hexDigit(s[i+2]) {
				return nil, false
			}
		case c >= 0x80:
			if !international {
				return nil, false
			}
		case c <= ' ' || c == 0x7f || strings.IndexByte("\"<>\\^`{|}", c) >= 0:
			return nil, false
		}
	}
	u, err := url.Parse(s)
	if err != nil {
		return nil, false
	}
	host := u.Host
	if strings.HasPrefix(host, "[") {
		six, _, _ := strings.Cut(u.Hostname(), "%")
		return u, isIPv6(six)
	}
	return u, strings.Count(host, ":") <= 1 && strings.Count(s, "#") <= 1 && !strings.ContainsAny(host, "[]")
}

// isTemplate checks a URI template (RFC 6570).
func isTemplate(s string) bool {
	for s != "" {
		open := strings.IndexAny(s, "{}")
		if open < 0 {
			open = len(s)
		}
		literal := func(c byte) bool { return c > ' ' && c != 0x7f && strings.IndexByte("\"<>\\^`|", c) < 0 }
		if open > 0 && !spans(s[:open], literal) {
			return false
		}
		if open == len(s) {
			return true
		}
		end := strings.IndexByte(s, '}')
		if s[open] == '}' || end < 0 || !isVariables(s[open+1:end]) {
			return false
		}
		s = s[end+1:]
	}
	return true
}

func isVariables(s string) bool {
	if s != "" && strings.IndexByte("+#./;?&=,!@|", s[0]) >= 0 {
		s = s[1:]
	}
	for variable := range strings.SplitSeq(s, ",") {
		variable = strings.TrimSuffix(variable, "*")
		if name, length, ok := strings.Cut(variable, ":"); ok {
			if variable = name; len(length) > 4 || !spans(length, digit) || length[0] == '0' {
				return false
			}
		}
		if !spans(variable, func(c byte) bool { return alnum(c) || c == '_' || c == '.' || c == '%' }) {
			return false
		}
	}
	return true
}

// isSemver checks a version by Semantic Versioning 2.0.
func isSemver(s string) bool {
	s, build, hasBuild := strings.Cut(s, "+")
	core, pre, hasPre := strings.Cut(s, "-")
	numbers := strings.Split(core, ".")
	if len(numbers) != 3 {
		return false
	}
	for _, n := range numbers {
		if !spans(n, digit) || n[0] == '0' && n != "0" {
			return false
		}
	}
	word := func(c byte) bool { return alnum(c) || c == '-' }
	if hasPre {
		for id := range strings.SplitSeq(pre, ".") {
			if !spans(id, word) || spans(id, digit) && id[0] == '0' && id != "0" {
				return false
			}
		}
	}
	if hasBuild {
		for id := range strings.SplitSeq(build, ".") {
			if !spans(id, word) {
				return false
			}
		}
	}
	return true
}
