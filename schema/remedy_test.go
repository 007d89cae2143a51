package schema_test

import (
	"strings"
	"testing"

	"github.com/flowd-io/flowd/schema"
)

// guarded is a struct with a secret, a list that decodes itself, and steps.
type guarded struct {
	Auth  *auth  `yaml:"auth" doc:"Who asks."`
	Names names  `yaml:"names" check:"nonempty" doc:"One name or several."`
	Steps []step `yaml:"steps" doc:"Steps."`
	Drain drain  `yaml:"drain" doc:"A time."`
}

type auth struct {
	Bearer *schema.Secret `yaml:"bearer" oneof:"auth" doc:"A token."`
	Basic  *login         `yaml:"basic" oneof:"auth" doc:"A login."`
}

type login struct {
	User     string        `yaml:"user" doc:"A name."`
	Password schema.Secret `yaml:"password" doc:"A password."`
}

type drain struct {
	Then string `yaml:"then" check:"oneof=stop|drop" doc:"What follows."`
}

type names []string

func (s *names) UnmarshalConfig(d *schema.Decoder, n *schema.Node) {
	if n.Kind == schema.ListNode {
		d.Decode(n, (*[]string)(s))
	} else if text, ok := d.Text(n); ok {
		*s = names{text}
	}
}

func TestRemedies(t *testing.T) {
	tests := []struct{ name, in, want string }{
		{"a list that decodes itself and is empty", `{"names": []}`, `1:11: names: must not be empty [bad-value]`},
		{"one that is not", `{"names": "a"}`, ``},
		{"a word for a mapping that has a field for it", `{"drain": "stop"}`,
			`1:11: drain: expected a mapping, got text (write {then: stop}) [wrong-kind]`},
		{"a word that no field takes", `{"drain": "nack"}`,
			`1:11: drain: expected a mapping, got text (write {then: …}) [wrong-kind]`},
		{"a misspelt type as a word", `{"steps": ["fliter"]}`,
			`1:12: steps[0]: expected a mapping, got text (write {filter: …}) [wrong-kind]`},
		{"one step for a list", `{"steps": {"drop": {}}}`,
			"1:11: steps: expected a list, got a mapping (make it an item of a list: begin it with `- `) [wrong-kind]"},
		{"a type for a list of steps", `{"steps": "drop"}`,
			`1:11: steps: expected a list, got text (write [{drop: {}}]) [wrong-kind]`},
		{"a field of the type beside it", `{"steps": [{"compress": "gzip", "level": 9}]}`,
			`1:33: steps[0]: unknown field "level" (it belongs to the type: write {compress: {level: …}}) [unknown-field]`},
		{"a common key in the type", `{"steps": [{"each": {"do": [], "when": "x"}}]}`,
			`1:32: steps[0].each: unknown field "when" (it belongs beside the type: write {each: …, when: …}) [unknown-field]`},
		{"a secret where a mapping belongs", `{"auth": "s3cret"}`,
			`1:10: auth: the value is not one of bearer, basic (write {bearer: …}) [bad-value]`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if got := strings.Join(lint(t, test.in, &guarded{}), "\n"); got != test.want {
				t.Errorf("got\n%s\nwant\n%s", got, test.want)
			}
		})
	}
}

func TestAShownLineHidesSecretsBehindMisspeltKeys(t *testing.T) {
	for _, line := range []string{
		`{"auth": {"basic": {"user": "u", "pasword": "s3cret"}}}`,
		`{"auth": {"basic": {"password": ["s3cret"]}}}`,
		`{"auth": "s3cret"}`,
	} {
		d := schema.NewDecoder(lookup)
		d.Decode(parse(t, line), &guarded{})
		for _, p := range d.Problems() {
			got := d.Show(p, line).Excerpt
			if want := strings.ReplaceAll(line, "s3cret", "******"); got != want {
				t.Errorf("%v is shown as %s, want %s", p, got, want)
			}
		}
	}
}

func TestWordsAreListedInJSONSchema(t *testing.T) {
	text, err := schema.JSONSchema(schema.AnyOf("auto or number", schema.Words{"auto", "off"}, 1), "x", schema.TopLevel{})
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(strings.Fields(string(text)), ""); !strings.Contains(got, `"enum":["auto","off"]`) {
		t.Errorf("schema is %s, want the words in it", text)
	}
}
