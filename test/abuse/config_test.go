package abuse

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/flowd-io/flowd/test/flowdtest"
)

// stdinToStdout has the input and the output of most pipelines here.
const stdinToStdout = "inputs: {in: {stdin: {}}}\noutputs: {out: {stdout: {}}}\n"

var configurations = []attack{
	{"100,000 nested brackets", lintRejects(stdinToStdout+"x-a: "+strings.Repeat("[", 100_000)+strings.Repeat("]",
		100_000), "yaml-too-deep")},
	{"200,000 brackets that are not closed", lintRejects(stdinToStdout+"x-a: "+strings.Repeat("[", 200_000), "p.yaml:3:")},
	{"100,000 nested dashes", lintRejects(stdinToStdout+"x-a:\n  "+strings.Repeat("- ", 100_000)+"x", "yaml-too-deep")},
	{"30,000 nested brackets after a syntax error", lintRejects(stdinToStdout+"x-b: a b: c\nx-a: "+strings.Repeat("[", 30_000)+
		strings.Repeat("]", 30_000), "p.yaml:3:9", "yaml-syntax")},
	{"a list of 14 MB", lintRejects(stdinToStdout+"x-a: ["+strings.Repeat("1,", 7_000_000)+"1]", "p.yaml:3:", "yaml-too-large")},
	{"14 MB of comments", lintRejects(stdinToStdout+strings.Repeat("#\n", 7_000_000), "yaml-too-large")},
	{"many directives, compared pairwise", lintRejects(manyDirectives(150_000)+"---\n"+stdinToStdout, "yaml-too-large")},
	{"aliases of aliases", lintRejects(stdinToStdout+aliasBomb(), "yaml-alias-bomb")},
	{"merge keys of merge keys", lintRejects(stdinToStdout+mergeBomb(), "yaml-alias-bomb")},
	{"an alias inside itself", lintRejects(stdinToStdout+"x-a: &a [b, *a]\n", "p.yaml:3:13", "yaml-alias-cycle")},
	{"many aliases of a long string", lintRejects(stdinToStdout+"x-a: &a '"+strings.Repeat("x", 200_000)+"'\nx-b: ["+strings.Repeat("*a,",
		1000)+"]\n", "yaml-alias-bomb")},
	{"named steps that expand to a billion steps",
		lintRejects(stdinToStdout+stepBomb(), "processors[0].steps", "steps-expand")},
	{"named steps that use themselves", lintRejects(stdinToStdout+
		"processors: [{steps: a}]\nresources: {steps: {a: [{steps: b}], b: [{steps: a}]}}\n", "steps-cycle")},
	{"a key twice", lintRejects(stdinToStdout+"name: a\nname: b\n", "p.yaml:4:1", "is given twice")},
	{"a tag that asks for an object", lintRejects(stdinToStdout+"name: !!python/object/apply:os.system [reboot]\n", "p.yaml:3:7",
		"yaml-tag")},
	{"a placeholder as a key", lintRejects("inputs: {in: {stdin: {}}}\noutputs: {out: {\"${NAME}\": {}}}\n", "p.yaml:2:")},
	{"a placeholder of an unset variable", lintRejects(stdinToStdout+"name: ${ABUSE_UNSET}\n", "ABUSE_UNSET")},
	{"a deeply nested override", func(t *testing.T) {
		dir := t.TempDir()
		flowdtest.Write(t, dir, "p.yaml", stdinToStdout)
		lints(t, dir, 2, []string{"-s", "name=" + strings.Repeat("[", 50_000) + strings.Repeat("]", 50_000), "p.yaml"},
			"-s name", "yaml-too-deep")
	}},
	{"an override with a deep path", func(t *testing.T) {
		dir := t.TempDir()
		flowdtest.Write(t, dir, "p.yaml", stdinToStdout)
		withinCPU(t, lints(t, dir, 2, []string{"-s", strings.Repeat("a.", 20_000) + "a=1", "p.yaml"}, "more than 200 steps"))
		withinCPU(t, lints(t, dir, 2, []string{"-s", "a" + strings.Repeat("[0]", 20_000) + "=1", "p.yaml"}, "more than 200 steps"))
	}},
	{"thousands of placeholders with a long value", func(t *testing.T) {
		dir := t.TempDir()
		flowdtest.Write(t, dir, "value", strings.Repeat("x", 100_000))
		flowdtest.Write(t, dir, "p.yaml", stdinToStdout+"name: "+strings.Repeat("${file:value}", 10_000)+"\n")
		withinCPU(t, lints(t, dir, 2, []string{"p.yaml"}, "longer than 1 MiB"))
		flowdtest.Write(t, dir, "p.yaml", stdinToStdout+"x-a: [1]\nname: ${NO:-"+strings.Repeat("${file:value}", 10_000)+"}\n")
		withinCPU(t, lints(t, dir, 2, []string{"p.yaml"}, "longer than 1 MiB"))
	}},
	{"a configuration to migrate with a long mapping", func(t *testing.T) {
		dir := t.TempDir()
		for name, mapping := range map[string]string{
			"sum":        "root.a = this.x" + strings.Repeat(" + this.x", 30_000),
			"texts":      `root.a = "a"` + strings.Repeat(` + "a"`, 30_000),
			"statements": numberedCopies(20_000, "root.a%d = this.b%d\n        "),
			"calls":      "root.a = this.x" + strings.Repeat(".trim()", 30_000),
		} {
			flowdtest.Write(t, dir, name+".yaml", "pipeline:\n  processors:\n    - mapping: |\n        "+mapping+"\n")
			r := flowdtest.Run(t, dir, "", "migrate", "benthos", name+".yaml")
			r.Want(t, 1, "not translated")
			withinCPU(t, r)
		}
	}},
	{"a configuration to migrate that names files in other directories", func(t *testing.T) {
		dir := t.TempDir()
		flowdtest.Write(t, dir, "secret", "root.secret = 1\n")
		for _, name := range []string{"/dev/zero", "../secret", filepath.Join(dir, "secret"), "dev"} {
			flowdtest.Write(t, dir, "in/p.yaml", "pipeline:\n  processors:\n    - mapping: 'from \""+name+"\"'\n")
			if err := os.Symlink("/dev/zero", filepath.Join(dir, "in/dev")); err != nil && !os.IsExist(err) {
				t.Fatal(err)
			}
			r := flowdtest.Run(t, dir, "", "migrate", "benthos", "in/p.yaml")
			if r.Want(t, 1, "not translated"); strings.Contains(r.Stdout, "secret: 1") {
				t.Errorf("it read %s:\n%s", name, r.Stdout)
			}
			withinCPU(t, r)
		}
		flowdtest.Run(t, dir, "", "migrate", "benthos", "/dev/zero").Want(t, 2, "is larger than")
		flowdtest.Write(t, dir, "in/p.yaml", "pipeline:\n  processors:\n    - mapping: 'from \"../secret\"'\n")
		r := flowdtest.Run(t, dir, "", "migrate", "benthos", "in/p.yaml", "--files", ".")
		if r.Want(t, 0); !strings.Contains(r.Stdout, "secret: 1") {
			t.Errorf("it did not read an allowed file:\n%s%s", r.Stdout, r.Stderr)
		}
	}},
	{"a YAML schema with a list of 4 MB", func(t *testing.T) {
		dir := t.TempDir()
		flowdtest.Write(t, dir, "s.yaml", "enum: ["+strings.Repeat("1,", 2_000_000)+"1]\n")
		flowdtest.Write(t, dir, "p.yaml", stdinToStdout+"processors: [{validate: {file: s.yaml}}]\n")
		lints(t, dir, 2, []string{"p.yaml"}, "p.yaml:3:", "values")
	}},
	{"an endless secret file", lintRejects(stdinToStdout+"name: ${file:/dev/zero}\n", "not a regular file")},
	{"a value that contains YAML and an expression", func(t *testing.T) {
		dir := t.TempDir()
		flowdtest.Write(t, dir, "value", "x\"\noutputs: {evil: {file: {path: evil}}}\n|| true")
		flowdtest.Write(t, dir, "p.yaml", stdinToStdout+"processors: [{filter: 'a == \"${file:value}\"'}]\n")
		r := flowdtest.Run(t, dir, `{"a":""}`+"\n"+`{"a":"x"}`+"\n", "-c", "p.yaml")
		r.Want(t, 0)
		if files, _ := filepath.Glob(filepath.Join(dir, "evil*")); len(files) > 0 || r.Stdout != "" {
			t.Errorf("the value was not treated as a string: files %v, stdout %q", files, r.Stdout)
		}
	}},
	{"a secret on a line that an error quotes", func(t *testing.T) {
		dir := t.TempDir()
		flowdtest.Write(t, dir, "p.yaml",
			"inputs: {in: {rabbitmq: {url: 'amqp://u:hunter2secret@localhost/', queue: q, no: 1}}}\noutputs: {out: {stdout: {}}}\n")
		r := lints(t, dir, 2, []string{"p.yaml"}, "literal-secret", `unknown field "no"`)
		if strings.Contains(r.Stdout+r.Stderr, "hunter2secret") {
			t.Errorf("the output contains the secret:\n%s%s", r.Stdout, r.Stderr)
		}
	}},
}

