package tables

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"
	"unsafe"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/schema"
)

// file is the source of a table in a file.
type file struct {
	cfg    *Config
	seen   os.FileInfo // info of the version that was read; nil: not read yet, or gone
	writes os.FileInfo // info of a newer version that may be incomplete
}

// where names the place of the table in errors.
func (c *Config) where() string {
	switch {
	case c.URL != "":
		return shownURL(c.URL)
	case c.SQL != nil:
		return "the answer of " + c.SQL.Driver
	}
	return c.File
}

func (f *file) pause() time.Duration {
	if f.cfg.Interval > 0 {
		return f.cfg.Interval
	}
	return time.Second
}

func (f *file) read(context.Context) ([]byte, error) {
	if _, err := f.stat(); err != nil {
		return nil, err
	}
	return f.readAll(false)
}

// changed reads a file that has not changed since the last check: a file that is rewritten in place is complete then,
// unless its writer pauses.
func (f *file) changed(context.Context) ([]byte, error) {
	info, err := f.stat()
	if err != nil {
		f.seen = nil
		return nil, err
	}
	if same(info, f.seen) {
		f.writes = nil
		return nil, nil
	}
	if !same(info, f.writes) {
		f.writes = info
		return nil, errWriting
	}
	f.writes = nil
	return f.readAll(true)
}

// stat returns the file info. A pipe or device is an error, since it might never end.
func (f *file) stat() (os.FileInfo, error) {
	info, err := os.Stat(f.cfg.File) // follows links: Kubernetes replaces those
	if place, ok := errors.AsType[*fs.PathError](err); ok {
		err = place.Err
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.cfg.File, err)
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a file", f.cfg.File)
	}
	return info, nil
}

// readAll reads the file. With quiet, it returns [errWriting] if the file changed meanwhile.
func (f *file) readAll(quiet bool) ([]byte, error) {
	name, most := f.cfg.File, int64(f.cfg.MaxSize)
	r, err := os.Open(name) // #nosec G304 -- the configuration names it
	if err != nil {
		return nil, err
	}
	defer r.Close()
	info, err := r.Stat() // the name may refer to another file by now
	if err != nil {
		return nil, err
	}
	if info.Size() > most {
		f.seen = info
		return nil, errLarge
	}
	var data bytes.Buffer
	data.Grow(int(info.Size()) + bytes.MinRead)
	if _, err := data.ReadFrom(io.LimitReader(r, most+1)); err != nil {
		return nil, err
	}
	if after, err := f.stat(); quiet && (err != nil || !same(after, info)) {
		return nil, errWriting
	}
	if f.seen = info; int64(data.Len()) > most {
		return nil, errLarge
	}
	return data.Bytes(), nil
}

func (c *Config) tooLarge() error {
	return engine.Errorf(engine.TooLarge, "%s is larger than %s (raise `max_size`, or leave out what is not looked up)",
		c.where(), schema.Size(c.MaxSize))
}

func same(a, b os.FileInfo) bool {
	if a == nil || b == nil {
		return a == b
	}
	return os.SameFile(a, b) && a.ModTime().Equal(b.ModTime()) && a.Size() == b.Size()
}

// given is the source of a table in a test.
type given []byte

func (g given) read(context.Context) ([]byte, error)    { return g, nil }
func (g given) changed(context.Context) ([]byte, error) { return nil, nil }
func (given) pause() time.Duration                      { return time.Hour }

// refused is the source of a table that a test can't read.
type refused struct{ err error }

func (r refused) read(context.Context) ([]byte, error)    { return nil, r.err }
func (r refused) changed(context.Context) ([]byte, error) { return nil, r.err }
func (refused) pause() time.Duration                      { return time.Hour }

// offset returns the place of a part of a text.
func offset(text, part []byte) int {
	return int(uintptr(unsafe.Pointer(unsafe.SliceData(part))) - uintptr(unsafe.Pointer(unsafe.SliceData(text))))
}
