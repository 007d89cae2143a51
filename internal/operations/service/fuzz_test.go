package service

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
)

// A body of the admin API is one JSON object of known fields, or refused in few words.
func FuzzRead(f *testing.F) {
	type body struct {
		Pipeline string
		Messages int
		Per      text
	}
	for _, s := range []string{`{}`, `{"pipeline": "a", "messages": 3, "per": "1s"}`, `[]`, `{"messages": "3"}`,
		`{"messages": 1e99}`, `{} {}`, `{"x": 1}`, `null`, "{\"pipeline\": \"\\u001b[2J\"}",
		strings.Repeat("{\"pipeline\":", 20_000)} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var got, want body
		if err := decodeBody(bytes.NewReader(data), &got); err != nil {
			if len(err.Error()) > 400 {
				t.Fatalf("%d bytes of error", len(err.Error()))
			}
			return
		}
		if err := json.Unmarshal(data, &want); err != nil || got != want {
			t.Fatalf("got %v, encoding/json gives %v and %v", got, want, err)
		}
	})
}
