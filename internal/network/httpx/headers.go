package httpx

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/doc"
	"github.com/flowd-io/flowd/engine/expr"
	"github.com/flowd-io/flowd/schema"
)

// CheckHeaders reports invalid header names, and headers that what, a request or an answer, sets itself.
func CheckHeaders(
	headers schema.Map[expr.Template], reserved []string, what string, report func(path, message, remedy string),
) {
	for name := range headers.All() {
		switch {
		case !isToken(name):
			report("headers", fmt.Sprintf("%q is not a valid header name", name), "use letters, digits and -")
		case slices.Contains(reserved, http.CanonicalHeaderKey(name)):
			report("headers", name+" is set by the "+what+" itself", "remove it")
		}
	}
}

// isToken reports whether a text is a valid header name.
func isToken(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool {
		letter, digit := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z', r >= '0' && r <= '9'
		return !letter && !digit && !strings.ContainsRune("!#$%&'*+-.^_`|~", r)
	})
}

// HeaderOf evaluates the configured headers for a message.
func HeaderOf(headers schema.Map[expr.Template], src expr.Source) (http.Header, error) {
	header := make(http.Header, headers.Len()+2)
	for name, value := range headers.All() {
		text, err := value.Text(src)
		if err != nil {
			return nil, err
		}
		if strings.ContainsFunc(text, isControl) {
			return nil, engine.Errorf(engine.Rejected, "header %s: the value has control characters", name)
		}
		header.Set(name, text)
	}
	return header, nil
}

func isControl(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }

// textOf returns text unchanged, and other values as JSON.
func textOf(v any) (string, error) {
	if text, ok := v.(string); ok {
		return text, nil
	}
	raw, err := doc.Append(nil, v)
	return string(raw), err
}

// SetHeader sets a header to a value of metadata: text unchanged, other values as JSON. A value without such a form
// is left out.
func SetHeader(header http.Header, name string, v any) {
	text, err := textOf(v)
	if err != nil {
		return
	}
	if strings.ContainsFunc(text, isControl) {
		line := []byte(text)
		for i, c := range line { // keeps bytes that are not UTF-8
			if isControl(rune(c)) {
				line[i] = ' '
			}
		}
		text = string(line)
	}
	header.Set(name, text)
}
