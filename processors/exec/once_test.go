package exec

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/enginetest"
	"github.com/flowd-io/flowd/internal/testing/steptest"
	"go.uber.org/goleak"
)

func TestOnceConforms(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	steptest.Conforms(t, `{"exec": {"command": ["cat"], "concurrency": 4}}`, "a", "b")
}

func TestEachMessageIsARun(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name, program, more string
		in, want            []string
	}{
		{"output is the payload", "once", "", []string{"ab\n", "", "c"}, []string{"AB", "", "C"}},
		{"the last line end of text is taken off", "once", "", []string{"a\n\n", "a\r\n"}, []string{"A\n", "A"}},
		{"its own environment, and flowd's", "once", `env:"A_B": "x y";`, []string{"env A_B"}, []string{"x y true"}},
		{"a directory", "once", `, "dir": "` + dir + `"`, []string{"dir"}, []string{dir}},
		{"a document goes into a field", "once", `, "into": "a.b"`, []string{`{"json":1}`},
			[]string{`{"json":1,"a":{"b":{"JSON":1}}}`}},
		{"a document becomes the document", "once", `, "into": "this"`, []string{`{"json":1}`}, []string{`{"JSON":1}`}},
		{"a field needs a document", "once", `, "into": "a"`, []string{`text`}, []string{"decode: …"}},
		{"input that it does not read", "idle", "", []string{strings.Repeat("x", 1<<20)}, []string{""}},
		{"nothing is null", "idle", `, "into": "a"`, []string{"{}"}, []string{`{"a":null}`}},
		{
			"some fail, others go on", "once", "", []string{"a", "exit 3", "b", "exit 75", "killed", "c"},
			[]string{"A", "permanent: exit status 3: first line has  [31mred and hunter2-hunter2", "B",
				"transient: exit status 75: …", "transient: signal: killed", "C"},
		},
		{"a secret does not show", "once", `env:"PW": "hunter2-hunter2";`, []string{"exit 1"},
			[]string{"permanent: exit status 1: first line has  [31mred and ***"}},
		{"too much output", "once", `, "max_output": "64KiB"`, []string{"flood", "a"},
			[]string{"permanent: the answer is longer than max_output, 64KiB…", "A"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
			p := opened(t, component(tt.program, tt.more))
			match(t, outcomes(t, t.Context(), p, tt.in...), tt.want...)
		})
	}
}

func TestChildrenOfAProgramAreKilledWithIt(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	w, ctx := newWitness(t), newDeadline(t)
	p := opened(t, component("once", `, "concurrency": 2`))
	done := make(chan []string)
	go func() { done <- outcomes(t, ctx, p, "parent "+w.addr()) }()
	one, other := w.sees(), w.sees()
	close(ctx.passed)
	match(t, <-done, "timeout: the program took longer than the step's timeout, and was killed (raise its `timeout`)…")
	one()
	other()
}

func TestAProgramThatWaitsForItsTurnMayBeTooLate(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	w, ctx := newWitness(t), newDeadline(t)
	p := opened(t, component("once", `, "concurrency": 1`))
	done := make(chan []string)
	go func() { done <- outcomes(t, ctx, p, "hang "+w.addr(), "b") }()
	gone := w.sees()
	close(ctx.passed)
	match(t, <-done, "timeout: the program took longer…", "timeout: the …")
	gone()
}

func TestOutputThatOthersHoldOpen(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	w := newWitness(t)
	p := opened(t, component("once", ""))
	done := make(chan []string)
	go func() { done <- outcomes(t, t.Context(), p, "child "+w.addr()) }()
	gone := w.sees()
	match(t, <-done, "permanent: the program has ended, but others that it started kept its output open…")
	gone()
}

func TestProgramsThatAreNotThere(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "plain"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	tests := []struct{ name, config, want string }{
		{"not in PATH", `["no-such-program"]`,
			`program "no-such-program" is not in PATH (install it, or write its path)`},
		{"not where it should be", `["/no/such/program"]`, `program "/no/such/program": no such file or directory`},
		{"not to be run", `["` + dir + `/plain"]`, "permission denied"},
		{"no directory", `{"command": ["./x"], "dir": "` + dir + `/none"}`, "dir: stat"},
		{"a file as directory", `{"command": ["./x"], "dir": "` + dir + `/plain"}`, "is not a directory"},
		{"a path is relative to the directory", `{"command": ["./plain"], "dir": "` + dir + `"}`, "permission denied"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := enginetest.New(t, engine.Processors, `{"exec": `+tt.config+`}`)
			err := p.(engine.Opener).Open(t.Context())
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}

func TestAPathIsRelativeToTheDirectory(t *testing.T) {
	p := opened(t, component("once", `, "dir": "`+filepath.Dir(os.Args[0])+`"`))
	p.(*once).Command = []string{"./" + filepath.Base(os.Args[0])}
	if err := p.(engine.Opener).Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	match(t, outcomes(t, t.Context(), p, "a"), "A")
}

func TestConfiguration(t *testing.T) {
	steptest.RunRefused(t, []steptest.Refused{
		{Name: "no command", Step: `{"exec": {}}`, Want: "required"},
		{Name: "an empty command", Step: `{"exec": []}`, Want: "must not be empty"},
		{Name: "a command without a name", Step: `{"exec": [""]}`, Want: "the program has no name"},
		{Name: "a shell's line", Step: `{"exec": "sort | uniq"}`, Want: "no shell"},
		{Name: "another mode", Step: `{"exec": {"command": ["a"], "mode": "lines"}}`,
			Want: "must be one of per_message, stream"},
		{Name: "no variable", Step: `{"exec": {"command": ["a"], "env": {"A=B": "c"}}}`,
			Want: "is not a valid environment variable"},
		{Name: "a template for arguments", Step: `{"exec": {"command": ["a"], "args_mapping": "x"}}`,
			Want: "arguments are fixed"},
	})
}

func TestOtherBytesThanTextAreLeftAlone(t *testing.T) {
	p := opened(t, `{"exec": ["cat"]}`)
	match(t, outcomes(t, t.Context(), p, "\xff\n", "a\n"), "\xff\n", "a")
}

func TestArgumentsAreNoTemplates(t *testing.T) {
	p := opened(t, `{"exec": ["echo", "$(id)", "${ID:-x}"]}`)
	match(t, outcomes(t, t.Context(), p, `{"id":1}`), "$(id) x")
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
		`" "`: "must not be empty", `{"a": 1}`: "expected a command, got a mapping", `"a > b"`: "no shell", `"'' x"`: "no name",
		`["x", "\u0000"]`: "NUL"} {
		text, err := json.Marshal(enginetest.Problems(t, engine.Processors, `{"exec": {"command": `+command+`}}`))
		if err != nil || !strings.Contains(string(text), want) {
			t.Errorf("%s: %s, %v, want %q", command, text, err, want)
		}
	}
}
