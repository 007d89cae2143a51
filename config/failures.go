package config

import (
	"fmt"
	"slices"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/schema"
)

// failures checks where failed messages are to go.
func (c *checker) failures() {
	outputs := c.names("outputs")
	if len(outputs) > 0 {
		c.onFailure([]string{"engine", "on_failure"}, c.spec.Engine.OnFailure.OnFailure, "", outputs)
		for name, o := range c.spec.Outputs.All() {
			if o.OnFailure != nil {
				c.onFailure([]string{"outputs", name, "on_failure"}, *o.OnFailure, c.spec.Engine.OnFailure.DeadLetter, outputs)
			}
		}
	}
	dead := c.deadLetters()
	for name, o := range c.spec.Outputs.All() {
		if dead[name] && o.OnFailure != nil {
			c.complainKey([]string{"outputs", name, "on_failure"}, schema.Problem{Code: "dead-letter-on-failure",
				Message: "a dead letter has no on_failure of its own: what it can't take is tried again for as long as that can help",
				Remedy:  "remove it"})
		}
	}
}

// onFailure checks one `on_failure`; inherited is the dead letter of the engine's.
func (c *checker) onFailure(path []string, f engine.OnFailure, inherited string, outputs []string) {
	at := func(key string) []string { return append(slices.Clip(path), key) }
	switch {
	case f.DeadLetter != "" && !slices.Contains(outputs, f.DeadLetter):
		c.complain(at("dead_letter"), unknownOutput("", f.DeadLetter, outputs))
	case f.DeadLetter != "" && f.Then != "" && f.Then != "dead_letter":
		c.complain(at("dead_letter"), schema.Problem{Code: "unused-dead-letter",
			Message: fmt.Sprintf("nothing gets to this dead letter, as `then` is %s", f.Then), Remedy: "write `then: dead_letter`, or remove one of the two"})
	case f.Then == "dead_letter" && f.DeadLetter == "" && inherited == "":
		c.complain(at("then"), schema.Problem{Code: "no-dead-letter",
			Message: "no dead letter is named", Remedy: "add `dead_letter: NAME`, the name of an output"})
	}
}

// deadLetters are the outputs that some on_failure names.
func (c *checker) deadLetters() map[string]bool {
	dead, outputs := map[string]bool{}, c.names("outputs")
	if name := c.spec.Engine.OnFailure.DeadLetter; name != "" {
		dead[meant(name, outputs)] = true
	}
	for _, o := range c.spec.Outputs.All() {
		if o.OnFailure != nil && o.OnFailure.DeadLetter != "" {
			dead[meant(o.OnFailure.DeadLetter, outputs)] = true
		}
	}
	return dead
}
