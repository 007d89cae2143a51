package mqtt

import (
	"strings"
	"unicode/utf8"

	"github.com/flowd-io/flowd/internal/components/controls"
)

// longest is the largest size in bytes of a topic or any other text in the protocol.
const longest = 65535

// badText returns what is wrong with a text of the protocol, or "".
func badText(text string) string {
	switch {
	case len(text) > longest:
		return "is longer than 65535 bytes"
	case !utf8.ValidString(text):
		return "is not valid UTF-8"
	case strings.IndexByte(text, 0) >= 0:
		return "contains a zero byte"
	case strings.ContainsFunc(text, disallowed):
		return "contains a control character or a Unicode noncharacter, for which a server may close the connection"
	}
	return ""
}

// disallowed reports whether a text should not contain a character: the standard lets servers close the connection for it.
func disallowed(c rune) bool {
	return controls.Is(c) || c&0xfffe == 0xfffe || c >= 0xfdd0 && c <= 0xfdef
}

// BadTopic returns what is wrong with a topic to publish to, or "".
func BadTopic(topic string) string {
	switch {
	case topic == "":
		return "is empty"
	case strings.ContainsAny(topic, "+#"):
		return "has a wildcard, + or #, which only subscriptions may have"
	}
	return badText(topic)
}

// shared is the prefix of a shared subscription, $share/GROUP/FILTER.
const shared = "$share/"

// IsShared reports whether a filter is a shared subscription. EMQX also accepts the prefix $queue/.
func IsShared(filter string) bool {
	return strings.HasPrefix(filter, shared) || strings.HasPrefix(filter, "$queue/")
}

// Shared returns the filter of a shared subscription.
func Shared(group, filter string) string { return shared + group + "/" + filter }

// BadGroup returns what is wrong with the group of a shared subscription, or "".
func BadGroup(group string) string {
	if strings.ContainsAny(group, "/+#") {
		return "contains /, + or #"
	}
	return badText(group)
}

// Matches reports whether a filter, which may be a shared subscription, matches a topic.
func Matches(filter, topic string) bool {
	if rest, is := strings.CutPrefix(filter, shared); is {
		_, filter, _ = strings.Cut(rest, "/")
	}
	filter = strings.TrimPrefix(filter, "$queue/")
	if strings.HasPrefix(topic, "$") && !strings.HasPrefix(filter, "$") {
		return false // wildcards do not match the first level of such topics
	}
	for {
		level, deeper, more := strings.Cut(filter, "/")
		if level == "#" {
			return true
		}
		name, below, has := strings.Cut(topic, "/")
		switch {
		case level != "+" && level != name:
			return false
		case !has:
			return !more || deeper == "#" // a/# matches a, too
		case !more:
			return false
		}
		filter, topic = deeper, below
	}
}

// BadFilter returns what is wrong with a filter of topics, or "", and the remedy.
func BadFilter(filter string) (problem, remedy string) {
	const wild = "write + alone between two slashes, for one level, or # alone at the end, for any number"
	if problem := badText(filter); problem != "" {
		return problem, "write another filter"
	}
	if rest, is := strings.CutPrefix(filter, shared); is {
		group, topics, found := strings.Cut(rest, "/")
		if group == "" || !found || topics == "" || BadGroup(group) != "" {
			return "is not a shared subscription", "write $share/GROUP/FILTER, with a GROUP without + and #"
		}
		filter = topics
	}
	if filter == "" {
		return "is empty", "write a filter, such as sensors/+/temperature"
	}
	levels := strings.Split(filter, "/")
	for i, level := range levels {
		switch {
		case level == "#" && i < len(levels)-1:
			return "has a # that is not at the end", wild
		case level == "+" || level == "#":
		case strings.ContainsAny(level, "+#"):
			return "has a wildcard that is not a level of its own", wild
		}
	}
	return "", ""
}
