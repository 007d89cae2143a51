package ledger

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/flowd-io/flowd/engine"
)

// positionNames are the metadata with which sources say where a message is.
var positionNames = []string{"path", "line", "topic", "partition", "offset", "key", "message_id"}

// position is where a message is, in its source's own terms.
func Position(input string, meta engine.Meta, part int32) string {
	from := []string{"input " + input}
	for name, v := range meta.All() {
		if slices.Contains(positionNames, name) {
			from = append(from, fmt.Sprintf("%s %v", name, v))
		}
	}
	if part > 0 {
		from = append(from, fmt.Sprintf("part %d", part))
	}
	return strings.Join(from, ", ")
}

// oldest is the age and position of the oldest open root; 0: there is none.
func (s *ledgers) Oldest() (age time.Duration, at string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for l := s.head; l != nil; l = l.next {
		if meta, ok := l.oldest(); ok {
			return time.Since(l.ReadAt), Position(l.InputName, meta, 0)
		}
	}
	return 0, ""
}

// oldest is the metadata of the first root that is open.
func (l *Ledger) oldest() (meta engine.Meta, ok bool) {
	for i := range l.Roots {
		if meta = l.MetaOf(i); l.Roots[i].Pieces.Load() > 0 { // it is let go after the last
			return meta, true
		}
	}
	return engine.Meta{}, false
}
