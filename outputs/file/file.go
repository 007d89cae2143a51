// Package file writes messages to files. Start at [output.Write]. stream.go writes one file, and place.go limits what data may
// choose in a path.
package file

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/expr"
	"github.com/flowd-io/flowd/internal/disk/openfiles"
	"github.com/flowd-io/flowd/internal/formats/compression"
	"github.com/flowd-io/flowd/internal/formats/framing"
	"github.com/flowd-io/flowd/schema"
)

// Config configures the output.
type Config struct {
	Path                expr.Template `yaml:"path,main" check:"required" doc:"File to write. If it contains $(expressions), a folder must precede them, one from which flowd reads no configuration; their values can't lead out of it, nor more than 32 folders deep."`
	framing.OutConfig   `yaml:",inline"`
	framing.Compression `yaml:",inline"`
	Append              bool   `yaml:"append" doc:"Keep the contents of an existing file; false empties it when the run first writes to it."`
	Atomic              bool   `yaml:"atomic" doc:"A file gets its name when it is complete, at the end of the run or when it is rotated, and replaces any file with that name. Until then, and after a crash, it is NAME.part."`
	Fsync               bool   `yaml:"fsync" doc:"Each write waits until the data is on disk."`
	Rotate              rotate `yaml:"rotate" doc:"When to start a new file. The full one is renamed to include the time: app-20260102T150405.000.log."`
}

// Traits reports whether messages are lines.
func (c Config) Traits() engine.Traits { return engine.Traits{OneLine: c.OneLine()} }

// CheckConfig reports what can't be written.
func (c *Config) CheckConfig(report func(path, message, remedy string)) {
	if _, constant := c.Path.Const(); !constant && !strings.Contains(c.Path.Prefix(), "/") {
		report("path", "data must not choose the folder",
			"write one in front of the first $( ), as in out/$(country).ndjson")
	}
	if c.Rotate.Keep > 0 && c.Rotate.Size == 0 && c.Rotate.Every == 0 {
		report("rotate.keep", "no file is ever full, so there is nothing to keep", "add rotate.size or rotate.every")
	}
}

// FileWritten returns the field and the path of the file, or "" if messages choose it.
func (c Config) FileWritten() (field, path string) {
	path, _ = c.Path.Const()
	return "path", path
}

type rotate struct {
	Size  schema.Size   `yaml:"size" check:"min=1" doc:"Before a write that would make the file larger than this."`
	Every time.Duration `yaml:"every" check:"min=1ms" doc:"Before a write to a file that was started this long ago."`
	Keep  int           `yaml:"keep" check:"min=1" doc:"How many full files to keep. Older ones are deleted, which the log reports; all are kept by default."`
}

// Words returns what users of other systems may write, and what to write instead.
func (*Config) Words() map[string]string {
	return map[string]string{"codec": "write `framing`", "truncate": "write `append: false`"}
}

const about = `
Appends messages to files, one per line.

Folders are created as needed (mode 0700, files 0600). The extension determines
the compression; each write is then complete in itself, so a crash never leaves a
broken file. Payloads that a step has already compressed in this way are written
as they are.

A file that is renamed, deleted or emptied while it is open, as by logrotate, is
opened anew by its path before the next write is acknowledged; SIGHUP does it at
once. A full disk, an exhausted quota and a failing disk hold the output: messages
wait, and none is to blame.

    outputs:
      lake: {file: {path: "lake/$(country).ndjson.gz", rotate: {size: 100MiB}}}
`

func init() {
	defaults := Config{Append: true, Compression: framing.Compression{Compression: "auto"}}
	engine.Register(engine.Outputs, "file", about, defaults, newOutput)
}

type output struct {
	cfg      Config
	wr       *framing.Writer
	constant string // the path; "" if messages have their own paths
	place    *place
	begun    *begun
	share    *openfiles.Share // of the files that may be open
	log      *slog.Logger

	mu      sync.Mutex // guards the fields below
	only    *stream    // of the constant path
	streams map[string]*stream
	touched []*stream // by the current write
	writes  uint64
	text    []byte
}

