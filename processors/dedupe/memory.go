package dedupe

import (
	"context"
	"encoding/binary"
	"hash/maphash"
	"sync"
	"time"
)

// fingerprint represents a key by 128 bits of two hashes with random seeds. The probability that two of a million
// keys collide is less than 10⁻²⁶.
type fingerprint [16]byte

var seeds = [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}

func fingerprintOf(text []byte) (f fingerprint) {
	binary.LittleEndian.PutUint64(f[:], maphash.Bytes(seeds[0], text))
	binary.LittleEndian.PutUint64(f[8:], maphash.Bytes(seeds[1], text))
	return f
}

// memory is a set of fingerprints. All are kept for the same time, so the oldest always expires first.
type memory struct {
	max int

	mu    sync.Mutex // guards the fields below
	known map[fingerprint]struct{}
	queue [][]record // blocks of records, oldest first
	head  int        // records of the first block that have expired
}

type record struct {
	key fingerprint
	due time.Duration // as time since began
}

// block is how many records are allocated at once.
const block = 1024

// began is the start of this process. Records store times relative to it to save memory.
var began = time.Now()

func newMemory(limit int) *memory {
	return &memory{max: limit, known: map[fingerprint]struct{}{}}
}

// Get reports whether a fingerprint is known. It returns no value.
func (s *memory) Get(_ context.Context, key string) ([]byte, bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.expire(time.Since(began))
	_, ok := s.known[fingerprint([]byte(key))]
	return nil, ok, nil
}

// Set stores a fingerprint for ttl from now, unless it is known.
func (s *memory) Set(_ context.Context, key string, _ []byte, ttl time.Duration) error {
	now, f := time.Since(began), fingerprint([]byte(key))
	s.mu.Lock()
	defer s.mu.Unlock()
	s.expire(now)
	if _, ok := s.known[f]; ok {
		return nil
	}
	for len(s.known) >= s.max {
		s.pop()
	}
	s.known[f] = struct{}{}
	last := len(s.queue) - 1
	if last < 0 || len(s.queue[last]) == block {
		s.queue = append(s.queue, make([]record, 0, block))
		last++
	}
	s.queue[last] = append(s.queue[last], record{f, now + ttl})
	return nil
}

// Delete forgets a fingerprint.
func (s *memory) Delete(_ context.Context, key string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.known, fingerprint([]byte(key)))
	return nil
}

// expire forgets fingerprints that are due.
func (s *memory) expire(now time.Duration) {
	for len(s.queue) > 0 && s.queue[0][s.head].due <= now {
		s.pop()
	}
}

// pop forgets the oldest record.
func (s *memory) pop() {
	delete(s.known, s.queue[0][s.head].key)
	if s.head++; s.head == len(s.queue[0]) {
		s.queue[0] = nil
		s.queue, s.head = s.queue[1:], 0
	}
}
