package httpserver

import (
	"slices"
	"time"
)

// pressure is how long a request may wait for a Read. After that, the pipeline is full or paused; an input can't tell these apart.
const pressure = time.Second

// push queues a request to be taken by a Read, or refuses it at once.
func (in *input) push(d *door, r *request) {
	now := time.Now()
	in.mu.Lock()
	r.patience = now.Add(pressure)
	switch {
	case d.isShut():
		r.refuse(draining)
	case in.until.After(r.patience):
		r.refuse(limited(in.until.Sub(now)))
	default:
		in.queue = append(in.queue, r)
	}
	in.mu.Unlock()
	in.poke()
}

// poke wakes Read to look at the queue.
func (in *input) poke() {
	select {
	case in.came <- struct{}{}:
	default:
	}
}

// take takes requests from the queue until their messages fill the room.
func (in *input) take(room int) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if len(in.queue) == 0 {
		return
	}
	now, n := time.Now(), 0
	for ; n < len(in.queue) && room > 0; n++ {
		r := in.queue[n]
		r.taken = now
		in.number(r)
		in.reading = append(in.reading, r)
		room -= len(r.records)
	}
	in.queue = slices.Delete(in.queue, 0, n)
	if len(in.queue) > 0 {
		in.poke()
	}
}

// number gives a request the number under which its messages are acked; in.mu is
// held.
func (in *input) number(r *request) {
	if n := len(in.free); n > 0 {
		r.number, in.free = in.free[n-1], in.free[:n-1]
		in.open[r.number] = r
	} else {
		r.number = uint32(len(in.open))
		in.open = append(in.open, r)
	}
}

// withdraw removes a request whose client has gone. It returns false if a Read has already taken the request.
func (in *input) withdraw(r *request) bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.remove(r)
}

// remove takes a request out of the queue; in.mu is held.
func (in *input) remove(r *request) bool {
	i := slices.Index(in.queue, r)
	if i >= 0 {
		in.queue = slices.Delete(in.queue, i, i+1)
	}
	return i >= 0
}

// late returns the refusal of a request that has waited for too long, or nil and how much longer it may wait.
func (in *input) late(r *request) (wait time.Duration, why *refusal) {
	in.mu.Lock()
	defer in.mu.Unlock()
	now := time.Now()
	switch {
	case r.left == 0 || r.refused != nil: // it has just ended
		return pressure, nil
	case !r.taken.IsZero():
		if wait = r.taken.Add(in.cfg.Timeout).Sub(now); wait > 0 {
			return wait, nil
		}
		return 0, tooSlow // its messages continue
	}
	if wait = r.patience.Sub(now); wait > 0 {
		return wait, nil
	}
	in.remove(r)
	if left := in.until.Sub(now); left > 0 {
		return 0, limited(left)
	}
	return 0, unread
}

// Limited answers 429 to requests that would have to wait until then.
func (in *input) Limited(until time.Time) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.until = until
	now := time.Now()
	in.queue = slices.DeleteFunc(in.queue, func(r *request) bool {
		over := until.After(r.patience)
		if over {
			r.refuse(limited(until.Sub(now)))
		}
		return over
	})
}

// shut closes a door: requests that were not taken are refused, and so are new ones.
func (in *input) shut(d *door) {
	in.mu.Lock()
	defer in.mu.Unlock()
	close(d.shut)
	for _, r := range in.queue {
		r.refuse(draining)
	}
	in.queue = nil
}