var (
	_ engine.Opener   = (*output)(nil)
	_ engine.Closer   = (*output)(nil)
	_ engine.Reopener = (*output)(nil)
	_ engine.Traited  = (*output)(nil)
)

// begun has the paths to which this run has written, if that matters. An output that is opened again, because a write hangs, shares
// them with its predecessor.
type begun struct {
	mu     sync.Mutex // guards the fields below
	paths  map[string]bool
	newest *output // the last output that was opened: when it closes, the files are complete
}

type begunKey struct{ pipeline, output, path string }

func newOutput(c Config, env engine.Env) (engine.Output, error) {
	o := &output{cfg: c, wr: c.Writer(), streams: map[string]*stream{}, log: env.Log}
	key := begunKey{env.Pipeline, env.Name, c.Path.String()}
	o.begun = engine.Common(env.Shared, key, func() *begun { return &begun{paths: map[string]bool{}} })
	o.constant, _ = c.Path.Const()
	o.place = newPlace(&o.cfg.Path, env.Reads)
	return o, o.place.meets()
}

func (b *begun) opened(o *output) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.newest = o
}

// has reports whether the run has written to a path.
func (b *begun) has(path string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.paths[path]
}

func (b *begun) add(path string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.paths[path] = true
}

// complete returns the paths of files that are complete when o closes.
func (b *begun) complete(o *output) (paths []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.newest != o {
		return nil
	}
	paths = slices.Sorted(maps.Keys(b.paths))
	clear(b.paths)
	return paths
}

// Open opens the file if its path is known.
func (o *output) Open(ctx context.Context) error {
	if err := o.place.open(); err != nil {
		return err
	}
	o.share = openfiles.Process().Join(o.giveUp)
	if o.constant != "" {
		var err error
		if o.only, err = o.stream(ctx, o.constant); err != nil {
			o.share.Leave()
			return err
		}
	}
	o.begun.opened(o)
	return nil
}

// Write writes once to each file of the batch's messages.
func (o *output) Write(ctx context.Context, b *engine.Batch) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.touched = o.touched[:0]
	refused := false
	for m := range b.All() {
		if refused && m.Key != nil && o.only != nil {
			m.Fail(engine.ErrBehind)
			continue
		}
		if err := o.add(ctx, m); err != nil {
			m.Fail(err)
			refused = true
		}
	}
	now := time.Now()
	for _, s := range o.touched {
		o.settle(ctx, s, now)
	}
	return nil
}

// settle writes the buffer of a file.
func (o *output) settle(ctx context.Context, s *stream, now time.Time) {
	if len(s.msgs) == 0 {
		return
	}
	if err := o.flush(ctx, s, now); err != nil {
		s.fail(err)
	}
	s.forget()
}

// add puts a message into the buffer of its file.
func (o *output) add(ctx context.Context, m *engine.Message) error {
	s, err := o.of(ctx, m)
	if err != nil {
		return err
	}
	packed := o.cfg.Compression.Auto() && compression.Is(s.format, m.Bytes())
	if packed != s.packed {
		o.settle(ctx, s, time.Now())
		s.packed = packed
	}
	buf, err := o.frame(s, m)
	if err != nil {
		return err
	}
	if len(s.msgs) == 0 {
		o.touched = append(o.touched, s)
	}
	s.buf, s.msgs, s.ends = buf, append(s.msgs, m), append(s.ends, len(buf))
	return nil
}

// frame appends m to the buffer of its file. A payload that a step has compressed in the way that the file's name says is appended
// unchanged.
func (o *output) frame(s *stream, m *engine.Message) ([]byte, error) {
	if s.packed {
		return append(s.buf, m.Bytes()...), nil
	}
	return o.wr.Append(s.buf, m)
}

