package checkpoint

import (
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/flowd-io/flowd/internal/files"
	"github.com/flowd-io/flowd/internal/flock"
)

const (
	version  = 2
	unsummed = 1         // the version before: without a sum
	largest  = 256 << 20 // of a checkpoint
)

// envelope is the content of a file; the state is followed by a checksum of everything
// before it.
type envelope[T any] struct {
	Kind    string `json:"checkpoint_of"`
	Version int    `json:"version"`
	State   T      `json:"state"`
}

const sumFormat = `,"crc32c":"%08x"}` + "\n"

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// sealed is the text of a file.
func sealed[T any](e envelope[T]) ([]byte, error) {
	text, err := json.Marshal(e)
	if err != nil {
		return nil, err
	}
	text = text[:len(text)-1] // the brace follows the checksum
	return fmt.Appendf(text, sumFormat, crc32.Checksum(text, castagnoli)), nil
}

// whole says whether a text has its sum.
func whole(text []byte) bool {
	n := len(text) - len(fmt.Sprintf(sumFormat, 0))
	return n > 0 && string(text[n:]) == fmt.Sprintf(sumFormat, crc32.Checksum(text[:n], castagnoli))
}

// file is a checkpoint on disk. Its owner holds a lock on it: another process that opens it
// is refused.
type file struct {
	path, name string // name is the path as the user wrote it
	lock       *os.File
}

// Temporary is the file next to a checkpoint in which the next one is written.
func Temporary(path string) string { return path + ".tmp" }

// openFile locks and reads a checkpoint, and creates one if there is none.
func openFile[T any](path, name, kind string) (*file, *T, error) {
	f := &file{path: path, name: name}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, nil, f.explain(err)
	}
	text, err := f.open()
	var saved *T
	if err != nil {
		err = f.explain(err)
	} else if text == nil {
		text, err = sealed(envelope[*struct{}]{Kind: kind, Version: version})
	} else if saved, err = parse[T](text, kind); err != nil {
		err = fmt.Errorf("checkpoint %s: %w", name, err)
	}
	if err == nil {
		err = f.replace(text) // shows that it can be
	}
	if err != nil {
		f.close()
		return nil, nil, err
	}
	return f, saved, nil
}

