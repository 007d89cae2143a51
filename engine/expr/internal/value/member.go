package value

import (
	"time"
	"unicode/utf8"

	"github.com/flowd-io/flowd/engine/expr/internal/calendar"
)

// Member is an element of a list, a character of a text, the value of a key, or a part of a time. It is nil when v has no
// such member. A negative index counts from the end.
func Member(v, key any) any {
	switch key := key.(type) {
	case string:
		switch v := v.(type) {
		case map[string]any:
			return v[key]
		case time.Time:
			return calendar.Part(v, key)
		}
	case int:
		if list, ok := v.([]any); ok {
			if key < 0 {
				key += len(list)
			}
			if key >= 0 && key < len(list) {
				return list[key]
			}
		}
		if text, ok := v.(string); ok {
			return character(text, key)
		}
	}
	return nil
}

// character is the code point at an index of a text, or nil.
func character(text string, at int) any {
	for ; at < -1 && text != ""; at++ {
		_, size := utf8.DecodeLastRuneInString(text)
		text = text[:len(text)-size]
	}
	size := 0
	if at < 0 {
		_, size = utf8.DecodeLastRuneInString(text)
		text = text[len(text)-size:]
	} else {
		text = text[PrefixLen(text, at):]
		_, size = utf8.DecodeRuneInString(text)
	}
	if text == "" {
		return nil
	}
	return text[:size]
}

// PrefixLen is how many bytes the first n characters of a text take.
func PrefixLen(text string, n int) int {
	at := 0
	for ; n > 0 && at < len(text); n-- {
		_, size := utf8.DecodeRuneInString(text[at:])
		at += size
	}
	return at
}
