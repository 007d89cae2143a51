package stage

import "github.com/flowd-io/flowd/engine/internal/order"

// letGo frees claims from outside of the loops.
func (r *Run) letGo(claims []*order.Claim) {
	if r.Enter() {
		r.holds.Free(claims)
		r.Leave()
	}
}
