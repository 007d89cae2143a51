package engine

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// positionNames are the metadata with which sources say where a message lies.
var positionNames = []string{"path", "line", "topic", "partition", "offset", "key", "message_id"}

// position is where a message lies, in its source's own words.
func position(input string, meta Meta, part int32) string {
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
func (s *ledgers) oldest() (age time.Duration, at string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for l := s.head; l != nil; l = l.next {
		if meta, ok := l.oldest(); ok {
			return time.Since(l.at), position(l.input, meta, 0)
		}
	}
	return 0, ""
}

// oldest is the metadata of the first root that is open.
func (l *ledger) oldest() (meta Meta, ok bool) {
	for i := range l.roots {
		if meta = l.metaOf(i); l.roots[i].pieces.Load() > 0 { // it is let go after the last
			return meta, true
		}
	}
	return Meta{}, false
}
