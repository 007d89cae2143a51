package abuse

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/flowd-io/flowd/test/flowdtest"
)

// hostile has characters that a terminal acts on: escape sequences, a title and a bell, C1
// controls as characters and as bytes, bidirectional controls, line ends, and escapes that
// a log's unquoting could turn into ESC.
const hostile = "\x1b[31mred \x1b]0;title\a \u009b31m \u0090q \x9b2J \x85 \u202egnp.exe \u2066 \u2028 \r \\x1b[31m \\u001b[31m \x1b\\"

var terminal = []attack{
	{"a failing payload, and the name of its file", func(t *testing.T) {
		dir := t.TempDir()
		name := strings.ReplaceAll(hostile, "/", "")
		flowdtest.Write(t, dir, name+".in", `{"a": "`+hostile+"\"}\n")
		onTerminal(t, dir, 1, "-c", flowdtest.Write(t, dir, "p.yaml", `
inputs: {in: {file: {path: "*.in"}}}
processors: [{set: {b: a.c}}]
outputs: {out: {drop: {}}}
engine: {on_failure: {then: drop}}
`))
	}},
	{"texts of a log step and a fail step", func(t *testing.T) {
		dir := t.TempDir()
		for _, service := range []string{"{}", "{log: {format: json}}"} {
			data, _ := jsonOf(hostile)
			flowdtest.Write(t, dir, "in", data+"\n")
			onTerminal(t, dir, 1, "-c", flowdtest.Write(t, dir, "p.yaml", `
inputs: {in: {file: {path: in}}}
processors: [{log: {message: "says $(a)", fields: {what: a, all: this}}}, {fail: "failed at $(a)"}]
outputs: {out: {drop: {}}}
engine: {on_failure: {then: drop}}
service: `+service+"\n"))
		}
	}},
	{"a server's error", func(t *testing.T) {
		dir := t.TempDir()
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusBadRequest)
			_, _ = io.WriteString(w, hostile)
		}))
		defer s.Close()
		onTerminal(t, dir, 1, "-c", flowdtest.Write(t, dir, "p.yaml", fmt.Sprintf(`
inputs: {in: {generate: {count: 1, body: '{"id": 1}'}}}
outputs: {out: {http: {url: %q}}}
engine: {on_failure: {then: drop}}
`, s.URL)))
	}},
	{"a program's stderr", func(t *testing.T) {
		dir := t.TempDir()
		flowdtest.Write(t, dir, "said", hostile)
		onTerminal(t, dir, 1, "-c", flowdtest.Write(t, dir, "p.yaml", `
inputs: {in: {generate: {count: 1, body: '{"id": 1}'}}}
processors: [{exec: {command: [sh, -c, 'cat said >&2; exit 1']}}]
outputs: {out: {drop: {}}}
engine: {on_failure: {then: drop}}
`))
	}},
	{"a pipeline file, and names in it", func(t *testing.T) {
		dir := t.TempDir()
		quoted := yamlOf(hostile)
		file := flowdtest.Write(t, dir, strings.ReplaceAll(hostile, "/", "")+".yaml",
			"name: "+quoted+"\ninputs: {"+quoted+`: {generate: {count: 1, bodi: 1}}, in: {`+quoted+
				": {}}}\noutputs: {out: {drop: {}}}\nprocessors: [{filter: "+quoted+"}]\n")
		for _, args := range [][]string{{"lint", file}, {"lint", "--json", file}, {"-c", file}, {"test", file},
			{"simulate", file}} {
			onTerminal(t, dir, 2, args...)
		}
	}},
	{"failing tests", func(t *testing.T) {
		dir := t.TempDir()
		quoted := yamlOf(hostile)
		file := flowdtest.Write(t, dir, "p.yaml", `
inputs: {in: {stdin: {}}}
processors: [{log: {message: "says $(a)"}}, {filter: a != "x"}]
outputs: {out: {stdout: {}}}
tests: [{name: `+quoted+`, input: [{json: {a: `+quoted+`}}], expect: {out: [{json: {a: `+quoted+`, b: 1}}]}}]
`)
		onTerminal(t, dir, 1, "test", file)
		onTerminal(t, dir, 1, "test", "--json", file)
	}},
	{"arguments of commands", func(t *testing.T) {
		dir := t.TempDir()
		for _, args := range [][]string{
			{hostile}, {"-c", hostile}, {"lint", hostile}, {"--" + hostile}, {"help", hostile},
			{"list", hostile}, {"test", hostile},
			{"queue", hostile}, {"queue", "ls", hostile}, {"ctl", hostile}, {"ctl", "limit", "x", hostile},
			{"ctl", "state", "--addr", hostile},
			{"lint", "-s", hostile, "/dev/null"}, {"simulate", hostile}, {"worker", "--pool", hostile},
			{"pool", hostile},
		} {
			onTerminal(t, dir, 2, args...)
		}
		onTerminal(t, dir, 0, "docs", hostile) // one of its words is in some pages
		onTerminal(t, dir, 1, "queue", "ls", hostile+"://x/")
		onTerminal(t, dir, 1, "queue", "ls", "amqp://127.0.0.1:1/\u009b31m\u202e")
	}},
}

