package rules

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"sync"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/schema"
)

// checkFailures checks where failed messages go.
func (r *checker) checkFailures() {
	if len(r.outputs) > 0 {
		r.checkOnFailure(r.at("engine", "on_failure"), r.spec.Engine.OnFailure.OnFailure, "")
		for name, o := range r.spec.Outputs.All() {
			if o.OnFailure != nil {
				r.checkOnFailure(r.at("outputs", name, "on_failure"), *o.OnFailure, r.spec.Engine.OnFailure.DeadLetter)
				r.checkBreaker(name, o)
			}
		}
	}
	dead := r.onlyDead()
	for name, o := range r.spec.Outputs.All() {
		if dead[name] && o.OnFailure != nil && len(engine.TraitsOf(o.Use.Config).Members) == 0 {
			r.complain(r.key("outputs", name, "on_failure"), schema.Problem{Code: "dead-letter-on-failure",
				Message: "a dead-letter output can't have its own on_failure: dead letters are retried until they are written or refused for good",
				Remedy:  "remove it"})
		}
		if dead[name] && o.Retry != nil && !r.getsMore(name) {
			r.warnRetryLimit(name)
		}
	}
}

// warnRetryLimit warns of a limit on retries that has no effect on dead letters.
func (r *checker) warnRetryLimit(output string) {
	at := r.at("outputs", output, "retry")
	for _, key := range []string{"max_attempts", "max_age"} {
		if n := at.Node.Find(key); n != nil && !n.Inherited() { // others need that one
			r.complain(at.At(key), schema.Problem{Code: "unused-retry", Warning: true,
				Message: "dead letters are retried until they are written or refused for good, so this limit has no effect",
				Remedy:  "remove it"})
		}
	}
}

// getsMore says whether an output gets other messages than dead letters.
func (r *checker) getsMore(output string) bool {
	if r.spec.Members()[output] {
		return true
	}
	for _, b := range r.spec.Batchers.All() {
		if slices.Contains(b.Output, output) {
			return true
		}
	}
	return false
}

// checkOnFailure checks one `on_failure`; inherited is the dead letter that engine.on_failure names.
func (r *checker) checkOnFailure(at schema.Place, f engine.OnFailure, inherited string) {
	switch {
	case f.DeadLetter != "" && !slices.Contains(r.outputs, f.DeadLetter):
		p := r.unknownOutput(f.DeadLetter)
		p.Remedy = fmt.Sprintf("add %q to `outputs`", f.DeadLetter)
		if meant := r.meantDead(f.DeadLetter); meant != f.DeadLetter {
			p.Remedy = fmt.Sprintf("did you mean %q?", meant)
		}
		r.complain(at.At("dead_letter"), p)
	case f.DeadLetter != "" && f.Then != (engine.Then{}) && !f.Then.May("dead_letter"):
		r.complain(at.At("dead_letter"), schema.Problem{Code: "unused-dead-letter",
			Message: fmt.Sprintf("nothing goes to this dead letter, since `then` is %s", cmp.Or(f.Then.Word, f.Then.Choose.String())),
			Remedy:  "write `then: dead_letter`, or remove one of the two"})
	case f.Then.May("dead_letter") && f.DeadLetter == "" && inherited == "":
		r.complain(at.At("then"), schema.Problem{Code: "no-dead-letter",
			Message: "no dead letter is named", Remedy: "add `dead_letter: NAME`, the name of an output"})
	}
}

// checkBreaker warns if an output has a dead letter of its own, which its messages do not reach while its breaker is open.
// A pipeline's dead letter is no reason to warn: it is for messages that fail, and not for an output that is down.
func (r *checker) checkBreaker(name string, o engine.OutputSpec) {
	dead := o.OnFailure.DeadLetter != "" || o.OnFailure.Then.May("dead_letter")
	if !dead || o.Breaker != nil || len(engine.TraitsOf(o.Use.Config).Members) > 0 {
		return
	}
	for _, retry := range []*engine.Retry{o.Retry, r.spec.Engine.OnFailure.Retry} {
		if retry != nil && retry.MaxAge > 0 {
			return
		}
	}
	r.complain(r.key("outputs", name, "on_failure"), schema.Problem{Code: "breaker-holds", Warning: true,
		Message: "after 10 failed writes in a row, the breaker opens: messages then wait, and do not go to the dead letter",
		Remedy: "add `retry: {max_age: 10m}` to dead-letter messages that have waited so long, `breaker: {failures: 0}` to do without " +
			"a breaker, or a `breaker` with the settings that you want"})
}

// onlyDead are the dead-letter outputs and their members, except members that other messages reach, too.
func (r *checker) onlyDead() map[string]bool {
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

// meantDead is the output that the name of a dead letter probably means, or the name itself. Outputs that get no other messages come
// first, then those that are called like one.
func (r *checker) meantDead(name string) string {
	if slices.Contains(r.outputs, name) {
		return name
	}
	free := slices.DeleteFunc(slices.Clone(r.outputs), r.getsMore)
	if meant := schema.Meant(name, free); meant != name {
		return meant
	}
	if r.spec.Batchers.Len() == 0 {
		free = slices.DeleteFunc(free, func(o string) bool { return !deadNames().MatchString(o) })
	}
	if len(free) == 1 {
		return free[0]
	}
	return schema.Meant(name, r.outputs)
}

// deadNames matches usual names of dead letters.
var deadNames = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?i)dead|dl[qx]|fail|error|reject|invalid|poison|quarantine|broken`)
})

// deadLetters are the outputs that some on_failure names.
func (r *checker) deadLetters() map[string]bool {
	dead := map[string]bool{}
	if name := r.spec.Engine.OnFailure.DeadLetter; name != "" {
		dead[r.meantDead(name)] = true
	}
	for _, o := range r.spec.Outputs.All() {
		if o.OnFailure != nil && o.OnFailure.DeadLetter != "" {
			dead[r.meantDead(o.OnFailure.DeadLetter)] = true
		}
	}
	return dead
}
