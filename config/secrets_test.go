package config

import (
	"strings"
	"testing"
)

func TestSecretsInTheFileDoNotShow(t *testing.T) {
	set, problems := Load([]string{"testdata/literal-secrets.yaml"}, Options{Lookup: lookup})
	var all strings.Builder
	for _, p := range problems {
		all.WriteString(p.Render() + "\n")
	}
	all.WriteString(set.Pipelines[0].Show())
	for _, secret := range []string{"geheimnis", "abcdef123", "abcdefgh", "t0ken-1234", "hunter22", "open-sesame"} {
		if strings.Contains(all.String(), secret) {
			t.Errorf("%q shows in\n%s", secret, all.String())
		}
	}
	if shown := set.Pipelines[0].Show(); !strings.Contains(shown, "routing_key: '\"plain\"'") &&
		!strings.Contains(shown, `plain`) {
		t.Errorf("what is no secret does not show in\n%s", shown)
	}
}
