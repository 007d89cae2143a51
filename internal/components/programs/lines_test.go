package programs

import (
	"slices"
	"testing"
)

func TestLines(t *testing.T) {
	tests := []struct {
		name string
		in   []string // writes
		want []string
	}{
		{"lines in one write", []string{"a\nb\n"}, []string{"a", "b"}},
		{"a line in several", []string{"a", "b", "\n\nc\n"}, []string{"ab", "", "c"}},
		{"carriage returns go", []string{"a\r\nb\r", "\n"}, []string{"a", "b"}},
		{"a line without an end comes with the flush", []string{"a\nb"}, []string{"a", "b"}},
		{"a long line is cut", []string{"123456789\nb\n"}, []string{"1234!", "b"}},
		{"a long line in pieces is cut", []string{"123", "456", "7\nb", "\n"}, []string{"1234!", "b"}},
		{"as long as may be", []string{"1234\n", "12", "34\n"}, []string{"1234", "1234"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var got []string
			s := &Lines{Max: 4, Handle: func(line []byte, cut bool) error {
				got = append(got, string(line)+map[bool]string{true: "!"}[cut])
				return nil
			}}
			for _, w := range tt.in {
				if n, err := s.Write([]byte(w)); n != len(w) || err != nil {
					t.Errorf("got %d, %v", n, err)
				}
			}
			if err := s.Flush(); err != nil {
				t.Error(err)
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}
