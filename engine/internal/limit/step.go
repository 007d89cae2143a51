package limit

import (
	"context"
	"time"

	"github.com/flowd-io/flowd/engine"
)

// Step makes a step that applies a rate limit. Messages whose time has not come wait outside the lanes.
func Step(l *Limiter) engine.Processor { return step{limit: l} }

// DropStep makes a step that drops the messages that exceed a rate limit.
func DropStep(l *Limiter) engine.Processor { return step{limit: l, drops: true} }

type step struct {
	limit *Limiter
	drops bool // messages that exceed the limit; otherwise they wait
}

// Process parks or drops messages whose time has not come.
func (s step) Process(_ context.Context, b *engine.Batch) error {
	now := time.Now()
	pass := 0 // messages that may pass at once
	if !s.limit.Keyed() {
		for range b.All() {
			pass++
		}
		pass = s.limit.Take(now, pass)
	}
	var buf []byte
	for m := range b.All() {
		if pass > 0 {
			pass--
			continue
		}
		key, ok, err := s.limit.AppendKey(buf[:0], m)
		if err != nil {
			m.Fail(err)
			continue
		}
		buf = key
		if !ok {
			key = nil
		}
		if s.drops {
			if !s.limit.Pass(now, key) {
				m.Drop()
			}
		} else if wait := s.limit.Reserve(now, key); wait > 0 {
			m.Delay(wait)
		}
	}
	return nil
}
