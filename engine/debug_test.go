package engine

import "fmt"

func (p *Plan) Debug() {
	r := p.current.Load()
	h := r.holds
	fmt.Println("inflight", r.roots.inFlight.Load(), r.pieces.inFlight.Load(), "upstream", r.upstream.Load(), "reading", r.reading.Load(), "retrying", r.retrying.Load(), "beyond", r.credits.beyond, "msgs", r.credits.msgs, "kept", r.credits.kept, "lanes waiting", len(r.credits.lanes), "readers", len(r.credits.readers), "working", r.lanes.working, "shut", r.credits.shut)
	for k, x := range h.keys {
		fmt.Printf("hold %s before %d\n", k, len(x.before))
		for _, l := range x.lines {
			fmt.Println("  line at", l.out != nil, "claims", len(l.claims))
			for _, c := range l.claims {
				if c.x != nil {
					fmt.Printf("   %s blocked %d\n", c.x.m.Bytes(), len(c.x.blocked))
				} else {
					fmt.Println("   away", c.refs)
				}
			}
		}
	}
	for _, o := range r.outputs {
		fmt.Printf("out %s ready %d again %d idle %d writing %d chains %d gate %+v budget %+v\n", o.plan.name, o.ready.msgs, o.again.msgs, o.idle, o.writing, len(o.chains), o.gate, o.budget)
		for k, c := range o.chains {
			fmt.Printf("  chain %s:", k)
			for _, b := range c {
				fmt.Printf(" %p(%d blockers)", b, b.blockers)
			}
			fmt.Println()
		}
	}
	for _, b := range r.routes {
		fmt.Println("batcher", b.plan.name, "open", b.open, "inbox", b.inbox.msgs)
	}
	for _, t := range r.timers.heap {
		fmt.Println("timer", t.due, t.b != nil)
	}
}
