package call

import "github.com/flowd-io/flowd/engine"

// Passing makes the error of a store one that may pass, whatever its class. That nothing was reached, and when to ask
// again, it still says; nil stays nil.
func Passing(err error) error {
	if err == nil {
		return nil
	}
	e := engine.ErrorOf(err, engine.Transient)
	e.Class = engine.Transient
	return e
}
