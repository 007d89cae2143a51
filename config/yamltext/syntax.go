package yamltext

import (
	"errors"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/parser"

	"github.com/flowd-io/flowd/schema"
)

// syntaxProblem says where the text stops being YAML, why, and what to write. The parser
// that found the error gives no column and often a line too early. So the text is read once
// more for the usual mistakes; if it has none of them, a second parser decides, and then
// the first one's line.
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
	if off, message, ok := secondOpinion(src); ok {
		return off, schema.Problem{Code: "yaml-syntax", Message: message, Remedy: remedy}
	}
	return at, schema.Problem{Code: "yaml-syntax", Message: message, Remedy: remedy}
}

// manageable says whether the other parser can read a text in little time and memory:
// both grow with the square of how deep it nests.
func manageable(text string) bool {
	const longest, brackets = 64 << 10, 5_000
	if len(text) > longest || strings.Count(text, "[")+strings.Count(text, "{") > brackets {
		return false
	}
	for line := range strings.Lines(text) {
		if strings.Count(line, "- ")+strings.Count(line, "? ") > maxDepth {
			return false
		}
	}
	return true
}

// secondOpinion asks the other parser.
func secondOpinion(src *Source) (off int, message string, ok bool) {
	defer func() {
		if recover() != nil { // text that it can't read at all
			ok = false
		}
	}()
	if !manageable(src.text) {
		return 0, "", false
	}
	_, err := parser.ParseBytes([]byte(src.text), 0)
	var e *yaml.SyntaxError
	if !errors.As(err, &e) || e.Token == nil || e.Token.Position == nil {
		return 0, "", false
	}
	p := e.Token.Position
	if p.Line < 1 || p.Line > len(src.lines) {
		return 0, "", false
	}
	line := src.line(p.Line)
	for i := range line {
		if p.Column--; p.Column <= 0 {
			return src.lines[p.Line-1] + i, e.Message, true
		}
	}
	return src.lines[p.Line-1] + len(line), e.Message, true
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
