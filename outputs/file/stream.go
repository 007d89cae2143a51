package file

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/cause"
	"github.com/flowd-io/flowd/internal/disk/files"
	"github.com/flowd-io/flowd/internal/formats/compression"
)

// partial ends the name of a file that is not complete yet.
const partial = ".part"

// stream is an open file with its part of the current write.
type stream struct {
	path   string
	format compression.Format
	file   *files.Held
	size   int64     // up to the last complete record
	torn   int64     // where the remains of a failed write end, if they could not be cut off; 0: there are none
	opened time.Time // when this run began it
	used   uint64    // when it was last written to, in writes
	plain  bool      // a regular file: it can be cut back and renamed

	packed bool // the current payloads are compressed already
	buf    []byte
	msgs   []*engine.Message
	ends   []int // where each message ends in buf
}

// name returns the file's current name.
func (o *output) name(s *stream) string {
	if o.cfg.Atomic && s.plain {
		return s.path + partial
	}
	return s.path
}

// open opens the file at its end.
func (o *output) open(s *stream) error {
	if err := o.place.renew(); err != nil {
		return err
	}
	info, err := o.place.stat(s.path)
	s.plain = err != nil || info.Mode().IsRegular()
	flags := os.O_WRONLY | os.O_CREATE | os.O_APPEND
	if !o.cfg.Append && s.plain && !o.begun.has(s.path) {
		flags |= os.O_TRUNC
	}
	file, err := o.place.openFile(o.name(s), flags)
	if err != nil {
		return explain(s.path, err)
	}
	if s.file, err = files.Hold(file, o.name(s)); err != nil {
		return explain(s.path, err)
	}
	o.share.Opened()
	if info, err = s.file.Stat(); err == nil && o.cfg.Fsync && s.plain {
		err = files.SyncDir(filepath.Dir(o.name(s))) // or a crash may lose the new file
	}
	if err != nil {
		return errors.Join(explain(s.path, err), o.closeFile(s))
	}
	s.size, s.torn, s.opened = info.Size(), 0, time.Now()
	if s.plain && (o.cfg.Atomic || !o.cfg.Append) {
		o.begun.add(s.path)
	}
	return nil
}

// closeFile closes the file of a stream, if it is open.
func (o *output) closeFile(s *stream) error {
	if s.file == nil {
		return nil
	}
	err := s.file.Close()
	s.file = nil
	o.share.Closed()
	return err
}

// maxMoves bounds how often a write is repeated because its file was renamed or deleted meanwhile.
const maxMoves = 10

// flush writes the buffer of a file. After an error, complete records that were written are kept, and their messages are done. The
// rest is cut off.
func (o *output) flush(ctx context.Context, s *stream, now time.Time) error {
	o.writes++
	s.used = o.writes
	for range maxMoves {
		if err := o.find(ctx, s); err != nil {
			return err
		}
		if err := o.rotateIfDue(ctx, s, now); err != nil {
			return err
		}
		if err := o.append(ctx, s); err != nil {
			return err
		}
		if _, named := s.file.Named(); named {
			return nil
		}
		// Whoever renamed the file may have read it before the write, and may delete it.
	}
	return engine.Errorf(engine.Transient, "%s: renamed or deleted during every write", s.path)
}

// find opens the file that the path names, unless it is open, and cuts off the remains of an earlier write.
func (o *output) find(ctx context.Context, s *stream) error {
	if s.file == nil { // it could not be opened after a rotation
		return o.openSpared(ctx, s)
	}
	info, named := s.file.Named()
	if !named {
		o.log.Info("file was renamed or deleted: opening it again", "path", s.path)
		_ = o.closeFile(s) // its writes have succeeded
		return o.openSpared(ctx, s)
	}
	if !s.plain {
		return nil
	}
	if s.torn > 0 && s.torn == info.Size() {
		if err := s.file.Truncate(s.size); err != nil {
			return explain(s.path, err)
		}
	} else {
		s.size = info.Size() // others may empty it, or append to it
	}
	s.torn = 0
	return nil
}

