package writebehind

import "github.com/flowd-io/flowd/engine"

// Held returns what a step returns for an error of its cache: unless the error is about this key or value, the cache is away
// and its messages wait, without an attempt being counted. nil stays nil.
func Held(err error) error {
	if err == nil || final(err) {
		return err
	}
	e := engine.ErrorOf(err, engine.Transient)
	e.Class, e.Holds = engine.Transient, true
	return e
}
