package objects

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"slices"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/source"
	"github.com/flowd-io/flowd/internal/formats/compression"
	"github.com/flowd-io/flowd/internal/formats/framing"
	"github.com/flowd-io/flowd/internal/systems/metadata"
)

// Opening is what an [Input] needs to know about its kind of store.
type Opening struct {
	Kind   string // of the component, such as "s3"
	Bucket string // in messages and in the metadata `bucket`
	Notify bool   // Open returns notices

	// Open connects. It is called by each instance, and again after a failure.
	Open func(ctx context.Context) (Store, Notices, error)
}

// Input reads objects one after the other, each over one connection, in a separate goroutine
// that reads a little ahead. An object that can't be read to its end for a reason of its own
// becomes a failed message, and is kept.
type Input struct {
	*source.Session[*conn]
	system Opening
	cfg    *Source
	log    *slog.Logger
	shared *shared
	acks   acks
	acker  engine.Acker // nil: results change nothing

	item    item          // what is being read; its key is "" between objects
	reading *reading      // nil: it has not begun
	from    framing.Place // where it continues when it is opened again
	body    *body
	pump    *framing.Pump // nil: not open
	meta    engine.Meta
	marks   []mark // of the current Read
}

// conn is one opening of an input.
type conn struct {
	in      *Input
	store   Store
	notices Notices
}

// shared is what the instances of an input share.
type shared struct {
	list list
	book *book
}

var (
	_ engine.Traited  = (*Input)(nil)
	_ engine.Troubled = (*Input)(nil)
)

// sharedKey identifies an input. Its instances are built from one configuration.
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
	in := &Input{system: o, cfg: src, log: env.Log, shared: common}
	in.Session = source.NewSession(in.connect)
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

// Traits reports a position if anything depends on one.
func (in *Input) Traits() engine.Traits {
	if in.acker == nil {
		return engine.Traits{}
	}
	return engine.Traits{TakesBack: engine.TakesPosition}
}

// connect opens the store, and reads the checkpoint.
func (in *Input) connect(ctx context.Context) (*conn, error) {
	s, n, err := in.system.Open(ctx)
	if err != nil {
		return nil, err
	}
	if err := in.shared.book.Open(); err != nil {
		s.Close()
		return nil, err
	}
	if in.system.Notify {
		in.shared.book.List(nil).Complete(time.Now()) // no listing follows that would forget what no notice names again
	}
	return &conn{in, s, n}, nil
}

// closing is how long a Close may take to act on settled objects.
const closing = 30 * time.Second

// Close acts on settled objects, then closes the connections. An input that failed resumes in its object when it is opened
// again.
func (c *conn) Close(ctx context.Context, last bool) error {
	in := c.in
	in.release()
	defer c.store.Close()
	limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), closing)
	defer cancel()
	err := in.tidy(limited, c)
	if last {
		err = errors.Join(err, in.shared.list.releaseNotices(limited, c))
	}
	return errors.Join(err, in.shared.book.Close())
}

// Read adds records of one object; the next object is for the next Read.
func (in *Input) Read(ctx context.Context, b *engine.Batch) (engine.Acker, error) {
	c := in.Conn()
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

// read adds records of the current object, or opens the next one.
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
		in.log.Warn("object is not the one that was read before: reading it from its beginning", "key", in.reading.Key)
		in.from = framing.Place{}
	default:
		in.spoil(b, engine.Decode, err)
	}
	return nil
}

// note records where a message ends.
func (in *Input) note(m *engine.Message, at framing.Place) {
	m.Ref = in.acks.Next() + uint64(len(in.marks))
	in.marks = append(in.marks, mark{reading: in.reading, place: at})
}

