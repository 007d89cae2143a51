package rabbitmq

// verdict is what to report to the broker about a delivery.
type verdict uint8

const (
	open verdict = iota // nothing yet
	accept
	sendBack // to its queue
	retry    // likewise: it has failed
	refuse   // to the dead letters of its queue, or away
	told
)

// entry is a delivery that is out.
type entry struct {
	verdict
	redelivered bool
	offset      int // in a stream, or -1
}

// ledger knows the deliveries of a channel by their tags, which count from 1.
//
// What is settled without a gap, from the oldest on, is reported with one frame for a whole
// run (the `multiple` flag). What comes after one that is still open is reported
// separately, at once, so that a slow message never uses up the prefetch.
type ledger struct {
	first   uint64 // tag of entries[0]
	entries []entry
	offset  int // of the newest entry that has left from the front; -1: none
}

func newLedger() ledger { return ledger{first: 1, offset: -1} }

// order is one frame to the broker.
type order struct {
	tag      uint64
	what     verdict
	multiple bool // it covers all before it that were not reported, too
}

func (l *ledger) add(redelivered bool, offset int) {
	l.entries = append(l.entries, entry{open, redelivered, offset})
}

// at is the entry of a tag that is out, or nil.
func (l *ledger) at(tag uint64) *entry {
	if tag < l.first || tag-l.first >= uint64(len(l.entries)) {
		return nil
	}
	return &l.entries[tag-l.first]
}

// settle appends the frames that report all verdicts on tags, and on what these make
// contiguous.
func (l *ledger) settle(orders []order, tags []uint64) []order {
	orders = l.front(orders)
	for _, tag := range tags {
		if e := l.at(tag); e != nil && e.verdict != open && e.verdict != told {
			orders = append(orders, order{tag, e.verdict, false})
			e.verdict = told
		}
	}
	return orders
}

// front reports what is settled from the oldest on, and forgets it.
func (l *ledger) front(orders []order) []order {
	n := 0
	var run order // what to report about the entries from the last change on
	count := 0
	end := func() {
		if count > 0 {
			run.multiple = count > 1
			orders = append(orders, run)
		}
		count = 0
	}
	for ; n < len(l.entries) && l.entries[n].verdict != open; n++ {
		e := &l.entries[n]
		if e.offset >= 0 {
			l.offset = e.offset
		}
		if e.verdict == told {
			continue
		}
		if e.verdict != run.what || e.verdict == retry { // that has no frame for several
			end()
		}
		run.tag, run.what = l.first+uint64(n), e.verdict
		count++
	}
	end()
	l.first += uint64(n)
	if l.entries = l.entries[n:]; len(l.entries) == 0 {
		l.entries = nil
	}
	return orders
}
