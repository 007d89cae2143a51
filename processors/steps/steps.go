// Package steps is the processor `steps`: it runs a list of steps from resources.steps, or an inline list. Its config
// is engine.UsedSteps.
package steps

import (
	"fmt"

	"github.com/flowd-io/flowd/engine"
)

const doc = `
Runs a list of steps that resources.steps defines under this name. A list may have
parameters: ${param.NAME} in its steps stands for the value that a use gives NAME.

    resources:
      steps:
        clean:
          - unset: [password]
        mask:
          parameters:
            field: path
            with: {type: expression, default: '"***"'}
          do:
            - set: {"${param.field}": "${param.with}"}
              when: ${param.field} != nil
    processors:
      - steps: clean
      - steps: {mask: {field: customer.email}}
      - steps: {mask: {field: card.number, with: '"****" + this.card.number[-4:]'}}

A parameter is a value (the default), a path, or an expression. A value is never code:
in an expression it is a literal, in a template and everywhere else text. A path is a
field of the document in expressions, and a path in keys and in fields that take paths.
An expression is allowed only in expressions, and in $( ) in templates; it is one operand
there, whatever surrounds it.

In errors and metrics, the steps of a list are named after their use: clean/unset. A use
goes by its name or, without one, by that of the list, numbered from the second use on.

Steps can also be written in place, to give several of them one when, retry or on_error:

    - steps:
        - http: {url: "http://geo/lookup", into: geo}
        - set: {country: geo.country}
      on_error: continue
`

func init() {
	engine.Register(engine.Processors, "steps", doc, engine.UsedSteps{}, build)
}

func build(c engine.UsedSteps, _ engine.Env) (engine.Processor, error) {
	if !c.Found {
		return nil, fmt.Errorf("there are no steps named %q (define them under `resources.steps`)", c.Name)
	}
	return engine.Block{Do: c.Do}, nil
}
