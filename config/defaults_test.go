package config

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/flowd-io/flowd/schema"
)

func TestComponentsInheritDefaults(t *testing.T) {
	dir := write(t, map[string]string{"q.yaml": `inputs: {in: {stdin: {}}}
x-shared: &shared {stdout: {}}
processors:
  - filter: a
  - filter: b
    timeout: 2s
    retry: {max_attempts: 7}
  - switch:
      - do: [{filter: c}]
batchers:
  own: {match: a, output: a, batch: {size: 3}}
  bare: {match: b, output: b, concurrency: 9}
  other: {match: c, output: c, window: {every: 1m}}
  empty: {output: [d, e], batch: }
outputs:
  a: {stdout: {}, concurrency: 5, timeout: 6s, breaker: {failures: 2}, retry: {max_attempts: 8}}
  b: *shared
  c: *shared
  d: {file: {path: /tmp/x}, retry: {backoff: 50ms, max_backoff: 1s}}
  e: {fallback: [a, b]}
engine:
  on_failure: {retry: {max_age: 1h}}
defaults:
  outputs: {concurrency: 4, timeout: 7s, breaker: {backoff: 3s, max_backoff: 4s}, retry: {intervals: [2s]}}
  processors: {timeout: 8s, retry: {max_attempts: 2}}
  batchers: {concurrency: 6, batch: {size: 40, timeout: 9s}}
`})
	set, problems := Load([]string{filepath.Join(dir, "q.yaml")}, Options{Set: []string{"defaults.outputs.breaker.backoff=2s"}})
	for _, p := range problems {
		if !p.Warning {
			t.Fatal(p)
		}
	}
	shown := strings.ReplaceAll(set.Pipelines[0].Show(), dir+string(filepath.Separator), "")
	section := func(from, to string) string {
		_, rest, _ := strings.Cut(shown, from)
		part, _, _ := strings.Cut(rest, to)
		return part
	}
	for _, tt := range []struct{ name, from, to, want string }{
		{"a step", "filter: a", "filter: b", `timeout: 8s +# inherited from defaults.processors.timeout`},
		{"a step's retry", "filter: a", "filter: b", `max_attempts: 2 +# inherited from defaults.processors.retry`},
		{"what the defaults lack", "filter: a", "filter: b", `max_age: 1h +# inherited from engine.on_failure.retry`},
		{"a step's own timeout", "filter: b", "switch:", `timeout: 2s +# q.yaml:6`},
		{"a step's own retry", "filter: b", "switch:", `max_attempts: 7 +# q.yaml:7`},
		{"a batcher's own size", "\n  own:", "\n  bare:", `size: 3 +# q.yaml:11`},
		{"a batcher's timeout", "\n  own:", "\n  bare:", `timeout: 9s +# inherited from defaults.batchers.batch.timeout`},
		{"a batcher without a type", "\n  bare:", "\n  other:", `size: 40 +# inherited from defaults.batchers.batch.size`},
		{"a batcher's own concurrency", "\n  bare:", "\n  other:", `concurrency: 9 +# q.yaml:12`},
		{"a batcher of another type", "\n  other:", "\n  empty:", `concurrency: 6 +# inherited from defaults.batchers.concurrency`},
		{"an empty batch", "\n  empty:", "\noutputs:", `size: 40 +# inherited from defaults.batchers.batch.size`},
		{"an output's own values", "\noutputs:", "\n  b:", `concurrency: 5 +# q.yaml:16(.|\n)*timeout: 6s +# q.yaml:16`},
		{"a breaker, field by field", "\noutputs:", "\n  b:",
			`failures: 2 +# q.yaml:16\n +backoff: 2s +# inherited from defaults.outputs.breaker.backoff\n` +
				` +max_backoff: 4s +# inherited from defaults.outputs.breaker.max_backoff`},
		{"a retry, field by field", "\noutputs:", "\n  b:",
			`max_attempts: 8 +# q.yaml:16(.|\n)*- 2s +# inherited from defaults.outputs.retry.intervals`},
		{"a shared node", "\n  b:", "\n  c:", `concurrency: 4 +# inherited from defaults.outputs.concurrency`},
		{"the other use of it", "\n  c:", "\n  d:", `concurrency: 4 +# inherited from defaults.outputs.concurrency`},
	} {
		if got := section(tt.from, tt.to); !regexp.MustCompile(tt.want).MatchString(got) {
			t.Errorf("%s: no line is like %q in\n%s", tt.name, tt.want, got)
		}
	}
	if got := section("\n  other:", "\n  empty:"); strings.Contains(got, "batch:") {
		t.Errorf("a window inherited the settings of batch:\n%s", got)
	}
	if got := section("\n  d:", "\n  e:"); strings.Contains(got, "intervals") {
		t.Errorf("a retry with a back-off inherited intervals:\n%s", got)
	}
	if got := section("\n  e:", "\nengine:"); strings.Contains(got, "defaults") {
		t.Errorf("an output that consists of others inherited what has no effect on it:\n%s", got)
	}
	if got := section("switch:", "\nbatchers:"); strings.Contains(got, "inherited") {
		t.Errorf("a switch, whose steps are what may fail, inherited:\n%s", got)
	}
}

func TestAMistakeInDefaultsIsReportedOnce(t *testing.T) {
	const two = "inputs: {in: {stdin: {}}}\noutputs: {a: {stdout: {}}, b: {file: {path: /tmp/x}}}\nbatchers: {x: {output: [a, b]}}\n"
	for _, tt := range []struct{ defaults, want string }{
		{"{outputs: {timeout: x}}", `q.yaml:4:31: defaults.outputs.timeout: "x" is not a valid duration`},
		{"{outputs: {stdout: {}}}", `q.yaml:4:22: defaults.outputs: unknown field "stdout"`},
		{"{inputs: {}}", `q.yaml:4:12: defaults: unknown field "inputs"`},
		{"{batchers: {batch: {size: -1}}}", `q.yaml:4:37: defaults.batchers.batch.size: "-1" must be`},
		{"{processors: {retry: {max_attempts: 1, backoff: 1s}}}", "q.yaml:4:59: defaults.processors.retry.backoff: there is no second attempt"},
		{"[]", "q.yaml:4:11: defaults: expected a mapping"},
	} {
		dir := write(t, map[string]string{"q.yaml": two + "defaults: " + tt.defaults + "\n"})
		_, problems := Load([]string{filepath.Join(dir, "q.yaml")}, Options{})
		var errors []schema.Problem
		for _, p := range problems {
			if !p.Warning {
				errors = append(errors, p)
			}
		}
		if len(errors) != 1 || !strings.HasPrefix(strings.ReplaceAll(errors[0].String(), dir+"/", ""), tt.want) {
			t.Errorf("%s: got %v, want one error, %s", tt.defaults, errors, tt.want)
		}
	}
}
