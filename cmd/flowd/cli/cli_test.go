package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/flowd-io/flowd/engine"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "test" { // a test process of flowd test
		Main()
	}
	goleak.VerifyTestMain(m)
}

func init() {
	engine.Register(engine.Inputs, "test_lines", "Yields lines and ends. For tests.", linesConfig{},
		func(c linesConfig, _ engine.Env) (engine.Input, error) { return &linesInput{c}, nil })
	engine.Register(engine.Outputs, "test_drop", "Drops all. For tests.", struct{}{},
		func(struct{}, engine.Env) (engine.Output, error) { return dropOutput{}, nil })
}

type linesConfig struct {
	Lines []string `yaml:"lines" doc:"What to yield."`
	Wait  bool     `yaml:"wait" doc:"Waits for the drain instead of ending."`
}

type linesInput struct{ linesConfig }

func (in *linesInput) Read(ctx context.Context, b *engine.Batch) (engine.Acker, error) {
	if len(in.Lines) > 0 {
		b.Add([]byte(in.Lines[0]))
		in.Lines = in.Lines[1:]
		return nil, nil
	}
	if in.Wait {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return nil, engine.ErrEnd
}

type dropOutput struct{}

func (dropOutput) Write(context.Context, *engine.Batch) error { return nil }

// flowd runs a command line in this process.
func flowd(ctx context.Context, args ...string) (stdout, stderr string, code int) {
	var out, err bytes.Buffer
	code = execute(ctx, args, &out, &err)
	return out.String(), err.String(), code
}

func pipeline(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "p.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestRunEndsWithItsInputs(t *testing.T) {
	file := pipeline(t, "inputs: {in: {test_lines: {lines: [a, b]}}}\noutputs: {out: {test_drop: {}}}\n")
	for _, args := range [][]string{{"-c", file}, {file}, {"run", file}, {"run", "-c", file}} {
		stdout, stderr, code := flowd(t.Context(), args...)
		if code != clean || stdout != "" || !strings.Contains(stderr, "p: 2 received: 2 delivered in ") {
			t.Errorf("flowd %q: code %d\nstdout %s\nstderr %s", args, code, stdout, stderr)
		}
	}
}

func TestTheEndOfTheContextDrains(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	file := pipeline(t, "inputs: {in: {test_lines: {wait: true}}}\noutputs: {out: {test_drop: {}}}\n")
	if _, stderr, code := flowd(ctx, "-c", file); code != clean {
		t.Errorf("code %d, want %d\n%s", code, clean, stderr)
	}
}

func TestUsageErrorsSayWhereHelpIs(t *testing.T) {
	tests := []struct {
		args []string
		want string
	}{
		{[]string{"--confg", "x"}, "unknown flag: --confg"},
		{[]string{"lnit"}, `did you mean "lint"?`},
		{[]string{"help", "lnt"}, `did you mean "lint"?`},
		{[]string{"help", "queue", "prge"}, `did you mean "purge"?`},
		{[]string{"docs", "expresions"}, `did you mean "expressions"?`},
		{[]string{"docs", "output", "fille"}, "there is no"},
		{[]string{"docs", "--search", "xyzzy"}, `no page has "xyzzy"`},
		{[]string{"docs", "--search"}, "--search takes words"},
		{[]string{"docs", "--markdown", "x", "stdin"}, "or --markdown alone"},
		{[]string{"lint"}, "Run 'flowd lint --help'"},
		{[]string{"list", "colours"}, "inputs, processors, batchers, outputs"},
		{[]string{"version", "more"}, "Run 'flowd version --help'"},
		{[]string{"worker", "--pool", "p", "--ca", "/nope/tls.ca"}, "--ca: open /nope/tls.ca: no such file"},
		{[]string{"pool", "ls", "--key", "key.pem"}, "--cert and --key belong together (give both)"},
		{nil, "Usage:"},
	}
	for _, tt := range tests {
		stdout, stderr, code := flowd(t.Context(), tt.args...)
		if code != invalid || stdout != "" || !strings.Contains(stderr, tt.want) {
			t.Errorf("flowd %q: code %d, stdout %q, stderr %q; want code %d and %q", tt.args, code, stdout, stderr,
				invalid, tt.want)
		}
	}
}

type closedPipe struct{}

func (closedPipe) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }

func TestAnOutputThatCannotBeWrittenIsNoUsageError(t *testing.T) {
	var stderr bytes.Buffer
	if code := execute(t.Context(), []string{"list"}, closedPipe{}, &stderr); code != failed {
		t.Errorf("code %d, want %d", code, failed)
	}
	if got, want := stderr.String(), "flowd: io: read/write on closed pipe\n"; got != want {
		t.Errorf("stderr %q, want %q", got, want)
	}
}

func TestListAsJSONNamesKindAndSummary(t *testing.T) {
	stdout, _, code := flowd(t.Context(), "list", "outputs", "--json")
	var got []component
	if err := json.Unmarshal([]byte(stdout), &got); err != nil || code != clean {
		t.Fatalf("code %d: %v\n%s", code, err, stdout)
	}
	i := slices.IndexFunc(got, func(c component) bool { return c.Name == "test_drop" })
	if i < 0 || got[i].Kind != "output" || got[i].Summary != "Drops all" {
		t.Errorf("%+v", got)
	}
}

