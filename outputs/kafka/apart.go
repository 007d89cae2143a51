package kafka

import (
	"slices"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/systems/queue/kafka"
)

// apart finds out which of the records that failed together the broker refuses, by sending ever fewer of them at once. Records
// that the broker accepts are delivered in order, and each that it refuses keeps its error. A record after a refused one with the
// same order key is not sent. send notes the results.
func (s *sending) apart(send func(which []int), failed []int) {
	half := (len(failed) + 1) / 2
	for _, part := range [...][]int{failed[:half], failed[half:]} {
		for _, i := range part {
			delete(s.errs, i)
		}
		if part = s.open(part); len(part) > 0 {
			send(part)
		}
		if len(part) > 1 {
			s.apart(send, slices.DeleteFunc(part, func(i int) bool { return !kafka.BlamesRecord(s.errs[i]) }))
		}
	}
}

// open returns the records that may be sent, because no earlier one with the same order key has failed. The others fail.
func (s *sending) open(which []int) (open []int) {
	if len(s.errs) == 0 {
		return which
	}
	shut := map[string]bool{}
	next := 0
	for i, m := range s.msgs[:lastOf(which)+1] {
		asked := which[next] == i
		if asked {
			next++
		}
		switch {
		case m.Key != nil && shut[string(m.Key)]:
			if asked {
				s.errs[i] = engine.ErrBehind
			}
		case asked:
			open = append(open, i)
		case m.Key != nil && s.errs[i] != nil:
			shut[string(m.Key)] = true
		}
	}
	return open
}

func lastOf(which []int) int {
	if len(which) == 0 {
		return -1
	}
	return which[len(which)-1]
}
