package aws

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/network/call"
)

const (
	mostEntries = 10 // in one batch call of SQS or SNS

	// MaxMessage is the largest size in bytes, including attributes, of a message of SQS and of a request with several
	// messages.
	MaxMessage = 1 << 20
	// MaxNotification is the same limit for SNS.
	MaxNotification = 256 << 10
)

// Entry is one entry of a batch call.
type Entry struct {
	Size int // in bytes, for Requests.Bytes
	// Lanes keep order: an entry never overtakes an earlier entry with the same lane, and fails with [engine.ErrBehind] if
	// the earlier one failed. "" means no lane.
	Lanes [2]string
	Err   error // not nil: the entry fails with this error and is not sent
}

// Requests sends entries in batch calls.
type Requests struct {
	Bytes    int           // largest size of a request; 0: no limit
	Parallel int           // calls at once; at least 1
	Timeout  time.Duration // of one call; 0: callTimeout
}

const callTimeout = 20 * time.Second

// Do sends the entries in calls of up to ten, and returns the error of each entry. call gets the indexes of its entries and
// returns their errors (nil: all have succeeded), or one error for the whole call. A call that is rejected as a whole is
// split and tried again, so that no entry fails because of another.
//
// Two entries with the same lane are never in one call, since the service may reject the first and accept the second.
func (r Requests) Do(ctx context.Context, entries []Entry,
	call func(ctx context.Context, which []int) ([]error, error),
) []error {
	d := &dispatch{Requests: r, entries: entries, call: call, errs: make([]error, len(entries))}
	blocked := map[string]bool{} // lanes with a failed entry
	for _, round := range d.rounds() {
		var ready []int
		for _, i := range round {
			switch lanes := entries[i].Lanes; {
			case blocked[lanes[0]] || blocked[lanes[1]]:
				d.errs[i] = engine.ErrBehind
			case entries[i].Err != nil:
				d.errs[i] = entries[i].Err
			default:
				ready = append(ready, i)
			}
		}
		d.sendRound(ctx, ready)
		for _, i := range round {
			for _, l := range entries[i].Lanes {
				if l != "" && d.errs[i] != nil {
					blocked[l] = true
				}
			}
		}
	}
	return d.errs
}

type dispatch struct {
	Requests
	entries []Entry
	call    func(ctx context.Context, which []int) ([]error, error)
	errs    []error // of the entries; a call writes only the errors of its own entries

	mu   sync.Mutex // guards the field below
	stop error      // why further calls are pointless; nil: they are not
}

// rounds divides the entries so that no round has two entries with the same lane. Within a lane, rounds follow the order of
// the entries.
func (d *dispatch) rounds() (all [][]int) {
	next := map[string]int{} // lane: the first round that its next entry may be in
	for i, e := range d.entries {
		n := max(next[e.Lanes[0]], next[e.Lanes[1]])
		for _, l := range e.Lanes {
			if l != "" {
				next[l] = n + 1
			}
		}
		if n == len(all) {
			all = append(all, nil)
		}
		all[n] = append(all[n], i)
	}
	return all
}

// sendRound sends entries that need not wait for each other.
func (d *dispatch) sendRound(ctx context.Context, which []int) {
	requests := d.pack(which)
	call.Beside(d.Parallel, len(requests), func(i int) { d.send(ctx, requests[i]) })
}

// pack divides entries into requests, limited by count and size.
func (d *dispatch) pack(which []int) (all [][]int) {
	from, size := 0, 0
	for n, i := range which {
		if n > from && (n-from == mostEntries || d.Bytes > 0 && size+d.entries[i].Size > d.Bytes) {
			all = append(all, which[from:n])
			from, size = n, 0
		}
		size += d.entries[i].Size
	}
	if from < len(which) {
		all = append(all, which[from:])
	}
	return all
}

// send makes one call, or two with half of the entries each if the call is rejected as a whole.
func (d *dispatch) send(ctx context.Context, which []int) {
	err := d.stopped(ctx)
	var errs []error
	if err == nil {
		limited, cancel := context.WithTimeout(ctx, cmp.Or(d.Timeout, callTimeout))
		errs, err = d.call(limited, which)
		cancel()
	}
	e, ok := errors.AsType[*engine.Error](err)
	if ok && e.Class == engine.Rejected && len(which) > 1 {
		half := len(which) / 2
		d.send(ctx, which[:half])
		d.send(ctx, which[half:])
		return
	}
	for n, i := range which {
		switch {
		case err != nil:
			d.errs[i] = err
		case errs != nil:
			d.errs[i] = errs[n]
		}
	}
	if ok && (e.Class == engine.Auth || e.Delay > 0 || e.Holds) {
		d.mu.Lock()
		d.stop = err
		d.mu.Unlock()
	}
}

// stopped returns why no further call may be made: the context has ended, credentials are missing, the service is
// unreachable or has asked for a pause. nil means that calls may be made.
func (d *dispatch) stopped(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.stop
}

// Seconds returns a duration in whole seconds, rounded up. A negative duration is 0.
func Seconds(d time.Duration) int32 {
	return int32((max(0, d) + time.Second - 1) / time.Second)
}
