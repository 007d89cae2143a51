package http

import "strings"

// nextLink returns the URL with rel=next in Link headers (RFC 8288), or "".
func nextLink(headers []string) string {
	for _, text := range headers {
		for text = strings.TrimLeft(text, " \t,"); strings.HasPrefix(text, "<"); text = strings.TrimLeft(text, " \t,") {
			target, rest, ok := strings.Cut(text[1:], ">")
			if !ok {
				break
			}
			var isNext bool
			if isNext, text = linkParams(rest); isNext {
				return target
			}
		}
	}
	return ""
}

// linkParams reads parameters up to the next link, and says whether the first rel has next among its words.
func linkParams(text string) (isNext bool, rest string) {
	known := false
	for {
		text = strings.TrimLeft(text, " \t")
		if !strings.HasPrefix(text, ";") {
			return isNext, text
		}
		text = strings.TrimLeft(text[1:], " \t")
		end := strings.IndexAny(text, "=;, \t")
		if end < 0 {
			return isNext, ""
		}
		name := text[:end]
		text = strings.TrimLeft(text[end:], " \t")
		if !strings.HasPrefix(text, "=") {
			continue
		}
		var value string
		value, text = paramValue(strings.TrimLeft(text[1:], " \t"))
		if strings.EqualFold(name, "rel") && !known {
			known = true
			for word := range strings.FieldsSeq(value) {
				isNext = isNext || strings.EqualFold(word, "next")
			}
		}
	}
}

// paramValue reads a word, or a text in quotes.
func paramValue(text string) (value, rest string) {
	if !strings.HasPrefix(text, `"`) {
		if end := strings.IndexAny(text, ";, \t"); end >= 0 {
			return text[:end], text[end:]
		}
		return text, ""
	}
	var b strings.Builder
	for i := 1; i < len(text); i++ {
		switch c := text[i]; {
		case c == '"':
			return b.String(), text[i+1:]
		case c == '\\' && i+1 < len(text):
			i++
			b.WriteByte(text[i])
		default:
			b.WriteByte(c)
		}
	}
	return b.String(), ""
}
