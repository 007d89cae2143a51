package manifest

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/flowd-io/flowd/config/yamltext"
	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/formats/jsonschema"
	"github.com/flowd-io/flowd/schema"
	"github.com/google/go-cmp/cmp"
)

// program stands in for the component program.
type program struct {
	Command     []string          `yaml:"command,main" check:"required" doc:"The program and its arguments."`
	Config      anything          `yaml:"config" doc:"Settings for the program."`
	Dir         string            `yaml:"dir" doc:"Working directory."`
	Env         map[string]string `yaml:"env" doc:"Variables."`
	Timeout     time.Duration     `yaml:"timeout" check:"min=1ms" default:"30s" doc:"Time limit."`
	Concurrency int               `yaml:"concurrency" check:"min=1" default:"1" doc:"Processes."`
}

func (p *program) CheckConfig(report func(path, message, remedy string)) {
	if p.Timeout > time.Hour && p.Concurrency > 2 {
		report("timeout", fmt.Sprintf("is too long for %d processes", p.Concurrency), "write less")
	}
}

type anything struct{ text string }

func (a *anything) UnmarshalConfig(d *schema.Decoder, n *schema.Node) {
	text, _ := json.Marshal(jsonschema.FromNode(d, n))
	a.text = string(text)
}

func init() {
	unused := errors.New("not for use")
	engine.Register(engine.Processors, base, "A program.", program{}, func(program, engine.Env) (engine.Processor,
		error) {
		return nil, unused
	})
	engine.Register(engine.Inputs, base, "A program.", program{}, func(program, engine.Env) (engine.Input, error) { return nil, unused })
	engine.Register(engine.Outputs, base, "A program.", program{}, func(program, engine.Env) (engine.Output, error) { return nil, unused })
	engine.Register(engine.Processors, "mask", "Built in.", struct{}{}, func(struct{}, engine.Env) (engine.Processor,
		error) {
		return nil, unused
	})
}

// folder makes the folder of a manifest.
func folder(t *testing.T, text string) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, File), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

// shown renders problems without the folder of the manifest.
func shown(problems []schema.Problem, dir string) string {
	var b strings.Builder
	for _, p := range problems {
		b.WriteString(strings.ReplaceAll(p.String(), dir, "DIR") + "\n")
	}
	return strings.TrimSpace(b.String())
}

