package codec

import (
	"runtime"
	"strings"
	"testing"
)

// Trees of many nodes in few bytes: what Working says of them is charged to the bytes that
// may be under way.
func TestWorkingIsHonest(t *testing.T) {
	repeat := func(open, s, end string) string { return open + strings.Repeat(s, (256<<10)/len(s)) + end }
	tests := []struct {
		name    string
		codec   Expanding
		payload string
	}{
		{"flow sequence", new(YAML), repeat("[", "a,", "a]")},
		{"empty lists", new(YAML), repeat("[", "[],", "a]")},
		{"mappings", new(YAML), repeat("[", "{a},", "a]")},
		{"pairs", new(YAML), repeat("[", "a: ,", "a]")},
		{"lines", new(YAML), repeat("", "- a\n", "")},
		{"empty items", new(YAML), repeat("", "-\n", "")},
		{"elements", new(XML), repeat("<r>", "<a/>", "</r>")},
		{"elements with an end", new(XML), repeat("<r>", "<a></a>", "</r>")},
		{"attributes", new(XML), repeat("<r ", "a='' ", "/>")},
		{"text", new(XML), repeat("<r>", "text &amp; ", "</r>")},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			if _, err := tt.codec.DecodeWithin(nil, []byte(tt.payload), MaxSize); err != nil {
				t.Fatal(err)
			}
			runtime.ReadMemStats(&after)
			// Of all that is made, half is in use at once, or less.
			made, says := int(after.TotalAlloc-before.TotalAlloc), tt.codec.Working([]byte(tt.payload))
			if made/2 > says {
				t.Errorf("%d KiB were made, %d KiB said", made>>10, says>>10)
			}
		})
	}
}
