package engine

import (
	"fmt"
	"strings"
	"testing"
)

func TestOnlyForgetsAllOthers(t *testing.T) {
	words := map[string]string{"old": "write `a`"}
	r := NewRegistry[Processor]("processor", words)
	for _, name := range []string{"a", "b", "c"} {
		Register(r, name, "Does nothing.", struct{}{}, func(struct{}, Env) (Processor, error) { return nil, nil })
	}
	if err := r.Only([]string{"a", "x"}, "why"); err == nil || err.Error() != `there is no processor "x"` {
		t.Errorf("got %v", err)
	}
	if len(r.Names()) != 3 {
		t.Error("an error has forgotten something")
	}
	if err := r.Only([]string{"a", "c"}, "why"); err != nil {
		t.Fatal(err)
	}
	if r.Lookup("a") == nil || r.Lookup("b") != nil || r.Variant("b") != nil || r.Lookup("c") == nil {
		t.Errorf("there are %q", r.Names())
	}
	if r.Remedy("b") != "why" || r.Remedy("old") != "write `a`" || r.Remedy("a") != "" {
		t.Errorf("got %q", r.Remedy("b"))
	}
	if len(words) != 1 {
		t.Error("the words of others have changed")
	}
}

func TestOnlyOfARegistryWithoutWords(t *testing.T) {
	r := NewRegistry[Processor]("processor", nil)
	Register(r, "a", "Does nothing.", struct{}{}, func(struct{}, Env) (Processor, error) { return nil, nil })
	if err := r.Only(nil, "why"); err != nil || r.Remedy("a") != "why" {
		t.Errorf("got %v, %q", err, r.Remedy("a"))
	}
}

func TestABadTagFailsWhereAPluginIsRegistered(t *testing.T) {
	defer func() {
		if got := fmt.Sprint(recover()); !strings.Contains(got, `.Size: unknown check "minimum=1"`) {
			t.Errorf("panic is %q", got)
		}
	}()
	type config = struct {
		Size int `yaml:"size" check:"minimum=1"`
	}
	Register(NewRegistry[Processor]("processor", nil), "a", "Does nothing.", config{},
		func(config, Env) (Processor, error) { return nil, nil })
}

func TestReplaceKeepsRegisteredPlugins(t *testing.T) {
	r := NewRegistry[Processor]("processor", nil)
	Register(r, "built_in", "Does nothing.", struct{}{}, func(struct{}, Env) (Processor, error) { return nil, nil })
	for _, doc := range []string{"One.", "Two."} {
		if !r.Replace(Spec[Processor]{Name: "added", Doc: doc}) || r.Lookup("added").Doc != doc {
			t.Errorf("%q is not there", doc)
		}
	}
	if r.Replace(Spec[Processor]{Name: "built_in", Doc: "Another."}) || r.Lookup("built_in").Doc != "Does nothing." {
		t.Error("a registered plugin is replaced")
	}
}
