package engine

// route finds the batcher that takes m and gives it its key there; batchers with
// `continue` get copies. It returns nil when m has ended instead.
func (r *run) route(t *tally, m *Message) *batcherRun {
	took := false
	for _, b := range r.routes {
		if b.plan.match != nil {
			holds, err := b.plan.match.Test(m)
			if err != nil {
				m.failAt("match of batcher "+b.plan.name, err)
				return nil
			}
			if !holds {
				continue
			}
		}
		if !b.plan.goesOn {
			if !b.plan.giveKey(m, &t.keys) {
				return nil
			}
			if took { // m itself is the last of its copies
				t.made++
				t.consumed++
			}
			return b
		}
		took = true
		c := t.copy(m)
		if b.plan.giveKey(&c, &t.keys) {
			t.send(b, &c)
		} else {
			t.conclude(&c, nil)
		}
	}
	if took {
		m.in.State = consumed
		t.consume(m)
		return nil
	}
	m.Fail(Errorf(Unrouted, "no batcher takes this message (there are %s)", r.plan.batcherNames()))
	complete(m.in.Err, Unrouted)
	return nil
}

// giveKey gives m the batch key of a batcher; false when that failed the message.
func (b *batcherPlan) giveKey(m *Message, keys *keyring) bool {
	m.in.BatchKey = ""
	if b.key == nil {
		return true
	}
	key, ok, err := b.key.AppendKey(keys.room(), m)
	if err != nil {
		m.failAt("key of batcher "+b.name, err)
		return false
	}
	if ok {
		m.in.BatchKey = keys.text(key)
	}
	return true
}
