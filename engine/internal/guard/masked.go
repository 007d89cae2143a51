package guard

import (
	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/schema"
)

// Masked is err, whose text then shows none of some secrets; nil stays nil.
func Masked(s *schema.Secrets, err error) error {
	if err == nil {
		return nil
	}
	e := engine.ErrorOf(err, "")
	e.Mask(s)
	return e
}
