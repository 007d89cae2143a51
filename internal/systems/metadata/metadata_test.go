package metadata

import (
	"testing"
	"time"
)

func TestText(t *testing.T) {
	for _, tt := range []struct {
		value any
		want  string
	}{
		{nil, ""},
		{"a\x00b", "a\x00b"},
		{[]byte("bytes"), "bytes"},
		{42, "42"},
		{int64(9007199254740993), "9007199254740993"},
		{1.5, "1.5"},
		{true, "true"},
		{time.Date(2026, 1, 2, 3, 4, 5, 600, time.UTC), "2026-01-02T03:04:05.0000006Z"},
		{[]any{"a", 1}, `["a",1]`},
		{map[string]any{"b": nil}, `{"b":null}`},
		{"\xff", "\xff"},
		{map[string]any{"b": []any{"\xff", "<"}}, `{"b":[{"$base64":"/w=="},"<"]}`},
		{make(chan int), ""},
	} {
		got := Text(tt.value)
		if _, unwritable := tt.value.(chan int); unwritable {
			if got == "" {
				t.Error("a value that JSON can't represent has no text")
			}
		} else if got != tt.want {
			t.Errorf("%#v is %q, want %q", tt.value, got, tt.want)
		}
	}
}
