package call

import (
	"bytes"
	"encoding/json"
	"testing"
)

// What an answer becomes in a field is JSON, and says what the answer said.
func FuzzValue(f *testing.F) {
	for _, s := range []string{"", " ", "text", "12", "{}", `{"a":1`, "[1,2]\n", "\xff", "\x1b[2J", `"`, "null",
		"1e400"} {
		f.Add([]byte(s), true)
		f.Add([]byte(s), false)
	}
	f.Fuzz(func(t *testing.T, answer []byte, scalars bool) {
		v, err := Value(answer, scalars)
		if err != nil {
			return
		}
		if !json.Valid(v) {
			t.Fatalf("%q is no JSON", v)
		}
		trimmed := bytes.TrimSpace(answer)
		var s string
		if json.Unmarshal(v, &s) == nil && len(trimmed) > 0 && trimmed[0] != '"' && string(v) != "null" &&
			s != string(trimmed) {
			t.Fatalf("%q became %q", trimmed, s)
		}
	})
}
