package objects

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/formats/compression"
	"github.com/flowd-io/flowd/internal/formats/framing"
	"github.com/flowd-io/flowd/internal/systems/metadata"
)

// Opening is what an [Input] needs to know of its kind of store.
type Opening struct {
	Kind   string // of the component, such as "s3"
	Bucket string // in messages and in the metadata `bucket`
	Notify bool   // Open gives notices

	// Open connects. It is called by each instance, and again after a failure.
	Open func(ctx context.Context) (Store, Notices, error)
}

// Input reads objects one after the other, each over one connection, in a separate goroutine
// that reads a little ahead. An object that can't be read to its end for a reason of its own
// becomes a failed message, and is kept.
type Input struct {
	Opening
	cfg     *Source
	log     *slog.Logger
	shared  *shared
	acks    acks
	acker   engine.Acker // nil: nothing is taken back
	conn    atomic.Pointer[conn]
	stopped atomic.Bool

	item  item          // what is being read; its key is "" between objects
	of    *reading      // nil: not begun
	from  framing.Place // where it continues when it is opened again
	body  *body
	pump  *framing.Pump // nil: not open
	meta  engine.Meta
	marks []mark // of the current Read
}

// conn is one opening of an input.
type conn struct {
	store   Store
	notices Notices
}

// shared is what the instances of one input have in common.
type shared struct {
	list list
	book *book
}

var (
	_ engine.Opener   = (*Input)(nil)
	_ engine.Closer   = (*Input)(nil)
	_ engine.Stopper  = (*Input)(nil)
	_ engine.Traited  = (*Input)(nil)
	_ engine.Troubled = (*Input)(nil)
)

// sharedKey tells inputs apart: the instances of one are built from one configuration.
type sharedKey struct {
	own  *int
	name string // two inputs may be one YAML node
}

// NewInput makes an instance of an input. src must not change afterwards.
func NewInput(src *Source, o Opening, env engine.Env) *Input {
	b := newBook(src, o, env)
	common := engine.Common(env.Shared, sharedKey{src.own, env.Name}, func() *shared {
		return &shared{list{src: src, log: env.Log, book: b, turn: make(chan struct{}, 1), held: map[*Notice]bool{}}, b}
	})
	in := &Input{Opening: o, cfg: src, log: env.Log, shared: common}
	in.acks.in, in.acks.Settled = in, common.book.settled
	in.acks.IsSettled = func(m mark) bool { return m.end || in.acker == nil }
	switch {
	case o.Notify:
		in.acker = &leaser{&in.acks}
	case src.Checkpoint != "" || src.After.acts():
		in.acker = &in.acks
	}
	return in
}

// Traits is that the source takes back a position where anything depends on it.
func (in *Input) Traits() engine.Traits {
	if in.acker == nil {
		return engine.Traits{}
	}
	return engine.Traits{TakesBack: engine.TakesPosition}
}

// Open connects, and reads the checkpoint.
func (in *Input) Open(ctx context.Context) error {
	s, n, err := in.Opening.Open(ctx)
	if err != nil {
		return err
	}
	if err := in.shared.book.Open(); err != nil {
		s.Close()
		return err
	}
	if in.Notify {
		in.shared.book.List(nil).Complete(time.Now()) // there is no listing that would forget what no notice names again
	}
	in.stopped.Store(false)
	in.conn.Store(&conn{s, n})
	return nil
}

// Stop says that no Read follows.
func (in *Input) Stop(context.Context) error {
	in.stopped.Store(true)
	return nil
}

// closing is how long a Close may take for what is to be done about objects.
const closing = 30 * time.Second

// Close ends the connections. What is settled is done with; an input that failed continues
// in its object when it is opened again.
func (in *Input) Close(ctx context.Context) error {
	in.release()
	c := in.conn.Swap(nil)
	if c == nil {
		return nil
	}
	defer c.store.Close()
	limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), closing)
	defer cancel()
	err := in.tidy(limited, c)
	if in.stopped.Load() {
		err = errors.Join(err, in.shared.list.drop(limited, c))
	}
	return errors.Join(err, in.shared.book.Close())
}

