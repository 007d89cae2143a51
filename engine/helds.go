package engine

import "time"

// held describes the oldest message that waits for a try or a limit; nil: none does.
// What waits for its key is younger than the message that holds the key.
func (r *run) held(now time.Time) (oldest *Held) {
	look := func(m *Message, due time.Time, why func() (place, err string)) {
		led := firstRoot(m).led
		if led == nil || oldest != nil && now.Sub(led.at) <= oldest.Age {
			return
		}
		oldest = &Held{At: position(led.input, m.Meta, m.in.Part), Age: now.Sub(led.at), Due: max(0, due.Sub(now))}
		oldest.For, oldest.Err = why()
	}
	r.timers.each(func(due time.Time, b *Batch, p waiting) {
		if p != nil {
			look(p.message(), due, p.awaits)
			return
		}
		for i := range b.in.Msgs {
			m := &b.in.Msgs[i]
			look(m, due, func() (string, string) { return awaits(trialOf(m)) })
		}
	})
	return oldest
}

// awaits is where a message is to be tried again, and why.
func awaits(t *trial) (place, err string) {
	if t == nil || t.err == nil {
		return "a retry", ""
	}
	return "a retry of " + t.err.Place(), firstLine(t.err)
}

// awaits is the limit that a message waits for.
func (p *aside) awaits() (place, err string) {
	switch {
	case p.step() != nil:
		return "the limit of step " + p.step().name, ""
	case p.out != nil:
		return "the limit of output " + p.out.plan.name, ""
	}
	return "a limit", ""
}

// queued are the messages that wait to be written, and their bytes as they count
// against the allowance; o.mu is held.
func (o *outRun) queued() (msgs, bytes int) {
	for _, l := range []*slabList{&o.ready, &o.again} {
		at := l.at
		for b := l.head; b != nil; b = b.in.Next {
			msgs += len(b.in.Msgs) - at
			bytes += charged(b.in.Msgs[at:])
			at = 0
		}
	}
	for key, chain := range o.chains {
		for _, t := range chain { // those without blockers are in the lists, or being written
			if t.blockers > 0 && t.keys[0] == key {
				msgs += len(t.b.in.Msgs)
				bytes += charged(t.b.in.Msgs)
			}
		}
	}
	return msgs, bytes
}

func charged(msgs []Message) (bytes int) {
	for i := range msgs {
		bytes += msgs[i].in.Charge
	}
	return bytes
}
