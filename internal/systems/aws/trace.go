package aws

import (
	"strings"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/network/traceparent"
)

// The header of a trace as X-Ray writes it is Root=1-TIME-REST;Parent=SPAN;Sampled=1. The W3C's traceparent is
// 00-TIMEREST-SPAN-01, with the same 32 and 16 hexadecimal digits.

// asW3C returns the header of X-Ray as a traceparent, or "" if it lacks a part or is not valid.
func asW3C(header string) string {
	var root, parent, flags = "", "", "00"
	for part := range strings.SplitSeq(header, ";") {
		name, value, _ := strings.Cut(strings.TrimSpace(part), "=")
		switch name {
		case "Root":
			root = value
		case "Parent":
			parent = value
		case "Sampled":
			if value == "1" {
				flags = "01"
			}
		}
	}
	version, rest, _ := strings.Cut(root, "-")
	at, id, _ := strings.Cut(rest, "-")
	if version != "1" || !isID(at, 8) || !isID(id, 24) || !isID(parent, 16) {
		return ""
	}
	return "00-" + at + id + "-" + parent + "-" + flags
}

// traceHeader returns the trace that metadata names as the header of X-Ray, or "" if it names none.
func traceHeader(m engine.Meta) string {
	p, ok := traceparent.Of(m)
	if !ok {
		return ""
	}
	sampled := "0"
	if p.Sampled {
		sampled = "1"
	}
	return "Root=1-" + p.Trace[:8] + "-" + p.Trace[8:] + ";Parent=" + p.Span + ";Sampled=" + sampled
}

// isID reports whether text has n hexadecimal digits in lower case.
func isID(text string, n int) bool { return len(text) == n && traceparent.IsHex(text) }
