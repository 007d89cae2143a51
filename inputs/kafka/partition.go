package kafka

import (
	"cmp"
	"slices"

	"github.com/flowd-io/flowd/internal/state/watermark"
	"github.com/twmb/franz-go/pkg/kgo"
)

// partition is one assignment of a partition. Its messages are numbered in read order, because offsets have gaps: compacted
// records, and markers of transactions.
type partition struct {
	topic string
	id    int32
	slot  uint64 // its number among all assignments

	low  watermark.Watermark
	runs []run  // from the run of the last settled message on
	read uint64 // number of messages read
	next int64  // the offset after the last message read
	from int64  // the group's committed offset at the assignment; -1: unknown
	end  int64  // the offset after the last record, as far as is known

	committed      int64  // the committed offset; -1: none since the assignment
	committedCount uint64 // number of messages read since the assignment that are before it

	paused  bool // it is not fetched, since it is too far ahead of its settled messages
	leaving bool // it is being given up
}

// run is a sequence of messages with consecutive offsets.
type run struct {
	first  uint64 // number of its first message
	offset int64  // of its first message
	epoch  int32  // of the leader that has written them
}

// seqBits is the number of bits for the number of a message in a Ref. It leaves room for 16 million assignments, with a trillion
// messages each.
const seqBits = 40

func refOf(slot, seq uint64) uint64 { return slot<<seqBits | seq }

func slotOf(ref uint64) uint64 { return ref >> seqBits }

func seqOf(ref uint64) uint64 { return ref & (1<<seqBits - 1) }

// add records that records were read, and returns the Ref of the first. Those of the others follow it.
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

// settle settles n messages, and reports whether that raised the offset to commit.
func (p *partition) settle(first uint64, n int) (raised bool) { return p.low.SettleAll(first, n) }

// span returns the number of messages from the first unsettled one to the last one read.
func (p *partition) span() int { return p.low.Span() }

// uncommitted returns the number of messages read that are not committed. Another member would read them again.
func (p *partition) uncommitted() int { return int(p.read - p.committedCount) }

// commitOffset returns the offset to commit: before it, all messages are settled. ok is false if there is nothing new to commit.
func (p *partition) commitOffset() (at kgo.EpochOffset, ok bool) {
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
	return at, at.Offset != p.committed
}