// Read adds records of one object; the next object is for the next Read.
func (in *Input) Read(ctx context.Context, b *engine.Batch) (engine.Acker, error) {
	c := in.conn.Load()
	room := b.Room()
	for ctx.Err() == nil && b.Room() == room {
		err := in.read(ctx, c, b)
		in.acks.Read(in.marks)
		in.marks = in.marks[:0]
		if err != nil && ctx.Err() == nil {
			return in.acker, err
		}
	}
	return in.acker, nil
}

// read adds records of the current object, or opens the next.
func (in *Input) read(ctx context.Context, c *conn, b *engine.Batch) (err error) {
	if in.pump == nil {
		if err := in.start(ctx, c, b); err != nil || in.pump == nil {
			return err
		}
	}
	err = in.pump.FillPlaced(ctx, b, in.meta, func(m *engine.Message, at framing.Place) {
		in.note(m, at)
		in.from = at
	})
	if err == nil || ctx.Err() != nil {
		return nil
	}
	failed := in.body.failed
	in.release()
	switch {
	case failed != nil:
		return in.lost(b, failed)
	case errors.Is(err, io.EOF):
		in.finish()
	case errors.Is(err, framing.ErrOther):
		in.log.Warn("object is not what was read before: it is read from its beginning", "key", in.of.Key)
		in.from = framing.Place{}
	default:
		in.spoil(b, engine.Decode, err)
	}
	return nil
}

// note records where a message ends.
func (in *Input) note(m *engine.Message, at framing.Place) {
	m.Ref = in.acks.Next() + uint64(len(in.marks))
	in.marks = append(in.marks, mark{of: in.of, place: at})
}

// start opens the current object where reading continues, or the next one. It may find that
// there is nothing to read in it.
func (in *Input) start(ctx context.Context, c *conn, b *engine.Batch) (err error) {
	if err := in.tidy(ctx, c); err != nil {
		return err
	}
	if in.item.obj.Key == "" {
		if in.item, err = in.shared.list.next(ctx, c); err != nil {
			return err
		}
		if n := in.item.notice; n != nil && n.Err != nil {
			in.refuse(b, n)
			return nil
		}
	}
	key, etag := in.item.obj.Key, ""
	if in.of != nil {
		etag = in.of.ETag
	}
	in.body, err = openBody(ctx, c.store, key, etag)
	if err != nil {
		return in.lost(b, err)
	}
	if in.of == nil {
		if in.of = in.shared.book.begin(key, in.body.obj.ETag, in.item.notice); in.of == nil { // another reads it
			in.release()
			in.item = item{}
			return nil
		}
		in.from = in.of.place()
	}
	in.meta = in.metaOf(&in.body.obj)
	format, err := in.format(ctx)
	if err != nil {
		in.release()
		return in.lost(b, err)
	}
	from, now := in.from, in.body
	in.pump = framing.NewPump(now, func(r io.Reader) (framing.Reader, error) {
		return in.cfg.Continue(now.ctx, format, r, now.seek, from)
	})
	return nil
}

// format is how the object that begins is compressed.
func (in *Input) format(ctx context.Context) (compression.Format, error) {
	o := &in.body.obj
	var head []byte
	if f, _ := compression.FromEncoding(o.ContentEncoding); in.cfg.Auto() && f == compression.None &&
		compression.FromPath(o.Key) == compression.None {
		var err error
		if head, err = in.body.peek(ctx); err != nil {
			return f, err
		}
	}
	return in.cfg.Found(o.ContentEncoding, o.Key, head)
}

// lost decides what an object means that can't be read, for no fault of its content.
func (in *Input) lost(b *engine.Batch, err error) error {
	switch {
	case errors.Is(err, ErrChanged) && in.of != nil:
		in.log.Warn("object was replaced while it was read: the new one is read from its beginning", "key", in.of.Key)
		in.shared.book.replaced(in.of)
		again := in.item
		in.finish()
		in.item = again
	case errors.Is(err, ErrMissing):
		in.log.Info("object is gone", "key", in.item.obj.Key)
		in.begun()
		in.shared.book.spoilt(in.of)
		in.finish()
	default:
		class := engine.ErrorOf(err, engine.Transient).Class
		if class != engine.Rejected && class != engine.Decode {
			return err
		}
		in.begun()
		in.spoil(b, class, err)
	}
	return nil
}

