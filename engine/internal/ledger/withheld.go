package ledger

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/flowd-io/flowd/engine"
)

// withheld has reports that are not sent until steps have saved what the messages have left, such as state in a cache. The
// messages have ended; their leases are renewed meanwhile.
type withheld struct {
	roots atomic.Int64

	mu  sync.Mutex // guards the field below
	all []*Reports
}

// Withhold keeps reports back. release sends them.
func (r *Account) Withhold(reports *Reports) (release func()) {
	w, n := &r.withheld, reports.count()
	w.roots.Add(n)
	reports.withhold(1)
	w.mu.Lock()
	w.all = append(w.all, reports)
	w.mu.Unlock()
	return func() {
		w.mu.Lock()
		w.all = slices.DeleteFunc(w.all, func(x *Reports) bool { return x == reports })
		w.mu.Unlock()
		reports.withhold(-1)
		reports.Send()
		w.roots.Add(-n)
	}
}

// SaveAll calls Save of all savers, one after the other, and then calls then.
func SaveAll(by []engine.Saver, then func()) {
	if len(by) == 0 {
		then()
		return
	}
	by[0].Save(func() { SaveAll(by[1:], then) })
}

// Withheld is how many roots have ended whose reports are kept back.
func (r *Account) Withheld() int64 { return r.withheld.roots.Load() }

// refs appends the refs of roots whose reports to an acker are kept back.
func (w *withheld) refs(all []uint64, a *AckLoop) []uint64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, reports := range w.all {
		if r := reports.of(a); r != nil {
			for _, x := range r.spans {
				for i := x.from; i < x.to; i++ {
					all = append(all, x.led.Roots[i].Ref)
				}
			}
		}
	}
	return all
}

// count is how many roots the reports have.
func (all Reports) count() (n int64) {
	for i := range all {
		n += int64(all[i].n)
	}
	return n
}

// withhold makes the loops count the roots as waiting, or with -1 no longer.
func (all Reports) withhold(sign int) {
	for i := range all {
		a := all[i].to
		a.mu.Lock()
		a.withheld += sign * all[i].n
		a.mu.Unlock()
	}
}
