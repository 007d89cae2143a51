package engine

import (
	"sync"
	"time"
)

// limit makes a rate limit, or finds the shared one of its name.
func (b *builder) limit(spec *RateLimit, name string) *Limiter {
	if spec == nil {
		return nil
	}
	l, err := b.named(name).limiter(*spec, name)
	b.failed(spec.Place, err)
	if err != nil {
		return nil
	}
	return l
}

// limited calls with, with the step that parks messages for a keyed limit, or
// with none: an unkeyed one is kept where messages are read or written.
func (b *builder) limited(l *Limiter, name string, with func(Steps)) {
	if l == nil || !l.Keyed() {
		with(nil)
		return
	}
	with(Steps{{Name: "rate_limit of " + name, Use: Use(func(Env) (Processor, error) { return limitStep{l}, nil })}})
}

// sharedLimit is a limit that pipelines share by name. A reload may change its rate.
type sharedLimit struct {
	*Limiter

	mu   sync.Mutex // guards the field below
	rate RateLimit  // as it was configured last
}

func (l *sharedLimit) configure(spec RateLimit) {
	l.mu.Lock()
	defer l.mu.Unlock()
	was := l.rate
	l.rate = spec
	if was.Messages != 0 && (was.Messages != spec.Messages || was.Per != spec.Per || was.Burst != spec.Burst) {
		l.Change(time.Now(), spec.Messages, spec.Per, spec.Burst, false)
	}
}
