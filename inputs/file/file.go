// Package file reads messages from files. Start at [newInput]; the list of
// files, which all instances of an input share, is in list.go.
package file

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/framing"
	"github.com/flowd-io/flowd/schema"
)

// Config configures the input.
type Config struct {
	Path                paths `yaml:"path,main" check:"required" doc:"File, pattern (*, ?, [a-z], ** for any folders) or a list of them. Files are read one after the other, sorted as people do: a2 before a10."`
	framing.Config      `yaml:",inline"`
	framing.Compression `yaml:",inline"`
	Follow              *schema.Node `yaml:"follow" pending:"following files" doc:"Wait for what is appended."`
	Checkpoint          *schema.Node `yaml:"checkpoint" pending:"following files" doc:"Where to remember how far files were read."`
}

// Words are what users of other systems write.
func (*Config) Words() map[string]string {
	return map[string]string{"paths": "write `path`, which takes a list, too", "include": "write `path`, which takes a list, too", "codec": "write `framing`", "scanner": "write `framing`"}
}

const about = `
Reads files, one message a line, and ends with the last of them.

Files are uncompressed by their extension. With concurrency, several files are
read at once. Metadata: path, line.

    inputs:
      log: {file: {path: "logs/*.ndjson.gz"}}
`

func init() {
	defaults := Config{Config: framing.Defaults, Compression: framing.Compression{Compression: "auto"}}
	engine.Register(engine.Inputs, "file", about, defaults, newInput)
}

type input struct {
	cfg  Config
	list *list

	file *source // nil between files
	meta engine.Meta
	rows framing.Reader // of a regular file
	pump *framing.Pump  // of any other, whose reads block
}

var (
	_ engine.Opener = (*input)(nil)
	_ engine.Closer = (*input)(nil)
)

func newInput(c Config, env engine.Env) (engine.Input, error) {
	if len(c.Path) == 0 {
		return nil, errors.New("path is missing")
	}
	// The instances of one input are built from one configuration.
	shared := env.Shared.Get(fmt.Sprintf("file %s %p", env.Name, &c.Path[0]), func() any { return &list{patterns: c.Path} })
	return &input{cfg: c, list: shared.(*list)}, nil
}

// Open finds the files and sees that they can be read.
func (in *input) Open(context.Context) error { return in.list.open() }

// Read adds records of one file; the next file is for the next Read.
func (in *input) Read(ctx context.Context, b *engine.Batch) (engine.Acker, error) {
	for ctx.Err() == nil {
		if in.file == nil {
			path, ok := in.list.next()
			if !ok {
				return nil, io.EOF
			}
			if err := in.start(path); err != nil {
				return nil, err
			}
		}
		room := b.Room()
		err := in.fill(ctx, b)
		if !errors.Is(err, io.EOF) {
			return nil, in.explain(ctx, err)
		}
		if err := in.finish(); err != nil {
			return nil, err
		}
		if b.Room() < room {
			return nil, nil
		}
	}
	return nil, ctx.Err()
}

func (in *input) start(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return explain(path, err)
	}
	in.file = &source{path: path}
	in.meta = engine.Meta{}.With("path", path).Own().WithIndex("line")
	records := func(r io.Reader) (framing.Reader, error) { return in.cfg.Decompressed(in.cfg.Format(path), r) }
	if info.Mode().IsRegular() {
		in.rows, err = records(in.file)
		return err
	}
	in.pump = framing.NewPump(in.file, records)
	return nil
}

func (in *input) fill(ctx context.Context, b *engine.Batch) error {
	if in.pump != nil {
		return in.pump.Fill(ctx, b, in.meta)
	}
	return framing.Fill(in.rows, b, in.meta)
}

// explain says where an error happened.
func (in *input) explain(ctx context.Context, err error) error {
	if err == nil || ctx.Err() != nil {
		return err
	}
	// The error of a read names the path by itself.
	var fail *os.PathError
	if errors.As(err, &fail) {
		err = fail.Err
	}
	return fmt.Errorf("%s: %w (at byte %d of the file)", in.file.path, err, in.file.bytes.Load())
}

func (in *input) finish() error {
	if in.pump != nil {
		in.pump.Close()
	}
	err := in.file.Close()
	in.file, in.rows, in.pump = nil, nil, nil
	return err
}

// Close lets go of the file at hand.
func (in *input) Close(context.Context) error {
	if in.file == nil {
		return nil
	}
	return in.finish()
}
