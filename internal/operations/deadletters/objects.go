package deadletters

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/systems/objects"
	"github.com/flowd-io/flowd/internal/systems/queue"
)

// OpenObjects opens the dead letters in a store, each of which is an object whose key begins with prefix, as the outputs for
// stores write them. The source closes the store. It reads the objects that there are at the time of the listing.
func OpenObjects(store objects.Store, prefix string) Source {
	return &objectSource{store: store, prefix: prefix}
}

type objectSource struct {
	store  objects.Store
	prefix string
	page   []objects.Object // listed, and not read yet
	token  string
	over   bool // nothing is left to list
	read   []objects.Object
}

// Read gets objects. One that has been deleted meanwhile is left out.
func (s *objectSource) Read(ctx context.Context, most int) (all []Letter, err error) {
	for len(all) < min(most, objectsAtOnce) {
		if len(s.page) == 0 {
			if s.over || len(all) > 0 {
				break
			}
			page, err := s.store.List(ctx, s.prefix, "", s.token)
			if err != nil {
				return all, err
			}
			s.page, s.token, s.over = page.Objects, page.Token, page.Token == ""
			continue
		}
		o := s.page[0]
		s.page = s.page[1:]
		if strings.HasSuffix(o.Key, "/") || !strings.HasPrefix(o.Key, s.prefix) {
			continue // the marker of a folder
		}
		l, err := s.get(ctx, o)
		if errors.Is(err, objects.ErrMissing) || errors.Is(err, objects.ErrChanged) {
			continue
		}
		if err != nil {
			return all, err
		}
		all = append(all, l)
	}
	if len(all) == 0 && s.over && len(s.page) == 0 {
		return nil, engine.ErrEnd
	}
	return all, nil
}

// objectsAtOnce bounds the objects of one read, since each takes a request.
const objectsAtOnce = 100

func (s *objectSource) get(ctx context.Context, listed objects.Object) (Letter, error) {
	o, body, err := s.store.Get(ctx, listed.Key, listed.ETag, 0)
	if err != nil {
		return Letter{}, err
	}
	payload, err := io.ReadAll(io.LimitReader(body, int64(mostLine)+1))
	if err = errors.Join(err, body.Close()); err != nil {
		return Letter{}, err
	}
	meta := map[string]any{"key": o.Key, "etag": o.ETag, objectMark: true}
	for _, p := range o.Metadata {
		meta[p.Name] = p.Value
	}
	s.read = append(s.read, o)
	l := NewLetter(queue.Message{Payload: payload, Meta: meta, Ref: uint64(len(s.read) - 1)})
	if l.Where = "object " + o.Key; len(payload) > mostLine {
		l.Payload, l.Broken = payload[:1000], fmt.Errorf("the object is larger than %d MiB", mostLine>>20)
	}
	return l, nil
}

// objectMark is metadata of letters that were objects: see origins.
const objectMark = "flowd_object"

// Done deletes objects, unless they have been replaced meanwhile.
func (s *objectSource) Done(ctx context.Context, refs []uint64) error {
	var errs []error
	for _, ref := range refs {
		o := &s.read[ref]
		if err := s.store.Delete(ctx, o.Key, o.ETag); err != nil && !errors.Is(err, objects.ErrMissing) {
			errs = append(errs, fmt.Errorf("object %s: %w", o.Key, err))
		}
	}
	return errors.Join(errs...)
}

// Replace writes objects with the same keys and metadata.
func (s *objectSource) Replace(ctx context.Context, with []queue.Message) error {
	for _, m := range with {
		o := &s.read[m.Ref]
		if err := s.store.Put(ctx, &objects.Put{Key: o.Key, Body: bytes.Clone(m.Payload), ContentType: o.ContentType,
			ContentEncoding: o.ContentEncoding, Metadata: o.Metadata, PartSize: 16 << 20}); err != nil {
			return fmt.Errorf("object %s: %w", o.Key, err)
		}
	}
	return nil
}

// Total is unknown, since a listing may have any number of pages.
func (s *objectSource) Total(context.Context) int64 { return -1 }

// Close closes the store.
func (s *objectSource) Close() error {
	s.store.Close()
	return nil
}
