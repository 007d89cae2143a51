package secrets

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"sync"
	"time"

	"github.com/flowd-io/flowd/schema"
)

const (
	attempts  = 4                      // to read a secret
	backoff   = 500 * time.Millisecond // before the second attempt; it doubles
	atOnce    = 8                      // secrets that are read at the same time
	mostTime  = 15 * time.Second       // for all secrets together
	mostFetch = 5 * time.Second        // for one request
)

// Store has the secrets that a process has read, so that a reload succeeds while a manager is down. The zero Store is
// empty. All methods are safe for concurrent use.
type Store struct {
	mu    sync.Mutex // guards the field below
	known map[place]map[string]string
}

// place is where a secret was read.
type place struct{ kind, origin, path string }

// Read reads the secrets that placeholders name, each secret once, and returns a lookup of their values. It asks the
// managers in configs, and otherwise those that the environment names. A manager that is down is asked again for at most
// 15 seconds, then Read uses the values that it read before, with a warning in the log. With again, it asks only for
// secrets that it has not read yet.
func (s *Store) Read(configs map[string]*Config, names []string, again bool, log *slog.Logger) schema.Lookup {
	ctx, cancel := context.WithTimeout(context.Background(), mostTime)
	defer cancel()
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	r := s.newReading(names, again, log, func(kind string) (manager, error) { return openers[kind](configs[kind]) })
	r.run(ctx)
	for _, m := range r.managers {
		m.close()
	}
	return r.lookup
}

// newReading makes a reading of the secrets that placeholders name.
func (s *Store) newReading(names []string, again bool, log *slog.Logger, open func(kind string) (manager, error)) *reading {
	r := &reading{store: s, again: again, log: log, managers: map[string]manager{}, all: map[ref]*secret{},
		failed: map[string]error{}}
	for _, name := range names {
		at, err := newRef(name)
		if err != nil || lacks(at.kind) != nil {
			continue // the lookup reports it
		}
		at.field = ""
		r.all[at] = &secret{}
		if r.managers[at.kind] == nil {
			m, err := open(at.kind)
			if err != nil {
				m = broken{err}
			}
			r.managers[at.kind] = m
		}
	}
	return r
}

// broken is a manager that can't be asked.
type broken struct{ err error }

func (broken) origin() string { return "" }

func (broken) close() {}

func (b broken) read(context.Context, string) (map[string]string, error) { return nil, b.err }

// reading is one call of Read.
type reading struct {
	store    *Store
	again    bool
	log      *slog.Logger
	managers map[string]manager
	all      map[ref]*secret // by secret, without a field

	mu     sync.Mutex       // guards the field below
	failed map[string]error // of managers that were down for all attempts
}

func (r *reading) lookup(name string) (string, bool, error) {
	at, err := newRef(name)
	if err == nil {
		err = lacks(at.kind)
	}
	if err != nil {
		return "", false, err
	}
	field := at
	at.field = ""
	one := r.all[at]
	if one == nil {
		return "", false, refused("use ${NAME} or ${file:PATH} here", "secrets can't be used here")
	}
	value, err := one.value(field)
	return value, err == nil, err
}

// run reads all secrets.
func (r *reading) run(ctx context.Context) {
	var wg sync.WaitGroup
	turns := make(chan struct{}, atOnce)
	for at, one := range r.all {
		turns <- struct{}{}
		wg.Go(func() {
			defer func() { <-turns }()
			*one = r.one(ctx, at)
		})
	}
	wg.Wait()
}

// one reads a secret, or returns an earlier value.
func (r *reading) one(ctx context.Context, at ref) secret {
	m := r.managers[at.kind]
	key := place{at.kind, m.origin(), at.path}
	known, ok := r.store.get(key)
	if ok && r.again {
		return secret{fields: known}
	}
	fields, err := r.persist(ctx, m, at)
	switch {
	case err == nil:
		r.store.put(key, fields)
	case ok && isDown(err):
		r.log.Warn("secret can't be read: its earlier value stays in use", "secret", at.kind+":"+at.path, "err", err)
		return secret{fields: known}
	case errors.Is(err, fs.ErrNotExist):
		r.store.put(key, nil)
	}
	return secret{fields, err}
}

// persist asks a manager, again while it is down. Once a manager was down for all attempts, it is not asked for further
// secrets.
func (r *reading) persist(ctx context.Context, m manager, at ref) (fields map[string]string, err error) {
	pause := backoff
	for i := range attempts {
		if err := r.failure(at.kind); err != nil {
			return nil, err
		}
		fields, err = m.read(ctx, at.path)
		if !isDown(err) {
			return fields, err
		}
		if i == attempts-1 {
			break
		}
		select {
		case <-time.After(pause):
			pause *= 2
		case <-ctx.Done():
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failed[at.kind] = err
	return nil, err
}

// failure returns the error of a manager that was down for all attempts, or nil.
func (r *reading) failure(kind string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.failed[kind]
}

func (s *Store) get(at place) (map[string]string, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	fields, ok := s.known[at]
	return fields, ok
}

// put remembers a secret, or forgets it if fields is nil.
func (s *Store) put(at place, fields map[string]string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.known == nil {
		s.known = map[place]map[string]string{}
	}
	if s.known[at] = fields; fields == nil {
		delete(s.known, at)
	}
}