// of returns the file of a message.
func (o *output) of(ctx context.Context, m *engine.Message) (*stream, error) {
	if o.only != nil {
		return o.only, nil
	}
	var err error
	if o.text, err = o.cfg.Path.Append(o.text[:0], m); err != nil {
		return nil, err
	}
	if s := o.streams[string(o.text)]; s != nil {
		return s, nil
	}
	if err := o.place.allows(string(o.text)); err != nil {
		return nil, engine.WithClass(engine.Rejected, err)
	}
	return o.stream(ctx, string(o.text))
}

// stream returns the open file of a path.
func (o *output) stream(ctx context.Context, path string) (*stream, error) {
	if s := o.streams[path]; s != nil {
		return s, nil
	}
	for o.share.Full() {
		if made, err := o.makeRoom(ctx); err != nil {
			return nil, err
		} else if !made {
			break // one file is always allowed
		}
	}
	s := &stream{path: path, format: o.cfg.Format(path)}
	if err := o.openSpared(ctx, s); err != nil {
		return nil, err
	}
	o.streams[path] = s
	return s, nil
}

// openSpared opens a file. If there are no free descriptors, it closes other files.
func (o *output) openSpared(ctx context.Context, s *stream) error {
	for {
		err := o.open(s)
		if !openfiles.IsExhausted(err) {
			return err
		}
		if made, closing := o.makeRoom(ctx); !made || closing != nil {
			return errors.Join(err, closing)
		}
	}
}

// makeRoom closes a file that is kept open, here or in another output.
func (o *output) makeRoom(ctx context.Context) (bool, error) {
	if o.share.Relieve() {
		return true, nil
	}
	oldest := o.oldest()
	if oldest == nil {
		return false, nil
	}
	o.settle(ctx, oldest, time.Now()) // it may have to be written to
	return true, o.drop(oldest)
}

// giveUp closes a file because another output needs its descriptor, unless a write is in progress.
func (o *output) giveUp() bool {
	if !o.mu.TryLock() {
		return false
	}
	defer o.mu.Unlock()
	oldest := o.oldest()
	if oldest == nil || o.only != nil {
		return false
	}
	_ = o.drop(oldest) // its writes have succeeded
	return true
}

// oldest returns the open file whose last write is the longest ago.
func (o *output) oldest() (oldest *stream) {
	for _, s := range o.streams {
		if s.file != nil && s.torn == 0 && (oldest == nil || s.used < oldest.used) {
			oldest = s
		}
	}
	return oldest
}

// drop closes a file.
func (o *output) drop(s *stream) error {
	delete(o.streams, s.path)
	return o.closeFile(s)
}

// Reopen closes all files, and opens the one whose path is known, so that deleted files free their space. During a write it does
// nothing: writes check the files themselves.
func (o *output) Reopen(ctx context.Context) {
	if !o.mu.TryLock() {
		return
	}
	defer o.mu.Unlock()
	for _, s := range o.streams {
		if s == o.only {
			_ = o.closeFile(s) // its writes have succeeded
			_ = o.openSpared(ctx, s)
		} else if s.torn == 0 {
			_ = o.drop(s)
		}
	}
}

// Traits says that a single file is sequential: a write keeps the order and ends at the first error. With order keys, it also ends
// where the framing refuses a message.
func (o *output) Traits() engine.Traits { return engine.Traits{Sequential: o.constant != ""} }

// Close closes all files. Complete files get their final names.
func (o *output) Close(context.Context) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	var errs []error
	for _, s := range o.streams {
		errs = append(errs, o.drop(s))
	}
	if o.share != nil {
		o.share.Leave()
	}
	if o.cfg.Atomic {
		for _, path := range o.begun.complete(o) {
			errs = append(errs, o.place.rename(path+partial, path))
		}
	}
	return errors.Join(append(errs, o.place.close())...)
}
