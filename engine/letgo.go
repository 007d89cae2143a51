package engine

// letGo frees claims from outside of the loops.
func (r *run) letGo(claims []*claim) {
	if r.enter() {
		r.holds.free(claims)
		r.leave()
	}
}
