package writebehind

import "github.com/flowd-io/flowd/engine"

// Held converts an error of a step's cache. Unless the error is about this key or value, the cache is down and
// messages wait, without counting an attempt. nil stays nil.
func Held(err error) error {
	if err == nil || final(err) {
		return err
	}
	e := engine.ErrorOf(err, engine.Transient)
	e.Class, e.Holds = engine.Transient, true
	return e
}
