package parquet

import (
	"fmt"
	"strings"
	"testing"
)

// shown is a schema as a configuration would say it.
func shown(n *node) string {
	switch n.kind {
	case lists:
		return "[" + shown(n.item) + "]"
	case objects:
		var all []string
		for _, f := range n.fields {
			all = append(all, f.name+": "+shown(f))
		}
		return "{" + strings.Join(all, ", ") + "}"
	}
	return n.label
}

func TestInference(t *testing.T) {
	deep := strings.Repeat(`{"a":`, 40) + "1" + strings.Repeat("}", 40)
	tests := []struct {
		name      string
		documents []string
		want      string
	}{
		{"each kind", []string{`{"b":true,"i":1,"d":1.5,"t":"x","l":["x"],"o":{"p":1}}`},
			"{b: bool, i: int64, d: double, t: text, l: [text], o: {p: int64}}"},
		{"fields of several documents", []string{`{"a":1}`, `{"b":"x","a":null}`}, "{a: int64, b: text}"},
		{"null, and a list without items", []string{`{"a":null,"l":[],"m":[null,[]]}`}, "{a: text, l: [text], m: [[text]]}"},
		{"integers and fractions, in both orders", []string{`{"a":1,"b":1.5}`, `{"a":1.5,"b":1}`}, "{a: double, b: double}"},
		{"integers that a double rounds, and fractions", []string{`{"a":9007199254740993,"b":1.5,"c":9007199254740992}`,
			`{"a":1.5,"b":-9007199254740993,"c":1e3}`}, "{a: json, b: json, c: double}"},
		{"integers of 64 bits, and longer ones", []string{`{"a":-9223372036854775808,"b":9223372036854775808}`}, "{a: int64, b: json}"},
		{"a number that no double is", []string{`{"a":1e400}`}, "{a: json}"},
		{"values of different kinds", []string{`{"a":1,"l":[1,"x"],"o":{"p":1}}`, `{"a":"x","o":[1]}`, `{"a":2}`},
			"{a: json, l: [json], o: json}"},
		{"an object without fields", []string{`{"o":{},"p":{"q":{}}}`}, "{o: json, p: {q: json}}"},
		{"an object whose fields come later", []string{`{"o":{}}`, `{"o":{"p":1}}`}, "{o: {p: int64}}"},
		{"what is nested too deeply", []string{deep}, strings.Repeat("{a: ", 32) + "{a: json" + strings.Repeat("}", 33)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var in inference
			for _, d := range tt.documents {
				in.addDocument([]byte(d))
			}
			if got := shown(in.schema()); got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}

// TestAnObjectOfAnyKeysIsNotManyColumns: what grows with each document is one column.
func TestAnObjectOfAnyKeysIsNotManyColumns(t *testing.T) {
	var in inference
	for i := range 2000 {
		in.addDocument(fmt.Appendf(nil, `{"id":1,"by_user":{"u%d":1},"other":[{"k":1}]}`, i))
	}
	want := "{id: int64, by_user: json, other: [{k: int64}]"
	for i := range 900 { // there is room again
		in.addDocument(fmt.Appendf(nil, `{"f%d":1}`, i))
		want += fmt.Sprintf(", f%d: int64", i)
	}
	if got, want := shown(in.schema()), want+"}"; got != want {
		t.Errorf("got %.200s, want %s", got, want)
	}
}