func TestMistakesInAManifestHaveAPlaceAndARemedy(t *testing.T) {
	const start = "name: score\nkind: step\ncommand: [python3, score.py]\n"
	tests := []struct{ name, text, want string }{
		{"none", start, ""},
		{"not YAML", "name: [", `DIR/plugin.yaml:1:7: this [ is not closed (close it with ]) [yaml-syntax]`},
		{"an unknown key", start + "windw: 3\nexmples: []\n", `DIR/plugin.yaml:4:1: unknown field "windw" (known here: name, kind, ` +
			`summary, description, config, examples, command, dir, env, timeout, concurrency) [unknown-field]
DIR/plugin.yaml:5:1: unknown field "exmples" (did you mean "examples"?) [unknown-field]`},
		{"a kind that there is not", "name: score\nkind: processor\ncommand: [x]\n",
			`DIR/plugin.yaml:2:7: kind: "processor" must be one of step, input, output [bad-value]`},
		{"no command", "name: score\nkind: step\n", "DIR/plugin.yaml:1:1: command: required (add `command: …`) [required]"},
		{"a setting of the process", start + "timeout: soon\nconcurrency: 0\n",
			`DIR/plugin.yaml:4:10: timeout: "soon" is not a valid duration such as 2s, 250ms or 1h30m [bad-value]
DIR/plugin.yaml:5:14: concurrency: "0" must be at least 1 (leave it out for 1) [bad-value]`},
		{"a name that is not one", "name: My-Score\nkind: step\ncommand: [x]\n",
			`DIR/plugin.yaml:1:7: name: "My-Score" can't be the name of a component (use lower-case letters, digits and _, and begin with a ` +
				`letter) [bad-value]`},
		{"a name of a field", "name: when\nkind: step\ncommand: [x]\n",
			`DIR/plugin.yaml:1:7: name: "when" is a field of every step (choose another name) [bad-value]`},
		{"a name that flowd has", "name: mask\nkind: step\ncommand: [x]\n",
			`DIR/plugin.yaml:1:7: name: flowd has the step "mask" already (choose another name) [bad-value]`},
		{"a JSON Schema that is not valid", start + "config:\n  properties:\n    model: {type: strin}\n    size: {minimum: low}\n",
			`DIR/plugin.yaml:6:19: config.properties.model.type: must be one of array, boolean, integer, null, number, object, string (write ` +
				`a valid JSON Schema) [bad-value]
DIR/plugin.yaml:7:21: config.properties.size.minimum: got string, want number (write a valid JSON Schema) [bad-value]`},
		{"a misspelt keyword", start + "config:\n  propertys: {model: {type: string}}\n",
			`DIR/plugin.yaml:5:3: config.propertys: "propertys" is not a keyword of JSON Schema (did you mean "properties"?) [unknown-field]`},
		{"settings without properties", start + "config:\n  model: {type: string}\n",
			`DIR/plugin.yaml:5:3: config.model: "model" is not a keyword of JSON Schema (settings are below ` +
				"`properties`: write {properties: {model: …}}) [unknown-field]"},
		{"settings that are not an object", start + "config: {type: string}\n",
			"DIR/plugin.yaml:4:16: config.type: the settings are an object (write `type: object`) [bad-value]"},
		{"a reference that leads nowhere", start + "config: {properties: {model: {$ref: '#/$defs/model'}}}\n",
			`DIR/plugin.yaml:4:9: config: not a valid JSON Schema: #/$defs/model is not found (write a valid JSON Schema) [bad-value]`},
		{"a required setting without a schema", start + "config:\n  properties: {a: true}\n  required: [a, b]\n",
			"DIR/plugin.yaml:6:17: config.required[1]: \"b\" is required, and is not one of the properties (add it to `properties`) [bad-value]"},
		{"settings of the process that don't fit together", start + "concurrency: 3\nenv: {A: b}\ntimeout: 100h\n",
			`DIR/plugin.yaml:6:1: timeout: is too long for 3 processes (write less) [bad-value]`},
		{"a reserved name", start + "config: {properties: {program: {type: string}}}\n",
			`DIR/plugin.yaml:4:23: config.properties.program: "program" is the name of the settings of the process itself (choose another ` +
				`name) [bad-value]`},
		{"settings with any name", start + "config: {additionalProperties: true}\n", "DIR/plugin.yaml:4:10: config.additionalProperties: " +
			"the settings " +
			"themselves can't have names that the JSON Schema does not list (put them into an object of their own, as in " +
			"{properties: {labels: {additionalProperties: {type: string}}}}) [bad-value]"},
		{"a default of the wrong type", start + "config:\n  properties:\n    size: {type: integer, default: big}\n",
			`DIR/plugin.yaml:6:36: config.properties.size.default: the default does not fit: "big" is not a whole number (write a number ` +
				`such as 10) [bad-value]`},
		{"a secret number", start + "config: {properties: {pin: {type: integer, writeOnly: true}}}\n",
			"DIR/plugin.yaml:4:28: config.properties.pin: only text can be secret (write `type: string`, or remove writeOnly and `format: " +
				"password`) [bad-value]"},
		{"an example with a mistake", start + "config: {properties: {model: {type: string}}}\nexamples:\n  - |\n    processors:\n      - " +
			"score: {modl: small}\n",
			`DIR/plugin.yaml:8:17: examples[0]: the example is not valid: unknown field "modl" (did you mean "model"?) [unknown-field]`},
		{"an example of something else", start + "examples:\n  - 'mask: {}'\n",
			`DIR/plugin.yaml:5:5: examples[0]: the example does not use score (show a component {score: …}) [bad-value]`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := folder(t, tt.text)
			_, problems := Load([]Dir{{Path: dir}})
			if diff := cmp.Diff(tt.want, shown(problems, dir)); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
		})
	}
}

