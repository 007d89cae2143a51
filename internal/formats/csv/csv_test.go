package csv_test

import (
	"errors"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/flowd-io/flowd/internal/formats/csv"
	"github.com/google/go-cmp/cmp"
)

// records are the fields of a text, and the error that ends it.
func records(text string, comma rune) (all [][]string, err error) {
	t := csv.NewText([]byte(text), comma)
	for {
		if err := t.Next(); errors.Is(err, io.EOF) {
			return all, nil
		} else if err != nil {
			return all, err
		}
		all = append(all, t.Texts())
	}
}

func TestText(t *testing.T) {
	tests := []struct {
		name, text string
		comma      rune
		want       [][]string
	}{
		{"line ends of both kinds", "a,b\r\n1,2\n3,", ',', [][]string{{"a", "b"}, {"1", "2"}, {"3", ""}}},
		{"a quoted field keeps its line ends", "\"a\r\nb\",\"c\rd\"\r\n", ',', [][]string{{"a\r\nb", "c\rd"}}},
		{"quotes inside", `"a""b",x"y,x"",""`, ',', [][]string{{`a"b`, `x"y`, `x""`, ""}}},
		{"blanks are text", `a, "b" ,c `, ',', [][]string{{"a", ` "b" `, "c "}}},
		{"empty lines are not records", "\ufeff\r\n\na\n\n\"\"\n", ',', [][]string{{"a"}, {""}}},
		{"a delimiter of several bytes", "a§\"b§\"\"\"§\n§«§c", '§', [][]string{{"a", `b§"`, ""}, {"", "«", "c"}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := records(tt.text, tt.comma)
			if diff := cmp.Diff(tt.want, got); diff != "" || err != nil {
				t.Errorf("%v (-want +got):\n%s", err, diff)
			}
		})
	}
}

func TestTextRefuses(t *testing.T) {
	tests := []struct{ name, text, want string }{
		{"lines that end with a carriage return", "a,b\r1,2\r",
			`line 1: field 2: a carriage return inside a field without quotes (if lines end with \r alone`},
		{"an open quote", "a\n\"b\nc", "line 2: a quote is not closed"},
		{"text after a quote", "a\n1\n\"b\"c,d", "line 3: field 1: text follows"},
		{"bytes that are not text", "a\n\n\xff", "line 3: the record is not valid UTF-8"},
		{"lines inside quotes count", "\"a\n\n\"\n\"b\"c", "line 4: "},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := records(tt.text, ','); err == nil || !strings.HasPrefix(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}

// FuzzWritten checks that fields are read back as they were written.
func FuzzWritten(f *testing.F) {
	f.Add("a", "x\"y", "", uint8(0))
	f.Add(" a", "b\r\nc", "\r", uint8(1))
	f.Add("§", "\"", "\ufeff", uint8(2))
	f.Fuzz(func(t *testing.T, a, b, c string, kind uint8) {
		comma := []rune{',', ';', '§', '\t'}[kind%4]
		fields := []string{strings.ToValidUTF8(a, ""), strings.ToValidUTF8(b, ""), strings.ToValidUTF8(c, "")}
		if strings.HasPrefix(fields[0], "\ufeff") {
			return // it is a mark of the text
		}
		for n := 1; n <= 3; n++ {
			var text []byte
			for range 2 {
				for i, v := range fields[:n] {
					text = csv.AppendField(text, v, comma, i, n)
				}
			}
			got, err := records(string(text), comma)
			if err != nil || len(got) != 2 || !slices.Equal(got[0], fields[:n]) || !slices.Equal(got[1], fields[:n]) {
				t.Errorf("%q was read as %q, %v, want %q", text, got, err, fields[:n])
			}
		}
	})
}
