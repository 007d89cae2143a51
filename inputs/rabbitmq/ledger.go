package rabbitmq

// verdict is what to report to the broker about a delivery.
type verdict uint8

const (
	open     verdict = iota // the message has not ended
	accept                  // acknowledge it
	sendBack                // requeue it
	retry                   // requeue it, since it has failed
	refuse                  // the broker dead-letters or drops it
	reported                // the broker knows the verdict
)

// entry is a delivery that is not settled, or whose settled entry can't be removed yet.
type entry struct {
	verdict
	redelivered bool
	offset      int // in a stream; -1: not a stream
}

// ledger records the deliveries of a channel by their tags, which count from 1.
//
// It reports a run of settled deliveries, from the oldest on, with one frame (the `multiple` flag). Settled deliveries behind
// an open one are reported at once, with a frame each, so that a slow message never blocks the prefetch.
type ledger struct {
	first   uint64 // tag of entries[0]
	entries []entry
	offset  int // offset up to which a stream is settled; -1: none
}

func newLedger() ledger { return ledger{first: 1, offset: -1} }

// frame is one frame to the broker.
type frame struct {
	tag      uint64
	verdict  verdict
	multiple bool // it also covers all earlier deliveries that were not reported
}

// add adds the next delivery.
func (l *ledger) add(redelivered bool, offset int) {
	l.entries = append(l.entries, entry{open, redelivered, offset})
}

// entryOf returns the entry of a tag, or nil if there is none (any more).
func (l *ledger) entryOf(tag uint64) *entry {
	if tag < l.first || tag-l.first >= uint64(len(l.entries)) {
		return nil
	}
	return &l.entries[tag-l.first]
}

// settle appends the frames that report the verdicts on tags.
func (l *ledger) settle(frames []frame, tags []uint64) []frame {
	frames = l.settleFront(frames)
	for _, tag := range tags {
		if e := l.entryOf(tag); e != nil && e.verdict != open && e.verdict != reported {
			frames = append(frames, frame{tag, e.verdict, false})
			e.verdict = reported
		}
	}
	return frames
}

// settleFront reports the oldest entries, up to the first that is open, and removes them.
func (l *ledger) settleFront(frames []frame) []frame {
	n := 0
	var run frame // covers the entries since the verdict last changed
	count := 0    // of these entries
	endRun := func() {
		if count > 0 {
			run.multiple = count > 1
			frames = append(frames, run)
		}
		count = 0
	}
	for ; n < len(l.entries) && l.entries[n].verdict != open; n++ {
		e := &l.entries[n]
		if e.offset >= 0 {
			l.offset = e.offset
		}
		if e.verdict == reported {
			continue
		}
		if e.verdict != run.verdict || e.verdict == retry { // basic.reject covers one delivery only
			endRun()
		}
		run.tag, run.verdict = l.first+uint64(n), e.verdict
		count++
	}
	endRun()
	l.first += uint64(n)
	if l.entries = l.entries[n:]; len(l.entries) == 0 {
		l.entries = nil
	}
	return frames
}
