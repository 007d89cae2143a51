package yamltext

import (
	"strconv"
	"strings"

	"github.com/flowd-io/flowd/schema"
)

// syntaxProblem says where the text stops being YAML, why, and what to write. The parser
// that found the error gives no column and often a line too early. So the text is read once
// more for the usual mistakes. If it has none of them, the parser's line is shown.
func syntaxProblem(src *Source, err error) (int, schema.Problem) {
	line, message := parserLine(err)
	at := src.lines[min(line, len(src.lines))-1] + spaces(src.line(line))
	if strings.Contains(message, "exceeded max depth") { // of the parser, far beyond maxDepth
		return at, tooDeep
	}
	if f := diagnose(src.text); f != nil {
		return f.off, schema.Problem{Code: "yaml-syntax", Message: f.message, Remedy: f.remedy}
	}
	const remedy = "check this line and the one above: quotes, brackets, indentation, a space after each colon"
	return at, schema.Problem{Code: "yaml-syntax", Message: message, Remedy: remedy}
}

var lineNumber = onFirstUse(`^(?:yaml: )?(?:line (\d+): )?`)

// parserLine is the line, 1 when there is none, and the message of an error of
// the first parser.
func parserLine(err error) (line int, message string) {
	m := lineNumber().FindStringSubmatch(err.Error())
	line, _ = strconv.Atoi(m[1])
	return max(line, 1), strings.TrimPrefix(err.Error(), m[0])
}

// MissingSpace takes a text apart that lacks the space behind its colon, `a:b`.
func MissingSpace(text string) (key, value string, ok bool) {
	m := missingSpace().FindStringSubmatch(text)
	if m == nil {
		return "", "", false
	}
	return m[1], m[2], true
}

// finding is a mistake that diagnose knows.
type finding struct {
	off             int
	message, remedy string
}
