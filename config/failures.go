package config

import (
	"fmt"
	"slices"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/schema"
)

// failures checks where failed messages should go.
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
	dead := c.onlyDead()
	for name, o := range c.spec.Outputs.All() {
		if _, composed := o.Use.Config.(engine.Composed); dead[name] && o.OnFailure != nil && !composed {
			c.complainKey([]string{"outputs", name, "on_failure"}, schema.Problem{Code: "dead-letter-on-failure",
				Message: "a dead-letter output can't have its own on_failure: what it can't take is retried for as long as that can help",
				Remedy:  "remove it"})
		}
		if dead[name] && o.Retry != nil && !c.fed(name) {
			c.endless(name)
		}
	}
}

// endless warns of an end to retries that dead letters do not have.
func (c *checker) endless(output string) {
	path := []string{"outputs", output, "retry"}
	for _, key := range []string{"max_attempts", "max_age"} {
		if find(c.root, append(path, key)...) != nil {
			c.complain(append(path, key), schema.Problem{Code: "unused-retry", Warning: true,
				Message: "dead letters are retried for as long as that can help: there would be nowhere for one that is given up", Remedy: "remove it"})
		}
	}
}

// fed says whether more than dead letters are sent to an output.
func (c *checker) fed(output string) bool {
	if engine.MembersOf(c.spec.Outputs)[output] {
		return true
	}
	for _, b := range c.spec.Batchers.All() {
		if slices.Contains(b.Output, output) {
			return true
		}
	}
	return false
}

// onFailure checks one `on_failure`; inherited is the dead letter of the engine's.
func (c *checker) onFailure(path []string, f engine.OnFailure, inherited string, outputs []string) {
	at := func(key string) []string { return append(slices.Clip(path), key) }
	switch {
	case f.DeadLetter != "" && !slices.Contains(outputs, f.DeadLetter):
		c.complain(at("dead_letter"), unknownOutput("", f.DeadLetter, outputs))
	case f.DeadLetter != "" && f.Then != "" && f.Then != "dead_letter":
		c.complain(at("dead_letter"), schema.Problem{Code: "unused-dead-letter",
			Message: fmt.Sprintf("nothing goes to this dead letter, since `then` is %s", f.Then), Remedy: "write `then: dead_letter`, or remove one of the two"})
	case f.Then == "dead_letter" && f.DeadLetter == "" && inherited == "":
		c.complain(at("then"), schema.Problem{Code: "no-dead-letter",
			Message: "no dead letter is named", Remedy: "add `dead_letter: NAME`, the name of an output"})
	}
}

// onlyDead are the dead letters and what those consist of, unless other messages
// get there, too.
func (c *checker) onlyDead() map[string]bool {
	dead, outputs := c.deadLetters(), c.names("outputs")
	named := map[string]bool{}
	for _, b := range c.spec.Batchers.All() {
		for _, o := range b.Output {
			named[meant(o, outputs)] = true
		}
	}
	for {
		grown, alive := false, map[string]bool{}
		for _, o := range outputs {
			if !dead[o] {
				for _, m := range c.membersOf(o) {
					alive[m] = true
				}
			}
		}
		for _, o := range outputs {
			for _, m := range c.membersOf(o) {
				if dead[o] && !dead[m] && !named[m] && !alive[m] {
					dead[m], grown = true, true
				}
			}
		}
		if !grown {
			return dead
		}
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