func TestMistakesWithFolders(t *testing.T) {
	one, two := folder(t, "name: twice\nkind: step\ncommand: [a]\n"), folder(t, "name: twice\nkind: step\ncommand: [b]\n")
	other := folder(t, "name: twice\nkind: output\ncommand: [b]\n")
	empty := t.TempDir()
	tests := []struct {
		name string
		dirs []Dir
		want string
	}{
		{"a folder that is not there", []Dir{{Path: "nowhere"}},
			"--plugins: there is no folder nowhere (give a folder with a plugin.yaml, or one that contains such folders) [no-file]"},
		{"a folder without a manifest", []Dir{{Path: empty}}, "--plugins: neither " + empty +
			" nor a folder in it has a plugin.yaml (flowd plugin new --lang python step NAME writes one) [no-file]"},
		{"the same folder twice", []Dir{{Path: one}, {Path: one + "/."}}, ""},
		{"a name for two kinds", []Dir{{Path: one}, {Path: other}}, ""},
		{"a name that another manifest has", []Dir{{Path: one}, {Path: two}}, two + "/plugin.yaml:1:7: name: the step \"twice\" is " +
			"already defined in " +
			one + "/plugin.yaml (choose another name) [bad-value]"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, problems := Load(tt.dirs)
			if diff := cmp.Diff(tt.want, shown(problems, "NONE")); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
		})
	}
}

const full = `
name: rate
kind: step
summary: Rates texts
command: [python3, rate.py]
env: {LEVEL: low, HOME: /tmp}
concurrency: 2
config:
  type: object
  required: [model]
  properties:
    model: {description: The model to use., enum: [small, large]}
    size: {type: integer, minimum: 1, maximum: 9, default: 3}
    share: {type: number, exclusiveMinimum: 0}
    fast: {type: boolean, default: true}
    token: {type: string, format: password}
    words: {type: array, items: {type: string}, maxItems: 2}
    labels: {type: object, additionalProperties: {type: string}}
    retry: {$ref: '#/$defs/retry'}
    either: {anyOf: [{type: integer}, {type: string}]}
    maybe: {anyOf: [{type: string, pattern: '^a'}, {type: 'null'}]}
    tree: {$ref: '#/$defs/tree'}
    login: {anyOf: [{type: string, writeOnly: true}, {type: object, properties: {key: {type: string}}}]}
  dependentRequired: {share: [fast]}
$defs: {}
`

var rate = strings.Replace(full, "$defs: {}\n", `  $defs:
    retry: {type: object, properties: {times: {type: integer, default: 5}, pause: {type: string}}}
    tree: {type: object, properties: {left: {$ref: '#/$defs/tree'}, name: {type: string}}}
`, 1)

// use decodes a step of the type rate.
func use(t *testing.T, text string) (engine.StepSpec, *schema.Decoder) {
	t.Helper()
	dir := folder(t, rate)
	if _, problems := Load([]Dir{{Path: dir}}); len(problems) > 0 {
		t.Fatal(problems)
	}
	n, problems := yamltext.Parse("p.yaml", []byte(text))
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	d := schema.NewDecoder(func(name string) (string, bool, error) {
		v, ok := map[string]string{"SIZE": "7", "MODEL": "large", "ODD": "a ${b} c", "TOKEN": "hush-hush"}[name]
		return v, ok, nil
	})
	var s engine.StepSpec
	d.Decode(n, &s)
	return s, d
}

