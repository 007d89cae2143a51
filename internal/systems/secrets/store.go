package secrets

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"slices"
	"strings"
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
	process context.Context // requests to managers end with it; nil: they end only by themselves

	mu      sync.Mutex // guards the fields below
	known   map[place]map[string]string
	renewal *time.Timer // nil: nothing is renewed
	again   bool        // the next renewal tells, whatever it reads
	changed chan struct{}
}

// NewStore returns a store whose requests to managers end with process.
func NewStore(process context.Context) *Store { return &Store{process: process} }

// inTime returns a context for the requests of one reading.
func (s *Store) inTime() (context.Context, context.CancelFunc) {
	ctx := s.process
	if ctx == nil {
		ctx = context.Background()
	}
	return context.WithTimeout(ctx, mostTime)
}

// stopping reports whether the process is about to end.
func (s *Store) stopping() bool { return s.process != nil && s.process.Err() != nil }

// place is where a secret was read.
type place struct{ kind, origin, path string }

// Read reads the secrets that placeholders name, each secret once, and returns a lookup of their values. It asks the
// managers in configs, and otherwise those that the environment names. A manager that is down is asked again for at most
// 15 seconds, or until the process stops. Then Read uses the values that it read before, with a warning in the log. With
// again, it asks only for secrets that it has not read yet.
func (s *Store) Read(configs map[string]*Config, names []string, again bool, log *slog.Logger) schema.Lookup {
	ctx, cancel := s.inTime()
	defer cancel()
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	r := s.newReading(names, again, log, func(kind string) (manager, error) { return openers[kind](configs[kind]) })
	r.run(ctx)
	return r.lookup
}

// Renew reads secrets again from now on, whenever the shortest interval of their managers has passed. It replaces an earlier
// renewal, and ends it if no manager has an interval.
func (s *Store) Renew(configs map[string]*Config, names []string, log *slog.Logger) {
	every := time.Duration(0)
	for _, c := range configs {
		if c.Refresh > 0 && (every == 0 || c.Refresh < every) {
			every = c.Refresh
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.renewal != nil {
		s.renewal.Stop()
		s.renewal = nil
	}
	if every == 0 {
		return
	}
	var renewal *time.Timer
	renewal = time.AfterFunc(every, func() {
		s.renew(configs, names, log)
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.renewal == renewal && !s.stopping() {
			renewal.Reset(every)
		}
	})
	s.renewal = renewal
}

// Changed returns a channel that receives after a renewal has found a new value (see Config.Refresh). The next Read
// returns it.
func (s *Store) Changed() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.news()
}

// Again makes the next renewal tell, even if it finds no other value: the last value that was found is not in use.
func (s *Store) Again() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.again = true
}

// news returns the channel of Changed, which has room for one.
func (s *Store) news() chan struct{} {
	if s.changed == nil {
		s.changed = make(chan struct{}, 1)
	}
	return s.changed
}

// renew reads secrets again, and tells if one of the values that are in use has changed.
func (s *Store) renew(configs map[string]*Config, names []string, log *slog.Logger) {
	ctx, cancel := s.inTime()
	defer cancel()
	// Only managers with an interval are asked.
	names = slices.DeleteFunc(slices.Clone(names), func(name string) bool {
		kind, _, _ := strings.Cut(name, ":")
		return configs[kind] == nil || configs[kind].Refresh == 0
	})
	open := func(kind string) (manager, error) { return openers[kind](configs[kind]) }
	before := s.newReading(names, true, log, open)
	before.stored()
	now := s.newReading(names, false, log, open)
	now.run(ctx)
	if s.stopping() {
		return
	}
	changed := slices.ContainsFunc(names, func(name string) bool {
		was, had, _ := before.lookup(name)
		is, has, err := now.lookup(name)
		if err != nil && (had || !errors.Is(err, fs.ErrNotExist)) {
			log.Warn("secret can't be renewed", "secret", name, "err", err)
		}
		return has && (!had || was != is)
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	if changed || s.again {
		s.again = false
		select {
		case s.news() <- struct{}{}:
		default:
		}
	}
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

// stored takes all secrets from the store.
func (r *reading) stored() {
	for at, one := range r.all {
		m := r.managers[at.kind]
		one.fields, _ = r.store.get(place{at.kind, m.origin(), at.path})
		m.close()
	}
}

// run reads all secrets. Then it closes the clients.
func (r *reading) run(ctx context.Context) {
	defer func() {
		for _, m := range r.managers {
			m.close()
		}
	}()
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
