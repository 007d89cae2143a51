package doc_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/flowd-io/flowd/engine/doc"
)

func TestRewriteKeepsTheOrderOfFields(t *testing.T) {
	var path []any
	leaf := func(dst []byte, field string, inField bool, index int, raw []byte) ([]byte, bool) {
		return fmt.Appendf(dst, `"%s %t %d %s %v"`, field, inField, index, raw, path), true
	}
	upper := func(dst, raw []byte) ([]byte, bool) { return append(dst, strings.ToUpper(string(raw))...), true }
	deep := strings.Repeat(`{"b":1,"a":[`, 100) + strings.Repeat(`]}`, 100)
	tests := []struct {
		name     string
		in, want string
		edits    doc.Edits
	}{
		{"leaves", `{"b": {"d":1,"c":[true]}, "a":null}`,
			`{"b":{"d":"d true 0 1 [b d]","c":["c true 0 true [b c 0]"]},"a":"a true 0 null [a]"}`, doc.Edits{Leaf: leaf, Path: &path}},
		{"of duplicate keys, the last", `{"b":1,"a":2,"b":3,"c":4}`, `{"a":"a true 0 2 []","b":"b true 0 3 []","c":"c true 0 4 []"}`,
			doc.Edits{Leaf: leaf}},
		{"keys", `{"b": 1.50, "a": [{"d": "x", "c": {}}]}`, `{"B":1.5,"A":[{"D":"x","C":{}}]}`, doc.Edits{Key: upper}},
		{"two keys that become one", `{"a":1,"A":2}`, "", doc.Edits{Key: upper}},
		{"a key that is no text", `{"a":1}`, "", doc.Edits{Key: func(dst, _ []byte) ([]byte, bool) { return append(dst, '5'), true }}},
		{"deep documents", deep, strings.ToUpper(deep), doc.Edits{Key: upper}},
	}
	for _, tt := range tests {
		got, ok := doc.Rewrite([]byte("before "), []byte(tt.in), tt.edits)
		if want := "before " + tt.want; ok != (tt.want != "") || string(got) != want {
			t.Errorf("%s: got %s, %v, want %s", tt.name, got, ok, want)
		}
	}
	if len(path) > 0 {
		t.Errorf("the path still has %v", path)
	}
}
