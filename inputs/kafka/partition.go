package kafka

import (
	"cmp"
	"slices"

	"github.com/flowd-io/flowd/internal/state/watermark"
	"github.com/twmb/franz-go/pkg/kgo"
)

// partition is one that is assigned, from its assignment until it is given up. Its messages are numbered in the order
// in which they were read: offsets have gaps, where records were compacted away or mark transactions.
type partition struct {
	topic string
	id    int32
	slot  uint64 // its number among all assignments

	low    watermark.Watermark
	runs   []run  // consecutive offsets, from that of the first message that is not settled
	read   uint64 // messages
	next   int64  // the offset behind the last that was read
	from   int64  // the offset at which the group was when it was assigned; -1: it is not known
	end    int64  // the offset behind the last that there is, as far as is known
	sent   int64  // the offset that is committed; -1: none yet
	kept   uint64 // messages before it that were read since the assignment
	paused bool   // it is not fetched, since it is too far ahead of what is settled
	leaves bool   // it is being given up
}

// run are messages with consecutive offsets.
type run struct {
	first  uint64 // number of the first
	offset int64
	epoch  int32 // of the leader that has written them
}

// seqBits leave room for 16 million assignments, and a trillion messages of each.
const seqBits = 40

func refOf(slot, seq uint64) uint64 { return slot<<seqBits | seq }

func slotOf(ref uint64) uint64 { return ref >> seqBits }

func seqOf(ref uint64) uint64 { return ref & (1<<seqBits - 1) }

// add notes that records were read, and returns the handle of the first; those of the others follow it.
func (p *partition) add(records []*kgo.Record) (ref uint64) {
	first := p.low.Read(len(records))
	for i, r := range records {
		if n := len(p.runs); n == 0 || r.Offset != p.next || r.LeaderEpoch != p.runs[n-1].epoch {
			p.runs = append(p.runs, run{first + uint64(i), r.Offset, r.LeaderEpoch})
		}
		p.next = r.Offset + 1
	}
	p.read = first + uint64(len(records))
	return refOf(p.slot, first)
}

// settle notes that n messages are settled, and says whether there is more to commit.
func (p *partition) settle(first uint64, n int) (raised bool) { return p.low.SettleAll(first, n) }

// span is how many messages lie between the first that is not settled and the last that was read.
func (p *partition) span() int { return p.low.Span() }

// again is how many messages were read that another member reads again.
func (p *partition) again() int { return int(p.read - p.kept) }

// due is the offset to commit, behind all that is settled; ok is false where nothing is new.
func (p *partition) due() (at kgo.EpochOffset, ok bool) {
	low := p.low.Low()
	if low == 0 {
		return at, false
	}
	i, exact := slices.BinarySearchFunc(p.runs, low-1, func(r run, seq uint64) int { return cmp.Compare(r.first, seq) })
	if !exact {
		i--
	}
	r := p.runs[i]
	p.runs = slices.Delete(p.runs, 0, i)
	at = kgo.EpochOffset{Epoch: r.epoch, Offset: r.offset + int64(low-1-r.first) + 1}
	return at, at.Offset != p.sent
}
