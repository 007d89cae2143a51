package schema_test

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/flowd-io/flowd/schema"
)

// word is a field type that decodes itself.
type word struct{ text, scope string }

func (w *word) UnmarshalConfig(d *schema.Decoder, n *schema.Node) {
	if n.Kind == schema.ListNode {
		for _, item := range n.Items {
			var one word
			d.Decode(item, &one)
			w.text += one.text
		}
		return
	}
	text, ok := d.Text(n)
	if !ok {
		return
	}
	if text == "bad" {
		d.Report(n, schema.Problem{Code: schema.BadValue, Message: "bad word", Caret: n.At(1)})
		return
	}
	w.text, w.scope = text, d.Tag("scope")
}

// kinds is a registry of step types.
type kinds map[string]*schema.Type

func (kinds) Kind() string                       { return "processor" }
func (k kinds) Variant(name string) *schema.Type { return k[name] }
func (kinds) Remedy(name string) string {
	return map[string]string{"mapping": "write `set`"}[name]
}

func (k kinds) Names() []string {
	var names []string
	for name := range k {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

var processors kinds

func init() {
	processors = kinds{
		"filter": schema.Of(filter{}), "set": schema.Of(set{}), "unset": schema.Of([]string(nil)),
		"each": schema.Of(each{}), "compress": schema.Of(compress{Format: "gzip", Level: 6}),
		"sleep": schema.Of(time.Duration(0)), "drop": schema.Of(struct{}{}), "decode": schema.Of(decode{}),
	}
}

type filter struct {
	Keep word `yaml:"keep,main" check:"required" doc:"What to keep."`
}

type set struct {
	Fields schema.Map[word] `yaml:"fields,main" check:"required,nonempty" scope:"batch" doc:"Assignments."`
	Strict bool             `yaml:"strict" doc:"Refuse new fields."`
}

type each struct {
	In word   `yaml:"in"`
	Do []step `yaml:"do" check:"required"`
}

type compress struct {
	Format string `yaml:"format,main" check:"oneof=gzip|zstd" doc:"The format."`
	Level  int    `yaml:"level" check:"min=1,max=9" doc:"The level."`
}

type csv struct {
	Header bool `yaml:"header" doc:"The first line names the fields."`
}

type decode struct {
	JSON  *struct{} `yaml:"json" oneof:"format" doc:"JSON."`
	CSV   *csv      `yaml:"csv" oneof:"format" doc:"CSV."`
	Regex *string   `yaml:"regex" oneof:"format" doc:"A regular expression."`
	From  string    `yaml:"from" doc:"Where from."`
}

// step has one type key and some common keys.
type step struct {
	Use   use          `yaml:",variant"`
	Name  string       `yaml:"name" doc:"Its name."`
	When  word         `yaml:"when" doc:"Whether it runs."`
	Place schema.Place `yaml:",place"`
}

func (step) Words() map[string]string { return map[string]string{"label": "write `name`"} }

type use struct {
	Name   string
	Config any
	Place  schema.Place
}

func (*use) Variants() schema.Variants { return processors }
func (u *use) SetVariant(name string, config any, at schema.Place) {
	u.Name, u.Config, u.Place = name, config, at
}

type tls struct {
	Cert string `yaml:"cert" doc:"Certificate file."`
	Key  string `yaml:"key" doc:"Key file."`
}

func (t tls) CheckConfig(report func(path, message, remedy string)) {
	if t.Cert != "" && t.Key == "" {
		report("cert", "needs a key", "write `key` too")
	}
}

type limits struct {
	Messages int         `yaml:"messages" check:"min=1" default:"100" doc:"How many."`
	Bytes    schema.Size `yaml:"bytes" check:"min=1KiB,max=1GiB" doc:"How large."`
}

// everything has a field of every type.
type everything struct {
	limits   `yaml:",inline"`
	Text     string                      `yaml:"text" doc:"A text."`
	Flag     bool                        `yaml:"flag" doc:"A flag."`
	Count    int                         `yaml:"count" doc:"A count."`
	Small    uint8                       `yaml:"small" doc:"A small count."`
	Ratio    float64                     `yaml:"ratio" check:"min=0,max=1" doc:"A ratio."`
	Wait     time.Duration               `yaml:"wait" check:"min=1ms" doc:"A time."`
	Password schema.Secret               `yaml:"password" doc:"A secret."`
	List     []string                    `yaml:"list" check:"oneof=a|b|c" doc:"A list."`
	Waits    []time.Duration             `yaml:"waits" doc:"Times."`
	Env      map[string]int              `yaml:"env" check:"min=0" doc:"A mapping."`
	Ordered  schema.Map[string]          `yaml:"ordered" doc:"An ordered mapping."`
	Nested   schema.Map[schema.Map[int]] `yaml:"nested" doc:"Mappings in mappings."`
	TLS      tls                         `yaml:"tls" doc:"Encryption."`
	Maybe    *limits                     `yaml:"maybe" doc:"Limits or none."`
	Word     word                        `yaml:"word" scope:"word" doc:"A word."`
	Words    map[string]word             `yaml:"words" scope:"words" doc:"Words."`
	Raw      *schema.Node                `yaml:"raw" doc:"Anything."`
	Retry    *limits                     `yaml:"retry" pending:"retries" doc:"Retries."`
	Format   *decode                     `yaml:"format" doc:"A choice."`
	Steps    []step                      `yaml:"steps" doc:"Steps."`
	Place    schema.Place                `yaml:",place"`
	Ignored  chan int                    `yaml:"-"`
}

// lookup knows a few names.
func lookup(name string) (string, bool, error) {
	v, ok := map[string]string{
		"NAME": "orders", "PORT": "8080", "EMPTY": "", "MAP": "{a: 1}", "WORD": "hello",
		"file:/run/pw": "hunter2!", "file:/run/seven": "7", "vault:kv/a#pw": "hunter2!",
	}[name]
	if name == "file:/locked" {
		return "", false, errors.New("permission denied")
	}
	if name == "vault:kv/none#pw" {
		return "", false, &schema.LookupError{Err: fs.ErrNotExist, Remedy: "create it"}
	}
	if name == "vault:sealed#pw" {
		return "", false, &schema.LookupError{Err: errors.New("sealed"), Code: "sealed-vault", Remedy: "unseal it"}
	}
	return v, ok, nil
}

// lint decodes text into a value that has defaults and gives the problems.
func lint[T any](t testing.TB, text string, into *T) []string {
	t.Helper()
	d := schema.NewDecoder(lookup)
	d.Decode(parse(t, text), into)
	var lines []string
	for _, p := range d.Problems() {
		lines = append(lines, p.String())
	}
	return lines
}

func TestDecode(t *testing.T) {
	var got everything
	got.Count, got.Bytes, got.Maybe = 3, 1<<20, &limits{Messages: 5, Bytes: 7}
	shared := got.Maybe
	problems := lint(t, `{
		"text": 1.50, "flag": true, "small": "200", "ratio": 0.5, "wait": "1h30m", "bytes": "64KiB",
		"password": "pw", "list": ["a", "b"], "waits": ["1s", "2s"], "env": {"x": 1}, "count": null,
		"ordered": {"z": "1", "a": "2"}, "nested": {"z": {"y": 1}}, "tls": {"key": "k"},
		"maybe": {"bytes": 2048}, "word": true, "words": {"k": "w"}, "raw": [1],
		"format": "json"
	}`, &got)
	if problems != nil {
		t.Fatalf("problems:\n%s", strings.Join(problems, "\n"))
	}
	check := func(what string, got, want any) {
		t.Helper()
		if diff := cmp.Diff(got, want, cmp.AllowUnexported(word{})); diff != "" {
			t.Errorf("%s: got -, want +:\n%s", what, diff)
		}
	}
	check("text keeps its spelling", got.Text, "1.50")
	check("small", got.Small, uint8(200))
	check("wait", got.Wait, 90*time.Minute)
	check("bytes", got.Bytes, schema.Size(64<<10))
	check("an inlined default", got.Messages, 100)
	check("password", got.Password.Reveal(), "pw")
	check("waits", got.Waits, []time.Duration{time.Second, 2 * time.Second})
	check("null is as if left out", got.Count, 3)
	check("env", got.Env, map[string]int{"x": 1})
	check("the order of keys", got.Ordered.Entries()[0].Key+got.Ordered.Entries()[1].Key, "za")
	check("maybe begins with its default", *got.Maybe, limits{Messages: 5, Bytes: 2048})
	check("a default is never written to", *shared, limits{Messages: 5, Bytes: 7})
	check("word", got.Word, word{"true", "word"})
	check("an element sees its field's tags", got.Words["k"], word{"w", "words"})
	check("raw", got.Raw.Items[0].Text, "1")
	if got.Format == nil || got.Format.JSON == nil || got.Format.CSV != nil {
		t.Errorf("format is %+v, want json", got.Format)
	}
	nested, _ := got.Nested.Get("z")
	if n, ok := nested.Get("y"); n != 1 || !ok {
		t.Errorf("nested.z.y is %v, want 1", n)
	}
	if got.Place.Pos.Line != 1 || got.Place.Node == nil {
		t.Errorf("place is %+v, want line 1", got.Place)
	}
}

func TestProblems(t *testing.T) {
	tests := []struct{ name, in, want string }{
		{"an unknown field", `{"cuont": 1}`, `1:2: unknown field "cuont" (did you mean "count"?) [unknown-field]`},
		{"an unknown field far from all", `{"tls": {"ciphers": 1}}`,
			`1:10: tls: unknown field "ciphers" (known here: cert, key) [unknown-field]`},
		{"a key twice", `{"count": 1, "count": 2}`,
			`1:14: key "count" is given twice, first at 1:2 (remove one) [duplicate-key]`},
		{"a key of a mapping twice", `{"env": {"a": 1, "a": 2}}`,
			`1:18: env: key "a" is given twice, first at 1:10 (remove one) [duplicate-key]`},
		{"a list for a text", `{"text": [1]}`, `1:10: text: expected text, got a list [wrong-kind]`},
		{"a list for a duration", `{"wait": ["2s"]}`,
			`1:10: wait: expected a duration such as 2s, got a list [wrong-kind]`},
		{"a text for a list", `{"list": "a"}`, `1:10: list: expected a list, got text (write [a]) [wrong-kind]`},
		{"a text for a mapping", `{"env": "a"}`,
			`1:9: env: expected a mapping, got text (write {NAME: …}) [wrong-kind]`},
		{"a text for a struct", `{"tls": "a"}`,
			`1:9: tls: expected a mapping, got text (write {cert: …}) [wrong-kind]`},
		{"null in a list", `{"list": [null]}`, `1:11: list[0]: expected text, got nothing (write one of a, b, c) [wrong-kind]`},
		{"yes for true", `{"flag": "yes"}`, `1:10: flag: "yes" is neither true nor false (write true) [bad-value]`},
		{"a number without a unit", `{"wait": 2}`,
			`1:10: wait: "2" is a duration without a unit (write 2s or 2ms) [bad-value]`},
		{"days", `{"wait": "2d"}`,
			`1:10: wait: "2d" is not a duration: the longest unit is h (a day is 24h) [bad-value]`},
		{"minutes", `{"wait": "5 min"}`, `1:10: wait: "5 min" is not a duration (write 5m) [bad-value]`},
		{"a short duration", `{"wait": "0s"}`, `1:10: wait: "0s" must be at least 1ms (write 1ms or more) [bad-value]`},
		{"a small letter unit", `{"bytes": "64kb"}`,
			`1:11: bytes: "64kb" is not a size: no unit "kb" (write 64KB) [bad-value]`},
		{"a blank before the unit", `{"bytes": "5 MiB"}`,
			`1:11: bytes: "5 MiB" is not a size: there is a blank in it (write 5MiB) [bad-value]`},
		{"a unit cut short", `{"bytes": "64M"}`,
			`1:11: bytes: "64M" is not a size: no unit "M" (write 64MiB) [bad-value]`},
		{"a size over its bound", `{"bytes": "2GiB"}`,
			`1:11: bytes: "2GiB" must be at most 1GiB (write 1GiB or less) [bad-value]`},
		{"a fraction for a count", `{"count": 1.0}`, `1:11: count: "1.0" is not a whole number (write 1) [bad-value]`},
		{"a leading zero", `{"count": "017"}`,
			`1:11: count: "017" is not a whole number (write 17, or 15 for the octal number) [bad-value]`},
		{"an octal number", `{"count": "0o17"}`, `1:11: count: "0o17" is not a whole number (write 15) [bad-value]`},
		{"an overflow", `{"small": 256}`, `1:11: small: "256" is out of range: 0 to 255 [bad-value]`},
		{"a large overflow", `{"count": 9223372036854775808}`,
			`1:11: count: "9223372036854775808" is out of range: -9223372036854775808 to 9223372036854775807 [bad-value]`},
		{"not a number", `{"ratio": "NaN"}`,
			`1:11: ratio: "NaN" is not a number (write a number such as 0.5) [bad-value]`},
		{"a ratio over one", `{"ratio": 1.5}`, `1:11: ratio: "1.5" must be at most 1 (write 1 or less) [bad-value]`},
		{"a bound on elements", `{"env": {"a": -1}}`,
			`1:15: env.a: "-1" must be at least 0 (write 0 or more) [bad-value]`},
		{"none of the allowed", `{"list": ["a", "d"]}`, `1:16: list[1]: "d" must be one of a, b, c [bad-value]`},
		{"an odd key in a path", `{"env": {"a b": "x"}}`,
			`1:17: env["a b"]: "x" is not a whole number (write a number such as 10) [bad-value]`},
		{"a type that decodes itself", `{"word": "bad"}`, `1:12: word: bad word [bad-value]`},
		{"a part of such a type", `{"word": ["ok", ["bad"]]}`, `1:20: word[1][0]: bad word [bad-value]`},
		{"a rule of a struct's own", `{"tls": {"cert": "c"}}`,
			`1:10: tls.cert: needs a key (write ` + "`key`" + ` too) [bad-value]`},
		{"pending", `{"retry": {"messages": 1}}`,
			`1:2: retry: retry has no effect in this version (remove it: retries come later) [pending]`},
		{"two choices", `{"format": {"json": {}, "csv": {}}}`,
			`1:25: format: "csv" and "json" (1:13) exclude each other (keep one) [two-choices]`},
		{"no choice", `{"format": {"from": "x"}}`,
			`1:2: format: needs one of json, csv, regex (such as format: json) [missing-choice]`},
		{"an unknown choice", `{"format": "jsn"}`,
			`1:12: format: "jsn" is not one of json, csv, regex (did you mean "json"?) [bad-value]`},
		{"a choice without its value", `{"format": "regex"}`,
			`1:2: format: regex needs a value: text (write {regex: …}) [wrong-kind]`},
		{"no type", `{"steps": [{"name": "x"}]}`,
			`1:12: steps[0]: no processor type is given (types are compress, decode, drop, each, filter, set, sleep, unset) [missing-type]`},
		{"two types", `{"steps": [{"drop": {}, "unset": ["a"]}]}`,
			`1:25: steps[0]: two types, "unset" and "drop" (1:13) (a processor has exactly one: begin another item with ` +
				"`- unset: …`" + `) [two-types]`},
		{"a misspelt type", `{"steps": [{"fliter": "x"}]}`,
			`1:13: steps[0]: unknown processor type "fliter" (did you mean "filter"?) [unknown-type]`},
		{"a peer's type", `{"steps": [{"mapping": "x"}]}`,
			"1:13: steps[0]: unknown processor type \"mapping\" (write `set`) [unknown-type]"},
		{"a peer's field", `{"steps": [{"drop": {}, "label": "x"}]}`,
			"1:25: steps[0]: unknown field \"label\" (write `name`) [unknown-field]"},
		{"a misspelt common key", `{"steps": [{"drop": {}, "wen": "x"}]}`,
			`1:25: steps[0]: unknown field "wen" (did you mean "when"?) [unknown-field]`},
		{"a type as a word", `{"steps": ["drop"]}`,
			`1:12: steps[0]: expected a mapping, got text (write {drop: {}}) [wrong-kind]`},
		{"a type without its value", `{"steps": [{"sleep": null}]}`,
			`1:22: steps[0].sleep: needs a value: a duration such as 2s (write it after the colon) [required]`},
		{"a required field left out", `{"steps": [{"filter": null}]}`,
			"1:13: steps[0].filter.keep: required (write `filter: …`) [required]"},
		{"a required field that is null", `{"steps": [{"filter": {"keep": null}}]}`,
			"1:24: steps[0].filter.keep: required (write `filter: …`) [required]"},
		{"an empty mapping in short", `{"steps": [{"set": {"fields": {}}}]}`,
			`1:31: steps[0].set.fields: must not be empty [bad-value]`},
		{"a problem in a short form", `{"steps": [{"compress": "lzma"}]}`,
			`1:25: steps[0].compress: "lzma" must be one of gzip, zstd [bad-value]`},
		{"a problem deep down", `{"steps": [{"each": {"do": [{"compress": {"level": 10}}]}}]}`,
			`1:52: steps[0].each.do[0].compress.level: "10" must be at most 9 (leave it out for 6) [bad-value]`},
		{"a placeholder in a key", `{"env": {"${NAME}": 1}}`,
			`1:10: env: a placeholder in the key "${NAME}" is not replaced (placeholders belong in values) [placeholder-in-key]`},
		{"too deep", `{"raw": ` + strings.Repeat("[", 250) + strings.Repeat("]", 250) + `}`,
			`1:209: is nested deeper than 200 levels [too-deep]`},
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

func TestAllProblemsAreReported(t *testing.T) {
	got := lint(t, `{"count": "x", "flag": 1, "steps": [{"drop": {}}, {"sleep": "1"}], "nope": 1, "bytes": 5}`,
		&everything{})
	if len(got) != 5 {
		t.Errorf("%d problems, want 5:\n%s", len(got), strings.Join(got, "\n"))
	}
}

func TestShortForms(t *testing.T) {
	tests := []struct {
		name, in string
		want     string
	}{
		{"a scalar is the main field", `{"compress": "zstd"}`, "{zstd 6}"},
		{"the long form keeps defaults", `{"compress": {"level": 9}}`, "{gzip 9}"},
		{"null is all defaults", `{"compress": null}`, "{gzip 6}"},
		{"a mapping of unknown keys is the main field", `{"set": {"a.b": "x", "strict": "y"}}`,
			"{{[{a.b {x batch} { 1 10}} {strict {y batch} { 1 22}}]} false}"},
		{"a mapping of known keys is the struct", `{"set": {"fields": {"a": "x"}, "strict": true}}`,
			"{{[{a {x batch} { 1 21}}]} true}"},
		{"a config may be a list", `{"unset": ["a", "b"]}`, "[a b]"},
		{"a config may be a scalar", `{"sleep": "2s"}`, "2s"},
		{"an empty config", `{"drop": {}}`, "{}"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var s step
			if problems := lint(t, test.in, &s); problems != nil {
				t.Fatal(problems)
			}
			if got := fmt.Sprint(s.Use.Config); got != test.want {
				t.Errorf("config is %s, want %s", got, test.want)
			}
			if got, want := s.Use.Place.Path, s.Use.Name; got != want || s.Use.Place.Pos.Col != 2 {
				t.Errorf("place is %+v, want path %q and its key's place", s.Use.Place, want)
			}
		})
	}
}

func TestChoice(t *testing.T) {
	defaults := func() *decode { return &decode{CSV: &csv{Header: true}} }
	for in, want := range map[string]string{
		`"json"`:                     "json",
		`{"json": null}`:             "json",
		`{"csv": null, "from": "x"}`: "csv{true}",
		`{"csv": {"header": false}}`: "csv{false}",
		`{"from": "x"}`:              "csv{true}",
		`{"regex": "a+"}`:            "regex a+",
		`"${WORD2:-json}"`:           "json",
	} {
		got := defaults()
		if problems := lint(t, in, got); problems != nil {
			t.Errorf("%s: %v", in, problems)
		}
		text := ""
		if got.JSON != nil {
			text += "json"
		}
		if got.CSV != nil {
			text += fmt.Sprint("csv", *got.CSV)
		}
		if got.Regex != nil {
			text += "regex " + *got.Regex
		}
		if text != want {
			t.Errorf("%s picks %s, want %s", in, text, want)
		}
	}
}

func TestDefaultsOfTheTypeAreKept(t *testing.T) {
	first := processors["compress"].New().(compress)
	first.Level = 1
	if got := processors["compress"].New().(compress); got.Level != 6 {
		t.Errorf("level is %d, want the default 6", got.Level)
	}
	if got := schema.Of(limits{}).New().(limits); got.Messages != 100 {
		t.Errorf("messages is %d, want 100 from the tag", got.Messages)
	}
}

func TestOfRefusesMistakes(t *testing.T) {
	tests := []struct {
		name     string
		defaults any
		want     string
	}{
		{"no tag", struct{ A int }{}, "no yaml tag"},
		{"a name twice", struct {
			A int `yaml:"a"`
			B int `yaml:"a"`
		}{}, "a name of its own"},
		{"an unknown check", struct {
			A int `yaml:"a" check:"minimum=1"`
		}{}, `unknown check "minimum=1"`},
		{"a bound in another spelling", struct {
			A time.Duration `yaml:"a" check:"min=5"`
		}{}, `check "min=5" is not valid`},
		{"a default in another spelling", struct {
			A time.Duration `yaml:"a" default:"5"`
		}{}, `default "5" is a duration without a unit`},
		{"a choice between values", struct {
			A int `yaml:"a" oneof:"x"`
		}{}, "a choice is between pointers"},
		{"a type that no text gives", struct {
			A chan int `yaml:"a"`
		}{}, ".A: chan int can't be configuration"},
		{"a type inside another that no text gives", struct {
			A []map[int]string `yaml:"a"`
		}{}, ".A: map[int]string: a mapping's keys are strings"},
		{"nothing", nil, "Of(nil)"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			defer func() {
				if got := fmt.Sprint(recover()); !strings.Contains(got, test.want) {
					t.Errorf("panic is %q, want %q in it", got, test.want)
				}
			}()
			schema.Of(test.defaults)
		})
	}
}

func TestATypeCanDecodeToAnotherValue(t *testing.T) {
	type written struct {
		Count *int         `yaml:"count"`
		Any   *schema.Node `yaml:"any" jsonschema:"{\"type\": \"array\"}"`
	}
	three := 3
	double := schema.Of(written{Count: &three}).Through(func(d *schema.Decoder, n *schema.Node, v any, ok bool) any {
		count := *v.(written).Count
		if ok && count > 9 {
			d.Report(n.Lookup("count"), schema.Problem{Code: schema.BadValue, Message: "too many"})
		}
		return 2 * count
	})
	tests := []struct {
		text    string
		want    any
		problem string
	}{
		{`{}`, 6, ""},
		{`{"count": 4}`, 8, ""},
		{`{"count": 10}`, 20, "1:11: too many [bad-value]"},
		{`{"count": "x"}`, 6, `1:11: count: "x" is not a whole number (leave it out for 3) [bad-value]`},
	}
	for _, tt := range tests {
		n, err := schema.ParseJSON(tt.text)
		if err != nil {
			t.Fatal(err)
		}
		d := schema.NewDecoder(nil)
		got, problem := double.Decode(d, n), ""
		for _, p := range d.Problems() {
			problem += p.String()
		}
		if got != tt.want || problem != tt.problem {
			t.Errorf("%s is %v with %q, want %v with %q", tt.text, got, problem, tt.want, tt.problem)
		}
	}
	if got := double.New(); got != 6 {
		t.Errorf("without settings it is %v", got)
	}
	text, err := schema.JSONSchema(double, "x", schema.TopLevel{})
	if err != nil || !strings.Contains(string(text), `"default": 3`) || !strings.Contains(string(text), `"array"`) {
		t.Errorf("%v: %s", err, text)
	}
}
