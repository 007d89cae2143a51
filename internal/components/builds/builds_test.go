package builds

import (
	"strings"
	"testing"
)

func TestTags(t *testing.T) {
	for _, tt := range []struct {
		tags   string
		has    bool
		remedy string
	}{
		{"", true, "no tags"},
		{"netgo", true, "-tags netgo"},
		{"no_sql", true, "-tags no_sql"},
		{"no_kafka", false, "no tags"},
		{"no_kafka no_sql", false, "-tags no_sql"},
		{"slim", false, "-tags slim,kafka"},
		{"slim kafka", true, "-tags slim,kafka"},
		{"slim sql", false, "-tags slim,sql,kafka"},
		{"slim no_kafka", false, "-tags slim,kafka"},
		{"slim kafka no_kafka", false, "-tags slim,kafka"},
	} {
		t.Run(tt.tags, func(t *testing.T) {
			tags := strings.Fields(tt.tags)
			if got := has(tags, "kafka"); got != tt.has {
				t.Errorf("has kafka: %v, want %v", got, tt.has)
			}
			if got := remedy(tags, "kafka"); !strings.HasSuffix(got, " with "+tt.remedy) {
				t.Errorf("remedy %q, want %q", got, tt.remedy)
			}
			if got := strings.Join(tags, " "); got != tt.tags {
				t.Errorf("the tags are now %q", got)
			}
		})
	}
}
