package engine

import "time"

// lineUp has a message wait for the bytes that it lacks, and then go on.
func (r *run) lineUp(b *Batch) {
	m := &b.in.Msgs[0]
	r.credits.lineUp(&inLine{bytes: trialOf(m).lacked, msgs: m.weight(), grown: m.in.Charge - len(m.in.Orig), goOn: func(bytes int) {
		m.in.Charge += bytes
		b.in.Bytes += bytes
		trialOf(m).room = bytes
		r.timers.after(time.Now(), b, func() { r.retry(b) })
	}})
}

func newRoom(r *run) *room { return &room{credits: &r.credits, most: r.plan.maxBytes} }