// open locks and reads the file; text is nil if there is none. After an error, too, the
// file is to be closed.
func (f *file) open() (text []byte, err error) {
	for {
		in, err := os.OpenFile(f.path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // to open a pipe does not wait
		if errors.Is(err, fs.ErrNotExist) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		f.lock = in
		info, err := in.Stat()
		switch {
		case err != nil:
		case !info.Mode().IsRegular():
			err = errors.New("is not a regular file (name one)")
		case info.Size() > largest:
			err = fmt.Errorf("is not a checkpoint: it has %d bytes (name another file)", info.Size())
		default:
			_, err = flock.Lock(in)
		}
		if err != nil {
			return nil, err
		}
		// Its holder may have put a new one in its place just before the lock.
		if now, err := os.Stat(f.path); err != nil || !os.SameFile(info, now) {
			f.close()
			continue
		}
		return io.ReadAll(in) // of an empty one not nil: it is there
	}
}

// parse reads a state; one that was never saved is nil.
func parse[T any](text []byte, kind string) (*T, error) {
	var head envelope[json.RawMessage]
	const remedy = "restore it, or remove it: its input then reads everything again, as at its first start"
	err := json.Unmarshal(text, &head)
	switch {
	case errors.As(err, new(*json.UnmarshalTypeError)), err == nil && head.Kind == "":
		return nil, errors.New("is not a checkpoint (name another file)")
	case err != nil:
		return nil, fmt.Errorf("is damaged or not a checkpoint: %w (%s)", err, remedy)
	case head.Kind != kind:
		return nil, fmt.Errorf("is a checkpoint of %s, not of %s (name another file)", head.Kind, kind)
	case head.Version < 0 || head.Version > version && whole(text):
		return nil,
			fmt.Errorf("has version %d, but this flowd supports version %d (use the flowd that wrote it, or remove it to begin without one)", head.Version, version)
	case head.Version == 0 && string(text) == fmt.Sprintf(`{"checkpoint_of":%q,"version":0,"state":{}}`, kind): // never saved, without a sum
		return nil, nil
	case head.Version != unsummed && !whole(text):
		return nil, fmt.Errorf("is damaged: it does not match its checksum (%s)", remedy)
	case string(head.State) == "null":
		return nil, nil
	}
	saved := new(T)
	if err := json.Unmarshal(head.State, saved); err != nil {
		return nil, fmt.Errorf("is damaged: %w (%s)", err, remedy)
	}
	return saved, nil
}

// save puts a new file in the place of the old one: whenever it is interrupted,
// one of the two is there, whole.
func save[T any](f *file, state envelope[T]) error {
	text, err := sealed(state)
	if err != nil {
		return fmt.Errorf("checkpoint %s: %w", f.name, err)
	}
	return f.replace(text)
}

func (f *file) replace(text []byte) error {
	if err := f.yields(); err != nil {
		return f.explain(err)
	}
	tmp := Temporary(f.path)
	next, err := f.write(tmp, text)
	if errors.Is(err, fs.ErrNotExist) { // the folder was moved or deleted
		if err = os.MkdirAll(filepath.Dir(f.path), 0o700); err == nil {
			next, err = f.write(tmp, text)
		}
	}
	if !flock.Works { // such systems do not rename open files
		next.Close()
		f.close()
	}
	if err == nil {
		err = os.Rename(tmp, f.path)
	}
	if err != nil {
		next.Close()
		return f.explain(err)
	}
	f.close()
	f.lock = next
	return f.explain(files.SyncDir(filepath.Dir(f.path)))
}

// isThere says whether the path names the file that is locked.
func (f *file) isThere() bool {
	if f.lock == nil {
		return true // such systems do not rename open files
	}
	mine, err := f.lock.Stat()
	now, gone := os.Stat(f.path)
	return err == nil && gone == nil && os.SameFile(mine, now)
}

// yields is an error if another process keeps its checkpoint under the path now, which was free
// because the file had been renamed or deleted.
func (f *file) yields() error {
	if f.lock == nil || f.isThere() {
		return nil
	}
	other, err := os.Open(f.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer other.Close()
	_, err = flock.Lock(other)
	return err
}

// write writes a new file, locked and on the disk.
func (f *file) write(path string, text []byte) (*os.File, error) {
	// A file there is left from a crash, or a link that someone has put there.
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	out, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	if _, err = flock.Lock(out); err == nil {
		_, err = out.Write(text)
	}
	if err == nil {
		err = out.Sync()
	}
	if err != nil {
		return nil, errors.Join(err, out.Close())
	}
	return out, nil
}

func (f *file) close() {
	if f.lock != nil {
		f.lock.Close()
		f.lock = nil
	}
}

// explain names the checkpoint and, where it can, the remedy.
func (f *file) explain(err error) error {
	if err == nil {
		return nil
	}
	cause := err
	if p, ok := errors.AsType[*fs.PathError](err); ok {
		cause = p.Err
	} else if l, ok := errors.AsType[*os.LinkError](err); ok {
		cause = l.Err
	}
	switch {
	case errors.Is(err, flock.ErrHeld):
		cause = fmt.Errorf("%w (stop the other flowd, or give each its own checkpoint)", cause)
	case errors.Is(err, fs.ErrPermission):
		cause = fmt.Errorf("%w (give the user that runs flowd permission to read and write it, and its folder)", cause)
	case errors.Is(err, syscall.ENOTDIR):
		cause = fmt.Errorf("%w (a part of the path is a file)", cause)
	}
	if remedy, yes := files.Outage(cause); yes {
		cause = fmt.Errorf("%w (%s)", cause, remedy)
	}
	return fmt.Errorf("checkpoint %s: %w", f.name, cause)
}
