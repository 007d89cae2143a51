package programs

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestACommandIsAListOrWords(t *testing.T) {
	tests := []struct {
		name, text string
		want       []string
		message    string
	}{
		{"one word", "cat", []string{"cat"}, ""},
		{"blanks part words", "  jq -c\t.a\n", []string{"jq", "-c", ".a"}, ""},
		{"but for those between quotes", `grep -e 'a b' "c 'd'"`, []string{"grep", "-e", "a b", "c 'd'"}, ""},
		{"quotes inside a word", `--x="a b"c`, []string{"--x=a bc"}, ""},
		{"an empty word", `a ''`, []string{"a", ""}, ""},
		{"nothing else has a meaning", `a $HOME \n *`, []string{"a", "$HOME", `\n`, "*"}, ""},
		{"what a shell would do is refused", "sort | uniq", nil, "no shell"},
		{"unless it is quoted", "grep '|'", []string{"grep", "|"}, ""},
		{"a quote without its end", "echo 'a", nil, "is not closed"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, message := split(tt.text)
			if diff := cmp.Diff(tt.want, got); diff != "" || !strings.Contains(message, tt.message) ||
				(tt.message == "") != (message == "") {
				t.Errorf("%q (-want +got):\n%s", message, diff)
			}
		})
	}
}

func TestTailKeepsTheEnd(t *testing.T) {
	var s Tail
	for i := range 10_000 {
		fmt.Fprintln(&s, "line", i)
	}
	if len(s.buf) > 2*maxTail || !bytes.HasSuffix(s.buf, []byte("line 9998\nline 9999\n")) {
		t.Errorf("%d bytes, ending in %q", len(s.buf), s.buf[len(s.buf)-20:])
	}
	_, _ = s.Write(bytes.Repeat([]byte("x"), 10*maxTail))
	if len(s.buf) > 2*maxTail {
		t.Errorf("%d bytes", len(s.buf))
	}
}
