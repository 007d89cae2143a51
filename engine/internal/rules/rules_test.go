package rules_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/internal/rules"
	"github.com/flowd-io/flowd/schema"
)

// fake configures plugins of all kinds. Its fields become the traits that rules check.
type fake struct {
	EarlyAck  bool   `yaml:"early_ack" doc:"x."`
	Listen    string `yaml:"listen" doc:"x."`
	Forgets   bool   `yaml:"forgets" doc:"x."`
	Prefetch  int    `yaml:"prefetch" doc:"x."`
	Cluster   string `yaml:"cluster" doc:"x."`
	Size      int    `yaml:"size" doc:"x."`
	ManyLines bool   `yaml:"many_lines" doc:"x."`
	OneLine   bool   `yaml:"one_line" doc:"x."`
	Calls     bool   `yaml:"calls" doc:"x."`
	Counts    bool   `yaml:"counts" doc:"x."`
}

func (f fake) Traits() engine.Traits {
	t := engine.Traits{AcksEarly: f.EarlyAck, Exposed: f.Listen != "", Forgets: f.Forgets, Unsettled: f.Prefetch,
		Transacts: f.Cluster, Size: f.Size, ManyLines: f.ManyLines, OneLine: f.OneLine}
	switch {
	case f.Calls:
		t.Effects = engine.EffectsElsewhere
	case f.Counts:
		t.Effects = engine.EffectsOnDelivery
	}
	return t
}

// composite configures an output that consists of others.
type composite struct {
	Outputs engine.Names `yaml:"outputs,main" doc:"x."`
}

func (c composite) Traits() engine.Traits { return engine.Traits{Members: c.Outputs} }

func init() {
	engine.Register(engine.Inputs, "source", "x.", fake{}, func(fake, engine.Env) (engine.Input, error) { return nil, nil })
	engine.Register(engine.Batchers, "count", "x.", fake{}, func(fake, engine.Env) (engine.Batcher, error) { return nil, nil })
	engine.Register(engine.Outputs, "sink", "x.", fake{}, func(fake, engine.Env) (engine.Output, error) { return nil, nil })
	engine.Register(engine.Outputs, "chain", "x.", composite{}, func(composite, engine.Env) (engine.Output, error) { return nil, nil })
	for _, name := range []string{"step", "split"} {
		engine.Register(engine.Processors, name, "x.", fake{}, func(fake, engine.Env) (engine.Processor, error) { return nil, nil })
	}
	engine.Register(engine.Processors, "group", "x.", engine.GroupConfig{},
		func(engine.GroupConfig, engine.Env) (engine.Processor, error) { return nil, nil })
}

// decode reads a pipeline from JSON, as if it were in a file f. It adds an input and an output if there are none.
func decode(t *testing.T, text string) *engine.Pipeline {
	t.Helper()
	for _, section := range []string{`"inputs": {"in": {"source": {}}}`, `"outputs": {"a": {"sink": {}}}`} {
		if name, _, _ := strings.Cut(section, ":"); !strings.Contains(text, name) {
			text = strings.Trim(section+", "+text, ", ")
		}
	}
	n, err := schema.ParseJSON("{" + text + "}")
	if err != nil {
		t.Fatal(err)
	}
	d := schema.NewDecoder(nil)
	var p engine.Pipeline
	d.Decode(n, &p)
	for _, problem := range d.Problems() {
		t.Fatal(problem)
	}
	return &p
}

// told returns what a user sees of each problem: its place, its code and its remedy.
func told(problems []schema.Problem) (all []string) {
	for _, p := range problems {
		kind := ""
		if p.Warning {
			kind = "warning "
		}
		all = append(all, p.Path+": "+kind+p.Code+": "+p.Remedy)
	}
	return all
}

const (
	two    = `"outputs": {"a": {"sink": {}}, "b": {"sink": {}}}`
	toA    = `"batchers": {"all": {"output": "a"}}`
	toBoth = `"batchers": {"all": {"output": ["a", "b"]}}`
)

