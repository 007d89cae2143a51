package deadletters

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/disk/files"
	"github.com/flowd-io/flowd/internal/disk/flock"
	"github.com/flowd-io/flowd/internal/formats/compression"
	"github.com/flowd-io/flowd/internal/formats/framing"
	"github.com/flowd-io/flowd/internal/systems/queue"
)

// takenMark is in the name of a file whose letters a command is working on: PATH.taken-XXXX. Renaming the file takes it
// away from the output that appends to it, which then begins a new one, and repeats a write that it has not finished. Beside
// it, PATH.taken-XXXX.done lists the lines that are done. After a crash, the next command continues with both.
const (
	takenMark = ".taken-"
	doneMark  = ".done"
)

// fileSource has the letters of files in the form of framing messages.
type fileSource struct {
	files []*letterFile
	at    int // in files, of the one that is read
}

const (
	lineBits = 40
	mostFile = 1<<(64-lineBits) - 1
)

// openFiles opens the files of a path, which may be a pattern. If take is false, letters are only read, and Done and
// Replace must not be called.
func openFiles(path string, take bool) (*fileSource, error) {
	paths := []string{path}
	if _, err := os.Lstat(path); err != nil && strings.ContainsAny(path, "*?[") {
		if paths, err = filepath.Glob(path); err != nil {
			return nil, fmt.Errorf("%q is not a valid pattern: %w", path, err)
		}
		paths = slices.DeleteFunc(paths, func(p string) bool { return strings.Contains(p, takenMark) })
	}
	s := &fileSource{}
	var busy error
	for _, p := range paths {
		all, err := openPath(p, take)
		s.files = append(s.files, all...)
		if errors.Is(err, flock.ErrHeld) {
			busy = fmt.Errorf("%s: another command is working on these dead letters", p)
			continue
		}
		if err != nil {
			return nil, errors.Join(err, s.Close())
		}
	}
	switch {
	case len(s.files) > 0 && len(s.files) <= mostFile:
		return s, nil
	case busy != nil:
		return nil, busy
	}
	return nil, errors.Join(&fs.PathError{Op: "open", Path: path, Err: fs.ErrNotExist}, s.Close())
}

// openPath opens what earlier commands have left of a path, and then the path.
func openPath(path string, take bool) (all []*letterFile, err error) {
	left, orphans, err := leftOf(path)
	if err != nil {
		return nil, err
	}
	for _, name := range orphans {
		if take {
			_ = os.Remove(name) // or the next command does
		}
	}
	var busy error
	for _, name := range left {
		f, err := openLetters(path, name, take)
		switch {
		case errors.Is(err, flock.ErrHeld):
			busy = err
		case errors.Is(err, fs.ErrNotExist): // a command has just finished it
		case err != nil:
			return all, err
		default:
			all = append(all, f)
		}
	}
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return all, busy
	case err != nil:
		return all, err
	case !info.Mode().IsRegular():
		return all, fmt.Errorf("%s is not a regular file", path)
	}
	name := path
	if take {
		name = path + takenMark + rand.Text()[:8]
		if err := os.Rename(path, name); err != nil {
			return all, err
		}
		if err := files.SyncDir(filepath.Dir(path)); err != nil {
			return all, err
		}
	}
	f, err := openLetters(path, name, take)
	if err != nil {
		return all, err
	}
	return append(all, f), nil
}

// leftOf returns the files of a path that earlier commands have taken, and lists of lines whose file is gone.
func leftOf(path string) (names, orphans []string, err error) {
	dir, base := filepath.Split(path)
	entries, err := os.ReadDir(cmp.Or(dir, "."))
	for _, e := range entries { // sorted: a file comes before its list
		name := dir + e.Name()
		of, isList := strings.CutSuffix(name, doneMark)
		switch {
		case !strings.HasPrefix(e.Name(), base+takenMark):
		case !isList:
			names = append(names, name)
		case !slices.Contains(names, of):
			orphans = append(orphans, name)
		}
	}
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return names, orphans, err
}

// Read returns the letters of one file after the other.
func (s *fileSource) Read(ctx context.Context, most int) (all []Letter, err error) {
	for ; s.at < len(s.files); s.at++ {
		for len(all) < most && ctx.Err() == nil {
			l, ok, err := s.files[s.at].next()
			if err != nil {
				return all, err
			}
			if !ok {
				break
			}
			l.Ref |= uint64(s.at) << lineBits
			all = append(all, l)
		}
		if len(all) > 0 || ctx.Err() != nil {
			return all, ctx.Err()
		}
	}
	return nil, engine.ErrEnd
}

