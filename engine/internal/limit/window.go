package limit

// passes are the messages that a window has let pass or has booked ahead, in the order of their times. Each occupies a place
// for the length of the window, from its time on. If all places are taken, the next message is booked for the time at which
// the oldest one leaves its place. So no interval of the window's length has too many messages.
type passes struct {
	runs []passed
	head int // the first that counts
	open int // messages without a successor; at most as many as a window allows
}

// passed are messages that count as passed at one time, that of the last of them.
type passed struct {
	from, at int64 // nanoseconds
	n        int
	open     int // messages without a successor
}

// grains limits memory: in a window of more messages than this, messages share a time if they pass within 1/grains of its
// length.
const grains = 128

// renew forgets messages that passed longer ago than the length of the window.
func (p *passes) renew(now, per int64) {
	for p.head < len(p.runs) && p.runs[p.head].at+per <= now {
		p.shift()
	}
}

func (p *passes) shift() {
	p.open -= p.runs[p.head].open
	if p.head++; p.head < len(p.runs) {
		return
	}
	if p.head = 0; cap(p.runs) > grains/8 { // there may be many idle keys
		p.runs = nil
	}
	p.runs = p.runs[:0]
}

func (p *passes) empty() bool { return len(p.runs) == 0 }

// latest is when the last message passes, or now if that is earlier.
func (p *passes) latest(now int64) int64 {
	if p.empty() {
		return now
	}
	return max(now, p.runs[len(p.runs)-1].at)
}

// free is how many messages may pass now: none while others are booked ahead.
func (p *passes) free(now int64, r *rate) int {
	if p.latest(now) > now {
		return 0
	}
	return max(0, int(r.most)-p.open)
}

// put lets n messages pass at a time, after all others.
func (p *passes) put(at int64, n int, r *rate) {
	p.open += n
	if !p.empty() {
		last := &p.runs[len(p.runs)-1]
		if at == last.at || r.most > grains && at-last.from < r.per/grains {
			last.at, last.n, last.open = at, last.n+n, last.open+n
			return
		}
	}
	if len(p.runs) == cap(p.runs) && 2*p.head > len(p.runs) {
		p.runs, p.head = p.runs[:copy(p.runs, p.runs[p.head:])], 0
	}
	p.runs = append(p.runs, passed{at, at, n, n})
}

// next is when a message that is booked now would pass.
func (p *passes) next(now int64, r *rate) (at int64) {
	at = p.latest(now)
	over := p.open - int(r.most) + 1
	for i := p.head; over > 0; i++ {
		if x := &p.runs[i]; x.open > 0 {
			at = max(at, x.at+r.per)
			over -= x.open
		}
	}
	return min(at, now+int64(longestWait))
}

// book books one message after all others, and returns when it passes.
func (p *passes) book(now int64, r *rate) (at int64) {
	at = p.next(now, r)
	for over := p.open - int(r.most) + 1; over > 0; {
		x := &p.runs[p.head]
		if x.open == 0 { // the last predecessor is kept, for leave
			p.shift()
			continue
		}
		n := min(over, x.open)
		x.open, p.open, over = x.open-n, p.open-n, over-n
	}
	p.put(at, 1, r)
	return at
}

// leave undoes the last booking.
func (p *passes) leave() {
	if p.empty() {
		return
	}
	last := &p.runs[len(p.runs)-1]
	last.n, last.open, p.open = last.n-1, last.open-1, p.open-1
	if first := &p.runs[p.head]; first != last && first.open < first.n { // it was the successor of first
		first.open, p.open = first.open+1, p.open+1
	}
	if last.n == 0 {
		if p.runs = p.runs[:len(p.runs)-1]; p.head == len(p.runs) {
			p.runs, p.head = p.runs[:0], 0
		}
	}
}

// adopt changes the rate from a time on; with anew, as if no message had passed before. Messages that have passed count no
// longer than they would have. Messages that are booked ahead count as if they were booked then.
func (p *passes) adopt(was, r *rate, from int64, anew bool) {
	old := p.runs[p.head:]
	*p = passes{}
	ahead := 0
	for _, x := range old {
		switch {
		case x.at > from:
			ahead += x.n
		case !anew:
			p.put(min(x.at, x.at+was.per-r.per), x.n, r)
		}
	}
	p.renew(from, r.per)
	for range ahead {
		p.book(from, r)
	}
}
