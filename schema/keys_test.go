package schema_test

import (
	"slices"
	"testing"

	"github.com/flowd-io/flowd/schema"
)

func TestKeysAreThoseAtTheTop(t *testing.T) {
	type inner struct {
		Deep int `yaml:"deep" doc:"Deep."`
	}
	type Inlined struct {
		First int `yaml:"first" doc:"First."`
	}
	type config struct {
		Inlined `yaml:",inline"`
		One     inner             `yaml:"one" doc:"One."`
		Many    []inner           `yaml:"many" doc:"Many."`
		Named   schema.Map[inner] `yaml:"named" doc:"Named."`
	}
	if got, want := schema.Of(config{}).Keys(), []string{"first", "one", "many", "named"}; !slices.Equal(got, want) {
		t.Errorf("keys %q, want %q", got, want)
	}
}