func TestExcerptsKeepAsterisksInCode(t *testing.T) {
	for excerpt, want := range map[string]string{
		"- **Budget**: see `logs/**/*.log`":      "Budget: see `logs/**/*.log`",
		"**`one` of two** and **c**":             "`one` of two and c",
		`? re_replace(#, "***@***") : 2 ** 3**2`: `? re_replace(#, "***@***") : 2 ** 3**2`,
		"path: logs/**/*.log":                    "path: logs/**/*.log",
	} {
		if got := shorten(excerpt, "", 100); got != want {
			t.Errorf("%s: %s, want %s", excerpt, got, want)
		}
	}
}

func TestDocsKnowsSectionsGuidesAndCodes(t *testing.T) {
	for name, want := range map[string][]string{
		"":              {"expressions", "engine", "tests", "failures", "test_drop", "uniq"},
		"expressions":   {"a name is a field of the document", "uniq(list) list"},
		"engine":        {"order_by", "on_failure.dead_letter"},
		"tests":         {"expect", "until"},
		"service":       {"listen", "log.format", "log.components"},
		"testing":       {"# Testing pipelines"},
		"unknown-field": {"A key is not known here"},
		"codes":         {"unknown-field", "literal-secret"},
		"test_drop":     {"Drops all."},

		"failures#retries":  {"## Retries", "max_attempts"},
		"engine#drain":      {"drain.timeout"},
		"dead letter":       {"failures: Dead letters", "flowd docs failures#dead-letters"},
		"order_by":          {"flowd docs engine#order_by"},
		"--search failures": {"flowd docs failures"},
	} {
		args := []string{"docs"}
		args = append(args, strings.Fields(name)...)
		stdout, stderr, code := flowd(t.Context(), args...)
		for _, w := range want {
			if code != clean || !strings.Contains(stdout, w) {
				t.Errorf("flowd docs %s: code %d, %s\nlacks %q in\n%s", name, code, stderr, w, stdout)
			}
		}
	}
}

func TestEveryGuideIsBuiltIn(t *testing.T) {
	guides, err := filepath.Glob("../../../docs/*.md")
	if err != nil || len(guides) == 0 {
		t.Fatal(guides, err)
	}
	for _, path := range guides {
		name := strings.TrimSuffix(filepath.Base(path), ".md")
		if slices.Contains([]string{"README", "performance"}, name) { // performance.md is about one machine
			continue
		}
		if guide(name) == "" {
			t.Errorf("%s is not in docs/docs.go", name)
		}
	}
}

func TestHelpOfACommand(t *testing.T) {
	for _, args := range [][]string{{"help", "lint"}, {"help", "queue", "purge"}, {"help"}} {
		if stdout, stderr, code := flowd(t.Context(), args...); code != clean || !strings.Contains(stdout, "Usage:") {
			t.Errorf("flowd %q: code %d, stdout %s, stderr %s", args, code, stdout, stderr)
		}
	}
}

func TestShellsCompleteWhatFits(t *testing.T) {
	tests := []struct {
		args      []string
		want, not string
		directive string // ":4" no files, ":8" files of these extensions
	}{
		{[]string{"docs", "test_d"}, "test_drop", "", ":4"},
		{[]string{"docs", "unknown-"}, "unknown-field", "", ":4"},
		{[]string{"docs", "output", ""}, "test_drop", "test_lines", ":4"},
		{[]string{"docs", "output", "file", ""}, "", "test_drop", ":4"},
		{[]string{"list", ""}, "output", "", ":4"},
		{[]string{"help", "l"}, "lint", "", ":4"},
		{[]string{"lint", ""}, "yaml", "", ":8"},
		{[]string{"-c", ""}, "yaml", "", ":8"},
		{[]string{"test", "-c", ""}, "yaml", "", ":8"},
		{[]string{"lint", "a.yaml", "-s", ""}, "", "yaml", ":4"},
		{[]string{"pool", "ls", ""}, "", "yaml", ":4"},
		{[]string{"queue", "purge", ""}, "", "yaml", ":4"},
		{[]string{"version", ""}, "", "yaml", ":4"},
		{[]string{"queue", "load", ""}, "", "yaml", ":0"},
	}
	for _, tt := range tests {
		stdout, _, code := flowd(t.Context(), append([]string{"__complete"}, tt.args...)...)
		if code != clean || !strings.Contains(stdout, tt.want) || tt.not != "" && strings.Contains(stdout, tt.not) ||
			!strings.HasSuffix(strings.TrimSpace(stdout), tt.directive) {
			t.Errorf("%q completes to %q, want %q and %s", tt.args, stdout, tt.want, tt.directive)
		}
	}
}

func TestEveryCommandHasAnExample(t *testing.T) {
	for _, cmd := range newRoot(io.Discard, io.Discard).Commands() {
		if cmd.Name() != "help" && cmd.Name() != "completion" && cmd.Example == "" {
			t.Errorf("%s has no example", cmd.Name())
		}
	}
}
