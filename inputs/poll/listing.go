package poll

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/components/timing"
)

// mostListed bounds the queues that one pattern matches.
const mostListed = 1000

// listing is a source whose configuration names its queues by a pattern.
type listing struct {
	name   string
	weight int
	lister engine.Lister
	at     int // its place among the sources written

	found    []*source // by name, including retired ones that are not closed yet
	failures int       // of List, in a row
}

// first lists the queues when the input is opened. After an error that may pass, the queues are listed again later.
func (in *input) first(ctx context.Context, l *listing) error {
	err := in.list(ctx, l)
	if engine.Passes(err) {
		in.unlisted(l, err)
		return nil
	}
	return err
}

// unlisted records that List has failed.
func (in *input) unlisted(l *listing, err error) {
	l.failures++
	if powerOfTen(l.failures) {
		in.log.Warn("the queues of a pattern could not be listed again", "err", err, "attempt", l.failures)
	}
}

// list adds and retires sources, so that they match the existing queues.
func (in *input) list(ctx context.Context, l *listing) error {
	var names []string
	err := within(ctx, func(ctx context.Context) (err error) {
		names, err = l.lister.List(ctx)
		return err
	})
	if err != nil {
		return fmt.Errorf("source %s: list of queues: %w", l.name, err)
	}
	slices.Sort(names)
	names = slices.Compact(names)
	if len(names) > mostListed {
		in.log.Warn("a pattern matches too many queues: the last ones are not read (write a narrower pattern)",
			"source", l.name, "queues", len(names), "read", mostListed)
		names = names[:mostListed]
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	for _, s := range l.found {
		if queue := s.polled.Name[len(l.name)+1:]; s.state != retired && !slices.Contains(names, queue) {
			in.log.Info("a queue no longer exists", "source", s.polled.Name)
			s.state = retired
			if s.end != nil {
				s.end()
			}
		}
	}
	for _, name := range names {
		if err := in.found(l, name); err != nil {
			in.log.Error("a queue can't be read", "source", l.name, "queue", name, "err", err)
		}
	}
	return nil
}

// found makes a source for a queue that has none. in.mu is held.
func (in *input) found(l *listing, queue string) error {
	name := l.name + "/" + queue
	if slices.ContainsFunc(l.found, func(s *source) bool { return s.polled.Name == name }) {
		return nil // a retired source must be closed first
	}
	part, err := l.lister.Only(queue)
	if err != nil {
		return err
	}
	s := in.newSource(name, l.name, l.weight, part)
	s.listed = true
	at, _ := slices.BinarySearchFunc(l.found, name,
		func(s *source, name string) int { return strings.Compare(s.polled.Name, name) })
	l.found = slices.Insert(l.found, at, s)
	in.insert(in.placeOf(l)+at, s)
	return nil
}

// placeOf returns where the sources of a listing begin. in.mu is held.
func (in *input) placeOf(l *listing) int {
	at := l.at
	for _, other := range in.listings {
		if other == l {
			break
		}
		at += len(other.found)
	}
	return at
}

// watch lists again and again until ctx ends.
func (in *input) watch(ctx context.Context, l *listing) {
	for timing.Sleep(ctx, in.wait(l)) == nil {
		in.clear(ctx, l)
		if err := in.list(ctx, l); err == nil {
			l.failures = 0
		} else if ctx.Err() == nil {
			in.unlisted(l, err)
		}
		in.mu.Lock()
		for _, s := range l.found {
			if s.life == nil && s.state != retired {
				in.start(s)
			}
		}
		in.mu.Unlock()
		in.poke()
	}
}

// wait returns the time until the next List.
func (in *input) wait(l *listing) time.Duration {
	d := in.refresh - in.refresh/10 + rand.N(in.refresh/5)
	if l.failures > 0 {
		d = min(d, backoff(l.failures))
	}
	return d
}

// clear closes retired sources whose messages are all settled.
func (in *input) clear(ctx context.Context, l *listing) {
	in.mu.Lock()
	var done []*source
	for _, s := range l.found {
		if s.state == retired && s.unsettled == 0 && s.over() {
			done = append(done, s)
		}
	}
	out := func(s *source) bool { return slices.Contains(done, s) }
	l.found = slices.DeleteFunc(l.found, out)
	in.sources = slices.DeleteFunc(in.sources, out)
	for _, s := range done {
		delete(in.known, s.polled)
	}
	in.mu.Unlock()
	for _, s := range done {
		if err := s.stop(context.WithoutCancel(ctx)); err != nil {
			in.log.Debug("stop of a source that no longer exists", "source", s.polled.Name, "err", err)
		}
		if err := s.close(context.WithoutCancel(ctx)); err != nil {
			in.log.Debug("close of a source that no longer exists", "source", s.polled.Name, "err", err)
		}
	}
}