// start opens the current object where reading continues, or the next one. If another instance reads that one, no object
// is open afterwards.
func (in *Input) start(ctx context.Context, c *conn, b *engine.Batch) (err error) {
	if err := in.tidy(ctx, c); err != nil {
		return err
	}
	if in.item.obj.Key == "" {
		if in.item, err = in.shared.list.nextItem(ctx, c); err != nil {
			return err
		}
		if n := in.item.notice; n != nil && n.Err != nil {
			in.refuse(b, n)
			return nil
		}
	}
	key, etag := in.item.obj.Key, ""
	if in.reading != nil {
		etag = in.reading.ETag
	}
	in.body, err = openBody(ctx, c.store, key, etag)
	if err != nil {
		return in.lost(b, err)
	}
	if in.reading == nil {
		if in.reading = in.shared.book.begin(key, in.body.obj.ETag, in.item.notice); in.reading == nil { // another reads it
			in.release()
			in.item = item{}
			return nil
		}
		in.from = in.reading.place()
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

// format returns how the object that begins is compressed.
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

// lost handles an object that can't be read although its content is not to blame. It returns an error if the store is.
func (in *Input) lost(b *engine.Batch, err error) error {
	switch {
	case errors.Is(err, ErrChanged) && in.reading != nil:
		in.log.Warn("object was replaced while it was read: reading the new one from its beginning", "key", in.reading.Key)
		in.shared.book.replaced(in.reading)
		again := in.item
		in.finish()
		in.item = again
	case errors.Is(err, ErrMissing):
		in.log.Info("object is gone", "key", in.item.obj.Key)
		in.begun()
		in.shared.book.keep(in.reading)
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

// begun begins the reading of an object that could not be opened, so that it can be settled.
func (in *Input) begun() {
	if in.reading == nil {
		in.reading = &reading{Key: in.item.obj.Key, ETag: in.item.obj.ETag}
		if n := in.item.notice; n != nil {
			in.reading.notices = []*Notice{n}
		}
		in.meta = in.metaOf(&in.item.obj)
	}
}

// spoil adds a failed message for an object that can't be read any further. The object is kept.
func (in *Input) spoil(b *engine.Batch, class engine.Class, err error) {
	in.shared.book.keep(in.reading)
	m := b.Add(nil)
	m.Meta = in.meta.At(max(1, in.from.Line))
	m.Fail(engine.Errorf(class, "object %s can't be read from line %d on: %w (it is kept)", in.reading.Key,
		max(1, in.from.Line), err))
	in.note(m, in.from)
	in.finish()
}

// refuse adds a failed message for a notice that can't be understood.
func (in *Input) refuse(b *engine.Batch, n *Notice) {
	in.reading = &reading{Keep: true, notices: []*Notice{n}}
	m := b.Add(n.Body)
	m.Meta = engine.Meta{}.With("bucket", in.system.Bucket).Own()
	m.Fail(refusal(n))
	in.note(m, framing.Place{})
	in.finish()
}

// finish ends the current object. No more of its messages follow.
func (in *Input) finish() {
	in.marks = append(in.marks, mark{reading: in.reading, place: in.from, end: true})
	in.item, in.reading, in.from = item{}, nil, framing.Place{}
}

// release closes the connection of the current object.
func (in *Input) release() {
	if in.pump != nil {
		in.pump.Close()
		in.pump.Wait()
	}
	if in.body != nil {
		in.body.cancel()
		in.body.drop()
	}
	in.pump, in.body = nil, nil
}

// names maps the names of an object's own metadata to those in its messages.
var names = metadata.Names{Prefix: "metadata_", Own: func(name string) bool {
	return slices.Contains([]string{"bucket", "key", "etag", "size", "last_modified", "content_type", "line"}, name)
}}

// metaOf returns the metadata of an object's messages. Users choose the names of an object's own metadata, so these must
// not be mistaken for the store's.
func (in *Input) metaOf(o *Object) engine.Meta {
	m := engine.Meta{}.With("bucket", in.system.Bucket).With("key", o.Key).With("etag", o.ETag).With("size", int(o.Size)).
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

// Trouble reports that the checkpoint can't be saved, or that no more objects can be remembered.
func (in *Input) Trouble() *engine.Trouble {
	if t := in.shared.book.Trouble(); t != nil {
		return t
	}
	return in.shared.list.trouble()
}
