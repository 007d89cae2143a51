// Package traceparent reads the header with which the W3C's Trace Context says to which span something belongs.
package traceparent

import (
	"strings"

	"github.com/flowd-io/flowd/engine"
)

// Parent is a span.
type Parent struct {
	Trace, Span string // 32 and 16 hexadecimal digits in lower case
	Sampled     bool   // its sender has recorded it
}

// Of returns the parent that metadata names. It returns false if there is none, or if it is not valid.
func Of(m engine.Meta) (p Parent, ok bool) {
	v, _ := m.Get("traceparent")
	text, _ := v.(string)
	const length = len("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
	if len(text) < length || text[2] != '-' || text[35] != '-' || text[52] != '-' || len(text) > length && text[length] != '-' {
		return p, false
	}
	version, trace, span, flags := text[:2], text[3:35], text[36:52], text[53:length]
	switch {
	case !IsHex(version) || !IsHex(trace) || !IsHex(span) || !IsHex(flags):
		return p, false
	case version == "ff" || version == "00" && len(text) > length: // later versions may have more parts
		return p, false
	case strings.Trim(trace, "0") == "" || strings.Trim(span, "0") == "":
		return p, false
	}
	return Parent{trace, span, strings.IndexByte("13579bdf", flags[1]) >= 0}, true
}

// IsHex reports whether text has hexadecimal digits in lower case only.
func IsHex(text string) bool { return strings.Trim(text, "0123456789abcdef") == "" }
