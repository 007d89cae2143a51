package codetext

import (
	"strings"
	"unicode"
)

// OperandMissing says whether there is no value at the end of code.
func OperandMissing(code string) bool {
	code = strings.TrimRight(code, " \t\r\n")
	return code == "" || strings.HasSuffix(code, "(") || strings.HasSuffix(code, ",")
}

// LastWord is the identifier with which code ends, or "".
func LastWord(code string) string {
	front := strings.TrimRightFunc(code, func(r rune) bool {
		return unicode.IsLetter(r) || unicode.IsNumber(r) || r == '_' || r == '$'
	})
	return strings.TrimLeftFunc(code[len(front):], unicode.IsNumber)
}

// EndsWithPipe says whether code ends with | and word.
func EndsWithPipe(code, word string) bool {
	return word != "" && strings.HasSuffix(strings.TrimRight(strings.TrimSuffix(code, word), " \t\n\f\r"), "|")
}

// OpenBracket is where the innermost bracket that code leaves open is, or -1.
func OpenBracket(code string) int {
	open := []int{-1}
	var s Scanner
	for i := range len(code) {
		b := code[i]
		s.Next(b)
		switch {
		case !s.Plain():
		case b == '(' || b == '[' || b == '{':
			open = append(open, i)
		case (b == ')' || b == ']' || b == '}') && len(open) > 1:
			open = open[:len(open)-1]
		}
	}
	return open[len(open)-1]
}

// CallBefore is the name of the function whose call is still open at the end of code, and where the name begins. It is "" if there
// is none.
func CallBefore(code string) (name string, offset int) {
	for at := OpenBracket(code); at >= 0; at = OpenBracket(code[:at]) {
		if name = LastWord(code[:at]); code[at] == '(' && name != "" {
			return name, at - len(name)
		}
	}
	return "", 0
}