// append writes the buffer at the end of the open file.
func (o *output) append(ctx context.Context, s *stream) error {
	data, head := s.buf, 0
	if s.size == 0 && len(o.wr.Head) > 0 && !s.packed {
		head = len(o.wr.Head)
		data = append(o.wr.Head[:head:head], s.buf...)
	}
	if s.format != compression.None && !s.packed {
		var err error
		if data, err = compression.Compress(s.format, data, 0); err != nil {
			return engine.WithClass(engine.Permanent, fmt.Errorf("%s: %w", s.path, err))
		}
	}
	if !s.plain { // the reader of a pipe may stop reading
		_ = s.file.SetWriteDeadline(time.Time{})
		defer context.AfterFunc(ctx, func() { _ = s.file.SetWriteDeadline(time.Unix(1, 0)) })()
	}
	n, err := s.file.Write(data)
	safe := n
	if n > 0 && o.cfg.Fsync {
		if sync := s.file.Sync(); sync != nil {
			err, safe = errors.Join(err, sync), 0 // what is on the disk is unknown
		}
	}
	if err == nil {
		s.size += int64(n)
		return nil
	}
	whole := 0
	if _, named := s.file.Named(); named && (s.format == compression.None || s.packed) {
		if whole = s.done(safe - head); whole > 0 {
			whole += head
		}
	}
	return errors.Join(explain(s.path, err), s.cutBack(int64(whole), int64(n)))
}

// done marks the messages within the first n bytes and returns where the last of them ends.
func (s *stream) done(n int) (end int) {
	for i, m := range s.msgs {
		if s.ends[i] > n {
			break
		}
		m.Done()
		s.msgs[i], end = nil, s.ends[i]
	}
	return end
}

// cutBack cuts off the n bytes of a failed write, except for the first whole bytes.
func (s *stream) cutBack(whole, n int64) error {
	if !s.plain {
		return nil
	}
	end := s.size + n
	s.size += whole
	if s.size == end {
		return nil
	}
	if info, err := s.file.Stat(); err != nil || info.Size() != end {
		return err // another process has appended: these bytes are no longer at the end
	}
	if err := s.file.Truncate(s.size); err != nil {
		s.torn = end
		return fmt.Errorf("an incomplete record stays at its end until the next write: %w", err)
	}
	return nil
}

// fail fails the messages that are not done.
func (s *stream) fail(err error) {
	for _, m := range s.msgs {
		if m != nil {
			m.Fail(err)
		}
	}
}

// maxKept bounds the buffer that a file keeps between writes.
const maxKept = 1 << 20

// forget releases the current write.
func (s *stream) forget() {
	clear(s.msgs)
	s.buf, s.msgs, s.ends = s.buf[:0], s.msgs[:0], s.ends[:0]
	if cap(s.buf) > maxKept {
		s.buf = nil
	}
}

// rotateIfDue begins a new file when the current one is full or old.
func (o *output) rotateIfDue(ctx context.Context, s *stream, now time.Time) error {
	r := o.cfg.Rotate
	full := r.Size > 0 && s.size+int64(len(s.buf)) > int64(r.Size)
	old := r.Every > 0 && now.Sub(s.opened) >= r.Every
	if !s.plain || s.size == 0 || !full && !old {
		return nil
	}
	if err := o.place.rename(o.name(s), o.place.unused(s.path, now)); err != nil {
		return explain(s.path, err)
	}
	if err := errors.Join(o.closeFile(s), o.openSpared(ctx, s)); err != nil {
		return err
	}
	o.deleteOld(s.path)
	return nil
}

