// Package boundstest has what tests of the checks of package bounds share.
package boundstest

import "github.com/flowd-io/flowd/internal/network/bounds"

// Feed gives a check what a server says, in pieces of at most n bytes, and returns its first objection.
func Feed(c bounds.Check, said string, n int) error {
	for len(said) > 0 {
		n := min(n, len(said))
		if err := c.Check([]byte(said[:n])); err != nil {
			return err
		}
		said = said[n:]
	}
	return nil
}