func TestSettingsBecomeTheConfigOfTheProgram(t *testing.T) {
	tests := []struct{ name, text, want string }{
		{"defaults", "rate: {model: small}", `{"fast":true,"model":"small","retry":{"times":5},"size":3}`},
		{"every type", "rate: {model: large, size: 5, share: 0.25, fast: false, words: [a, b], labels: {x: y}, retry: {pause: long}, " +
			"either: 7, maybe: a}",
			`{"either":7,"fast":false,"labels":{"x":"y"},"maybe":"a","model":"large",` +
				`"retry":{"pause":"long","times":5},"share":0.25,"size":5,"words":["a","b"]}`},
		{"placeholders have the type of their field", `rate: {model: "${MODEL}", size: "${SIZE}", either: "${SIZE}", words: ["${ODD}", ` +
			`"$${X}"]}`,
			`{"either":"7","fast":true,"model":"large","retry":{"times":5},"size":7,"words":["a ${b} c","${X}"]}`},
		{"empty is not missing", "rate: {model: small, words: [], labels: {}, retry: {}}",
			`{"fast":true,"labels":{},"model":"small","retry":{"times":5},"size":3,"words":[]}`},
		{"a schema inside itself", "rate: {model: small, tree: {left: {left: {name: a}}}}",
			`{"fast":true,"model":"small","retry":{"times":5},"size":3,"tree":{"left":{"left":{"name":"a"}}}}`},
		{"a secret is revealed to the program", `rate: {model: small, token: "${TOKEN}"}`,
			`{"fast":true,"model":"small","retry":{"times":5},"size":3,"token":"hush-hush"}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s, d := use(t, tt.text)
			if problems := d.Problems(); len(problems) > 0 {
				t.Fatal(problems)
			}
			if diff := cmp.Diff(tt.want, s.Use.Config.(program).Config.text); diff != "" {
				t.Errorf("config (-want +got):\n%s", diff)
			}
		})
	}
}

func TestTheProcessIsAsInTheManifestUnlessThePipelineSaysOtherwise(t *testing.T) {
	s, d := use(t, "rate: {model: small, program: {concurrency: 4, env: {LEVEL: high}}}")
	if problems := d.Problems(); len(problems) > 0 {
		t.Fatal(problems)
	}
	got := s.Use.Config.(program)
	if !filepath.IsAbs(got.Dir) {
		t.Errorf("the program runs in %q, want the folder of the manifest", got.Dir)
	}
	got.Dir, got.Config = "", anything{}
	want := program{Command: []string{"python3", "rate.py"}, Timeout: 30 * time.Second, Concurrency: 4,
		Env: map[string]string{"LEVEL": "high", "HOME": "/tmp"}}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(anything{})); diff != "" {
		t.Errorf("program (-want +got):\n%s", diff)
	}
	if kind, name, _, _ := s.Use.Component(); kind+" "+name != "processor rate" {
		t.Errorf("the component is %s %s", kind, name)
	}
}

func TestMistakesInSettingsHaveAPlaceAndARemedy(t *testing.T) {
	tests := []struct{ name, text, want string }{
		{"a misspelt field", "rate: {modl: small}", `p.yaml:1:8: rate: unknown field "modl" (did you mean "model"?) [unknown-field]`},
		{"a missing field", "rate: {size: 2}", "p.yaml:1:1: rate.model: required (add `model: …`) [required]"},
		{"a word that is not allowed", "rate: {model: smal}", `p.yaml:1:15: rate.model: "smal" must be one of small, large (did you mean ` +
			`"small"?) [bad-value]`},
		{"a wrong type", "rate: {model: small, size: big}", `p.yaml:1:28: rate.size: "big" is not a whole number (leave it out for 3) ` +
			`[bad-value]`},
		{"below a limit", "rate: {model: small, size: 0}", `p.yaml:1:28: rate.size: "0" must be at least 1 (leave it out for 3) [bad-value]`},
		{"what only the JSON Schema says", "rate: {model: small, share: 0.0, maybe: b}",
			`p.yaml:1:41: rate.maybe: does not match the pattern ^a (flowd docs rate shows what it takes) [bad-value]
p.yaml:1:29: rate.share: exclusiveMinimum: got 0, want 0 (flowd docs rate shows what it takes) [bad-value]`},
		{"too many items", "rate: {model: small, words: [a, b, c]}", "p.yaml:1:29: rate.words: maxItems: got 3, want 2 (flowd docs rate " +
			"shows what it takes) [bad-value]"},
		{"below a reference", "rate: {model: small, retry: {tims: 2}}", `p.yaml:1:30: rate.retry: unknown field "tims" (did you mean ` +
			`"times"?) [unknown-field]`},
		{"in a schema inside itself", "rate: {model: small, tree: {left: {name: {}}}}",
			`p.yaml:1:42: rate.tree.left.name: got object, want string (flowd docs rate shows what it takes) [bad-value]`},
		{"in the settings of the process", "rate: {model: small, program: {concurency: 2, timeout: 1}}",
			`p.yaml:1:56: rate.program.timeout: "1" is a duration without a unit (write 1s or 1ms) [bad-value]
p.yaml:1:32: rate.program: unknown field "concurency" (did you mean "concurrency"?) [unknown-field]`},
		{"a misspelt type", "rte: {model: small}", `p.yaml:1:1: unknown processor type "rte" (did you mean "rate"?) [unknown-type]`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, d := use(t, tt.text)
			if diff := cmp.Diff(tt.want, shown(d.Problems(), "NONE")); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
		})
	}
}

func TestSecretsAreMasked(t *testing.T) {
	s, d := use(t, "rate: {model: small, token: hush-hush, words: [hush-hush, hush-key], login: {key: hush-key}}")
	text := d.Dump(s)
	if strings.Contains(text, "hush") || !strings.Contains(text, "token: ***") || !strings.Contains(text, "model: small") {
		t.Errorf("dump:\n%s", text)
	}
}

func TestDocsAndSchemaHaveEverySetting(t *testing.T) {
	use(t, "rate: {model: small}")
	typ := engine.Processors.Variant("rate")
	var got []string
	for _, f := range typ.Fields() {
		got = append(got, strings.TrimSpace(f.Path+"|"+f.Type+"|"+f.Default))
	}
	want := []string{"model|text|", "size|whole number|3", "share|number|", "fast|bool|true", "token|secret|", "words|list of text|",
		"labels|mapping of names to text|", "retry|mapping|", "retry.times|whole number|5", "retry.pause|text|", "either|any value|",
		"maybe|text|", "tree|mapping|", "tree.left|any value|", "tree.name|text|", "login|any value|", "program|mapping|",
		"program.env|mapping of names to " +
			"text|", "program.timeout|duration|30s", "program.concurrency|whole number|2"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("fields (-want +got):\n%s", diff)
	}
	text, err := schema.JSONSchema(typ, "rate", schema.TopLevel{})
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{`"The model to use."`, `"small"`, `"default": 3`} {
		if !strings.Contains(string(text), part) {
			t.Errorf("the JSON Schema lacks %s:\n%s", part, text)
		}
	}
}

func TestAWorkerMayAllowOnlyTheTypeOfAManifest(t *testing.T) {
	registry := engine.NewRegistry[engine.Processor]("processor", nil)
	engine.Register(registry, base, "A program.", program{}, func(program, engine.Env) (engine.Processor, error) { return nil, nil })
	was := kinds["step"]
	kinds["step"] = newKind(registry, engine.StepSpec{})
	defer func() { kinds["step"] = was }()
	if _, problems := Load([]Dir{{Path: folder(t, "name: only\nkind: step\ncommand: [a]\n")}}); len(problems) > 0 {
		t.Fatal(problems)
	}
	if err := registry.Only([]string{"only"}, "not allowed"); err != nil {
		t.Fatal(err)
	}
	n, _ := yamltext.Parse("", []byte("{}"))
	if got, ok := registry.Variant("only").Decode(offline(), n).(program); !ok || len(got.Command) != 1 {
		t.Errorf("got %v, want the program", got)
	}
}