// deleteOld deletes the oldest full files of a path. An error only concerns the limit, so it is logged.
func (o *output) deleteOld(path string) {
	if o.cfg.Rotate.Keep == 0 {
		return
	}
	old, err := o.place.full(path)
	for _, name := range old[:max(0, len(old)-o.cfg.Rotate.Keep)] {
		if err := o.place.remove(name); err != nil {
			o.log.Warn("full file can't be deleted", "path", name, "error", err)
			continue
		}
		o.log.Warn("oldest full file deleted, as rotate.keep says", "path", name)
	}
	if err != nil {
		o.log.Warn("full files can't be listed, so none is deleted", "path", path, "error", err)
	}
}

// stampForm is the time in the name of a full file.
const stampForm = "20060102T150405.000"

// stamped puts a time into the name of a file: app.log, app-20260102T150405.000.log.
func stamped(path string, now time.Time, n int) string {
	dir, stem, ext := parts(path)
	stamp := now.UTC().Format(stampForm)
	if n > 0 {
		stamp += fmt.Sprintf("-%d", n)
	}
	return dir + stem + "-" + stamp + ext
}

// parts divides a path into its folder, with a slash, its name, and its extension.
func parts(path string) (dir, stem, ext string) {
	dir, base := filepath.Split(path)
	ext = filepath.Ext(base)
	if compression.FromPath(base) != compression.None {
		ext = filepath.Ext(strings.TrimSuffix(base, ext)) + ext
	}
	stem = strings.TrimSuffix(base, ext)
	if stem == "" { // .log
		stem, ext = base, ""
	}
	return dir, stem, ext
}

// stampOf returns the time, and the number if there are several, in the name of a full file of a path.
func stampOf(name, stem, ext string) (at time.Time, n int, ok bool) {
	rest, found := strings.CutPrefix(name, stem+"-")
	stamp, ends := strings.CutSuffix(rest, ext)
	if !found || !ends || len(stamp) < len(stampForm) {
		return time.Time{}, 0, false
	}
	at, err := time.Parse(stampForm, stamp[:len(stampForm)])
	if number := stamp[len(stampForm):]; err == nil && number != "" {
		n, err = strconv.Atoi(strings.TrimPrefix(number, "-"))
		if number[0] != '-' || n < 1 {
			return time.Time{}, 0, false
		}
	}
	return at, n, err == nil
}

// causes are what the errors of files mean. Of any other, it is not known whether the messages are to blame.
var causes = cause.Table{Code: outageOf, Rows: []cause.Row{
	{If: isOutage, Kind: cause.Busy},
	{Is: syscall.EPIPE, Kind: cause.Busy, Remedy: "start what reads the pipe"},
	{Is: fs.ErrPermission, Kind: cause.Misconfigured, Remedy: "give the user that runs flowd permission to write it"},
	{Is: syscall.EISDIR, Kind: cause.Rejected, Remedy: "name a file in it"},
	{Is: syscall.EEXIST, Kind: cause.Rejected, Says: syscall.ENOTDIR.Error()}, // a file where a folder has to be
	{If: cause.AnyOf(syscall.ENOTDIR, syscall.ENAMETOOLONG, syscall.EINVAL), Kind: cause.Rejected},
	{If: leavesRoot, Kind: cause.Rejected},
	{If: func(error) bool { return true }, Kind: cause.Mismatched},
}}

// explain gives an error its class and a remedy; the error names the path.
func explain(path string, err error) error {
	if p, ok := errors.AsType[*fs.PathError](err); ok {
		err = p.Err
	}
	return causes.Explain(err, path)
}

// outageOf returns the text of an error, with what helps against an outage.
func outageOf(err error) (code, text string) {
	if remedy, yes := files.Outage(err); yes {
		return "", fmt.Sprintf("%v (%s)", err, remedy)
	}
	return "", ""
}

func isOutage(err error) bool {
	_, yes := files.Outage(err)
	return yes
}

// leavesRoot reports whether an error is not one of the system: a link leads out of the folder of os.Root.
func leavesRoot(err error) bool { return !errors.As(err, new(syscall.Errno)) }
