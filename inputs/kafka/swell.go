package kafka

import (
	"sync/atomic"
	"unsafe"

	"github.com/twmb/franz-go/pkg/kgo"
)

// swell learns how much more memory records take than the bytes in which brokers send them: compressed they may be a
// tenth, and small ones are less than what is noted of each.
type swell struct{ sent, taken atomic.Int64 }

var _ kgo.HookFetchBatchRead = (*swell)(nil)

// atFirst is what a byte is taken to become until one has come.
const atFirst = 8

// recent are the bytes in memory after which older ones count half as much.
const recent = 64 << 20

// OnFetchBatchRead is told of each batch of records.
func (s *swell) OnFetchBatchRead(_ kgo.BrokerMetadata, _ string, _ int32, m kgo.FetchBatchMetrics) {
	s.sent.Add(int64(m.CompressedBytes))
	taken := s.taken.Add(int64(m.UncompressedBytes) + int64(m.NumRecords)*int64(unsafe.Sizeof(kgo.Record{})))
	if taken > recent { // what others add meanwhile may count twice, which does no harm
		s.taken.Store(taken / 2)
		s.sent.Store(s.sent.Load() / 2)
	}
}

// times is how many bytes of memory a byte becomes.
func (s *swell) times() float64 {
	if sent := s.sent.Load(); sent > 0 {
		return max(1, float64(s.taken.Load())/float64(sent))
	}
	return atFirst
}
