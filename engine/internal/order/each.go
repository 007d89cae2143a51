package order

import (
	"slices"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/internal/inside"
)

var _ engine.KeyWaits = (*Holds)(nil)

// Each calls f for each message that waits, with each root that keeps it waiting. What is behind another message that
// waits is shown behind that one alone.
func (h *Holds) Each(f func(waits, behind engine.Origin)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, k := range h.keys {
		for _, l := range k.lines {
			for i, c := range l.claims {
				if c.x != nil {
					behind(l.claims[:i], func(root engine.Origin) { c.x.each(root, f) })
				}
			}
		}
		k.eachBefore(f)
	}
}

// eachBefore is Each for what waits before the lanes.
func (k *hold) eachBefore(f func(waits, behind engine.Origin)) {
	for i, x := range k.before {
		switch {
		case x.gap: // it is at work
		case i > 0 && k.before[i-1].gap:
			x.each(k.before[i-1].root, f)
		case i > 0:
			k.before[i-1].eachRoot(func(root engine.Origin) { x.each(root, f) })
		default:
			for _, l := range k.lines {
				behind(l.claims, func(root engine.Origin) { x.each(root, f) })
			}
		}
	}
}

// behind calls f with the roots of claims, from the last one back to one that waits itself.
func behind(claims []*Claim, f func(root engine.Origin)) {
	for _, c := range slices.Backward(claims) {
		for _, root := range c.roots {
			f(root)
		}
		if c.x != nil {
			return
		}
	}
}

// each says of all roots of a message that waits that they do so for one.
func (x *held) each(behind engine.Origin, f func(waits, behind engine.Origin)) {
	x.eachRoot(func(root engine.Origin) {
		if root != behind {
			f(root, behind)
		}
	})
}

func (x *held) eachRoot(f func(root engine.Origin)) {
	EachLeafKey(&x.m, func(leaf *engine.Message) { f(leaf.First(inside.Key{})) })
}
