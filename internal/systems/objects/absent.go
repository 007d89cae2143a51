package objects

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http/httptrace"
	"strings"
	"sync/atomic"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/systems/doubt"
)

// put writes an object. With if_absent, an attempt whose answer was lost may have written the object that the next
// attempt finds. An object with the content that is to be written then counts as written.
func (o *Output) put(ctx context.Context, s Store, p *Put) error {
	if !p.IfAbsent {
		return s.Put(ctx, p)
	}
	traced, attempts := countConditions(ctx)
	err := s.Put(traced, p)
	if errors.Is(err, ErrExists) && (attempts.Load() > 1 || o.doubt.Has(p.Key)) {
		err = compare(ctx, s, p, err)
	}
	o.doubt.Note(err, p.Key)
	return err
}

// countConditions counts the requests of ctx that have a header If-None-Match. A Put sends one. More mean that the client
// of the store has repeated it, because the answer was lost or was a passing error.
func countConditions(ctx context.Context) (context.Context, *atomic.Int32) {
	var n atomic.Int32
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{WroteHeaderField: func(name string, _ []string) {
		if strings.EqualFold(name, "If-None-Match") {
			n.Add(1)
		}
	}}), &n
}

// compare returns nil if the stored object has the content that is to be written, and exists if its content differs.
func compare(ctx context.Context, s Store, p *Put, exists error) error {
	same, err := hasContent(ctx, s, p)
	switch {
	case same:
		return nil
	case err == nil:
		return exists
	case errors.Is(err, ErrMissing): // it was deleted meanwhile, and can be written
		return engine.Errorf(engine.Transient, "object %s is gone again", p.Key)
	case doubt.MayHaveWritten(err):
		return err
	}
	return engine.Errorf(engine.Rejected, "%w: an attempt whose answer was lost may have written it, but it can't be read: %w "+
		"(permit reading objects)", exists, err)
}

// hasContent reports whether the stored object has the content that is to be written.
func hasContent(ctx context.Context, s Store, p *Put) (bool, error) {
	there, body, err := s.Get(ctx, p.Key, "", 0)
	if err != nil {
		return false, err
	}
	defer body.Close()
	if there.Size != int64(len(p.Body)) {
		return false, nil
	}
	block := make([]byte, 64<<10)
	for rest := p.Body; ; {
		n, err := body.Read(block)
		if n > len(rest) || !bytes.Equal(block[:n], rest[:n]) {
			return false, nil
		}
		rest = rest[n:]
		switch {
		case errors.Is(err, io.EOF):
			return len(rest) == 0, nil
		case err != nil:
			return false, fmt.Errorf("read object %s: %w", p.Key, err)
		}
	}
}
