package exec

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/enginetest"
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

func TestACommandMayBeText(t *testing.T) {
	for _, step := range []string{`"tr a-z A-Z"`, `["tr", "a-z", "A-Z"]`, `{"command": "tr a-z A-Z"}`,
		`{"command": "tr 'a-z' A-Z", "mode": "per_message"}`} {
		p := opened(t, `{"exec": `+step+`}`)
		match(t, outcomes(t, t.Context(), p, "x"), "X")
	}
}

func TestAnInvalidCommand(t *testing.T) {
	for command, want := range map[string]string{`[]`: "must not be empty", `""`: "must not be empty",
		`" "`: "must not be empty", `{"a": 1}`: "expected a command, got a mapping", `"a > b"`: "no shell"} {
		text, err := json.Marshal(enginetest.Problems(t, engine.Processors, `{"exec": {"command": `+command+`}}`))
		if err != nil || !strings.Contains(string(text), want) {
			t.Errorf("%s: %s, %v, want %q", command, text, err, want)
		}
	}
}
