package objects

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/components/timing"
	"github.com/flowd-io/flowd/internal/formats/compression"
)

const (
	idle     = time.Minute            // without a byte, after which a connection counts as lost
	attempts = 6                      // in a row without a byte, after which an object is given up
	pause    = 200 * time.Millisecond // before the second attempt; it doubles
)

// body is the content of an object. When its connection is lost, another one continues at the same byte, as long as the object
// is the same.
type body struct {
	store  Store
	obj    Object
	ctx    context.Context // of all calls: Read of an io.Reader gets none
	cancel context.CancelFunc

	in     io.ReadCloser // nil: not connected
	at     int64         // offset of the next byte
	head   []byte        // the first bytes, which are already read
	failed error         // why no more can be read, if the content is not to blame
	once   sync.Once
}

// openBody connects to an object. ctx bounds connecting, and not the body.
func openBody(ctx context.Context, s Store, key, etag string) (*body, error) {
	b := &body{store: s}
	b.ctx, b.cancel = context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, b.cancel)
	obj, in, err := s.Get(b.ctx, key, etag, 0)
	if !stop() && err == nil {
		in.Close()
		err = ctx.Err()
	}
	if err != nil {
		b.cancel()
		return nil, err
	}
	b.obj, b.in = obj, in
	return b, nil
}

// Read continues over lost connections.
func (b *body) Read(p []byte) (int, error) {
	n, err := b.next(p)
	if err != nil && !errors.Is(err, io.EOF) {
		b.failed = err
	}
	return n, err
}

// peek returns as many of the first bytes as it takes to tell how they are compressed. If ctx ends meanwhile, the body can't be
// used any more.
func (b *body) peek(ctx context.Context) ([]byte, error) {
	stop := context.AfterFunc(ctx, b.cancel)
	var head [compression.HeadSize]byte
	n, err := 0, error(nil)
	for err == nil && compression.Undecided(head[:n]) {
		var more int
		more, err = b.Read(head[n:])
		n += more
	}
	if !stop() {
		return nil, ctx.Err()
	}
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	b.head, b.at = head[:n], 0
	return b.head, nil
}

func (b *body) next(p []byte) (int, error) {
	if b.at < int64(len(b.head)) {
		n := copy(p, b.head[b.at:])
		b.at += int64(n)
		return n, nil
	}
	for try := 0; ; try++ {
		n, err := b.read(p)
		if n > 0 {
			b.at += int64(n)
			return n, nil
		}
		switch {
		case err == nil:
			continue
		case b.ctx.Err() != nil:
			return 0, b.ctx.Err()
		case errors.Is(err, io.EOF) && b.at >= b.obj.Size:
			return 0, io.EOF
		case errors.Is(err, io.EOF):
			err = fmt.Errorf("object %s ends at byte %d of %d", b.obj.Key, b.at, b.obj.Size)
		case errors.Is(err, ErrChanged) || errors.Is(err, ErrMissing) || isFinal(err):
			return 0, err
		}
		b.drop()
		if try+1 == attempts {
			return 0, err
		}
		wait := pause << try
		if e, ok := errors.AsType[*engine.Error](err); ok {
			wait = max(wait, min(e.Delay, 30*time.Second))
		}
		_ = timing.Sleep(b.ctx, wait/2+rand.N(wait))
	}
}

// isFinal reports whether another attempt would fail in the same way.
func isFinal(err error) bool {
	e, ok := errors.AsType[*engine.Error](err)
	return ok && (e.Class == engine.Auth || e.Class == engine.Rejected || e.Class == engine.TooLarge ||
		e.Class == engine.Permanent)
}

func (b *body) read(p []byte) (int, error) {
	if b.in == nil {
		if b.at >= b.obj.Size {
			return 0, io.EOF
		}
		_, in, err := b.store.Get(b.ctx, b.obj.Key, b.obj.ETag, b.at)
		if err != nil {
			return 0, err
		}
		b.in = in
	}
	in := b.in
	late := time.AfterFunc(idle, func() { in.Close() })
	defer late.Stop()
	return in.Read(p)
}

// seek moves to an offset, where the next read continues.
func (b *body) seek(offset int64) error {
	if offset > b.obj.Size {
		return fmt.Errorf("offset %d is beyond the end of an object of %d bytes", offset, b.obj.Size)
	}
	known := int64(len(b.head))
	if max(offset, known) != max(b.at, known) {
		b.drop()
	}
	b.at = offset
	return nil
}

func (b *body) drop() {
	if b.in != nil {
		b.in.Close()
		b.in = nil
	}
}

// SetReadDeadline ends a read that waits, whatever the time.
func (b *body) SetReadDeadline(time.Time) error {
	b.once.Do(b.cancel)
	return nil
}
