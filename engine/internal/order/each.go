package order

import (
	"slices"

	"github.com/flowd-io/flowd/engine"
)

var _ engine.KeyWaits = (*Holds)(nil)

// Each calls f for each message that waits and each message that it waits for, as roots. A message behind another
// waiting message is shown as waiting for that one only.
func (h *Holds) Each(f func(waits, behind engine.Origin)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, k := range h.keys {
		for _, l := range k.lines {
			for i, c := range l.claims {
				if c.x != nil {
					eachClaimRoot(l.claims[:i], func(root engine.Origin) { c.x.each(root, f) })
				}
			}
		}
		k.eachBefore(f)
	}
}

// eachBefore is Each for messages that wait before the lanes.
func (k *hold) eachBefore(f func(waits, behind engine.Origin)) {
	for i, x := range k.before {
		switch {
		case x.gap: // it does not wait: its input's steps work on it
		case i > 0 && k.before[i-1].gap:
			x.each(k.before[i-1].root, f)
		case i > 0:
			k.before[i-1].eachRoot(func(root engine.Origin) { x.each(root, f) })
		default:
			for _, l := range k.lines {
				eachClaimRoot(l.claims, func(root engine.Origin) { x.each(root, f) })
			}
		}
	}
}

// eachClaimRoot calls f with the roots of claims, from the last claim back to the first one that waits itself.
func eachClaimRoot(claims []*Claim, f func(root engine.Origin)) {
	for _, c := range slices.Backward(claims) {
		for _, root := range c.roots {
			f(root)
		}
		if c.x != nil {
			return
		}
	}
}

// each calls f for each root of a waiting message except the root that it waits for.
func (x *held) each(behind engine.Origin, f func(waits, behind engine.Origin)) {
	x.eachRoot(func(root engine.Origin) {
		if root != behind {
			f(root, behind)
		}
	})
}

func (x *held) eachRoot(f func(root engine.Origin)) {
	EachLeafKey(&x.m, func(leaf *engine.Message) { f(msg(leaf).First().Origin) })
}
