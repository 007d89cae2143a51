package rules

import (
	"fmt"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/schema"
)

// exactlyOnce refuses what a transaction can't hold together, and warns of what is outside of it.
func (r *rules) exactlyOnce() {
	if !r.spec.Engine.ExactlyOnce {
		return
	}
	cluster := r.transacts()
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
			r.refuse(o.Use.Place, fmt.Sprintf("output %s writes to another cluster than the one that is read: no transaction spans both", name),
				"name the same `brokers`, or remove `engine.exactly_once`")
		default:
			r.outside(o.Use.Place, fmt.Sprintf("output %s is outside of the transaction: what goes there is written at least once", name))
		}
	}
	if inside == 0 && r.spec.Outputs.Len() > 0 {
		r.refuse(r.at("engine", "exactly_once"), "no output writes in transactions",
			"write to the cluster that is read, with an output `kafka`, or remove it")
	}
	for _, c := range Components(r.spec) {
		switch engine.TraitsOf(c.Config).Effects {
		case engine.EffectsElsewhere:
			r.outside(c.Place, "step "+c.Type+" does something outside of the transaction, for each message at least once")
		case engine.EffectsOnDelivery:
			r.refuse(c.Place, "step "+c.Type+" changes its state when messages are delivered, which a transaction that is aborted does not undo",
				"remove it, or `engine.exactly_once`")
		}
	}
}

// transacts names the transactions of the one input; "" if a complaint says why there are none.
func (r *rules) transacts() string {
	at := r.at("engine", "exactly_once")
	if r.spec.Inputs.Len() != 1 {
		r.refuse(at, "transactions need an input `kafka`, and no other input", "move other inputs to pipelines of their own")
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

func (r *rules) refuse(at schema.Place, message, remedy string) {
	r.complain(at, schema.Problem{Code: "exactly-once", Message: message, Remedy: remedy})
}

func (r *rules) outside(at schema.Place, message string) {
	r.complain(at, schema.Problem{Code: "exactly-once", Message: message, Remedy: "see that a repetition does no harm", Warning: true})
}
