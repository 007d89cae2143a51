package deadletters

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/disk/flock"
	"github.com/flowd-io/flowd/internal/formats/compression"
	"github.com/flowd-io/flowd/internal/systems/queue"
)

var errTest = errors.New("as the test wants")

// lettersOf returns lines of letters with these payloads.
func lettersOf(payloads ...string) string {
	var b strings.Builder
	for _, p := range payloads {
		fmt.Fprintf(&b, `{"payload":%q,"meta":{"error_class":"rejected"}}`+"\n", p)
	}
	return b.String()
}

// write writes a file in a new folder, and returns its path.
func write(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// opened opens the letters of a path.
func opened(t *testing.T, path string, take bool) Source {
	t.Helper()
	s, err := OpenFile(path, take)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// all reads a source to its end.
func all(t *testing.T, s Source) (letters []Letter) {
	t.Helper()
	if _, err := Each(t.Context(), s, 0, func(l Letter) error { letters = append(letters, l); return nil }); err != nil {
		t.Fatal(err)
	}
	return letters
}

// payloads returns the letters that a path has now.
func payloads(t *testing.T, path string) (got []string) {
	t.Helper()
	s, err := OpenFile(path, false)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range all(t, s) {
		got = append(got, string(l.Payload))
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	return got
}

// names returns the names of the files beside a path.
func names(t *testing.T, path string) (all []string) {
	t.Helper()
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		all = append(all, e.Name())
	}
	return all
}

func TestOnlyLettersThatAreDoneLeaveTheirFile(t *testing.T) {
	path := write(t, "dead.ndjson", lettersOf("a", "b", "c", "d")+"\n\nnot a letter\n"+`{"payload":"cut o`)
	s := opened(t, path, true)
	if n := s.Total(t.Context()); n != 8 {
		t.Errorf("%d lines, want 8", n)
	}
	letters := all(t, s)
	if len(letters) != 6 || letters[4].Broken == nil || letters[5].Broken == nil || letters[0].Cause.Class != "rejected" ||
		!strings.HasSuffix(letters[4].Where, ", line 7") {
		t.Fatalf("got %+v", letters)
	}
	// An output of flowd begins a new file when its own is renamed.
	if err := appendTo(path, []byte(lettersOf("new"))); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(s.Done(t.Context(), []uint64{letters[0].Ref, letters[2].Ref}), s.Close()); err != nil {
		t.Fatal(err)
	}
	if got := payloads(t, path); !slices.Equal(got, []string{"new", "b", "d", "not a letter", `{"payload":"cut o`}) {
		t.Errorf("left %q", got)
	}
	if got := names(t, path); !slices.Equal(got, []string{"dead.ndjson"}) {
		t.Errorf("files %q", got)
	}
}

func TestAFileWithoutLettersIsDeleted(t *testing.T) {
	path := write(t, "dead.ndjson", lettersOf("a", "b"))
	s := opened(t, path, true)
	for _, l := range all(t, s) {
		if err := s.Done(t.Context(), []uint64{l.Ref}); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil || len(names(t, path)) > 0 {
		t.Errorf("%v, files %q", err, names(t, path))
	}
	if _, err := OpenFile(path, true); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v", err)
	}
}

// crashed leaves the files of a source as a crash does.
func crashed(t *testing.T, s Source) {
	t.Helper()
	for _, f := range s.(*fileSource).files {
		if err := f.release(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestACrashLosesNoLetter(t *testing.T) {
	path := write(t, "dead.ndjson", lettersOf("a", "b", "c"))
	s := opened(t, path, true)
	letters := all(t, s)
	if err := s.Done(t.Context(), []uint64{letters[1].Ref}); err != nil {
		t.Fatal(err)
	}
	crashed(t, s)
	taken := s.(*fileSource).files[0].name
	f, err := os.OpenFile(taken+doneMark, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	_, err = f.WriteString("1") // the beginning of "12\n"
	if err := errors.Join(err, f.Close(), os.WriteFile(path+takenMark+"gone"+doneMark, []byte("1\n"), 0o600),
		appendTo(path, []byte(lettersOf("d")))); err != nil {
		t.Fatal(err)
	}
	if got := payloads(t, path); !slices.Equal(got, []string{"a", "c", "d"}) {
		t.Errorf("after the crash: %q", got)
	}
	s = opened(t, path, true)
	letters = all(t, s)
	if err := s.Done(t.Context(), []uint64{letters[0].Ref, letters[2].Ref}); err != nil { // in two files
		t.Fatal(err)
	}
	crashed(t, s)
	if got := payloads(t, path); !slices.Equal(got, []string{"c"}) {
		t.Errorf("after the second crash: %q", got)
	}
	s = opened(t, path, true)
	if err := s.Close(); err != nil || !slices.Equal(names(t, path), []string{"dead.ndjson"}) {
		t.Errorf("%v, files %q", err, names(t, path))
	}
	if got := payloads(t, path); !slices.Equal(got, []string{"c"}) {
		t.Errorf("left %q", got)
	}
}

func TestTwoCommandsDoNotWorkOnOneFile(t *testing.T) {
	if !flock.Works {
		t.Skip("this system has no locks of files")
	}
	path := write(t, "dead.ndjson", lettersOf("a"))
	first := opened(t, path, true)
	if _, err := OpenFile(path, true); err == nil || !strings.Contains(err.Error(), "another command is working on these") {
		t.Errorf("got %v", err)
	}
	if got := payloads(t, path); !slices.Equal(got, []string{"a"}) {
		t.Errorf("meanwhile others see %q", got)
	}
	if err := appendTo(path, []byte(lettersOf("b"))); err != nil {
		t.Fatal(err)
	}
	second := opened(t, path, true) // what has come meanwhile
	letters := all(t, second)
	if len(letters) != 1 || string(letters[0].Payload) != "b" {
		t.Errorf("got %+v", letters)
	}
	if err := errors.Join(second.Close(), first.Close()); err != nil {
		t.Error(err)
	}
	if got := payloads(t, path); !slices.Equal(got, []string{"b", "a"}) {
		t.Errorf("left %q", got)
	}
}

func TestPatternsAndCompressedFiles(t *testing.T) {
	packed, err := compression.Compress(compression.Gzip, []byte(lettersOf("a", "b")), 0)
	if err != nil {
		t.Fatal(err)
	}
	path := write(t, "dead-1.ndjson.gz", string(packed))
	if err := os.WriteFile(filepath.Join(filepath.Dir(path), "dead-2.ndjson"), []byte(lettersOf("c")), 0o600); err != nil {
		t.Fatal(err)
	}
	pattern := filepath.Join(filepath.Dir(path), "dead-*")
	s := opened(t, pattern, true)
	letters := all(t, s)
	if len(letters) != 3 {
		t.Fatalf("got %+v", letters)
	}
	if err := errors.Join(s.Done(t.Context(), []uint64{letters[0].Ref}), s.Close()); err != nil {
		t.Fatal(err)
	}
	if got := payloads(t, pattern); !slices.Equal(got, []string{"b", "c"}) {
		t.Errorf("left %q", got)
	}
	left, err := os.ReadFile(path)
	if err != nil || !compression.Is(compression.Gzip, left) {
		t.Errorf("%v: the file is not compressed", err)
	}
}

func TestAReplacedLetterIsThereOnce(t *testing.T) {
	path := write(t, "dead.ndjson", lettersOf("a", "b"))
	s := opened(t, path, true)
	letters := all(t, s)
	l := letters[0].Message
	l.Payload = []byte("edited")
	if err := errors.Join(s.Replace(t.Context(), []queue.Message{l}), s.Close()); err != nil {
		t.Fatal(err)
	}
	s = opened(t, path, false)
	defer s.Close()
	letters = all(t, s)
	if len(letters) != 2 || string(letters[0].Payload) != "edited" || letters[0].Cause.Class != "rejected" ||
		string(letters[1].Payload) != "b" {
		t.Errorf("got %+v", letters)
	}
}

func TestLettersStayWhereTheyCanNotBeReturned(t *testing.T) {
	path := write(t, "dead.ndjson", lettersOf("a", "b"))
	s := opened(t, path, true)
	letters := all(t, s)
	if err := errors.Join(s.Done(t.Context(), []uint64{letters[0].Ref}), os.Mkdir(path, 0o700)); err != nil {
		t.Fatal(err)
	}
	taken := s.(*fileSource).files[0].name
	if err := s.Close(); err == nil || !strings.Contains(err.Error(), "they are in "+taken) {
		t.Errorf("got %v", err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if got := payloads(t, path); !slices.Equal(got, []string{"b"}) {
		t.Errorf("left %q", got)
	}
}

func TestALineThatIsTooLongStays(t *testing.T) {
	defer func(before int) { mostLine = before }(mostLine)
	mostLine = 1 << 20
	long := bytes.Repeat([]byte("x"), mostLine+1)
	path := write(t, "dead.ndjson", string(long)+"\n"+lettersOf("a"))
	s := opened(t, path, true)
	letters, err := s.Read(t.Context(), 10)
	if err != nil || len(letters) != 2 || letters[0].Broken == nil || string(letters[1].Payload) != "a" {
		t.Fatalf("%v: %d letters", err, len(letters))
	}
	if _, err := s.Read(t.Context(), 10); err != engine.ErrEnd {
		t.Errorf("got %v", err)
	}
	if err := errors.Join(s.Done(t.Context(), []uint64{letters[1].Ref}), s.Close()); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || info.Size() != int64(len(long))+1 {
		t.Errorf("%v: %d bytes are left, want %d", err, info.Size(), len(long)+1)
	}
}