// Done records lines as done.
func (s *fileSource) Done(_ context.Context, refs []uint64) error {
	byFile := map[int][]int64{}
	for _, ref := range refs {
		i := int(ref >> lineBits)
		byFile[i] = append(byFile[i], int64(ref&(1<<lineBits-1)))
	}
	for _, i := range slices.Sorted(maps.Keys(byFile)) {
		if err := s.files[i].record(byFile[i]); err != nil {
			return err
		}
	}
	return nil
}

// Replace appends letters to their file, and records the lines of the old ones as done.
func (s *fileSource) Replace(ctx context.Context, with []queue.Message) error {
	form := framing.OutConfig{Framing: framing.OutFraming{Messages: &framing.Plain{}}}
	w := form.Writer()
	text := map[string][]byte{}
	refs := make([]uint64, len(with))
	b := engine.NewBatch(len(with))
	for i, m := range with {
		refs[i] = m.Ref
		line := b.Add(m.Payload)
		line.Meta = metaOf(m.Meta, nil)
		path := s.files[m.Ref>>lineBits].path
		var err error
		if text[path], err = w.Append(text[path], line); err != nil {
			return err
		}
	}
	for _, path := range slices.Sorted(maps.Keys(text)) {
		if err := appendTo(path, text[path]); err != nil {
			return err
		}
	}
	return s.Done(ctx, refs)
}

// Total counts lines.
func (s *fileSource) Total(ctx context.Context) (n int64) {
	for _, f := range s.files {
		lines, err := f.count(ctx)
		if err != nil {
			return -1
		}
		n += lines
	}
	return n
}

// Close appends the letters that are not done to their files.
func (s *fileSource) Close() error {
	var errs []error
	for _, f := range s.files {
		errs = append(errs, f.close())
	}
	return errors.Join(errs...)
}

// letterFile is one file with letters.
type letterFile struct {
	path  string // to which letters return
	name  string // the present name: that of path, or a taken one
	lock  *os.File
	log   *os.File // of lines that are done; nil: none was when it was opened, or the file is not taken
	done  lineSet
	lines *lineReader
}

// openLetters opens a file. If take is true, its name is a taken one, and the file is locked.
func openLetters(path, name string, take bool) (_ *letterFile, err error) {
	f := &letterFile{path: path, name: name}
	defer func() {
		if err != nil {
			err = errors.Join(err, f.release())
		}
	}()
	if take {
		if f.lock, err = os.Open(name); err != nil {
			return nil, err
		}
		if _, err = flock.Lock(f.lock); err != nil {
			return nil, err
		}
		if _, err = os.Stat(name); err != nil { // another command may have finished it before it was locked
			return nil, err
		}
	}
	if err = f.readDone(take); err != nil {
		return nil, err
	}
	f.lines, err = openLines(name, path)
	return f, err
}

// readDone reads the lines that are done, and opens their list for more if append is true. The end of a list that a crash
// has cut short is removed.
func (f *letterFile) readDone(append bool) error {
	if f.name == f.path {
		return nil
	}
	text, err := os.ReadFile(f.name + doneMark)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	whole := bytes.LastIndexByte(text, '\n') + 1
	for line := range bytes.Lines(text[:whole]) {
		var n int64
		if _, err := fmt.Sscanf(string(line), "%d\n", &n); err != nil || n < 1 {
			return fmt.Errorf("%s%s: %q is not the number of a line", f.name, doneMark, bytes.TrimSpace(line))
		}
		f.done.add(n)
	}
	if !append {
		return nil
	}
	if f.log, err = os.OpenFile(f.name+doneMark, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600); err != nil {
		return err
	}
	return errors.Join(f.log.Truncate(int64(whole)), files.SyncDir(filepath.Dir(f.name)))
}

// next returns the next letter; ok is false at the end.
func (f *letterFile) next() (l Letter, ok bool, err error) {
	for {
		text, whole, err := f.lines.next()
		if err == io.EOF {
			return Letter{}, false, nil
		}
		if err != nil {
			return Letter{}, false, fmt.Errorf("%s, line %d: %w", f.name, f.lines.line+1, err)
		}
		n := f.lines.line
		if text = bytes.TrimRight(text, "\r\n"); f.done.has(n) || len(text) == 0 {
			continue
		}
		where := fmt.Sprintf("%s, line %d", f.path, n)
		if !whole {
			return Letter{Message: queue.Message{Ref: uint64(n)}, Where: where,
				Broken: fmt.Errorf("the line is longer than %d MiB", mostLine>>20)}, true, nil
		}
		rec, err := framing.ReadMessage(text)
		if err != nil {
			err = fmt.Errorf("not a message in the form that framing messages writes: %w", err)
		} else if rec.Err != nil {
			err = rec.Err
		}
		if err != nil {
			return Letter{Message: queue.Message{Payload: text, Ref: uint64(n)}, Where: where, Broken: err}, true, nil
		}
		l := NewLetter(queue.Message{Payload: rec.Body, Meta: rec.Meta(engine.Meta{}).Map(), Ref: uint64(n)})
		l.Where = where
		return l, true, nil
	}
}

