package yamltext

import (
	"strconv"
	"strings"

	"github.com/flowd-io/flowd/schema"
)

// syntaxProblem returns where the text stops being valid YAML, why, and what to write. The parser gives no column and
// often a line too early, so the text is searched for the usual mistakes. Without one, the parser's line is shown.
func syntaxProblem(src *Source, err error) (int, schema.Problem) {
	line, message := parserLine(err)
	at := src.lines[min(line, len(src.lines))-1] + spaces(src.line(line))
	if strings.Contains(message, "exceeded max depth") { // the parser's limit, far above maxDepth
		return at, tooDeep
	}
	if f := diagnose(src.text); f != nil {
		return f.off, schema.Problem{Code: "yaml-syntax", Message: f.message, Remedy: f.remedy}
	}
	const remedy = "check this line and the one above: quotes, brackets, indentation, a space after each colon"
	return at, schema.Problem{Code: "yaml-syntax", Message: message, Remedy: remedy}
}

var lineNumber = onFirstUse(`^(?:yaml: )?(?:line (\d+): )?`)

// parserLine returns the line, or 1 if there is none, and the message of a parser error.
func parserLine(err error) (line int, message string) {
	m := lineNumber().FindStringSubmatch(err.Error())
	line, _ = strconv.Atoi(m[1])
	return max(line, 1), strings.TrimPrefix(err.Error(), m[0])
}

// MissingSpace splits a text that lacks the space after its colon, `a:b`.
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
