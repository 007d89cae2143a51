package engine

import (
	"errors"
	"slices"
	"time"
)

// written is what came of one write.
type written struct {
	done, failed int
	took         time.Duration
	probe        bool
	err          *Error // of the first message that failed
	said         error  // err as it is shown
	stays        *Error // of a dead letter that is refused for good, and would come again at once
	refused      int    // messages that are not to be tried again
}

func (s *written) count(m *Message) {
	switch m.in.State {
	case failed:
		s.failed++
		if s.err == nil {
			s.err, s.said = m.in.Err, m.bothReasons()
		}
		if m.in.Err.Class == "" || m.in.Err.Class.retryable() || m.in.Err.HoldsOutput() || errors.Is(m.in.Err, ErrBehind) {
			return
		}
		s.refused++
		if m.in.Dead && viaOf(m).next() == nil && firstRoot(m).led.then == thenReturn {
			s.stays, s.said = m.in.Err, m.bothReasons()
		}
	default:
		s.done++
	}
}

// faulty says that it was the output that failed, not its messages.
func (s *written) faulty() bool {
	return s.done == 0 && s.err != nil && slices.Contains([]Class{Transient, Timeout, Auth, Panicked, Permanent, ""}, s.err.Class)
}
