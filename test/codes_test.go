package test

import (
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/flowd-io/flowd/config"
	"github.com/flowd-io/flowd/schema"
)

// codeExample matches an example of a code, codeFile the beginning of a file in it.
var (
	codeExample = regexp.MustCompile("(?ms)^```(yaml|sh) (before|after)\n(.*?)^```$")
	codeFile    = regexp.MustCompile(`(?m)^# ([\w./-]+\.\w+)\n`)
)

// generated makes the files of codes whose examples would be too long, or could not be read, in a document.
var generated = map[string]string{
	"control-character": "inputs: {in: {file: 'a\x01b'}}",
	"file-too-large":    "# " + strings.Repeat("x", 16<<20),
	"not-utf8":          "inputs: {in: {file: '\xff'}}",
	"steps-expand": "processors: [{steps: s5}]\nresources:\n  steps:\n    s0: [{unset: a}]\n" +
		expanding("    s%d: [%s]\n", "{steps: s%d}", 5),
	"yaml-alias-bomb": "x-0: &a0 [1]\n" + expanding("x-%[1]d: &a%[1]d [%[2]s]\n", "*a%d", 7),
	"yaml-too-deep":   "x-a: " + strings.Repeat("[", 20_000) + strings.Repeat("]", 20_000),
	"yaml-too-large":  "x-a: [" + strings.Repeat("1,", 3_000_000) + "1]",
}

// expanding returns lines that each use the one before ten times.
func expanding(line, use string, levels int) string {
	var b strings.Builder
	for i := 1; i <= levels; i++ {
		fmt.Fprintf(&b, line, i, strings.TrimSuffix(strings.Repeat(fmt.Sprintf(use, i-1)+",", 10), ","))
	}
	return b.String()
}

// testedElsewhere are codes that no file alone can have, and where they are tested.
var testedElsewhere = map[string]string{"secret-unavailable": "test/secrets_test.go", "too-deep": "schema/decode_test.go"}

// TestEveryCodeHasAnExample lints the examples of all codes: the first reports the code, the second has no error.
func TestEveryCodeHasAnExample(t *testing.T) {
	told := map[string]bool{}
	for _, s := range codeSections(t) {
		title, body := s[0], s[1]
		told[title] = true
		if class, ok := strings.CutPrefix(title, "class "); ok {
			t.Run(title, func(t *testing.T) { tryClass(t, class, codeExamples(body)) })
			continue
		}
		t.Run(title, func(t *testing.T) {
			if file := testedElsewhere[title]; file != "" {
				if !strings.Contains(read(t, repo, file), title) {
					t.Errorf("%s does not test it", file)
				}
				return
			}
			examples := codeExamples(body)
			if text := generated[title]; text != "" {
				examples = [2]string{text}
			}
			for i, text := range examples {
				if i == 1 && generated[title] != "" {
					break
				}
				t.Run([]string{"before", "after"}[i], func(t *testing.T) {
					found, wrong := tryExample(t, text)
					if before := i == 0; slices.Contains(found, title) != before || !before && wrong {
						t.Errorf("it reports %q:\n%.2000s", found, text)
					}
				})
			}
		})
	}
	for _, c := range schema.Codes() {
		if !told[c.Name] {
			t.Errorf("%s has no section", c.Name)
		}
		delete(told, c.Name)
	}
	for title := range told {
		if !strings.HasPrefix(title, "class ") {
			t.Errorf("there is no code %s", title)
		}
	}
}

func codeSections(t *testing.T) (all [][2]string) {
	t.Helper()
	for part := range strings.SplitSeq("\n"+read(t, repo, "cmd", "flowd", "cli", "codes.md"), "\n## ") {
		if title, body, ok := strings.Cut(part, "\n"); ok && !strings.HasPrefix(part, "\n# ") {
			all = append(all, [2]string{title, body})
		}
	}
	return all
}

// codeExamples returns the text of both examples, and their language.
func codeExamples(body string) (examples [2]string) {
	for _, m := range codeExample.FindAllStringSubmatch(body, -1) {
		examples[slices.Index([]string{"before", "after"}, m[2])] = m[3]
	}
	return examples
}

// tryExample lints an example, or runs its command. It returns the codes of all problems, and whether one is an error.
func tryExample(t *testing.T, text string) (codes []string, wrong bool) {
	t.Helper()
	t.Chdir(t.TempDir())
	if command, ok := strings.CutPrefix(text, "flowd "); ok {
		writeExample(t, "# p.yaml\nprocessors: []\n# q.yaml\ninputs: {in: {generate: {body: '1'}}}\noutputs: {out: {stdout: {}}}\n")
		r := flowd(t, ".", "", strings.Fields(command)...)
		for _, m := range regexp.MustCompile(`\[([a-z0-9-]+)\]\n`).FindAllStringSubmatch(r.Stdout, -1) {
			codes = append(codes, m[1])
		}
		return codes, r.Code != 0
	}
	writeExample(t, text)
	files, err := filepath.Glob("*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	_, problems := config.Load(files, config.Options{})
	_, unformatted := config.Format(files)
	for _, p := range append(problems, unformatted...) {
		codes = append(codes, p.Code)
		wrong = wrong || !p.Warning
	}
	return codes, wrong
}

// writeExample writes the files of an example, or p.yaml with what it lacks to be a pipeline.
func writeExample(t *testing.T, text string) {
	t.Helper()
	marks := codeFile.FindAllStringSubmatchIndex(text, -1)
	if len(marks) == 0 {
		write(t, ".", "p.yaml", completed(text))
	}
	for i, m := range marks {
		end := len(text)
		if i+1 < len(marks) {
			end = marks[i+1][0]
		}
		name, body := text[m[2]:m[3]], text[m[1]:end]
		if len(marks) > 1 && name == "p.yaml" {
			body = completed(body)
		}
		write(t, ".", name, body)
	}
}

// completed adds the inputs and outputs that a part of a pipeline lacks.
func completed(text string) string {
	for section, line := range map[string]string{"inputs:": "inputs: {in: {stdin: {}}}\n", "outputs:": "outputs: {out: {stdout: {}}}\n"} {
		if !strings.HasPrefix(text, section) && !strings.Contains(text, "\n"+section) {
			text += "\n" + line
		}
	}
	return text
}

// tryClass runs the tests in both examples of a class, which pass. Those of the first expect the class.
func tryClass(t *testing.T, class string, examples [2]string) {
	t.Helper()
	t.Parallel()
	for i, text := range examples {
		dir := t.TempDir()
		write(t, dir, "p.yaml", completed(text))
		r := flowd(t, dir, "", "test", "p.yaml")
		if before := i == 0; r.Code != 0 || strings.Contains(text, "class: "+class+"}]") != before {
			t.Errorf("example %d:\n%s\n%s%s", i+1, text, r.Stdout, r.Stderr)
		}
	}
}
