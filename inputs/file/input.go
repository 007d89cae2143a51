package file

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/source"
	"github.com/flowd-io/flowd/internal/formats/compression"
	"github.com/flowd-io/flowd/internal/formats/framing"
)

// input reads files to their end. Its errors are permanent, because trying again would not help.
type input struct {
	cfg   Config
	log   *slog.Logger
	list  *list
	book  book
	acks  *source.Acks[mark]
	marks []mark // of the current Read

	path string        // of the file being read, "" between files
	from framing.Place // where it continues when it is opened again

	file *stream // nil: not open
	meta engine.Meta
	of   *entry
	rows framing.Reader // of a regular file
	pump *framing.Pump  // of any other file, whose reads block
}

var (
	_ engine.Opener   = (*input)(nil)
	_ engine.Closer   = (*input)(nil)
	_ engine.Traited  = (*input)(nil)
	_ engine.Troubled = (*input)(nil)
)

// Traits reports a position if there is a checkpoint.
func (in *input) Traits() engine.Traits { return engine.Traits{TakesBack: in.book.takesBack()} }

// Open finds the files and checks that they can be read.
func (in *input) Open(context.Context) error {
	if err := in.list.open(); err != nil {
		return err
	}
	if err := in.book.Open(); err != nil {
		return err
	}
	in.list.see(in.book)
	return nil
}

// Read adds records of one file; the next file is for the next Read.
func (in *input) Read(ctx context.Context, b *engine.Batch) (engine.Acker, error) {
	room := b.Room()
	for ctx.Err() == nil && b.Room() == room {
		err := in.read(ctx, b)
		in.acks.Read(in.marks)
		in.marks = in.marks[:0]
		var busy *compression.BusyError
		switch {
		case errors.Is(err, io.EOF):
			err = in.finish()
		case errors.As(err, &busy) && b.Room() < room:
			err = nil // the next Read gets it again
		case errors.As(err, &busy):
			err = in.await(ctx, busy)
		}
		if err != nil {
			return in.book.acker(in.acks), in.explain(ctx, err)
		}
	}
	return in.book.acker(in.acks), ctx.Err()
}

// await waits until the current file may be read again, and opens it.
func (in *input) await(ctx context.Context, busy *compression.BusyError) error {
	err := in.release()
	select {
	case <-busy.Freed:
	case <-ctx.Done():
	}
	return err
}

// read adds records of the current file, or of the next one. io.EOF says that the file has ended, [engine.ErrEnd] that the list
// has.
func (in *input) read(ctx context.Context, b *engine.Batch) error {
	if in.path == "" {
		path, ok := in.list.next()
		if !ok {
			return engine.ErrEnd
		}
		in.path, in.from = path, framing.Place{}
	}
	if in.rows == nil && in.pump == nil {
		if err := in.start(ctx); err != nil {
			return errors.Join(err, in.release())
		}
	}
	switch {
	case in.pump != nil:
		return in.pump.Fill(ctx, b, in.meta)
	case in.of == nil:
		return framing.Fill(in.rows, b, in.meta)
	}
	var err error
	in.marks, err = fill(in.rows, b, in.meta, in.of, in.acks.Next(), in.marks)
	return err
}

// start opens the current file where reading continues.
func (in *input) start(ctx context.Context) error {
	info, err := os.Stat(in.path)
	if err != nil {
		return explain(in.path, err)
	}
	in.file = &stream{path: in.path}
	in.meta = engine.Meta{}.With("path", in.path).Own().WithIndex("line")
	format := in.cfg.Format(in.path) // a pipe has no first bytes to look at
	if !info.Mode().IsRegular() {
		in.pump = framing.NewPump(in.file, func(r io.Reader) (framing.Reader, error) {
			return in.cfg.Decompressed(format, r)
		})
		return nil
	}
	f, err := in.file.open()
	if err != nil {
		return err
	}
	if format, err = in.cfg.Found("", in.path, firstOf(f)); err != nil {
		return err
	}
	if in.book.IsSaved() && in.of == nil {
		done, err := in.recall(f, info, format)
		if err != nil {
			return err
		}
		if done {
			return io.EOF
		}
	}
	in.rows, err = in.cfg.Continue(ctx, format, in.file, seekIn(in.file), in.from)
	if !errors.Is(err, framing.ErrOther) {
		return err
	}
	in.log.Warn("file has changed since it was read: it is read from its beginning", "path", in.path)
	if err := in.file.Close(); err != nil {
		return err
	}
	in.file, in.from = &stream{path: in.path}, framing.Place{}
	in.rows, err = in.cfg.Decompressed(format, in.file)
	return err
}

// recall finds how far earlier runs have read the current file. done says that they have read all of it.
func (in *input) recall(f *os.File, info os.FileInfo, format compression.Format) (done bool, err error) {
	key := idOf(in.path, info)
	found, at, other, err := in.book.find(key, in.path, f)
	if err != nil {
		return false, explain(in.path, err)
	}
	h, err := headOf(f, int(min(info.Size(), headSize)))
	if err != nil {
		return false, explain(in.path, err)
	}
	plain := format == compression.None && in.cfg.Resumes()
	switch {
	case found != nil && found.Done && found.Size == info.Size():
		return true, nil
	case found != nil && plain && info.Size() < at.Offset:
		in.log.Warn("file is shorter than what was read of it: it is read from its beginning", "path", in.path)
		found = nil
	case other:
		in.log.Info("file is not the one that was read under its inode number: it is read from its beginning", "path",
			in.path)
	}
	if in.of, in.from = found, at; found == nil {
		in.of, in.from = newEntry(in.path, key, h), framing.Place{}
		in.book.begin(in.of, in.from)
	}
	in.book.saw(in.of, h, info.Size())
	return false, nil
}

// finish ends the current file.
func (in *input) finish() error {
	if in.rows != nil && in.of != nil {
		in.book.saw(in.of, in.of.Head, max(in.of.Size, in.file.bytes.Load()))
		in.acks.Read([]mark{{in.of, in.rows.Place(), true}})
		in.book.release(in.of)
	}
	err := in.release()
	in.path, in.of = "", nil
	return err
}

// release closes the current file.
func (in *input) release() error {
	if in.file == nil {
		return nil
	}
	var err error
	if in.pump != nil {
		in.pump.Close()
	} else if in.rows != nil {
		in.from = in.rows.Place()
		err = in.rows.Close()
	}
	err = errors.Join(err, in.file.Close())
	in.file, in.rows, in.pump = nil, nil, nil
	return err
}

// explain adds to an error where it happened.
func (in *input) explain(ctx context.Context, err error) error {
	if err == engine.ErrEnd || ctx.Err() != nil {
		return err
	}
	// The error of a read already names the path.
	if fail, ok := errors.AsType[*os.PathError](err); ok {
		err = fail.Err
	}
	if in.file != nil && in.rows != nil {
		err = fmt.Errorf("%s: %w (at byte %d of the file)", in.path, err, in.file.bytes.Load())
	}
	return engine.WithClass(engine.Permanent, err)
}

// Close closes the current file. When it is opened again, the input continues in that file.
func (in *input) Close(context.Context) error {
	return errors.Join(in.release(), in.book.Close())
}

// Trouble reports that the checkpoint can't be saved.
func (in *input) Trouble() *engine.Trouble { return in.book.Trouble() }

// firstOf returns the first bytes of a file, which tell how it is compressed. It returns nil if they can't be read: the error then
// comes from reading the file.
func firstOf(f *os.File) []byte {
	var head [compression.HeadSize]byte
	n, _ := f.ReadAt(head[:], 0)
	return head[:n]
}
