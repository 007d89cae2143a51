package stage

import (
	"errors"
	"slices"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/internal/inside"
	"github.com/flowd-io/flowd/engine/internal/ledger"
	"github.com/flowd-io/flowd/engine/internal/retry"
)

// written is what came of one write.
type written struct {
	done, failed int
	took         time.Duration
	probe        bool
	err          *engine.Error // of the first message that failed
	said         error         // err as it is shown
	stays        *engine.Error // of a dead letter that is refused for good, and would come again at once
	refused      int           // messages that are not to be tried again
}

func (s *written) count(m *engine.Message) {
	switch msg(m).State {
	case inside.Failed:
		s.failed++
		if s.err == nil {
			s.err, s.said = msg(m).Err, bothReasons(m)
		}
		if msg(m).Err.Class == "" || retry.Retryable(msg(m).Err.Class) || msg(m).Err.HoldsOutput() || errors.Is(msg(m).Err, engine.ErrBehind) {
			return
		}
		s.refused++
		if msg(m).Dead && viaOf(m).next() == nil && ledger.FirstRoot(m).Led.Then == ledger.ThenReturn {
			s.stays, s.said = msg(m).Err, bothReasons(m)
		}
	default:
		s.done++
	}
}

// faulty says that it was the output that failed, not its messages.
func (s *written) faulty() bool {
	return s.done == 0 && s.err != nil && slices.Contains([]engine.Class{engine.Transient, engine.Timeout, engine.Auth, engine.Panicked, engine.Permanent, ""}, s.err.Class)
}
