package rules

import (
	"fmt"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/schema"
)

// checkExactlyOnce refuses components that can't take part in the transaction, and warns of effects outside it.
func (r *checker) checkExactlyOnce() {
	if !r.spec.Engine.ExactlyOnce {
		return
	}
	cluster := r.transactionsOfInput()
	if cluster == "" {
		return
	}
	inside := 0
	for name, o := range r.spec.Outputs.All() {
		t := engine.TraitsOf(o.Use.Config)
		switch {
		case len(t.Members) > 0:
		case t.Transacts == cluster:
			inside++
		case t.Transacts != "":
			r.refuse(o.Use.Place, fmt.Sprintf("output %s writes to a different cluster from the input: no transaction spans both", name),
				"name the same `brokers`, or remove `engine.exactly_once`")
		default:
			r.warnOutside(o.Use.Place, fmt.Sprintf("output %s is outside the transaction: its messages are written at least once", name))
		}
	}
	if inside == 0 && r.spec.Outputs.Len() > 0 {
		r.refuse(r.at("engine", "exactly_once"), "no output writes in transactions",
			"write to the cluster that is read, with an output `kafka`, or remove it")
	}
	for _, c := range Components(r.spec) {
		switch engine.TraitsOf(c.Config).Effects {
		case engine.EffectsElsewhere:
			r.warnOutside(c.Place, "step "+c.Type+" has effects outside the transaction: they happen at least once per message")
		case engine.EffectsOnDelivery:
			r.refuse(c.Place, "step "+c.Type+" changes its state when messages are delivered, and an aborted transaction does not undo that",
				"remove it, or `engine.exactly_once`")
		}
	}
}

// transactionsOfInput names the transactions of the only input. It reports a problem and returns "" if there are none.
func (r *checker) transactionsOfInput() string {
	at := r.at("engine", "exactly_once")
	if r.spec.Inputs.Len() != 1 {
		r.refuse(at, "transactions need exactly one input, of type `kafka`", "move other inputs to pipelines of their own")
		return ""
	}
	for name, in := range r.spec.Inputs.All() {
		switch t := engine.TraitsOf(in.Use.Config); {
		case t.Transacts == "":
			r.refuse(in.Use.Place, fmt.Sprintf("input %s has no transactions", name),
				"read from Kafka, with a `group`, or remove `engine.exactly_once`")
		case in.Concurrency > 1:
			r.refuse(in.Use.Place, "a transaction belongs to one instance of an input",
				"remove `concurrency`, and run the pipeline several times instead")
		default:
			return t.Transacts
		}
	}
	return ""
}

func (r *checker) refuse(at schema.Place, message, remedy string) {
	r.complain(at, schema.Problem{Code: "exactly-once", Message: message, Remedy: remedy})
}

func (r *checker) warnOutside(at schema.Place, message string) {
	r.complain(at, schema.Problem{Code: "exactly-once", Message: message, Remedy: "make sure that duplicates do no harm", Warning: true})
}
