package mqtt

import "testing"

func TestFiltersMatchTopics(t *testing.T) {
	tests := []struct {
		filter, topic string
		want          bool
	}{
		{"a/b", "a/b", true},
		{"a/b", "a/c", false},
		{"a/b", "a/b/c", false},
		{"a/b/c", "a/b", false},
		{"a/+", "a/b", true},
		{"a/+", "a", false},
		{"a/+", "a/b/c", false},
		{"+/b/+", "a/b/", true},
		{"a/#", "a", true},
		{"a/#", "a/b/c", true},
		{"a/#", "b", false},
		{"#", "a/b", true},
		{"#", "$SYS/load", false},
		{"+/load", "$SYS/load", false},
		{"$SYS/#", "$SYS/load", true},
		{"$share/group/a/+", "a/b", true},
		{"$queue/a/+", "a/b", true},
		{"$share/group/a/+", "group/a/b", false},
	}
	for _, tt := range tests {
		if got := Matches(tt.filter, tt.topic); got != tt.want {
			t.Errorf("Matches(%q, %q) = %v, want %v", tt.filter, tt.topic, got, tt.want)
		}
	}
}
