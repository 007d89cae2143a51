package codec

import (
	"bytes"
	"errors"
	"runtime"
	"strings"
	"testing"
)

// Trees of many nodes in few bytes: what Working says about them is charged to the bytes
// that may be in flight.
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

// A limit that is raised until the result fits changes nothing of the result.
func FuzzWithin(f *testing.F) {
	for i, s := range []string{"a,b\n1,2\n", strings.Repeat("h", 3000) + "\n1\n2\n", "a: &a [x, x]\nb: [*a, *a, *a]",
		"&a [*a]", "[" + strings.Repeat("[", 600), "<a b='c'>d</a>", "<!DOCTYPE a [<!ENTITY b 'bbbb'>]><a>&b;</a>"} {
		f.Add(i, []byte(s))
	}
	f.Fuzz(func(t *testing.T, i int, payload []byte) {
		codec := []Expanding{new(CSV), new(YAML), new(XML)}[uint(i)%3]
		want, wantErr := codec.DecodeWithin(nil, payload, MaxSize)
		if codec.Working(payload) < 0 {
			t.Fatal("it takes less than no memory")
		}
		for limit := 16; ; limit *= 4 {
			got, err := codec.DecodeWithin(nil, payload, limit)
			if errors.Is(err, ErrLimit) && limit < MaxSize {
				continue
			}
			if !bytes.Equal(got, want) && wantErr == nil || (err == nil) != (wantErr == nil) {
				t.Fatalf("within %d: %q and %v, want %q and %v", limit, got, err, want, wantErr)
			}
			return
		}
	})
}