// record appends lines to the list of those that are done.
func (f *letterFile) record(lines []int64) error {
	var text []byte
	for _, n := range lines {
		text = fmt.Appendf(text, "%d\n", n)
	}
	if _, err := f.log.Write(text); err != nil {
		return err
	}
	if err := f.log.Sync(); err != nil {
		return err
	}
	for _, n := range lines {
		f.done.add(n)
	}
	return nil
}

func (f *letterFile) count(ctx context.Context) (n int64, err error) {
	r, err := openLines(f.name, f.path)
	if err != nil {
		return 0, err
	}
	defer r.close()
	for {
		copied, err := r.copyNext(io.Discard, f.done.has)
		switch {
		case err == io.EOF:
			return n, nil
		case err != nil || ctx.Err() != nil:
			return 0, errors.Join(err, ctx.Err())
		case copied:
			n++
		}
	}
}

// close returns the letters that are not done, if the file is taken.
func (f *letterFile) close() error {
	taken := f.log != nil
	if f.lines != nil {
		if err := f.lines.close(); err != nil {
			return errors.Join(err, f.release())
		}
		f.lines = nil
	}
	if !taken {
		return f.release()
	}
	if err := f.putBack(); err != nil {
		return errors.Join(fmt.Errorf("the dead letters that are left can't be returned to %s: %w (they are in %s, from where the "+
			"next command continues)", f.path, err, f.name), f.release())
	}
	return f.release()
}

// returnAtOnce is how much of a file is returned in one write, in bytes. After a crash, so much may be there twice.
const returnAtOnce = 1 << 20

// putBack returns the letters that are not done to the path, and deletes the taken file.
func (f *letterFile) putBack() error {
	if len(f.done) == 0 && os.Link(f.name, f.path) == nil { // fails if there is a new file
		return f.remove()
	}
	r, err := openLines(f.name, f.path)
	if err != nil {
		return err
	}
	defer r.close()
	var text bytes.Buffer
	var lines []int64
	flush := func() error {
		if len(lines) == 0 {
			return nil
		}
		if err := appendTo(f.path, text.Bytes()); err != nil {
			return err
		}
		text.Reset()
		err := f.record(lines)
		lines = lines[:0]
		return err
	}
	for {
		copied, err := r.copyNext(&text, f.done.has)
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
		if copied {
			lines = append(lines, r.line)
		}
		if text.Len() >= returnAtOnce {
			if err := flush(); err != nil {
				return err
			}
		}
	}
	if err := flush(); err != nil {
		return err
	}
	return f.remove()
}

// remove deletes the taken file, and then the list that belongs to it.
func (f *letterFile) remove() error {
	if err := os.Remove(f.name); err != nil {
		return err
	}
	err := os.Remove(f.name + doneMark)
	if errors.Is(err, fs.ErrNotExist) { // another command has found it without the file
		err = nil
	}
	return errors.Join(err, files.SyncDir(filepath.Dir(f.name)))
}

// release closes what is open.
func (f *letterFile) release() error {
	var errs []error
	if f.lines != nil {
		errs = append(errs, f.lines.close())
	}
	for _, file := range []*os.File{f.log, f.lock} {
		if file != nil {
			errs = append(errs, file.Close())
		}
	}
	f.lines, f.log, f.lock = nil, nil, nil
	return errors.Join(errs...)
}

// appendTo appends whole lines to a file, compressed as its extension says, and waits until they are on disk.
func appendTo(path string, text []byte) error {
	format, err := framing.Compression{}.Found("", path, nil)
	if err != nil {
		return err
	}
	if format != compression.None {
		if text, err = compression.Compress(format, text, 0); err != nil {
			return err
		}
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	return errors.Join(err, f.Sync(), f.Close(), files.SyncDir(filepath.Dir(path)))
}

// lineSet is a set of numbers of lines.
type lineSet []uint64

func (s *lineSet) add(n int64) {
	i := int(n / 64)
	if i >= len(*s) {
		*s = append(*s, make([]uint64, i+1-len(*s)+len(*s)/4)...)
	}
	(*s)[i] |= 1 << (n % 64)
}

func (s *lineSet) has(n int64) bool {
	i := int(n / 64)
	return i < len(*s) && (*s)[i]&(1<<(n%64)) != 0
}