func TestProblemsHaveAPlaceAndARemedy(t *testing.T) {
	tests := []struct {
		name, pipeline string
		want           []string
	}{
		{"nothing is wrong", two + ", " + toBoth, nil},

		// Routes.
		{"no input", `"inputs": {}`, []string{"inputs: no-input: write one, such as `inputs: {in: {stdin: {}}}`"}},
		{"no output", `"outputs": {}`, []string{"outputs: no-output: write one, such as `outputs: {out: {stdout: {}}}`"}},
		{"two outputs without batchers", two,
			[]string{"outputs.b: no-batchers: write `batchers: {to_a: {match: …, output: a}, to_b: {output: b}}`, " +
				"or `batchers: {all: {output: [a, b]}}` to send every message to each"}},
		{"an output to which nothing is sent", two + ", " + toA,
			[]string{"outputs.b: unused-output: name it in a batcher (`output: b`), or remove it"}},
		{"an output that is misspelt", `"outputs": {"orders": {"sink": {}}}, "batchers": {"all": {"output": "order"}}`,
			[]string{`batchers.all.output: unknown-output: did you mean "orders"?`}},
		{"an output that does not exist", two + `, "batchers": {"all": {"output": ["a", "b", "other"]}}`,
			[]string{`batchers.all.output[2]: unknown-output: write "a" or "b", or add "other" to ` + "`outputs`"}},
		{"an output that is named twice", `"batchers": {"all": {"output": ["a", "a"]}}`,
			[]string{"batchers.all.output[1]: repeated-output: name it once"}},
		{"a batcher without an output", `"batchers": {"all": {"output": []}}`,
			[]string{"batchers.all.output: no-output: write \"a\", or one of `outputs`"}},
		{"only dead letters", `"engine": {"on_failure": {"dead_letter": "a"}}`,
			[]string{"outputs: no-route: add an output, or batchers that name one"}},
		{"a batcher behind one that takes all",
			two + `, "batchers": {"all": {"match": "true", "output": "a"}, "rest": {"match": "n > 1", "output": "b"}}`,
			[]string{"batchers.rest: unreachable-batcher: put it before \"all\", or give \"all\" a `match`, or `continue: true`"}},
		{"two batchers without match", two + `, "batchers": {"x": {"output": "a"}, "y": {"output": "b"}}`,
			[]string{"batchers.y: unreachable-batcher: give one of the two a `match`, or \"x\" `continue: true`"}},
		{"a batcher behind one that continues", two + `, "batchers": {"x": {"output": "a", "continue": true}, "y": {"output": "b"}}`, nil},
		{"a batcher without match is tried last",
			two + `, "batchers": {"rest": {"output": "a"}, "some": {"match": "n > 1", "output": "b"}}`, nil},
		{"a condition that is never true", two + `, "batchers": {"x": {"match": "(not true)", "output": "a"}, "y": {"output": "b"}}`,
			[]string{"batchers.x.match: never-matches: remove the batcher, or correct the condition"}},
		{"no batcher takes the rest", `"batchers": {"x": {"match": "n > 1", "output": "a"}}`,
			[]string{"batchers: warning no-catch-all: add a batcher without `match`; to discard such messages, give it an output `drop: {}`"}},
		{"a batch key that separates an order key", `"batchers": {"x": {"key": "a", "output": "a"}}, "engine": {"order_by": "b"}`,
			[]string{"batchers.x.key: warning order-parted: use the same expression for both if their order matters"}},
		{"a batch key that is the order key", `"batchers": {"x": {"key": "a", "output": "a"}}, "engine": {"order_by": "a"}`, nil},
		{"a batch key where no order matters", `"batchers": {"x": {"key": "a", "output": "a"}}, "engine": {"order_by": "nil"}`, nil},

		// Composite outputs.
		{"members get messages", `"outputs": {"all": {"chain": ["a", "b"]}, "a": {"sink": {}}, "b": {"sink": {}}}`, nil},
		{"a key that has no effect", `"outputs": {"all": {"chain": ["a"], "timeout": "1s"}, "a": {"sink": {}}}`,
			[]string{"outputs.all.timeout: composite-key: write it in the members: a"}},
		{"a member that does not exist", `"outputs": {"all": {"chain": ["a", "c"]}, "a": {"sink": {}}}`,
			[]string{`outputs.all.chain[1]: unknown-output: write "all" or "a", or add "c" to ` + "`outputs`"}},
		{"a member that is named twice", `"outputs": {"all": {"chain": {"outputs": ["a", "a"]}}, "a": {"sink": {}}}`,
			[]string{"outputs.all.chain.outputs[1]: repeated-output: name it once"}},
		{"outputs in a cycle", `"outputs": {"x": {"chain": ["y"]}, "y": {"chain": ["a", "x"]}, "a": {"sink": {}}}`,
			[]string{"outputs.y.chain[1]: output-cycle: remove one of the names"}},
		{"an output that contains itself", `"outputs": {"x": {"chain": ["x", "a"]}, "a": {"sink": {}}}`,
			[]string{"outputs.x.chain[0]: output-cycle: remove one of the names"}},

		// Failures.
		{"a dead letter that does not exist", `"engine": {"on_failure": {"dead_letter": "c"}}`,
			[]string{`engine.on_failure.dead_letter: unknown-output: add "c" to ` + "`outputs`"}},
		{"no dead letter is named", `"engine": {"on_failure": {"then": "dead_letter"}}`,
			[]string{"engine.on_failure.then: no-dead-letter: add `dead_letter: NAME`, the name of an output"}},
		{"an output takes the engine's dead letter", `"outputs": {"a": {"sink": {}, "on_failure": {"then": "dead_letter"}, "retry": {"max_age": "1m"}}, "b": {"sink": {}}},
			"engine": {"on_failure": {"dead_letter": "b"}}`, nil},
		{"a dead letter that gets nothing", two + ", " + toBoth + `, "engine": {"on_failure": {"then": "drop", "dead_letter": "b"}}`,
			[]string{"engine.on_failure.dead_letter: unused-dead-letter: write `then: dead_letter`, or remove one of the two"}},
		{"a dead letter with its own on_failure", `"outputs": {"a": {"sink": {}}, "b": {"sink": {}, "on_failure": {"then": "drop"}}},
			"engine": {"on_failure": {"dead_letter": "b"}}`, []string{"outputs.b.on_failure: dead-letter-on-failure: remove it"}},
		{"a member of a dead letter with its own on_failure", `"outputs": {"a": {"sink": {}}, "b": {"chain": ["c"]},
			"c": {"sink": {}, "on_failure": {"then": "drop"}}}, "engine": {"on_failure": {"dead_letter": "b"}}`,
			[]string{"outputs.c.on_failure: dead-letter-on-failure: remove it"}},
		{"a limit of the attempts for dead letters", `"outputs": {"a": {"sink": {}},
			"b": {"sink": {}, "retry": {"max_attempts": 3, "max_age": "1m"}}},
			"engine": {"on_failure": {"dead_letter": "b"}}`,
			[]string{"outputs.b.retry.max_attempts: warning unused-retry: remove it", "outputs.b.retry.max_age: warning unused-retry: remove it"}},
		{"a dead letter that gets other messages, too", `"outputs": {"a": {"sink": {}}, "b": {"sink": {}, "retry": {"max_attempts": 3}}},
			` + toBoth + `, "engine": {"on_failure": {"dead_letter": "b"}}`, nil},

		// Retries.
		{"waits for an only attempt", retry(`{"max_attempts": 1, "backoff": "1s"}`),
			[]string{"outputs.a.retry.backoff: retry-contradiction: allow more attempts, or remove this"}},
		{"a longest wait below the first", retry(`{"backoff": "1m", "max_backoff": "1s"}`),
			[]string{"outputs.a.retry.max_backoff: retry-contradiction: write `backoff: 1s` or less, or a longer max_backoff"}},
		{"an age below the first wait", retry(`{"backoff": "1m", "max_backoff": "2m", "max_age": "1s"}`),
			[]string{"outputs.a.retry.max_age: retry-contradiction: write `backoff: 1s` or less, or a longer max_age"}},
		{"intervals and a back-off", retry(`{"intervals": ["1s"], "backoff": "1s"}`),
			[]string{"outputs.a.retry.backoff: retry-contradiction: remove one of the two"}},
		{"no intervals", retry(`{"intervals": []}`),
			[]string{"outputs.a.retry.intervals: retry-contradiction: write waits, such as `intervals: [1s, 10s]`, or remove it"}},
		{"an interval of nothing", retry(`{"intervals": ["1s", "0s"]}`),
			[]string{"outputs.a.retry.intervals: retry-contradiction: write 1ms or more"}},
		{"an age below the first interval", retry(`{"intervals": ["1m"], "max_age": "1s"}`),
			[]string{"outputs.a.retry.max_age: retry-contradiction: write a longer max_age, or remove it"}},
		{"more intervals than attempts", retry(`{"intervals": ["1s", "2s", "3s"], "max_attempts": 3}`),
			[]string{"outputs.a.retry.intervals: warning unused-interval: also write `max_attempts: 4`, or 0 for no limit"}},
		{"a retry takes over what it does not say", retry(`{"max_backoff": "1s"}`) +
			`, "engine": {"on_failure": {"retry": {"backoff": "1m", "max_backoff": "2m"}}}`,
			[]string{"outputs.a.retry.max_backoff: retry-contradiction: write `backoff: 1s` or less, or a longer max_backoff"}},
		{"a breaker", `"outputs": {"a": {"sink": {}, "breaker": {"backoff": "1m", "max_backoff": "1s"}}}`,
			[]string{"outputs.a.breaker.max_backoff: retry-contradiction: write `backoff: 1s` or less, or a longer max_backoff"}},
		{"a restart", `"engine": {"restart": {"backoff": "1m", "max_backoff": "1s"}}`,
			[]string{"engine.restart.max_backoff: retry-contradiction: write `backoff: 1s` or less, or a longer max_backoff"}},
		{"a replay smaller than what is in flight", `"engine": {"max_replay": 10, "max_in_flight": {"messages": 20}}`,
			[]string{"engine.max_replay: warning small-replay: write 20 or more, or lower `max_in_flight.messages`"}},

		// Sizes.
		{"a batch larger than what is in flight", `"batchers": {"x": {"count": {"size": 50}, "output": "a"}},
			"engine": {"max_in_flight": {"messages": 20}}`,
			[]string{"engine.max_in_flight.messages: warning never-full: write 50 or more, or a smaller `size`"}},
		{"a group larger than what the source gives", `"inputs": {"in": {"source": {"prefetch": 10}, "concurrency": 2}},
			"processors": [{"group": {"size": 21, "do": [{"step": {}}]}}]`,
			[]string{"inputs.in.source.prefetch: warning never-full: write `prefetch: 21` or more, or a smaller `size`"}},
		{"a group as large as what the source gives", `"inputs": {"in": {"source": {"prefetch": 10}, "concurrency": 2}},
			"processors": [{"group": {"size": 20, "do": [{"step": {}}]}}]`, nil},
		{"a split may fill it", `"processors": [{"split": {}}], "batchers": {"x": {"count": {"size": 50}, "output": "a"}},
			"engine": {"max_in_flight": {"messages": 20}}`, nil},
		{"lines for an output that writes lines", `"outputs": {"a": {"sink": {"one_line": true}}},
			"batchers": {"x": {"processors": [{"step": {}}, {"step": {"many_lines": true}}], "output": "a"}}`,
			[]string{"batchers.x.processors[1].step: warning archive-lines: write `framing: whole` in output a"}},
		{"lines that a step makes something else of", `"outputs": {"a": {"sink": {"one_line": true}}},
			"batchers": {"x": {"processors": [{"step": {"many_lines": true}}, {"step": {}}], "output": "a"}}`, nil},

		// Inputs.
		{"acknowledged when read", `"inputs": {"in": {"source": {"early_ack": true}}}`,
			[]string{"inputs.in.source.early_ack: warning at-most-once: remove it if every message counts"}},
		{"a source that keeps nothing", `"inputs": {"in": {"source": {"forgets": true}}}`,
			[]string{"inputs.in.source: warning at-most-once: write `at_most_once: true` if that is meant, " +
				"or read a source that keeps messages, such as a stream"}},
		{"open to anyone", `"inputs": {"in": {"source": {"listen": "0.0.0.0:80"}}}`,
			[]string{"inputs.in.source.listen: warning open-listener: set auth, or listen on 127.0.0.1"}},
		{"a middleware that does not exist", `"engine": {"middleware": ["trace"]}`,
			[]string{"engine.middleware[0]: unknown-middleware: use a build that registers it"}},

		// Rate limits.
		{"a limit of nothing", limit(`{}`),
			[]string{"engine.rate_limit: bad-limit: write `{messages: 100, per: 1s}`, or the name of one of `resources.rate_limits`"}},
		{"a limit without messages", limit(`{"per": "1s"}`), []string{"engine.rate_limit: bad-limit: add `messages: 100`"}},
		{"a limit without a period", limit(`{"messages": 1}`), []string{"engine.rate_limit: bad-limit: add `per: 1s`"}},
		{"a burst of a window", limit(`{"messages": 1, "per": "1s", "burst": 2}`),
			[]string{"engine.rate_limit.burst: bad-limit: add `kind: bucket`, or remove it"}},
		{"a burst of a bucket", limit(`{"messages": 1, "per": "1s", "burst": 2, "kind": "bucket"}`), nil},
		{"a number of keys without a key", limit(`{"messages": 1, "per": "1s", "max_keys": 2}`),
			[]string{"engine.rate_limit.max_keys: bad-limit: add `key`, or remove it"}},
		{"a named limit", limit(`"api"`), nil},
		{"a named limit that says more", limit(`{"name": "api", "per": "1s"}`),
			[]string{"engine.rate_limit.per: bad-limit: write it in `resources.rate_limits.api`, or leave out `name`"}},

		// Exactly once.
		{"one cluster", once(`"source": {"cluster": "c"}`, `"a": {"sink": {"cluster": "c"}}`), nil},
		{"an input without transactions", once(`"source": {}`, `"a": {"sink": {"cluster": "c"}}`),
			[]string{"inputs.in.source: exactly-once: read from Kafka, with a `group`, or remove `engine.exactly_once`"}},
		{"several instances of an input", once(`"source": {"cluster": "c"}, "concurrency": 2`, `"a": {"sink": {"cluster": "c"}}`),
			[]string{"inputs.in.source: exactly-once: remove `concurrency`, and run the pipeline several times instead"}},
		{"two inputs", once(`"source": {"cluster": "c"}}, "too": {"source": {"cluster": "c"}`, `"a": {"sink": {"cluster": "c"}}`),
			[]string{"engine.exactly_once: exactly-once: move other inputs to pipelines of their own"}},
		{"another cluster", once(`"source": {"cluster": "c"}`,
			`"x": {"chain": ["a", "b"]}, "a": {"sink": {"cluster": "c"}}, "b": {"sink": {"cluster": "d"}}`),
			[]string{"outputs.b.sink: exactly-once: name the same `brokers`, or remove `engine.exactly_once`"}},
		{"no output in the transaction", once(`"source": {"cluster": "c"}`, `"a": {"sink": {}}`),
			[]string{"outputs.a.sink: warning exactly-once: make sure that duplicates do no harm",
				"engine.exactly_once: exactly-once: write to the cluster that is read, with an output `kafka`, or remove it"}},
		{"steps with effects", `"processors": [{"step": {"calls": true}}, {"step": {"counts": true}}], ` +
			once(`"source": {"cluster": "c"}`, `"a": {"sink": {"cluster": "c"}}`),
			[]string{"processors[0].step: warning exactly-once: make sure that duplicates do no harm",
				"processors[1].step: exactly-once: remove it, or `engine.exactly_once`"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := told(rules.All(decode(t, tt.pipeline), &rules.Given{}))
			if !slices.Equal(got, tt.want) {
				t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(tt.want, "\n"))
			}
		})
	}
}

