package codec

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
)

// What an answer becomes in a field is JSON, and says what the answer said.
func FuzzAnswer(f *testing.F) {
	for _, s := range []string{"", " ", "text", "12", "{}", `{"a":1`, "[1,2]\n", "\xff", "\x1b[2J", `"`, "null",
		"1e400"} {
		f.Add([]byte(s), true)
		f.Add([]byte(s), false)
	}
	f.Fuzz(func(t *testing.T, answer []byte, scalars bool) {
		v, err := Answer(answer, scalars)
		if err != nil {
			return
		}
		if !json.Valid(v) {
			t.Fatalf("%q is not JSON", v)
		}
		trimmed := bytes.TrimSpace(answer)
		var s string
		if json.Unmarshal(v, &s) == nil && len(trimmed) > 0 && trimmed[0] != '"' && string(v) != "null" &&
			s != string(trimmed) {
			t.Fatalf("%q became %q", trimmed, s)
		}
	})
}

func TestAnswer(t *testing.T) {
	tests := []struct {
		name, in string
		scalars  bool
		want     string
	}{
		{"an object", " {\"a\": 1.0}\n", false, `{"a": 1.0}`},
		{"an array", "[1]", false, "[1]"},
		{"a scalar where they count", "12\n", true, "12"},
		{"a scalar where they do not", "12\n", false, `"12"`},
		{"text", "a \"b\"\n", true, `"a \"b\""`},
		{"nothing", " \n", true, "null"},
		{"half a document", `{"a":`, true, `"{\"a\":"`},
		{"nested too deep", strings.Repeat("[", 600) + strings.Repeat("]", 600), true,
			`"` + strings.Repeat("[", 600) + strings.Repeat("]", 600) + `"`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := Answer([]byte(tt.in), tt.scalars)
			if err != nil || string(got) != tt.want {
				t.Errorf("got %s, %v, want %s", got, err, tt.want)
			}
		})
	}
	if _, err := Answer([]byte("\xff"), true); err == nil {
		t.Error("bytes are taken for text")
	}
}
