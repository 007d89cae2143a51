// Package openfiles bounds the files that a process keeps open only to save opening them again: one budget, of which
// each owner has a [Share].
package openfiles

import (
	"errors"
	"slices"
	"sync"
	"syscall"
)

// Bounds of the budget. It is a quarter of the descriptors that the process may have: connections, inputs and
// checkpoints need the rest.
const (
	fewest = 8
	most   = 1024
)

func size(descriptors uint64) int { return int(min(max(descriptors/4, fewest), most)) }

// IsExhausted reports whether an error means that the process or the system has no more descriptors.
func IsExhausted(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE)
}

// Budget is a number of files that several owners may keep open.
type Budget struct {
	size int

	mu     sync.Mutex // guards the fields below, and Share.open
	open   int
	shares []*Share
}

// Process is the budget of this process.
var Process = sync.OnceValue(func() *Budget { return NewBudget(size(limit())) })

// NewBudget makes a budget of n files.
func NewBudget(files int) *Budget { return &Budget{size: files} }

// Share is an owner's part of a budget.
type Share struct {
	budget *Budget
	giveUp func() bool
	open   int
}

// Join makes a share. giveUp closes the owner's least recently used file and reports that with Closed, or returns
// false if it can't now. Any goroutine may call it, and it must not wait for a goroutine that calls a method of a
// share.
func (b *Budget) Join(giveUp func() bool) *Share {
	s := &Share{budget: b, giveUp: giveUp}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.shares = append(b.shares, s)
	return s
}

// Leave ends a share. Its files are closed.
func (s *Share) Leave() {
	b := s.budget
	b.mu.Lock()
	defer b.mu.Unlock()
	b.open -= s.open
	s.open = 0
	b.shares = slices.DeleteFunc(b.shares, func(o *Share) bool { return o == s })
}

// Opened counts one more file.
func (s *Share) Opened() { s.count(1) }

// Closed counts one file less.
func (s *Share) Closed() { s.count(-1) }

func (s *Share) count(n int) {
	s.budget.mu.Lock()
	defer s.budget.mu.Unlock()
	s.open += n
	s.budget.open += n
}

// Full reports whether one more file would exceed the budget.
func (s *Share) Full() bool {
	s.budget.mu.Lock()
	defer s.budget.mu.Unlock()
	return s.budget.open >= s.budget.size
}

// Relieve makes another share with more files close one, the largest share first.
func (s *Share) Relieve() bool {
	b := s.budget
	b.mu.Lock()
	others := slices.DeleteFunc(slices.Clone(b.shares), func(o *Share) bool { return o.open <= s.open })
	slices.SortFunc(others, func(x, y *Share) int { return y.open - x.open })
	b.mu.Unlock()
	return slices.ContainsFunc(others, func(o *Share) bool { return o.giveUp() })
}
