// Package switchstep is the processor `switch`: it runs the steps of the first case whose condition holds. Its config
// is the list of cases.
package switchstep

import (
	"errors"
	"fmt"

	"github.com/flowd-io/flowd/engine"
)

const doc = `
Runs the steps of the first case whose condition is true. A message that matches no
case continues as it is.

    - switch:
        - when: status >= 500
          do:
            - set: {severity: '"critical"'}
        - do:
            - set: {severity: '"info"'}
`

func init() {
	engine.Register(engine.Processors, "switch", doc, []engine.Case{}, build)
}

func build(cases []engine.Case, _ engine.Env) (engine.Processor, error) {
	if len(cases) == 0 {
		return nil, errors.New("switch needs at least one case (write `- {when: status >= 500, do: [...]}`)")
	}
	for i := range cases[:len(cases)-1] {
		if cases[i].When.IsZero() {
			return nil,
				fmt.Errorf("case %d has no `when`, so the cases after it are never reached (give it a condition, or put it last)", i+1)
		}
	}
	return engine.Block{Cases: cases}, nil
}
