// Package file reads messages from files. Start at [newInput]: an [input] reads
// files to their end, with the list of files, which all its instances share, in
// list.go; a [follower] waits for more. How far files were read is in book.go.
package file

import (
	"cmp"
	"errors"
	"log/slog"
	"path/filepath"
	"strings"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/formats/compression"
	"github.com/flowd-io/flowd/internal/formats/framing"
	"github.com/flowd-io/flowd/internal/state/checkpoint"
)

// Config configures the input.
type Config struct {
	Path                paths `yaml:"path,main" check:"required" doc:"File, pattern (*, ?, [a-z], {a,b}, ** for any folders), or a list of these. ** skips hidden files and folders, unless the part after it names them: **/.*. Files are read one after another, in natural order: a2 before a10."`
	Exclude             paths `yaml:"exclude" doc:"Pattern, or list of patterns, of files to leave out. A pattern without a slash is for file names in any folder: *.bak."`
	framing.Config      `yaml:",inline"`
	framing.Compression `yaml:",inline"`
	Follow              bool   `yaml:"follow" doc:"At the end of the files, wait for appended data and new files, even across renames, truncation and deletion. Compressed files are skipped."`
	Start               string `yaml:"start" check:"oneof=beginning|end" default:"beginning" doc:"Where following begins in files that exist at the first start, while there is no checkpoint. With end, line counts from there."`
	Checkpoint          string `yaml:"checkpoint" doc:"File that records how far each file has been read: up to the first message that is not settled. A restart continues there, and does not read finished files again."`
}

// Words returns what users of other systems may write, and what to write instead.
func (*Config) Words() map[string]string {
	return map[string]string{
		"paths": "write `path`, which takes a list, too", "include": "write `path`, which takes a list, too",
		"exclude_files": "write `exclude`, with patterns such as *.gz", "ignore": "write `exclude`",
		"codec": "write `framing`", "scanner": "write `framing`",
		"read_from": "write `start`", "tail": "write `follow: true`", "data_dir": "write `checkpoint: FILE`",
	}
}

// CheckConfig reports what makes no sense together.
func (c *Config) CheckConfig(report func(path, message, remedy string)) {
	if c.Start != "beginning" && c.Start != "" && !c.Follow {
		report("start", "says where following begins", "add follow: true")
	}
	if !c.Follow {
		return
	}
	switch {
	case c.Framing.Whole != nil:
		report("framing", "a file that is followed has no end, so it can't be one whole record",
			"leave follow out, or choose another framing")
	case c.Framing.Tar != nil:
		report("framing", "an archive can't be followed", "leave follow out")
	case !c.Auto() && c.Format("") != compression.None:
		report("compression", "a compressed file can't be followed",
			"leave follow out, or follow the file before it is compressed")
	}
	for _, p := range c.Path {
		if c.Auto() && c.Format(p) != compression.None {
			report("path", p+": a compressed file can't be followed",
				"leave follow out, or follow the file before it is compressed")
		}
	}
}

// OwnFile returns the field and the path of the checkpoint.
func (c Config) OwnFile() (field, path string) { return "checkpoint", c.Checkpoint }

// FilesRead returns the paths that are not patterns.
func (c Config) FilesRead() (all []string) {
	for _, p := range c.Path {
		if !strings.ContainsAny(p, "*?[{") {
			all = append(all, p)
		}
	}
	return all
}

const about = `
Reads files, one message per line, and ends after the last file.

Files are decompressed according to their extension, else their first bytes. With follow,
which leaves compressed files out, the input waits for more at the end; with a
checkpoint, it resumes where it left off after a restart, at least once. With
concurrency, several files are read at once. Metadata: path, line.

    inputs:
      log: {file: {path: "logs/*.ndjson.gz"}}
      app: {file: {path: "/var/log/app/*.log", follow: true, checkpoint: app.checkpoint}}
`

func init() {
	defaults := Config{Config: framing.Defaults, Compression: framing.Compression{Compression: "auto"},
		Start: "beginning"}
	engine.Register(engine.Inputs, "file", about, defaults, newInput)
}

// shared is what the instances of an input share.
type shared struct {
	list list
	book book
}

// sharedKey identifies an input. Its instances are built from one configuration.
type sharedKey struct{ path *string }

func newInput(c Config, env engine.Env) (engine.Input, error) {
	if len(c.Path) == 0 {
		return nil, errors.New("path is missing")
	}
	log := cmp.Or(env.Log, slog.New(slog.DiscardHandler))
	b := newBook(env, c.Checkpoint, log)
	common := engine.Common(env.Shared, sharedKey{&c.Path[0]}, func() *shared {
		return &shared{list{patterns: c.Path, exclude: c.Exclude, checkpoint: c.Checkpoint}, b}
	})
	index, instances := env.Index, max(1, env.Instances)
	if c.Follow {
		return newFollower(c, log, common.book, index, instances), nil
	}
	return &input{
		cfg: c, log: log, list: &common.list, book: common.book, acks: common.book.acks(),
	}, nil
}

// isCheckpoint reports whether a path is that of a checkpoint, which is not an input.
func isCheckpoint(path, of string) bool {
	if of == "" {
		return false
	}
	base, own := filepath.Base(path), filepath.Base(of)
	if base != own && base != checkpoint.Temporary(own) {
		return false
	}
	a, err := filepath.Abs(filepath.Dir(path))
	b, err2 := filepath.Abs(filepath.Dir(of))
	return err == nil && err2 == nil && a == b
}
