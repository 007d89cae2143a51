package kafka

import (
	"path"
	"regexp"
	"testing"

	"github.com/flowd-io/flowd/internal/systems/queue/kafka"
)

var patterns = []struct{ pattern, topic string }{
	{"orders-*", "orders-eu"}, {"orders-*", "xorders-eu"}, {"a.b*", "axb"}, {"a+*", "aa"}, {"(a|b)*", "a"},
	{"a{2}*", "aa"}, {"a$*", "a"}, {"a?c", "abc"}, {"[a-c]x", "bx"}, {"[^a-c]x", "bx"}, {"[a.]x", "bx"}, {"[a*]x", "ax"},
	{"[[:alpha:]]*", "a"}, {"[ab", "a"}, {`a\*`, "ab"}, {`[\-a]x`, "-x"}, {`\Aa*`, "Aa"}, {"a|b*", "b"}, {"a^*", "a"},
	{"]*", "a"}, {"[z-a]*", "b"}, {"\x9b*", "b"},
}

// TestPatternsAndTheirExpressionsMatchTheSameTopics compares patterns with the regular expressions for the client.
func TestPatternsAndTheirExpressionsMatchTheSameTopics(t *testing.T) {
	for _, tt := range patterns {
		expressionMatchesSame(t, tt.pattern, tt.topic)
	}
}

func FuzzPatterns(f *testing.F) {
	for _, tt := range patterns {
		f.Add(tt.pattern, tt.topic)
	}
	f.Fuzz(expressionMatchesSame)
}

func expressionMatchesSame(t *testing.T, pattern, topic string) {
	if !isPattern(pattern) || checkTopic(pattern) != "" || kafka.CheckTopic(topic) != nil {
		return
	}
	want, err := path.Match(pattern, topic)
	if err != nil {
		return
	}
	re, err := regexp.Compile(expression(pattern))
	if err != nil {
		t.Fatalf("%q: %v", pattern, err)
	}
	if got := re.MatchString(topic); got != want {
		t.Errorf("%q matches %q: %t, but %t as %s", pattern, topic, want, got, re)
	}
}
