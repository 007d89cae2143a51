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
	mostEntries = 10 // of a request, of all batch calls of SQS and SNS

	// MaxMessage is the most that a message of SQS, and a request with several of
	// them, may have in bytes, attributes included.
	MaxMessage = 1 << 20
	// MaxNotification is that of SNS.
	MaxNotification = 256 << 10
)

// Entry is one entry of a batch call.
type Entry struct {
	Size int // bytes; counted where Requests.Bytes bounds a request
	// Lanes keep order: an entry never overtakes an earlier one that has one of its lanes,
	// and fails with [engine.ErrBehind] if that one failed. "" means no lane.
	Lanes [2]string
	Err   error // not nil: it can't be sent, and fails in its place
}

// Requests says how entries are packed into batch calls.
type Requests struct {
	Bytes    int           // of a request; 0: no limit
	Parallel int           // calls at once; at least 1
	Timeout  time.Duration // of one call; 0: callTimeout
}

const callTimeout = 20 * time.Second

// Do makes calls of up to ten entries. call gets the indexes of its entries and
// returns their errors (nil: all are safe), or one for the call as a whole. A call
// that is refused as a whole is split, so that an entry fails only for its own
// fault. Do returns the errors of all entries.
//
// Two entries of one lane are never in one call: the service may fail the first
// and take the second.
func (r Requests) Do(ctx context.Context, entries []Entry,
	call func(ctx context.Context, which []int) ([]error, error)) []error {
	d := &dispatch{Requests: r, entries: entries, call: call, errs: make([]error, len(entries))}
	shut := map[string]bool{} // lanes with a failed entry
	for _, round := range d.rounds() {
		var open []int
		for _, i := range round {
			switch lanes := entries[i].Lanes; {
			case shut[lanes[0]] || shut[lanes[1]]:
				d.errs[i] = engine.ErrBehind
			case entries[i].Err != nil:
				d.errs[i] = entries[i].Err
			default:
				open = append(open, i)
			}
		}
		d.round(ctx, open)
		for _, i := range round {
			for _, l := range entries[i].Lanes {
				if l != "" && d.errs[i] != nil {
					shut[l] = true
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
	errs    []error // each is written by the one call that has its entry

	mu   sync.Mutex // guards the field below
	stop error      // what makes further calls pointless
}

// rounds parts the entries so that each has every lane once, in order.
func (d *dispatch) rounds() (all [][]int) {
	last := map[string]int{} // lane: its next round
	for i, e := range d.entries {
		n := max(last[e.Lanes[0]], last[e.Lanes[1]])
		for _, l := range e.Lanes {
			if l != "" {
				last[l] = n + 1
			}
		}
		if n == len(all) {
			all = append(all, nil)
		}
		all[n] = append(all[n], i)
	}
	return all
}

// round sends entries of which none waits for another.
func (d *dispatch) round(ctx context.Context, which []int) {
	requests := d.pack(which)
	call.Beside(d.Parallel, len(requests), func(i int) { d.send(ctx, requests[i]) })
}

// pack fills requests by count and by size.
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

// stopped is why no further call is made: the time is over, there are no credentials, or
// the service has asked for a pause.
func (d *dispatch) stopped(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.stop
}

// Seconds is a duration in the whole seconds that the services take, rounded up.
func Seconds(d time.Duration) int32 {
	return int32((max(0, d) + time.Second - 1) / time.Second)
}
