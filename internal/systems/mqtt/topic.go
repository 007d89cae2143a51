package mqtt

import (
	"strings"
	"unicode/utf8"

	"github.com/flowd-io/flowd/internal/components/controls"
)

// longest is how many bytes a topic, and any other text of the protocol, has at most.
const longest = 65535

// badText is what is wrong with a text that the protocol carries, or "".
func badText(text string) string {
	switch {
	case len(text) > longest:
		return "is longer than 65535 bytes"
	case !utf8.ValidString(text):
		return "is not valid UTF-8"
	case strings.IndexByte(text, 0) >= 0:
		return "contains a zero byte"
	case strings.ContainsFunc(text, disallowed):
		return "contains a control character or a noncharacter, for which a server may close the connection"
	}
	return ""
}

// disallowed are characters that the protocol's texts should not have.
func disallowed(c rune) bool {
	return controls.Is(c) || c&0xfffe == 0xfffe || c >= 0xfdd0 && c <= 0xfdef
}

// BadTopic is what is wrong with a topic to publish to, or "".
func BadTopic(topic string) string {
	switch {
	case topic == "":
		return "is empty"
	case strings.ContainsAny(topic, "+#"):
		return "has a wildcard, + or #, which only subscriptions may have"
	}
	return badText(topic)
}

// shared is how a filter of a shared subscription begins: $share/GROUP/FILTER.
const shared = "$share/"

// IsShared says that a filter is that of a shared subscription.
func IsShared(filter string) bool {
	return strings.HasPrefix(filter, shared) || strings.HasPrefix(filter, "$queue/")
}

// Shared is a filter of a group.
func Shared(group, filter string) string { return shared + group + "/" + filter }

// BadGroup is what is wrong with the name of a group that shares a subscription, or "".
func BadGroup(group string) string {
	if strings.ContainsAny(group, "/+#") {
		return "contains /, + or #"
	}
	return badText(group)
}

// BadFilter is what is wrong with a filter of topics, and what to do about it, or "".
func BadFilter(filter string) (problem, remedy string) {
	const wild = "write + alone between two slashes, for one level, or # alone at the end, for any number"
	if problem := badText(filter); problem != "" {
		return problem, "write another"
	}
	if rest, is := strings.CutPrefix(filter, shared); is {
		group, of, found := strings.Cut(rest, "/")
		if group == "" || !found || of == "" || BadGroup(group) != "" {
			return "is not a shared subscription", "write $share/GROUP/FILTER, with a GROUP without + and #"
		}
		filter = of
	}
	if filter == "" {
		return "is empty", "write a filter, such as sensors/+/temperature"
	}
	levels := strings.Split(filter, "/")
	for i, level := range levels {
		switch {
		case level == "#" && i < len(levels)-1:
			return "has a # that is not at its end", wild
		case level == "+" || level == "#":
		case strings.ContainsAny(level, "+#"):
			return "has a wildcard that is not a level of its own", wild
		}
	}
	return "", ""
}
