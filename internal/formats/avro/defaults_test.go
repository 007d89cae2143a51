package avro

import (
	"fmt"
	"strings"
	"testing"

	"github.com/flowd-io/flowd/engine"
)

// doubling is a record of which each level has the next one as the default of two fields.
func doubling(levels int, second string) string {
	inner := `{"type":"record","name":"r` + fmt.Sprint(levels) + `","fields":[{"name":"x","type":"int","default":1}]}`
	for i := levels - 1; i >= 0; i-- {
		inner = fmt.Sprintf(`{"type":"record","name":"r%d","fields":[{"name":"a","type":%s,"default":{}},`+second+`]}`, i, inner, i+1)
	}
	return inner
}

func repeatedly(n int, format string) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, format, i)
	}
	return b.String()
}

// A small schema whose defaults contain each other has very many of them: the library would write them all.
func TestDefaultsOfDefaultsAreBounded(t *testing.T) {
	record := `{"type":"record","name":"r","fields":[` + repeatedly(2000, `{"name":"f%d","type":"int","default":1},`) +
		`{"name":"z","type":"int"}]}`
	deep := record
	for i := range 100 {
		deep = fmt.Sprintf(`{"type":"record","name":"n%d","fields":[{"name":"a","type":%s,"default":{"z":1,"a":{"z":1}}}]}`, i, deep)
	}
	tests := []struct {
		name, schema string
		fails        bool
	}{
		{"twice at each of 30 levels", doubling(30, `{"name":"b","type":"r%d","default":{}}`), true},
		{"by a name with a namespace", doubling(30, `{"name":"b","type":{"type":"map","values":"x.r%d"},"default":{"k":{}}}`), true},
		{"in a list", doubling(30, `{"name":"b","type":{"type":"array","items":"r%d"},"default":[{}]}`), true},
		{"in a union", doubling(30, `{"name":"b","type":["r%d","null"],"default":{}}`), true},
		{"a record that is defined later", `{"type":"record","name":"q","fields":[` + repeatedly(2000,
			`{"name":"a%d","type":"r","default":{}},`) +
			`{"name":"last","type":` + record + `}]}`, true},
		{"records in each other, with a large one in the middle", deep, true},
		{"five levels", doubling(5, `{"name":"b","type":"r%d","default":{}}`), false},
		{"many plain ones", record, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := Compile(&engine.Schema{Text: tt.schema}, Options{})
			if refused := err != nil && (strings.Contains(err.Error(), "its defaults consist of more than") ||
				strings.Contains(err.Error(), "consists of too many others")); refused != tt.fails {
				t.Errorf("got %v", err)
			}
		})
	}
}
