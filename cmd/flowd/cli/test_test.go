package cli

import (
	"context"
	"encoding/xml"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/operations/pipetest"
)

func init() {
	engine.Register(engine.Processors, "test_misbehave", "Misbehaves. For tests.", misbehaving{},
		func(c misbehaving, _ engine.Env) (engine.Processor, error) { return c, nil })
}

// misbehaving is a step that breaks what a step must not break.
type misbehaving struct {
	How string `yaml:"how,main" doc:"panic, exit, hang, print or block."`
}

func (s misbehaving) Process(ctx context.Context, _ *engine.Batch) error {
	switch s.How {
	case "panic":
		done := make(chan struct{})
		go func() { panic("in a goroutine of its own") }()
		<-done
	case "exit":
		os.Exit(7)
	case "hang":
		select {}
	case "print":
		_, err := os.Stdout.WriteString("a step prints\n")
		return err
	case "block": // outside of virtual time
		r, w, err := os.Pipe()
		if err != nil {
			return err
		}
		defer w.Close()
		_, err = r.Read(make([]byte, 1))
		return err
	}
	return nil
}

func TestATestThatMisbehavesTakesNoOtherWithIt(t *testing.T) {
	file := pipeline(t, `
inputs: {in: {test_lines: {}}}
processors:
  - {name: p, test_misbehave: panic, when: how == "panic"}
  - {name: e, test_misbehave: exit, when: how == "exit"}
  - {name: o, test_misbehave: print, when: how == "print"}
  - {name: b, test_misbehave: block, when: how == "block"}
  - {name: h, test_misbehave: hang, when: how == "hang"}
outputs: {out: {test_drop: {}}}
tests:
  - {name: panics, input: [{json: {how: panic}}], expect: {}}
  - {name: exits, input: [{json: {how: exit}}], expect: {}}
  - {name: prints, input: [{json: {how: print}}], expect: {out: [{}]}}
  - {name: blocks, input: [{json: {how: block}}], expect: {}}
  - {name: hangs, input: [{json: {how: hang}}], expect: {out: [{}]}}
  - {name: behaves, input: [{json: {how: none}}], expect: {out: [{}]}}
`)
	stdout, stderr, code := flowd(t.Context(), "test", file, "--timeout", "5s")
	if code != failed || !strings.HasPrefix(stderr, "6 tests: 2 passed, 4 failed") {
		t.Errorf("exit code %d\n%s", code, stderr)
	}
	for name, want := range map[string]string{
		"panics": "panic: in a goroutine of its own", "exits": "the test's process ended: exit status 7",
		"blocks": "not finished after 5s of real time", "hangs": "of virtual time",
	} {
		_, said, _ := strings.Cut(stdout, "FAIL  "+name+" ")
		said, _, _ = strings.Cut(said, "FAIL")
		if !strings.Contains(said, want) {
			t.Errorf("%s: %q lacks %q", name, said, want)
		}
	}
	for _, name := range []string{"prints", "behaves"} {
		if !strings.Contains(stdout, "ok    "+name) {
			t.Errorf("%s has not passed:\n%s", name, stdout)
		}
	}
}

func TestAFileWithoutTestsIsNotAPassedOne(t *testing.T) {
	file := pipeline(t, "inputs: {in: {test_lines: {}}}\noutputs: {out: {test_drop: {}}}\n")
	if _, stderr, code := flowd(t.Context(), "test", file); code != invalid ||
		!strings.Contains(stderr, file+": no tests") || !strings.Contains(stderr, "--allow-empty") {
		t.Errorf("exit code %d\n%s", code, stderr)
	}
	if _, stderr, code := flowd(t.Context(), "test", file, "--allow-empty"); code != clean ||
		!strings.Contains(stderr, "no tests") {
		t.Errorf("with --allow-empty: exit code %d\n%s", code, stderr)
	}
}

func TestAnUpdateWritesWhyADeadLetterFailed(t *testing.T) {
	file := pipeline(t, `
inputs: {in: {test_lines: {}}}
processors: [{name: p, test_misbehave: none, when: a > 1}]
outputs: {out: {test_drop: {}}, dead: {test_drop: {}}}
engine: {on_failure: {dead_letter: dead}}
tests:
  - name: fails
    input: [{json: {a: x}}]
    expect: {}
`)
	if _, stderr, code := flowd(t.Context(), "test", file, "--update"); code != clean {
		t.Errorf("exit code %d\n%s", code, stderr)
	}
	text, _ := os.ReadFile(file)
	if !strings.Contains(string(text), "error: {class: expression, place: step p, message: ") {
		t.Errorf("the file is now\n%s", text)
	}
	if stdout, stderr, code := flowd(t.Context(), "test", file); code != clean {
		t.Errorf("it does not pass: exit code %d\n%s%s", code, stdout, stderr)
	}
}

func TestAnInterruptedTestRunEnds(t *testing.T) {
	file := pipeline(t, `
inputs: {in: {test_lines: {}}}
processors: [{test_misbehave: block}]
outputs: {out: {test_drop: {}}}
tests: [{name: blocks, input: [{json: {}}], expect: {}}]
`)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if stdout, _, code := flowd(ctx, "test", file); code != failed || !strings.Contains(stdout, "interrupted") &&
		!strings.Contains(stdout, "real time") {
		t.Errorf("exit code %d\n%s", code, stdout)
	}
}

func TestJUnitIsXMLWhateverTheTestsSay(t *testing.T) {
	odd := &testRun{result: pipetest.Result{Differences: []pipetest.Difference{{At: "output <&>",
		Got: "\x00\x1b[31m \xff ]]>"}}}}
	odd.test.Name = "\"<odd>\" \x01"
	path := filepath.Join(t.TempDir(), "report.xml")
	odd.pipeline.Spec = &engine.Pipeline{Name: "p"}
	r := testReport{runs: []*testRun{odd}, failed: 1}
	if err := r.junit(path); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var doc junitSuites
	if err := xml.Unmarshal(text, &doc); err != nil || doc.Failures != 1 || doc.Suites[0].Cases[0].Failure == nil {
		t.Errorf("err %v\n%s", err, text)
	}
}

func TestAReplacedFileKeepsItsRightsAndItsLink(t *testing.T) {
	dir := t.TempDir()
	file, link := filepath.Join(dir, "p.yaml"), filepath.Join(dir, "link.yaml")
	if err := os.WriteFile(file, []byte("old"), 0o640); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("p.yaml", link); err != nil {
		t.Fatal(err)
	}
	if err := replaceFile(link, "new"); err != nil {
		t.Fatal(err)
	}
	info, err := os.Lstat(link)
	if err != nil || info.Mode()&os.ModeSymlink == 0 {
		t.Errorf("the link is %v, %v", info, err)
	}
	text, _ := os.ReadFile(file)
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o640 || string(text) != "new" {
		t.Errorf("%v, %v, %q", info, err, text)
	}
	if entries, _ := os.ReadDir(dir); len(entries) != 2 {
		t.Errorf("something is left behind: %v", entries)
	}
}