// begun makes an entry of an object that could not be opened.
func (in *Input) begun() {
	if in.of == nil {
		in.of = &reading{Key: in.item.obj.Key, ETag: in.item.obj.ETag}
		if n := in.item.notice; n != nil {
			in.of.notices = []*Notice{n}
		}
		in.meta = in.metaOf(&in.item.obj)
	}
}

// spoil makes a failed message of an object that can't be read any further. The object
// is kept.
func (in *Input) spoil(b *engine.Batch, class engine.Class, err error) {
	in.shared.book.spoilt(in.of)
	m := b.Add(nil)
	m.Meta = in.meta.At(max(1, in.from.Line))
	m.Fail(engine.Errorf(class, "object %s can't be read from line %d on: %w (it is kept)", in.of.Key,
		max(1, in.from.Line), err))
	in.note(m, in.from)
	in.finish()
}

// refuse makes a failed message of a notice.
func (in *Input) refuse(b *engine.Batch, n *Notice) {
	in.of = &reading{Keep: true, notices: []*Notice{n}}
	m := b.Add(n.Body)
	m.Meta = engine.Meta{}.With("bucket", in.Bucket).Own()
	m.Fail(refusal(n))
	in.note(m, framing.Place{})
	in.finish()
}

// finish ends the current object: nothing more of it is to be settled.
func (in *Input) finish() {
	in.marks = append(in.marks, mark{of: in.of, place: in.from, end: true})
	in.item, in.of, in.from = item{}, nil, framing.Place{}
}

// release ends the connection of the current object.
func (in *Input) release() {
	if in.pump != nil {
		in.pump.Close()
		in.pump.Wait()
	}
	if in.body != nil {
		in.body.end()
		in.body.drop()
	}
	in.pump, in.body = nil, nil
}

// names are those of the user's own metadata of an object, as metadata of its messages.
var names = metadata.Names{Prefix: "metadata_", Own: func(name string) bool {
	return slices.Contains([]string{"bucket", "key", "etag", "size", "last_modified", "content_type", "line"}, name)
}}

// metaOf is the metadata of an object's messages. The user's own may have any name: it never
// passes for that of the store.
func (in *Input) metaOf(o *Object) engine.Meta {
	m := engine.Meta{}.With("bucket", in.Bucket).With("key", o.Key).With("etag", o.ETag).With("size", int(o.Size)).
		With("last_modified", o.LastModified)
	if o.ContentType != "" {
		m = m.With("content_type", o.ContentType)
	}
	if o.ContentEncoding != "" {
		m = m.With("content_encoding", o.ContentEncoding)
	}
	m = m.Own()
	for _, p := range o.Metadata {
		m = m.With(names.In(p.Name), p.Value)
	}
	return m.WithIndex("line")
}

// About is what the help texts of all inputs for object stores have in common.
const About = `Objects are read one after another, in key order, as a stream; several at once with
concurrency. They are decompressed according to their Content-Encoding, else the extension
of the key, else their first bytes. If a connection is lost during an object, the next one
resumes there, as long as the object is the same; one that has been replaced is read from
its beginning.

The action in after is taken once all messages of an object are delivered, filtered or
dead-lettered, and only on the object that was read, not on one that has replaced it. An
object that can't be read to its end, such as a damaged archive, becomes a failed message
without payload, and is kept.

With interval or a checkpoint, up to 1048576 objects are remembered that were read and still
exist. If there are more, move or delete them. Without a checkpoint, they are remembered until
the process ends, and a reload reads none of them again.

Metadata: bucket, key, etag, size, last_modified, content_type, content_encoding,
line, and the object's own metadata by name; an entry with one of these names becomes
metadata_NAME.
`

// Trouble says that the checkpoint can't be saved, or that no more objects can be remembered.
func (in *Input) Trouble() *engine.Trouble {
	if t := in.shared.book.Trouble(); t != nil {
		return t
	}
	return in.shared.list.trouble()
}
