package limit

// passes are the messages that a window lets pass, so far and booked ahead, in the
// order of their times. Each stands for its time and a window's length behind it; one
// for which there is no room any more is booked for the time at which the oldest that
// stands gives way to it. So a window's length never has more, wherever it begins.
type passes struct {
	runs []passed
	head int // the first that counts
	open int // messages to which none has succeeded: at most a window's
}

// passed are messages that count as passed at one time, the last of theirs.
type passed struct {
	from, at int64 // nanoseconds
	n        int
	open     int // to which none has succeeded
}

// grains bounds memory: messages share a time when a window has more than this many and
// they pass within that part of its length.
const grains = 128

// renew forgets what passed longer ago than a window's length.
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
	if p.head = 0; cap(p.runs) > grains/8 { // the keys that are idle may be many
		p.runs = nil
	}
	p.runs = p.runs[:0]
}

func (p *passes) empty() bool { return len(p.runs) == 0 }

// latest is when the last one passes; now when that is over.
func (p *passes) latest(now int64) int64 {
	if p.empty() {
		return now
	}
	return max(now, p.runs[len(p.runs)-1].at)
}

// free is how many may pass now: none while others are booked.
func (p *passes) free(now int64, r *rate) int {
	if p.latest(now) > now {
		return 0
	}
	return max(0, int(r.most)-p.open)
}

// put lets n pass at a time, after all others.
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

// next is when one that was booked now would pass.
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

// book books one after all others and returns when it passes.
func (p *passes) book(now int64, r *rate) (at int64) {
	at = p.next(now, r)
	for over := p.open - int(r.most) + 1; over > 0; {
		x := &p.runs[p.head]
		if x.open == 0 { // the last that was succeeded stays, for leave
			p.shift()
			continue
		}
		n := min(over, x.open)
		x.open, p.open, over = x.open-n, p.open-n, over-n
	}
	p.put(at, 1, r)
	return at
}

// leave undoes the last book.
func (p *passes) leave() {
	if p.empty() {
		return
	}
	last := &p.runs[len(p.runs)-1]
	last.n, last.open, p.open = last.n-1, last.open-1, p.open-1
	if first := &p.runs[p.head]; first != last && first.open < first.n { // it had succeeded to that
		first.open, p.open = first.open+1, p.open+1
	}
	if last.n == 0 {
		if p.runs = p.runs[:len(p.runs)-1]; p.head == len(p.runs) {
			p.runs, p.head = p.runs[:0], 0
		}
	}
}

// adopt changes the rate from a time on: anew, as if nothing had passed before. What
// has passed counts no longer than it would have; what is booked ahead counts as if it
// were booked then.
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