// jsonOf returns the document {"a": text}, and text as a JSON string. It escapes only what JSON
// requires.
func jsonOf(text string) (document, quoted string) {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range strings.ToValidUTF8(text, "") {
		switch {
		case r == '"' || r == '\\':
			b.WriteString("\\" + string(r))
		case r < ' ':
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return `{"a": ` + b.String() + "}", b.String()
}

// yamlOf quotes text for YAML. It escapes only what YAML requires.
func yamlOf(text string) string {
	_, quoted := jsonOf(text)
	var b strings.Builder
	for _, r := range quoted {
		if r >= 0x7f && r < 0xa0 || r == 0x2028 {
			fmt.Fprintf(&b, `\u%04x`, r)
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}

// onTerminal runs flowd, first with its output in pipes, and then on a terminal. The output
// must not contain control characters other than flowd's own colours.
func onTerminal(t *testing.T, dir string, code int, args ...string) {
	t.Helper()
	r := flowdtest.Run(t, dir, "", args...)
	if r.Code != code {
		t.Errorf("%q: exit code %d, want %d\n%q", args, r.Code, code, r.Stderr)
	}
	expectHarmless(t, args, "on stderr", r.Stderr)
	expectHarmless(t, args, "on stdout", r.Stdout)

	script, err := exec.LookPath("script")
	if err != nil {
		t.Fatal("script(1), which provides the terminal, is missing:", err)
	}
	words := []string{shellQuoted(flowdtest.Binary)}
	for _, a := range args {
		words = append(words, shellQuoted(a))
	}
	file := filepath.Join(t.TempDir(), "typescript")
	cmd := exec.CommandContext(t.Context(), script, "-q", "-e", "-c", strings.Join(words, " "), file)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "TERM=xterm", "SHELL=/bin/sh")
	_ = cmd.Run() // the exit code was checked above
	text := flowdtest.Read(t, file)
	if _, rest, found := strings.Cut(text, "\n"); found && strings.HasPrefix(text, "Script started") {
		text = rest
		if i := strings.LastIndex(text, "\nScript done"); i >= 0 {
			text = text[:i]
		}
	}
	text = strings.ReplaceAll(text, "\r\n", "\n") // the terminal adds \r
	for _, own := range []string{"\r\x1b[K", "\x1b[0m", "\x1b[1m", "\x1b[2m", "\x1b[22m", "\x1b[32m", "\x1b[91m",
		"\x1b[92m", "\x1b[93m", "\x1b[33m"} {
		text = strings.ReplaceAll(text, own, "")
	}
	// Both flowd and the hostile text use red. The following text tells which it was.
	for part := range strings.SplitSeq(text, "\x1b[31m") {
		if strings.HasPrefix(part, "red ") || strings.HasPrefix(part, " \\u001b") {
			t.Errorf("%q: a message sets the colour: %q", args, part[:min(len(part), 80)])
		}
	}
	expectHarmless(t, args, "on a terminal", strings.ReplaceAll(text, "\x1b[31m", ""))
}

// expectHarmless fails the test if text contains control characters.
func expectHarmless(t *testing.T, args []string, where, text string) {
	t.Helper()
	for i, r := range text {
		bad := r < ' ' && r != '\n' && r != '\t' || r >= 0x7f && r < 0xa0 || r == 0x2028 || r >= 0x202a &&
			r <= 0x202e || r >= 0x2066 && r <= 0x2069
		if bad || r == utf8.RuneError && !strings.HasPrefix(text[i:], "\uFFFD") {
			t.Errorf("%q %s: %q at %q", args, where, r, text[max(0, i-60):min(len(text), i+40)])
			return
		}
	}
}

func shellQuoted(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }
