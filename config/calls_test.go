package config

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/expr"
	"github.com/flowd-io/flowd/schema"
)

func TestExpressionsReadTheVariablesThatAreNamed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "p.yaml")
	text := "inputs: {a: {stdin: {}}}\noutputs: {b: {drop: {}}}\nengine: {env: [REGION, API_TOKEN, NOT_SET]}\n" +
		"processors: [{filter: env(\"REGION\") == 'eu'}]\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	secrets := &schema.Secrets{}
	set, problems := Load([]string{path}, Options{Secrets: secrets, Lookup: func(name string) (string, bool, error) {
		value, ok := map[string]string{"REGION": "eu", "API_TOKEN": "correct horse", "OTHER": "x"}[name]
		return value, ok, nil
	}})
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	d := set.Pipelines[0].file.decoder
	var e expr.Expr
	n, err := schema.ParseJSON(`"[env(\"REGION\"), env(\"API_TOKEN\"), env(\"NOT_SET\")]"`)
	if err != nil || !d.Decode(n, &e) {
		t.Fatal(err, d.Problems())
	}
	m := engine.NewBatch(1).Add([]byte("{}"))
	v, err := e.Eval(m)
	if got := v.([]any); err != nil || got[0] != "eu" || got[1] != "correct horse" || got[2] != nil {
		t.Errorf("got %v, %v", v, err)
	}
	if got := secrets.Mask("the correct horse of eu"); got == "the correct horse of eu" || got[len(got)-2:] != "eu" {
		t.Errorf("got %q, want the token masked, and nothing else", got)
	}
}
