package engine

import (
	"context"
	"time"
)

// Limited is an optional ability of an Input that is pushed to: the goroutine that
// calls Read says until when it waits for a rate limit, so that the input can refuse
// what comes meanwhile, and the zero time when the wait is over.
type Limited interface{ Limited(until time.Time) }

// readTurn is a reader's turn at its limits: that many messages pass from a time on.
type readTurn struct {
	n  int
	at time.Time
}

// waits shows whether the reader waits for credits.
func (rd *reader) waits(yes bool) {
	if yes {
		rd.figures.is("waiting")
	} else {
		rd.figures.is("reading")
	}
}

// room is how many messages may be read now; 0 when ctx ended before any may. taken
// is the time at which limits gave them.
func (rd *reader) room(ctx context.Context) (n int, taken time.Time) {
	for ctx.Err() == nil {
		want := rd.want()
		if rd.plan.takes == TakesPosition {
			if want = rd.replay.room(ctx, rd, want); want == 0 {
				return 0, taken
			}
		}
		n := rd.r.credits.read(ctx, want, rd.waits)
		if n == 0 {
			continue
		}
		taken = time.Now()
		if t := rd.turn; t.n > 0 {
			rd.turn = readTurn{}
			rd.spend(t.at, t.n, 0)
			got := t.n + rd.free(n-t.n, taken)
			rd.r.credits.put(n-got, 0, 0)
			return got, taken
		}
		got, wait, places := rd.ask(n, taken)
		if wait <= 0 {
			rd.r.credits.put(n-got, 0, 0)
			return got, taken
		}
		rd.r.credits.put(n, 0, 0) // others may use them meanwhile
		rd.await(ctx, readTurn{got, taken.Add(wait)}, places)
	}
	return 0, taken
}

// readBytes is about how much one Read brings: as many messages as the last ones were
// long, since credits for bytes are charged when the messages are there.
const readBytes = 4 << 20

func (rd *reader) want() int {
	switch {
	case rd.mean > 0:
		return min(max(readBytes/rd.mean, 1), slabSize)
	case rd.began:
		return slabSize
	}
	rd.began = true
	return slabSize / 16 // to learn how long they are
}

// free takes what of n may pass beside the one whose turn it is.
func (rd *reader) free(n int, now time.Time) (got int) {
	got = n
	var asked []*Limiter
	rd.limits(func(l *Limiter) {
		m := l.Pass(now, got)
		for _, other := range asked {
			other.Put(now, got-m)
		}
		got, asked = m, append(asked, l)
	})
	return got
}

// place is where a reader stands in the line of a limit.
type place struct {
	in      *Limiter
	number  uint64
	due     time.Time       // of what was booked, or the time at which it was given
	changed <-chan struct{} // closed when the limit changes
}

// ask is how many of n messages the limits let pass, and after what wait: a reader
// stands in line with all who wait for its limits.
func (rd *reader) ask(n int, now time.Time) (got int, wait time.Duration, places []place) {
	got = n
	rd.limits(func(l *Limiter) {
		p := place{in: l, changed: l.Changed()}
		m, w, number := l.Turn(now, got)
		for _, other := range places {
			other.leave(now, got-m)
		}
		got, wait = m, max(wait, w)
		p.number, p.due = number, now.Add(w)
		places = append(places, p)
	})
	return got, wait, places
}

// leave gives back n of what a limit has given or promised.
func (p *place) leave(now time.Time, n int) {
	if now.Before(p.due) {
		p.in.Leave(p.number, n)
		return
	}
	p.in.Put(p.due, n)
}

// await waits until a turn has come. It gives it back when ctx ends before, or a
// limit changes.
func (rd *reader) await(ctx context.Context, t readTurn, places []place) {
	rd.figures.is("limited")
	defer rd.figures.is("reading")
	if in, ok := rd.in.(Limited); ok {
		in.Limited(t.at)
		defer in.Limited(time.Time{})
	}
	var changed [2]<-chan struct{} // a reader has no more limits
	for i, p := range places {
		changed[i] = p.changed
	}
	come := time.NewTimer(time.Until(t.at))
	defer come.Stop()
	select {
	case <-come.C:
		t.at = time.Now()
		for _, p := range places {
			p.in.Spend(p.due, t.at, t.n)
		}
		rd.turn = t
		return
	case <-changed[0]:
	case <-changed[1]:
	case <-ctx.Done():
	}
	for _, p := range places {
		p.leave(time.Now(), t.n)
	}
}

// limits calls f for each limit that holds for this reader.
func (rd *reader) limits(f func(*Limiter)) {
	for _, l := range []*Limiter{rd.r.plan.limit, rd.plan.limit} {
		if l != nil && !l.Keyed() {
			f(l)
		}
	}
}

// spend tells the limits what came of messages that they let pass at a time.
func (rd *reader) spend(given time.Time, read, unread int) {
	rd.limits(func(l *Limiter) {
		if unread > 0 {
			l.Put(given, unread)
		}
		l.Spend(given, time.Now(), read)
	})
}
