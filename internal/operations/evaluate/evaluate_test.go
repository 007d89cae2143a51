package evaluate

import (
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
)

func TestNamesAreCompleted(t *testing.T) {
	sample := `{"user": {"name": "a", "odd name": 1, "tags": ["x"]}, "upsert": 1, "items": [{"sku": "b"}],
		"` + "\u202e" + `bidi": 1, "` + strings.Repeat("long", 100) + `": 1}`
	for _, tt := range []struct {
		line   string
		want   []string // some of the names
		more   string   // what all names begin with
		others bool     // there are more names
	}{
		{"us", []string{"user"}, "user", false},
		{"1 + user.", []string{"name", "tags"}, "", false},
		{"map(items[0].s", []string{"sku"}, "sku", false},
		{"this.user.n", []string{"name"}, "name", false},
		{"up", []string{"upsert", "upper("}, "up", true},
		{"items[7].", nil, "", false},
		{"items[0][1].s", nil, "", false},
		{"items[99999999999999999999].s", nil, "", false},
		{"upper(name).", nil, "", false},
		{"lo", []string{"lower("}, "lo", true},
		{"nothing_like_it", nil, "", false},
		{"", []string{"user", "items"}, "", true},
	} {
		names, from := Complete(tt.line, []byte(sample))
		for _, name := range tt.want {
			if !slices.Contains(names, name) {
				t.Errorf("%q: %q lacks %q", tt.line, names, name)
			}
		}
		if tt.more != "" && Extend(names) != tt.more || from > len(tt.line) {
			t.Errorf("%q: names from %d begin with %q, want %q", tt.line, from, Extend(names), tt.more)
		}
		if !tt.others && len(names) != len(tt.want) {
			t.Errorf("%q: got %q, want %q", tt.line, names, tt.want)
		}
		for _, name := range names {
			if len(name) > 100 || strings.Contains(name, "\u202e") {
				t.Errorf("%q: %.100q must not reach a terminal", tt.line, name)
			}
		}
	}
	if names, _ := Complete("us", []byte("not json")); slices.Contains(names, "user") {
		t.Errorf("got %q of a payload that is not a document", names)
	}
}

func TestAStreamIsDividedIntoMessages(t *testing.T) {
	for _, tt := range []struct {
		name, by, stream string
		want             []string
	}{
		{"lines", "auto", "\n{\"a\":1}\nnot json\n", []string{`{"a":1}`, "not json"}},
		{"a document of several lines", "auto", "\n{\n\"a\":1}\n{}", []string{"{\n\"a\":1}", "{}"}},
		{"a list on one line", "auto", "[1,2]", []string{"[1,2]"}},
		{"a list whose elements are asked for", "json", "[1,2]", []string{"1", "2"}},
		{"a whole file", "whole", "a\nb\n", []string{"a\nb\n"}},
		{"a long line", "auto", strings.Repeat("x", 100_000), []string{strings.Repeat("x", 100_000)}},
		{"nothing", "auto", "", nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var got []string
			messages := Read(strings.NewReader(tt.stream), tt.by, nil)
			for {
				m, err := messages.Next()
				if errors.Is(err, io.EOF) {
					break
				}
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, string(m.Bytes()))
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("got %.200q, want %.200q", got, tt.want)
			}
		})
	}
}
