package file

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/schema"
)

// paths is one path or a list of them.
type paths []string

// UnmarshalConfig reads a path or a list of paths.
func (p *paths) UnmarshalConfig(d *schema.Decoder, n *schema.Node) {
	if n.Kind == schema.ListNode {
		if !d.Decode(n, (*[]string)(p)) {
			return
		}
	} else if text, ok := d.Text(n); ok {
		*p = paths{text}
	} else {
		return
	}
	if len(*p) == 0 || slices.Contains(*p, "") {
		d.Report(n, schema.Problem{Code: "bad-value", Message: "a path is empty",
			Remedy: "name a file or a pattern such as logs/*.log"})
		return
	}
	for i, path := range *p {
		at := n
		if n.Kind == schema.ListNode {
			at = n.Items[i]
		}
		if message, remedy := badPattern(path); message != "" && !isThere(path) {
			d.Report(at, schema.Problem{Code: "bad-value", Message: path + ": " + message, Remedy: remedy})
		}
	}
}

// isThere reports whether a path is the name of a file, whatever is in it.
func isThere(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// DescribeConfig is a path or a list of paths.
func (p *paths) DescribeConfig() *schema.Type {
	return schema.AnyOf("PATH or list of paths", "", []string(nil))
}

// list has the files to read. Each file goes to one instance: the first that asks.
type list struct {
	patterns   []string
	exclude    []string // patterns
	checkpoint string   // not one of the files

	once  sync.Once
	err   error
	files []string
	ids   map[id]bool // of the files, where there is a checkpoint
	known sync.Once   // tells the book that the files exist
	taken atomic.Int64
}

func (l *list) open() error {
	l.once.Do(func() { l.files, l.ids, l.err = expand(l.patterns, l.exclude, l.checkpoint) })
	return engine.WithClass(engine.Permanent, l.err)
}

// see records which files exist.
func (l *list) see(b book) {
	l.known.Do(func() {
		listing := b.List(nil)
		b.Lock()
		for i := range l.ids {
			listing.See(i)
		}
		b.Unlock()
		listing.Complete(time.Now())
	})
}

func (l *list) next() (path string, ok bool) {
	i := l.taken.Add(1) - 1
	if i >= int64(len(l.files)) {
		return "", false
	}
	return l.files[i], true
}

// expand finds the files of all patterns that are not excluded, each once. It reports files that can't be read, before any is read.
func expand(patterns, exclude []string, checkpoint string) (files []string, ids map[id]bool, err error) {
	var errs []error
	seen := map[string]bool{}
	ids = map[id]bool{} // a place in a file is remembered once, whatever its names
	for _, pattern := range patterns {
		found, err := match(pattern)
		if err != nil {
			errs = append(errs, err)
		}
		for _, path := range found {
			if seen[path] || isCheckpoint(path, checkpoint) || excludes(exclude, path) {
				continue
			}
			seen[path] = true
			if info, err := os.Stat(path); checkpoint != "" && err == nil {
				key := idOf(path, info)
				if ids[key] {
					continue
				}
				ids[key] = true
			}
			files = append(files, path)
			errs = append(errs, check(path, checkpoint != ""))
		}
	}
	return files, ids, errors.Join(errs...)
}

var errNone = errors.New("no file matches")

// match returns the files that a pattern matches, in natural order.
func match(pattern string) ([]string, error) {
	if isThere(pattern) || !strings.ContainsAny(pattern, `*?[{`) {
		return []string{pattern}, nil
	}
	found, err := glob(pattern)
	slices.SortFunc(found, natural)
	found = slices.Compact(found)
	if err != nil {
		return found, fmt.Errorf("%s: %w", pattern, err)
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("%s: %w (a relative path starts in the working directory)", pattern, errNone)
	}
	return found, nil
}

// check returns why a file can't be read, or nil.
func check(path string, remembers bool) error {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return explain(path, err)
	case info.IsDir():
		return fmt.Errorf("%s: is a directory (write %s for the files in it)", path, filepath.Join(path, "*"))
	case !info.Mode().IsRegular() && remembers:
		return fmt.Errorf("%s: is not a regular file, so it has no position to record (leave checkpoint out)", path)
	case !info.Mode().IsRegular():
		return nil // opening a pipe would wait for its writer
	}
	f, err := os.Open(path)
	if err != nil {
		return explain(path, err)
	}
	return f.Close()
}

func explain(path string, err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%s: no such file (a relative path starts in the working directory)", path)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("%s: permission denied (give the user that runs flowd permission to read it)", path)
	case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE):
		return fmt.Errorf("%s: too many open files (raise the limit, ulimit -n)", path)
	}
	return fmt.Errorf("%s: %w", path, cmp.Or(errors.Unwrap(err), err))
}
