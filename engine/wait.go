package engine

import "time"

// sourceDelays is how long m's source can delay it; 0 where m is not all that was
// read, or its source can't.
func (m *Message) sourceDelays() time.Duration {
	r := rootOf(m)
	if r.led == nil || m.in.Part > 0 || len(m.in.Of) > 0 || r.led.roots[r.i].pieces.Load() != 1 {
		return 0
	}
	return r.led.delays
}

// retry lets messages go on that have waited for another try.
func (r *run) retry(b *Batch) {
	if !r.enter() {
		return
	}
	defer r.leave()
	r.waited(b)
	t := tally{r: r, past: true}
	t.goOn(b, outOf(b))
	t.apply()
}

// waited counts that the messages of b no longer wait.
func (r *run) waited(b *Batch) {
	n := 0
	for i := range b.in.Msgs {
		n += b.in.Msgs[i].weight()
	}
	r.retrying.Add(int64(-len(b.in.Msgs)))
	r.credits.keep(-n)
}

// goOn sends a slab back to where its messages take up again: a lane, or an output.
func (t *tally) goOn(b *Batch, out *outRun) {
	if out != nil {
		b.in.Way.out = nil
		if !trialOf(&b.in.Msgs[0]).forRoom() {
			again{out}.push(b)
		} else { // no other has failed, that a budget could be for
			out.come(len(b.in.Msgs))
			out.push(b)
		}
		return
	}
	for i := range b.in.Msgs {
		t.beyond -= b.in.Msgs[i].weight()
	}
	t.r.upstream.Add(int64(len(b.in.Msgs)))
	t.r.lanes.push(b)
}

func placeOf(e *Error) string {
	if e == nil {
		return ""
	}
	if e.Output != "" {
		return e.Output
	}
	return e.Step
}
