package stage

import (
	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/internal/flow"
	"github.com/flowd-io/flowd/engine/internal/inside"
	"github.com/flowd-io/flowd/engine/internal/steps"
)

// route returns the batcher that takes m, and sets the batch key of m. Batchers with `continue` get copies. It returns nil
// if m has ended or failed.
func (x *batching) route(out *outcome, m *engine.Message) *batcher {
	took := false
	for _, b := range x.batchers {
		if b.plan.Match != nil {
			holds, err := b.plan.Match.Test(m)
			if err != nil {
				steps.FailAt(m, "match of batcher "+b.plan.Name, err)
				return nil
			}
			if !holds {
				continue
			}
		}
		if !b.plan.GoesOn {
			if !b.plan.giveKey(m, &out.keys) {
				return nil
			}
			if took { // m itself is the last of its copies
				out.made++
				out.consumed++
			}
			return b
		}
		took = true
		c := out.copy(m)
		if b.plan.giveKey(&c, &out.keys) {
			out.send(b, &c)
		} else {
			out.conclude(&c, nil)
		}
	}
	if took {
		msg(m).State = inside.Consumed
		out.consume(m)
		return nil
	}
	m.Fail(engine.Errorf(engine.Unrouted, "no batcher takes this message (there are %s)", out.layout.batcherNames()))
	steps.Complete(msg(m).Err, engine.Unrouted)
	return nil
}

// giveKey sets the batch key of m. False: m has failed.
func (b *BatcherPlan) giveKey(m *engine.Message, keys *flow.Keyring) bool {
	msg(m).BatchKey = ""
	if b.Key == nil {
		return true
	}
	key, ok, err := b.Key.AppendKey(keys.Room(), m)
	if err != nil {
		steps.FailAt(m, "key of batcher "+b.Name, err)
		return false
	}
	if ok {
		msg(m).BatchKey = keys.Text(key)
	}
	return true
}