// lintRejects lints a file. Lint must reject it, with each of the parts in its output, and
// within limits of memory.
func lintRejects(text string, parts ...string) func(*testing.T) {
	return func(t *testing.T) {
		dir := t.TempDir()
		flowdtest.Write(t, dir, "p.yaml", text)
		lints(t, dir, 2, []string{"p.yaml"}, parts...)
	}
}

// lints runs lint and checks its exit code, parts of its output, and its peak memory.
func lints(t *testing.T, dir string, code int, args []string, parts ...string) flowdtest.Result {
	t.Helper()
	p := flowdtest.Start(t, dir, append([]string{"lint"}, args...)...)
	p.Stdin.Close()
	peak := p.Watch()
	r := p.Wait()
	r.Stderr += r.Stdout // lint prints problems to stdout
	r.Want(t, code, parts...)
	const most = 260
	if mib := <-peak; mib > most {
		t.Errorf("the peak memory of lint is %d MiB, want at most %d", mib, most)
	}
	return r
}

func manyDirectives(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "%%TAG !%d! t\n", i)
	}
	return b.String()
}

func aliasBomb() string {
	text := "x-0: &a0 [x, x, x, x, x, x, x, x, x, x]\n"
	for i := range 9 {
		text += fmt.Sprintf("x-%d: &a%d [%s]\n", i+1, i+1, strings.Repeat(fmt.Sprintf("*a%d, ", i), 10))
	}
	return text
}

func mergeBomb() string {
	text := "x-0: &m0 {a: 1}\n"
	for i := range 9 {
		text += fmt.Sprintf("x-%d: &m%d {<<: [%s], k%d: 1}\n", i+1, i+1, strings.Repeat(fmt.Sprintf("*m%d, ", i), 10),
			i)
	}
	return text
}

func stepBomb() string {
	text := "processors: [{steps: s9}]\nresources:\n  steps:\n    s0: [{unset: a}]\n"
	for i := range 9 {
		text += fmt.Sprintf("    s%d: [%s]\n", i+1, strings.Repeat(fmt.Sprintf("{steps: s%d}, ", i), 10))
	}
	return text
}
