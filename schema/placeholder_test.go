package schema_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/flowd-io/flowd/schema"
)

func TestPlaceholders(t *testing.T) {
	tests := []struct{ name, in, want string }{
		{"a name", "q-${NAME}-1", "q-orders-1"},
		{"a default is not needed", "${NAME:-x}", "orders"},
		{"a default", "${NONE:-x}", "x"},
		{"a default for an empty value", "${EMPTY:-x}", "x"},
		{"an empty default", "a${NONE:-}b", "ab"},
		{"an empty value", "a${EMPTY}b", "ab"},
		{"a default within a default", "${NONE:-${NOR:-${NAME}}!}", "orders!"},
		{"a default with a colon", "${NONE:-http://x:80/?a}", "http://x:80/?a"},
		{"a file", "${file:/run/pw}", "hunter2!"},
		{"a secret of a manager", "${vault:kv/a#pw}", "hunter2!"},
		{"a default for a secret", "${vault:kv/none#pw:-x}", "x"},
		{"an escape", "$${NAME} ${NAME}", "${NAME} orders"},
		{"a lone dollar", "$NAME $$ $(x) $", "$NAME $$ $(x) $"},
		{"a value adds no structure", "${MAP}", "{a: 1}"},
		{"a value is not read again", "${NONE:-$}{NAME}", "${NAME}"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			text, err := json.Marshal(test.in)
			if err != nil {
				t.Fatal(err)
			}
			var got string
			if problems := lint(t, string(text), &got); problems != nil || got != test.want {
				t.Errorf("got %q, %v, want %q", got, problems, test.want)
			}
		})
	}
}

func TestTheFieldDecidesAPlaceholdersType(t *testing.T) {
	var got struct {
		Port  int    `yaml:"port"`
		Text  string `yaml:"text"`
		Seven uint8  `yaml:"seven"`
	}
	if p := lint(t, `{"port": "${PORT}", "text": "${PORT}", "seven": "${file:/run/seven}"}`, &got); p != nil {
		t.Fatal(p)
	}
	if got.Port != 8080 || got.Text != "8080" || got.Seven != 7 {
		t.Errorf("got %+v", got)
	}
}

func TestPlaceholderProblems(t *testing.T) {
	tests := []struct{ name, in, want string }{
		{"not set", `{"text": "a ${NONE}"}`,
			`1:13: text: ${NONE} is not set (set it, or give a default: ${NONE:-…}) [unresolved-placeholder]`},
		{"not set, and why it has to be", `{"text": "${NONE:?the queue's name}"}`,
			`1:11: text: ${NONE} is not set: the queue's name (set NONE) [unresolved-placeholder]`},
		{"empty where it must not be", `{"text": "${EMPTY:?give a name}"}`,
			`1:11: text: ${EMPTY} is not set: give a name (set EMPTY) [unresolved-placeholder]`},
		{"no such file", `{"text": "${file:/none}"}`,
			`1:11: text: ${file:/none} does not exist (create the file, or give a default: ${file:/none:-…}) [unresolved-placeholder]`},
		{"a file that can't be read", `{"text": "${file:/locked}"}`,
			`1:11: text: ${file:/locked}: permission denied [unresolved-placeholder]`},
		{"a secret that does not exist", `{"text": "${vault:kv/none#pw}"}`,
			`1:11: text: ${vault:kv/none#pw}: file does not exist (create it) [unresolved-placeholder]`},
		{"a manager that is down, in spite of a default", `{"text": "${vault:sealed#pw:-x}"}`,
			`1:11: text: ${vault:sealed#pw}: sealed (unseal it) [sealed-vault]`},
		{"a secret of a wrong type", `{"count": "${vault:kv/a#pw}"}`,
			`1:11: count: the value of ${vault:kv/a#pw} is not a whole number [bad-value]`},
		{"no manager", `{"text": "${safe:kv/a#pw}"}`,
			`1:11: text: ${safe:kv/a#pw} names nothing (write ${NAME}, ${file:/path}, or $${ for a literal ${) [bad-placeholder]`},
		{"a secret without an end", `{"text": "${vault:kv/a#pw, b"}`,
			`1:11: text: a placeholder is not closed (write ${vault:kv/a#pw}, or $${ for a literal ${) [bad-placeholder]`},
		{"not closed", `{"text": "a ${NAME"}`,
			`1:13: text: a placeholder is not closed (write ${NAME}, or $${ for a literal ${) [bad-placeholder]`},
		{"no name", `{"text": "${1}"}`,
			`1:11: text: ${1} names nothing (write ${NAME}, ${file:/path}, or $${ for a literal ${) [bad-placeholder]`},
		{"a value of a wrong type", `{"count": "${NAME}"}`,
			`1:11: count: "orders" (from ${NAME}) is not a whole number (write a number such as 10) [bad-value]`},
		{"a file's value of a wrong type", `{"count": "${file:/run/pw}"}`,
			`1:11: count: the value of ${file:/run/pw} is not a whole number [bad-value]`},
		{"a file's value where a word belongs", `{"format": "${file:/run/pw}"}`,
			`1:12: format: the value of ${file:/run/pw} is not one of json, csv, regex [bad-value]`},
		{"asked for twice, told once", `{"word": "${NONE}"}`,
			`1:11: word: ${NONE} is not set (set it, or give a default: ${NONE:-…}) [unresolved-placeholder]`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got := strings.Join(lint(t, test.in, &everything{}), "\n")
			if got != test.want {
				t.Errorf("got\n%s\nwant\n%s", got, test.want)
			}
		})
	}
}

