package rules

import (
	"fmt"
	"slices"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/schema"
)

// failures checks where failed messages should go.
func (r *rules) failures() {
	if len(r.outputs) > 0 {
		r.onFailure(r.at("engine", "on_failure"), r.spec.Engine.OnFailure.OnFailure, "")
		for name, o := range r.spec.Outputs.All() {
			if o.OnFailure != nil {
				r.onFailure(r.at("outputs", name, "on_failure"), *o.OnFailure, r.spec.Engine.OnFailure.DeadLetter)
			}
		}
	}
	dead := r.onlyDead()
	for name, o := range r.spec.Outputs.All() {
		if dead[name] && o.OnFailure != nil && len(engine.TraitsOf(o.Use.Config).Members) == 0 {
			r.complain(r.key("outputs", name, "on_failure"), schema.Problem{Code: "dead-letter-on-failure",
				Message: "a dead-letter output can't have its own on_failure: what it can't take is retried for as long as that can help",
				Remedy:  "remove it"})
		}
		if dead[name] && o.Retry != nil && !r.fed(name) {
			r.endless(name)
		}
	}
}

// endless warns of an end to retries that dead letters do not have.
func (r *rules) endless(output string) {
	at := r.at("outputs", output, "retry")
	for _, key := range []string{"max_attempts", "max_age"} {
		if at.Node.Find(key) != nil {
			r.complain(at.At(key), schema.Problem{Code: "unused-retry", Warning: true,
				Message: "dead letters are retried for as long as that can help: there would be nowhere for one that is given up", Remedy: "remove it"})
		}
	}
}

// fed says whether more than dead letters are sent to an output.
func (r *rules) fed(output string) bool {
	if MembersOf(r.spec.Outputs)[output] {
		return true
	}
	for _, b := range r.spec.Batchers.All() {
		if slices.Contains(b.Output, output) {
			return true
		}
	}
	return false
}

// onFailure checks one `on_failure`; inherited is the dead letter of the engine's.
func (r *rules) onFailure(at schema.Place, f engine.OnFailure, inherited string) {
	switch {
	case f.DeadLetter != "" && !slices.Contains(r.outputs, f.DeadLetter):
		r.complain(at.At("dead_letter"), r.unknownOutput(f.DeadLetter))
	case f.DeadLetter != "" && f.Then != "" && f.Then != "dead_letter":
		r.complain(at.At("dead_letter"), schema.Problem{Code: "unused-dead-letter",
			Message: fmt.Sprintf("nothing goes to this dead letter, since `then` is %s", f.Then),
			Remedy:  "write `then: dead_letter`, or remove one of the two"})
	case f.Then == "dead_letter" && f.DeadLetter == "" && inherited == "":
		r.complain(at.At("then"), schema.Problem{Code: "no-dead-letter",
			Message: "no dead letter is named", Remedy: "add `dead_letter: NAME`, the name of an output"})
	}
}

// onlyDead are the dead letters and what those consist of, unless other messages
// get there, too.
func (r *rules) onlyDead() map[string]bool {
	dead := r.deadLetters()
	named := map[string]bool{}
	for _, b := range r.spec.Batchers.All() {
		for _, o := range b.Output {
			named[schema.Meant(o, r.outputs)] = true
		}
	}
	for {
		grown, alive := false, map[string]bool{}
		for _, o := range r.outputs {
			if !dead[o] {
				for _, m := range r.membersOf(o) {
					alive[m] = true
				}
			}
		}
		for _, o := range r.outputs {
			for _, m := range r.membersOf(o) {
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
func (r *rules) deadLetters() map[string]bool {
	dead := map[string]bool{}
	if name := r.spec.Engine.OnFailure.DeadLetter; name != "" {
		dead[schema.Meant(name, r.outputs)] = true
	}
	for _, o := range r.spec.Outputs.All() {
		if o.OnFailure != nil && o.OnFailure.DeadLetter != "" {
			dead[schema.Meant(o.OnFailure.DeadLetter, r.outputs)] = true
		}
	}
	return dead
}
