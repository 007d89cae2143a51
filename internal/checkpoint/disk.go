package checkpoint

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/flowd-io/flowd/internal/flock"
)

const (
	version = 1
	largest = 256 << 20 // of a checkpoint
)

// envelope is what lies in a file.
type envelope[T any] struct {
	Kind    string `json:"checkpoint_of"`
	Version int    `json:"version"`
	State   T      `json:"state"`
}

// file is a checkpoint on the disk. Whoever has it holds a lock on it: another
// process that opens it is refused.
type file struct {
	path, name string // name is the path as the user wrote it
	lock       *os.File
}

// Temporary is the file next to a checkpoint in which the next one is written.
func Temporary(path string) string { return path + ".tmp" }

// openFile locks and reads a checkpoint, and makes one where there is none.
func openFile[T any](path, name, kind string) (*file, *T, error) {
	f := &file{path: path, name: name}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, nil, f.explain(err)
	}
	text, err := f.open()
	if err != nil {
		return nil, nil, f.explain(err)
	}
	var saved *T
	if text == nil {
		text, err = json.Marshal(envelope[struct{}]{Kind: kind})
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

// open locks and reads the file; text is nil where there is none.
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
			err = errors.New("is no regular file (name one)")
		case info.Size() > largest:
			err = fmt.Errorf("is no checkpoint: it has %d bytes (name another file)", info.Size())
		default:
			_, err = flock.Lock(in)
		}
		if err != nil {
			f.close()
			return nil, err
		}
		// Its holder may have put a new one in its place just before the lock.
		if now, err := os.Stat(f.path); err != nil || !os.SameFile(info, now) {
			f.close()
			continue
		}
		text, err := io.ReadAll(in)
		if err != nil {
			f.close()
			return nil, err
		}
		return append([]byte{}, text...), nil // an empty one is there
	}
}

// parse reads a state; one that was never saved is nil.
func parse[T any](text []byte, kind string) (*T, error) {
	var head struct {
		Kind    string          `json:"checkpoint_of"`
		Version int             `json:"version"`
		State   json.RawMessage `json:"state"`
	}
	const remedy = "restore it, or remove it to begin without one"
	err := json.Unmarshal(text, &head)
	switch {
	case errors.As(err, new(*json.UnmarshalTypeError)):
		return nil, errors.New("is no checkpoint (name another file)")
	case err != nil:
		return nil, fmt.Errorf("is damaged or no checkpoint: %w (%s)", err, remedy)
	case head.Kind == "":
		return nil, errors.New("is no checkpoint (name another file)")
	case head.Kind != kind:
		return nil, fmt.Errorf("is a checkpoint of %s, not of %s (name another file)", head.Kind, kind)
	case head.Version == 0:
		return nil, nil
	case head.Version != version:
		return nil, fmt.Errorf("has version %d, this flowd knows %d (use the flowd that wrote it, or remove it to begin without one)", head.Version, version)
	}
	saved := new(T)
	if err := json.Unmarshal(head.State, saved); err != nil {
		return nil, fmt.Errorf("is damaged: %w (%s)", err, remedy)
	}
	return saved, nil
}

// save puts a new file in the place of the old one: whenever it is interrupted,
// one of the two is there, whole.
func (f *file) save(state any) error {
	text, err := json.Marshal(state)
	if err != nil {
		return fmt.Errorf("checkpoint %s: %w", f.name, err)
	}
	return f.replace(append(text, '\n'))
}

func (f *file) replace(text []byte) error {
	tmp := Temporary(f.path)
	next, err := f.write(tmp, text)
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
	return f.explain(syncDir(filepath.Dir(f.path)))
}

// write writes a new file, locked and on the disk.
func (f *file) write(path string, text []byte) (*os.File, error) {
	// What lies there is left from a crash, or a link that someone has put there.
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

// syncDir makes a rename last; where folders can't be synced, the system does it.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	_ = d.Sync()
	return d.Close()
}

// explain names the checkpoint and, where it can, the remedy.
func (f *file) explain(err error) error {
	if err == nil {
		return nil
	}
	var p *fs.PathError
	var l *os.LinkError
	cause := err
	if errors.As(err, &p) {
		cause = p.Err
	} else if errors.As(err, &l) {
		cause = l.Err
	}
	switch {
	case errors.Is(err, flock.ErrHeld):
		cause = fmt.Errorf("%w (stop the other flowd, or give each a checkpoint of its own)", cause)
	case errors.Is(err, fs.ErrPermission):
		cause = fmt.Errorf("%w (give the user that runs flowd the right to read and write it, and its folder)", cause)
	case errors.Is(err, syscall.ENOTDIR):
		cause = fmt.Errorf("%w (a part of the path is a file)", cause)
	}
	return fmt.Errorf("checkpoint %s: %w", f.name, cause)
}
