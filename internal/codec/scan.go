package codec

import (
	"bytes"
	"encoding/json"
	"iter"
	"unsafe"
)

// Elements yields the text of each element of a JSON array. The text must be
// valid: it is not checked again.
func Elements(array []byte) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		for i := skipSpace(array, 1); array[i] != ']'; {
			end := skipValue(array, i)
			if !yield(array[i:end:end]) {
				return
			}
			i = skipNext(array, end)
		}
	}
}

// Members yields the key and the text of each field of a JSON object, which must
// be valid.
func Members(object []byte) iter.Seq2[string, []byte] {
	return func(yield func(string, []byte) bool) {
		for i := skipSpace(object, 1); object[i] != '}'; {
			end := skipValue(object, i)
			key := text(object[i:end])
			i = skipSpace(object, skipSpace(object, end)+1)
			end = skipValue(object, i)
			if !yield(key, object[i:end:end]) {
				return
			}
			i = skipNext(object, end)
		}
	}
}

// Text is the text of a JSON value: a string's own, otherwise its JSON. It shares the
// value's memory where it can: payloads never change.
func Text(value []byte) []byte {
	if value[0] != '"' {
		return value
	}
	inner := value[1 : len(value)-1 : len(value)-1]
	if bytes.IndexByte(inner, '\\') < 0 {
		return inner
	}
	var s string
	_ = json.Unmarshal(value, &s) // a valid string has no error
	return []byte(s)
}

// text is Text as a string, without a copy.
func text(value []byte) string {
	b := Text(value)
	return unsafe.String(unsafe.SliceData(b), len(b))
}

// skipNext is where the next element begins, or where the closing bracket is.
func skipNext(s []byte, i int) int {
	i = skipSpace(s, i)
	if s[i] == ',' {
		i = skipSpace(s, i+1)
	}
	return i
}

func skipSpace(s []byte, i int) int {
	for s[i] == ' ' || s[i] == '\n' || s[i] == '\t' || s[i] == '\r' {
		i++
	}
	return i
}

// skipValue is where the value that begins at i ends.
func skipValue(s []byte, i int) int {
	for depth := 0; i < len(s); i++ {
		switch s[i] {
		case '"':
			i = endOfString(s, i)
		case '{', '[':
			depth++
			continue
		case '}', ']':
			depth--
		case ',', ':', ' ', '\n', '\t', '\r':
			continue
		default:
			i = endOfWord(s, i)
		}
		if depth == 0 {
			return i + 1
		}
	}
	return i
}

// endOfString is the closing quote of the string that begins at i.
func endOfString(s []byte, i int) int {
	for i++; s[i] != '"'; i++ {
		if s[i] == '\\' {
			i++
		}
	}
	return i
}

// endOfWord is the last byte of the number or word that begins at i.
func endOfWord(s []byte, i int) int {
	for i+1 < len(s) {
		switch s[i+1] {
		case ',', '}', ']', ':', ' ', '\n', '\t', '\r':
			return i
		}
		i++
	}
	return i
}
