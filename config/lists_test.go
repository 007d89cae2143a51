package config

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// given is a value of a parameter: as YAML, and as it reads in each place by hand.
type given struct{ yaml, code, between, text string }

var (
	givenValues = []given{
		{`5`, `5`, `5`, `5`}, {`"5"`, `"5"`, `5`, `5`}, {`-5`, `int("-5")`, `-5`, `-5`}, {`true`, `true`, `true`, `true`},
		{`two words`, `"two words"`, `two words`, `two words`},
		{`"it's $(a) \\"`, `"it's $(a) \\"`, `it\'s $(a) \\`, `it's $$(a) \`},
	}
	givenPaths = []given{
		{`a`, `a`, `a`, `a`}, {`"a.b[0]"`, `a.b[0]`, `a.b[0]`, `a.b[0]`},
		{`'this["odd name"]'`, `this["odd name"]`, `this["odd name"]`, `this["odd name"]`},
	}
	givenCode = []given{
		{`total`, `total`, "", ""}, {`'"x" + y'`, `"x" + y`, "", ""}, {`'total > 5 ? 1 : 2'`, `total > 5 ? 1 : 2`, "", ""},
		{`'[1, 2][0] // one'`, "[1, 2][0] // one\n", "", ""},
	}
)

// byHand are steps with parameters, and what they are with these values.
func byHand(r *rand.Rand, v, p, e given) (steps, hand []string) {
	text := func(s string) string { return strconv.Quote(s) }
	operand := "(" + e.code + ")"
	all := [][2]string{
		{`set: {` + text("${param.p}") + `: "${param.e}"}`, `set: {` + text(p.text) + `: ` + e.yaml + `}`},
		{`set: {x: "[${param.v}, '${param.v}', ${param.e}]"}`,
			`set: {x: ` + text(fmt.Sprintf(`[%s, '%s', %s]`, v.code, v.between, operand)) + `}`},
		{`filter: "${param.e} != nil and ${param.p}.deep == 1 or x == ${param.v}"`,
			`filter: ` + text(fmt.Sprintf(`%s != nil and %s.deep == 1 or x == %s`, operand, p.code, v.code))},
		{`unset: ["${param.p}", "${param.p}.more"]`, `unset: [` + text(p.text) + `, ` + text(p.text+".more") + `]`},
		{`log: {message: "a ${param.v} $(${param.e}) ${param.p}"}`,
			`log: {message: ` + text(`a `+v.text+` $(`+operand+`) `+p.text) + `}`},
		{`each: {in: "${param.p}", do: [{filter: "x == ${param.v}"}]}`,
			`each: {in: ` + p.yaml + `, do: [{filter: ` + text("x == "+v.code) + `}]}`},
		{`{unset: z, timeout: "${param.t}s"}`, `{unset: z, timeout: 7s}`},
	}
	for range 1 + r.IntN(4) {
		s := all[r.IntN(len(all))]
		steps, hand = append(steps, s[0]), append(hand, s[1])
	}
	return steps, hand
}

// A list that is used with values is in force as if its steps had been written there.
func TestAUseIsWhatItWouldBeByHand(t *testing.T) {
	const seeds = 60
	origin := regexp.MustCompile(`(?m) +# .*$`)
	show := func(text string) string {
		path := filepath.Join(write(t, map[string]string{"p.yaml": text}), "p.yaml")
		set, problems := Load([]string{path}, Options{})
		for _, p := range problems {
			if !p.Warning {
				t.Fatalf("%v\n%s", p, text)
			}
		}
		shown, _, _ := strings.Cut(set.Pipelines[0].Show(), "\nresources:")
		return origin.ReplaceAllString(strings.TrimSpace(shown), "")
	}
	for seed := range uint64(seeds) {
		r := rand.New(rand.NewPCG(seed, 1))
		pick := func(all []given) given { return all[r.IntN(len(all))] }
		v, p, e := pick(givenValues), pick(givenPaths), pick(givenCode)
		steps, hand := byHand(r, v, p, e)
		uses := fmt.Sprintf("{inner: {v: %s, p: %s, e: %s}}", v.yaml, p.yaml, e.yaml)
		if nested := r.IntN(2) == 0; nested { // by way of another list
			uses = fmt.Sprintf("{outer: {v: %s, p: %s, e: %s}}", v.yaml, p.yaml, e.yaml)
			hand = []string{"steps:\n      - " + strings.Join(hand, "\n      - ")}
		}
		const around = "inputs: {in: {http_server: \"127.0.0.1:0\"}}\noutputs: {out: {stdout: {}}}\nprocessors:\n  - steps:"
		got := show(around + " " + uses + `
resources:
  steps:
    inner:
      parameters: {v: {}, p: path, e: expression, t: {default: 7}}
      do:
      - ` + strings.Join(steps, "\n      - ") + `
    outer:
      parameters: {v: value, p: path, e: expression}
      do: [{steps: {inner: {v: "${param.v}", p: "${param.p}", e: "${param.e}"}}}]
`)
		if diff := cmp.Diff(show(around+"\n    - "+strings.Join(hand, "\n    - ")+"\n"), got); diff != "" {
			t.Fatalf("seed %d (-by hand +with parameters):\n%s", seed, diff)
		}
	}
}
