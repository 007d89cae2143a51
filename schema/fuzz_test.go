package schema_test

import (
	"strings"
	"testing"
	"time"

	"github.com/flowd-io/flowd/schema"
)

func FuzzDecode(f *testing.F) {
	for _, seed := range []string{
		`{"steps": [{"each": {"do": [{"set": {"a": "${NAME}"}}]}}, {"drop": null}, {"decode": "csv"}]}`,
		`{"count": 017, "wait": "2d", "bytes": "1.5KiB", "tls": {"cert": 1}, "maybe": null, "retry": {}}`,
		`{"env": {"a": 1, "a": 2, "": [], "${X}": {}}, "nested": {"a": {"b": null}}, "format": {"json": 1, "csv": 2}}`,
		`{"text": "${file:/run/pw:-${A:?b}} $${c} ${", "list": [null, true, {}], "raw": [[[]]], "word": [["bad"]]}`,
		`[` + strings.Repeat(`[`, 300) + strings.Repeat(`]`, 300) + `]`, `null`, `"json"`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		n, err := schema.ParseJSON(text)
		if err != nil {
			return
		}
		var v everything
		d := schema.NewDecoder(lookup)
		ok := d.Decode(n, &v)
		errors := 0
		for _, p := range d.Problems() {
			if !p.Warning {
				errors++
			}
			if p.Message == "" || p.Code == "" || p.Pos.Line == 0 {
				t.Errorf("a problem without message, code or place: %+v", p)
			}
			if p.Render() == "" {
				t.Error("a problem that renders as nothing")
			}
		}
		if ok != (errors == 0) {
			t.Errorf("ok is %v with %d errors", ok, errors)
		}
		if dump := d.Dump(v); strings.Contains(dump, "hunter2!") {
			t.Errorf("a secret shows:\n%s", dump)
		}
	})
}

func FuzzScalars(f *testing.F) {
	for _, seed := range []string{"2s", "1h30m", "5 min", "64KiB", "1.5GB", "017", "0x1f", "1_000", "1e3", "-1", "yes",
		"${A:-${B}}", "$${", "", "9e999"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var v struct {
			Int  int64         `yaml:"int"`
			Bits uint8         `yaml:"bits"`
			Rat  float64       `yaml:"rat"`
			Time time.Duration `yaml:"time"`
			Size schema.Size   `yaml:"size"`
			Flag bool          `yaml:"flag"`
		}
		n := &schema.Node{Kind: schema.MapNode}
		for _, key := range []string{"int", "bits", "rat", "time", "size", "flag"} {
			n.Keys = append(n.Keys, &schema.Node{Kind: schema.TextNode, Text: key})
			n.Items = append(n.Items, &schema.Node{Kind: schema.TextNode, Text: text})
		}
		d := schema.NewDecoder(lookup)
		d.Decode(n, &v)
		if s := v.Size; s < 0 {
			t.Errorf("%q is a size of %d", text, s)
		} else if again, err := schema.ParseSize(s.String()); err != nil || again != s {
			t.Errorf("%q is %d, which prints as %v", text, s, s)
		}
		var whole strings.Builder
		for _, p := range d.Pieces(&schema.Node{Kind: schema.TextNode, Text: text}) {
			if !p.Placeholder && !strings.HasPrefix(text[p.Offset:], p.Text) {
				t.Errorf("%q has no %q at %d", text, p.Text, p.Offset)
			}
			whole.WriteString(p.Text)
		}
		if !strings.Contains(text, "${") && whole.String() != text {
			t.Errorf("%q became %q", text, whole.String())
		}
	})
}
