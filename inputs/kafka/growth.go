package kafka

import (
	"sync/atomic"
	"unsafe"

	"github.com/twmb/franz-go/pkg/kgo"
)

// growth measures how many bytes of memory records need per byte that brokers send. Compression makes records smaller than in
// memory, and the memory for the bookkeeping of small records exceeds their own size.
type growth struct{ sent, inMemory atomic.Int64 }

var _ kgo.HookFetchBatchRead = (*growth)(nil)

// initialRatio is the assumed ratio until the first records arrive.
const initialRatio = 8

// halfLife is the number of bytes in memory after which the weight of older records is halved.
const halfLife = 64 << 20

// OnFetchBatchRead is called for each batch of records.
func (s *growth) OnFetchBatchRead(_ kgo.BrokerMetadata, _ string, _ int32, m kgo.FetchBatchMetrics) {
	s.sent.Add(int64(m.CompressedBytes))
	inMemory := s.inMemory.Add(int64(m.UncompressedBytes) + int64(m.NumRecords)*int64(unsafe.Sizeof(kgo.Record{})))
	if inMemory > halfLife { // concurrent additions may be lost, which only makes the ratio less exact
		s.inMemory.Store(inMemory / 2)
		s.sent.Store(s.sent.Load() / 2)
	}
}

// ratio returns how many bytes of memory a byte of a response needs.
func (s *growth) ratio() float64 {
	if sent := s.sent.Load(); sent > 0 {
		return max(1, float64(s.inMemory.Load())/float64(sent))
	}
	return initialRatio
}