func retry(text string) string { return `"outputs": {"a": {"sink": {}, "retry": ` + text + `}}` }
func limit(text string) string { return `"engine": {"rate_limit": ` + text + `}` }

// once returns a pipeline with transactions.
func once(in, outputs string) string {
	return `"inputs": {"in": {` + in + `}}, "outputs": {` + outputs + `}, "engine": {"exactly_once": true}`
}

// The limits and caches of a process are not part of the pipeline.
func TestNamedLimitsAreChecked(t *testing.T) {
	n, err := schema.ParseJSON(`{"good": {"messages": 1, "per": "1s"}, "bad": {"per": "1s"}, "other": "good"}`)
	if err != nil {
		t.Fatal(err)
	}
	given := &rules.Given{}
	schema.NewDecoder(nil).Decode(n, &given.Limits)
	want := []string{"bad: bad-limit: add `messages: 100`", "other: bad-limit: write `messages` and `per`"}
	if got := told(rules.All(decode(t, ""), given)); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// A pipeline that a program builds has no positions. The same rules apply to it.
func TestPipelinesWithoutAFileAreJudged(t *testing.T) {
	sink := engine.OutputSpec{Use: engine.Plugin[engine.Output]{Name: "sink", Config: fake{}}}
	to := func(outputs ...string) schema.Map[engine.BatcherSpec] {
		return schema.MapOf(schema.Entry[engine.BatcherSpec]{Key: "all", Value: engine.BatcherSpec{Output: outputs}})
	}
	tests := []struct {
		name string
		edit func(*engine.Pipeline)
		want []string // codes
	}{
		{"nothing is wrong", func(*engine.Pipeline) {}, nil},
		{"an output gets nothing", func(p *engine.Pipeline) { p.Batchers = to("a") }, []string{"unused-output"}},
		{"a batcher names an output that does not exist", func(p *engine.Pipeline) { p.Batchers = to("a", "b", "c") },
			[]string{"unknown-output"}},
		{"no batchers", func(p *engine.Pipeline) { p.Batchers = schema.Map[engine.BatcherSpec]{} },
			[]string{"no-batchers"}},
		{"a dead letter does not exist", func(p *engine.Pipeline) { p.Engine.OnFailure.DeadLetter = "c" },
			[]string{"unknown-output"}},
		{"no dead letter is named", func(p *engine.Pipeline) { p.Engine.OnFailure.Then.Word = "dead_letter" },
			[]string{"no-dead-letter"}},
		{"a middleware does not exist", func(p *engine.Pipeline) { p.Engine.Middleware = []string{"none"} },
			[]string{"unknown-middleware"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := &engine.Pipeline{Batchers: to("a", "b"), Outputs: schema.MapOf(
				schema.Entry[engine.OutputSpec]{Key: "a", Value: sink}, schema.Entry[engine.OutputSpec]{Key: "b", Value: sink})}
			tt.edit(p)
			var codes []string
			for _, problem := range rules.Judge(p) {
				codes = append(codes, problem.Code)
			}
			if !slices.Equal(codes, tt.want) {
				t.Errorf("got %q, want %q", codes, tt.want)
			}
		})
	}
}

// Judge does not check what a test of the pipeline replaces: its inputs and its limits.
func TestJudgeIgnoresInputsAndLimits(t *testing.T) {
	p := decode(t, `"inputs": {"in": {"source": {"early_ack": true}, "rate_limit": {"messages": 1}}},
		"engine": {"exactly_once": true, "middleware": ["none"]}`)
	if got := told(rules.Judge(p)); len(got) != 1 || !strings.Contains(got[0], "unknown-middleware") {
		t.Errorf("got %q, want the middleware alone", got)
	}
}

func TestComponentsWithAMistakeAreNotBuilt(t *testing.T) {
	p := decode(t, `"processors": [{"step": {}}, {"group": {"size": 2, "do": [{"step": {}}]}}],
		"engine": {"rate_limit": {"messages": 1, "per": "1s"}}`)
	problem := func(path string) schema.Problem { return schema.Problem{Path: path, Code: "output-cycle"} }
	warning := problem("processors[0].step.size")
	warning.Warning = true
	elsewhere := problem("processors[0].step")
	elsewhere.Pos = schema.Pos{File: "another file", Line: 1, Col: 1}
	tests := []struct {
		name  string
		known schema.Problem
		want  []string
	}{
		{"a mistake in a field", problem("processors[0].step.size"), []string{"processors[0].step"}},
		{"a step inside a group", problem("processors[1].group.do[0].step.size"), []string{"processors[1].group.do[0].step"}},
		{"a key beside a component concerns all that is in it", problem("processors[1]"),
			[]string{"processors[1].group", "processors[1].group.do[0].step"}},
		{"a rate limit", problem("engine.rate_limit.per"), []string{"engine.rate_limit"}},
		{"a warning", warning, nil},
		{"another file", elsewhere, nil},
		{"a component whose name begins alike", problem("processors[0].ste"), nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var got []string
			for at := range rules.Wrong(p, &rules.Given{}, []schema.Problem{tt.known}) {
				got = append(got, at.Path)
			}
			slices.Sort(got)
			if !slices.Equal(got, tt.want) {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func TestOnlyErrorsInThePipelinesFileFailIt(t *testing.T) {
	p := &engine.Pipeline{Place: schema.Place{Pos: schema.Pos{File: "f"}}}
	tests := []struct {
		name    string
		problem schema.Problem
		want    bool
	}{
		{"an error in its file", schema.Problem{Pos: schema.Pos{File: "f", Line: 1}}, true},
		{"an error in another file", schema.Problem{Pos: schema.Pos{File: "g", Line: 1}}, false},
		{"an error without a line, as in an override", schema.Problem{Pos: schema.Pos{File: "g"}}, true},
		{"a warning", schema.Problem{Pos: schema.Pos{File: "f", Line: 1}, Warning: true}, false},
	}
	for _, tt := range tests {
		if got := rules.Fails(p, tt.problem); got != tt.want {
			t.Errorf("%s: got %v, want %v", tt.name, got, tt.want)
		}
	}
}

func TestComponentsAreFoundInsideOthers(t *testing.T) {
	p := decode(t, `"processors": [{"group": {"size": 2, "do": [{"step": {}}]}}], "outputs": {"x": {"chain": "a"}, "a": {"sink": {}}}`)
	var got []string
	for _, c := range rules.Components(p) {
		got = append(got, strings.TrimSpace(c.Kind+" "+c.Type+" "+c.Refers()))
	}
	want := []string{"input source", "processor group", "processor step", "output chain a", "output sink"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