func TestPieces(t *testing.T) {
	n := parse(t, `"a ${NAME} $${b} ${file:/run/pw}"`)
	got := schema.NewDecoder(lookup).Pieces(n)
	want := []schema.Piece{
		{Text: "a ", Offset: 0},
		{Text: "orders", Offset: 2, Placeholder: true, Source: "${NAME}"},
		{Text: " ", Offset: 9},
		{Text: "${", Offset: 11},
		{Text: "b} ", Offset: 13},
		{Text: "hunter2!", Offset: 16, Placeholder: true, Secret: true, Source: "${file:/run/pw}"},
	}
	if diff := cmp.Diff(got, want); diff != "" {
		t.Errorf("got -, want +:\n%s", diff)
	}
}

func TestEnvironment(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return "file:" + path
	}
	t.Setenv("SCHEMA_TEST", "x")
	tests := []struct {
		name, lookup, want string
		ok                 bool
		err                string
	}{
		{"a variable", "SCHEMA_TEST", "x", true, ""},
		{"no variable", "SCHEMA_TEST_NONE", "", false, ""},
		{"a file loses one newline", file("a", "pw\n\n"), "pw\n", true, ""},
		{"a file of another system", file("b", "pw\r\n"), "pw", true, ""},
		{"no file", "file:" + filepath.Join(dir, "none"), "", false, ""},
		{"a directory", "file:" + dir, "", false, "is not a regular file"},
		{"a device without end", "file:/dev/zero", "", false, "is not a regular file"},
		{"a huge file", file("c", strings.Repeat("x", 1<<20+1)), "", false, "is larger than 1MiB"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got, ok, err := schema.Environment(test.lookup)
			if got != test.want || ok != test.ok || fmt.Sprint(err) != or(test.err, "<nil>") {
				t.Errorf("got %q, %v, %v, want %q, %v, %v", got, ok, err, test.want, test.ok, test.err)
			}
		})
	}
}

func or(a, b string) string {
	if a == "" {
		return b
	}
	return a
}

func TestSecretsNeverShow(t *testing.T) {
	type inner struct{ Password schema.Secret }
	s := schema.NewSecret("hunter2")
	var log strings.Builder
	slog.New(slog.NewTextHandler(&log, nil)).Info("x", "s", s, "in", inner{s})
	shown := []string{log.String(), s.String(), errors.New(s.String()).Error()}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d", "%T"} {
		shown = append(shown, fmt.Sprintf(verb, s), fmt.Sprintf(verb, &s), fmt.Sprintf(verb, inner{s}),
			fmt.Sprintf(verb, []schema.Secret{s}))
	}
	text, err := json.Marshal(map[schema.Secret]inner{s: {s}})
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range append(shown, string(text)) {
		if strings.Contains(text, "hunter2") || strings.Contains(text, "68756e74657232") {
			t.Errorf("the secret shows: %s", text)
		}
	}
	if s.Reveal() != "hunter2" {
		t.Errorf("reveal gives %q", s.Reveal())
	}
}

// blabber is a type whose author puts values in messages.
type blabber struct{}

func (*blabber) UnmarshalConfig(d *schema.Decoder, n *schema.Node) {
	text, _ := d.Text(n)
	d.Report(n, schema.Problem{Code: schema.BadValue, Message: "don't like " + text, Caret: n.Pos})
}

func TestSecretsDoNotShowInOthersProblems(t *testing.T) {
	var v struct {
		Password schema.Secret `yaml:"password"`
		Blab     blabber       `yaml:"blab"`
	}
	d := schema.NewDecoder(lookup)
	d.Decode(parse(t, `{"blab": "${file:/run/pw}", "password": "tops3cret"}`), &v)
	got := d.Problems()[0].Render()
	want := `1:10: blab: don't like *** [bad-value]
    {"blab": "${file:/run/pw}", "password": "*********"}
             ^`
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
