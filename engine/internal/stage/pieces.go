package stage

import (
	"slices"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/internal/flow"
	"github.com/flowd-io/flowd/engine/internal/ledger"
	"github.com/flowd-io/flowd/engine/internal/order"
	"github.com/flowd-io/flowd/engine/internal/retry"
)

// copy makes one more piece of m's root, with its own credits.
func (out *outcome) copy(m *engine.Message) engine.Message {
	msg(m).Doc.Detach()
	c := *m
	msg(&c).Credits, msg(&c).Charge, msg(&c).Of, msg(&c).Serial = 1, flow.Bytes(m), copies(msg(m).Of), 0
	retry.SetTrial(&c, nil)
	order.SetClaim(&c, nil)
	out.credits.Charge(1, msg(&c).Charge)
	ledger.EachRoot(&c, func(r ledger.Root) { r.Add(1) })
	out.made++
	return c
}

// copies are parts of a merge for its copy, which gives back no credits for them.
func copies(of []engine.Message) []engine.Message {
	all := slices.Clone(of)
	for i := range all {
		p := &all[i]
		msg(p).Credits, msg(p).Charge, msg(p).Of = 0, 0, copies(msg(p).Of)
		order.SetClaim(p, nil)
	}
	return all
}

// countMerge counts a merge: one made, its parts consumed. They keep their credits and roots until the merge ends.
func (out *outcome) countMerge(m *engine.Message) {
	out.made++
	out.consumed += int64(len(msg(m).Of))
	msg(m).Charge = m.Size()
	out.credits.Charge(0, msg(m).Charge)
}

// consume ends the piece m without a fate: its successors carry on.
func (out *outcome) consume(m *engine.Message) {
	out.consumed++
	out.releaseCredits(m)
	out.releaseKeys(m)
	out.endRoots(m, engine.Filtered, nil)
}
