package file

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/enginetest"
	"github.com/flowd-io/flowd/internal/disk/openfiles"
	"github.com/flowd-io/flowd/internal/formats/compression"
	"github.com/flowd-io/flowd/internal/testing/steptest"
)

func make1(t testing.TB, component string) *output {
	t.Helper()
	o := enginetest.New(t, engine.Outputs, component).(*output)
	if err := o.Open(context.Background()); err != nil {
		t.Fatal(err)
	}
	return o
}

// write writes one batch, and returns the errors of the failed messages.
func write(t testing.TB, o *output, payloads ...string) (failed []string) {
	t.Helper()
	b := enginetest.Batch(payloads...)
	if err := o.Write(context.Background(), b); err != nil {
		t.Fatal(err)
	}
	for m := range b.Ended() {
		failed = append(failed, fmt.Sprintf("%s: %s", m.Err().Class, m.Err()))
	}
	return failed
}

func done(t testing.TB, o *output) {
	t.Helper()
	if err := o.Close(context.Background()); err != nil {
		t.Error(err)
	}
}

func TestNoMessageBecomesSeveralRecords(t *testing.T) {
	for separator, framing := range map[string]string{"\n": `"lines"`, "||": `{"delimiter": "||"}`} {
		enginetest.Separated(t, separator, func(t *testing.T, payloads ...string) (string, []*engine.Error) {
			t.Chdir(t.TempDir())
			o := make1(t, `{"file": {"path": "x", "framing": `+framing+`}}`)
			failed := enginetest.Failures(t, o, payloads...)
			done(t, o)
			return tree(t)["x"], failed
		})
	}
}

// tree returns all files below the working directory.
func tree(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		text, err := os.ReadFile(path)
		all[path] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func wantFiles(t *testing.T, want map[string]string) {
	t.Helper()
	got := tree(t)
	for path, text := range want {
		if got[path] != text {
			t.Errorf("%s: got %q, want %q", path, got[path], text)
		}
		delete(got, path)
	}
	if len(got) > 0 {
		t.Errorf("there are also %q", got)
	}
}

func TestOutput(t *testing.T) {
	enginetest.Output(t, func(t *testing.T) engine.Output {
		t.Chdir(t.TempDir())
		return enginetest.New(t, engine.Outputs, `{"file": "out.log"}`)
	}, "a", "b", "c")
	enginetest.Output(t, func(t *testing.T) engine.Output {
		t.Chdir(t.TempDir())
		return enginetest.New(t, engine.Outputs, `{"file": "d/$(k).log"}`)
	}, `{"k":1}`, `{"k":2}`, `{"k":1}`)
}

func TestFilesThatMoveAndDisksThatFillUp(t *testing.T) {
	lines := func(_ *testing.T, content []byte) []string {
		return strings.Fields(string(content))
	}
	for name, tt := range map[string]struct {
		component string // DIR is the directory
		file      string
		read      func(t *testing.T, content []byte) []string
	}{
		"plain":         {`{"path": "DIR/out"}`, "out", lines},
		"synced":        {`{"path": "DIR/out", "fsync": true}`, "out", lines},
		"named by data": {`{"path": "DIR/$('out')"}`, "out", lines},
		"begun anew":    {`{"path": "DIR/out", "append": false}`, "out", lines},
		"atomic":        {`{"path": "DIR/out", "atomic": true}`, "out.part", lines},
		"compressed": {`{"path": "DIR/out.gz"}`, "out.gz", func(t *testing.T, content []byte) []string {
			if len(content) == 0 { // the file was renamed before the first write
				return nil
			}
			text, err := compression.Decompress(compression.Gzip, content, 1<<20)
			if err != nil {
				t.Errorf("%q: %v", content, err)
			}
			return strings.Fields(string(text))
		}},
		"with a head": {`{"path": "DIR/out", "framing": {"csv": {"columns": ["k"]}}}`, "out",
			func(t *testing.T, content []byte) (all []string) {
				for i, k := range strings.Fields(string(content)) {
					if (i == 0) != (k == "k") {
						t.Errorf("line %d is %q", i, k)
					} else if i > 0 {
						all = append(all, `{"k":`+k+`}`)
					}
				}
				return all
			}},
	} {
		t.Run(name, func(t *testing.T) {
			enginetest.FileOutput{
				Make: func(t *testing.T, dir string) engine.Output {
					return enginetest.New(t, engine.Outputs, `{"file": `+strings.ReplaceAll(tt.component, "DIR", dir)+`}`)
				},
				Name: tt.file, Payloads: []string{`{"k":1}`, `{"k":22}`, `{"k":3}`}, Read: tt.read,
			}.Run(t)
		})
	}
}

func TestWrite(t *testing.T) {
	tests := []struct {
		name, component string
		before          map[string]string
		in              []string
		want            map[string]string
	}{
		{"one message a line, behind what is there", `{"file": "out"}`, map[string]string{"out": "old\n"},
			[]string{"a", "b"}, map[string]string{"out": "old\na\nb\n"}},
		{"append: false begins anew", `{"file": {"path": "out", "append": false}}`, map[string]string{"out": "old\n"},
			[]string{"a", "b"}, map[string]string{"out": "a\nb\n"}},
		{"folders are made", `{"file": "x/y/out"}`, nil, []string{"a"}, map[string]string{"x/y/out": "a\n"}},
		{"a file for each path, in order", `{"file": "d/$(k).log"}`, nil,
			[]string{`{"k":"x","n":1}`, `{"k":"y/z","n":2}`, `{"k":"x","n":3}`},
			map[string]string{"d/x.log": "{\"k\":\"x\",\"n\":1}\n{\"k\":\"x\",\"n\":3}\n",
				"d/y/z.log": "{\"k\":\"y/z\",\"n\":2}\n"}},
		{"an atomic file appears at the end", `{"file": {"path": "out", "atomic": true}}`,
			map[string]string{"out": "old\n"}, []string{"a"}, map[string]string{"out": "a\n"}},
		{"an atomic file goes on after a crash", `{"file": {"path": "out", "atomic": true}}`,
			map[string]string{"out.part": "left\n"}, []string{"a"}, map[string]string{"out": "left\na\n"}},
		{"csv has one head", `{"file": {"path": "out", "framing": {"csv": {"columns": ["k"]}}}}`, nil,
			[]string{`{"k":1}`, `{"k":2}`}, map[string]string{"out": "k\n1\n2\n"}},
		{"csv adds no head to what is there", `{"file": {"path": "out", "framing": {"csv": {"columns": ["k"]}}}}`,
			map[string]string{"out": "k\n0\n"}, []string{`{"k":1}`}, map[string]string{"out": "k\n0\n1\n"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Chdir(t.TempDir())
			for path, text := range tt.before {
				if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			o := make1(t, tt.component)
			for _, payload := range tt.in { // in two writes: the first payload, and all others
				if failed := write(t, o, payload); failed != nil {
					t.Error(failed)
				}
			}
			done(t, o)
			wantFiles(t, tt.want)
		})
	}
}

func TestAnAtomicFileHasNoNameYet(t *testing.T) {
	t.Chdir(t.TempDir())
	o := make1(t, `{"file": {"path": "out", "atomic": true}}`)
	write(t, o, "a")
	wantFiles(t, map[string]string{"out.part": "a\n"})
	done(t, o)
}

func TestModes(t *testing.T) {
	t.Chdir(t.TempDir())
	o := make1(t, `{"file": "d/out"}`)
	defer done(t, o)
	for path, want := range map[string]fs.FileMode{"d": fs.ModeDir | 0o700, "d/out": 0o600} {
		if info, err := os.Stat(path); err != nil || info.Mode() != want {
			t.Errorf("%s: got %v, want %v", path, info.Mode(), want)
		}
	}
}

func TestDataKeepsToItsFolder(t *testing.T) {
	tests := []struct{ name, path, k, want string }{
		{"up and out", "d/$(k)", "../x", `rejected: path "d/../x" leads out of its folder`},
		{"up from the middle", "d/$(k).log", "a/../../x", `rejected: path "d/a/../../x.log" leads out of its folder`},
		{"half of two dots is literal", "d/.$(k)", "./x", `rejected: path "d/../x" leads out of its folder`},
		{"folders by the thousand", "d/$(k)", strings.Repeat("a/", 2000) + "x", `rejected: path "d/` +
			strings.Repeat("a/", 32) + `"… has 2000 folders below "d/", and data may name at most 32`},
		{"an absolute tail", "d/$(k)", "/etc/x",
			`rejected: path "d//etc/x" is absolute because of its data, which is not allowed (write the folder literally in front)`},
		{"a NUL", "d/$(k)", "a\\u0000b", `rejected: path "d/a\x00b" contains the control character U+0000`},
		{"a line break", "d/$(k)", "a\\nb", `rejected: path "d/a\nb" contains the control character U+000A`},
		{"another direction", "d/$(k)", "a\\u202eb", `rejected: path "d/a\u202eb" contains the control character U+202E`},
		{"nothing", "d/$(k)", "", `rejected: path "d/" has no file name`},
		{"a folder", "d/$(k)", "sub/", `rejected: path "d/sub/" has no file name`},
		{"a folder that is there", "d/$(k)", "dir",
			`rejected: d/dir: is a directory (name a file in it)`},
		{"a link out of it", "d/$(k)", "link/x", `rejected: d/link/x: path escapes from parent`},
		{"a link to a file outside", "d/$(k)", "passwd", `rejected: d/passwd: path escapes from parent`},
		{"too long a name", "d/$(k)", strings.Repeat("x", 300),
			"rejected: d/" + strings.Repeat("x", 300) + ": file name too long"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			base := t.TempDir()
			work := filepath.Join(base, "work")
			for _, dir := range []string{"work/d/dir", "outside"} {
				if err := os.MkdirAll(filepath.Join(base, dir), 0o700); err != nil {
					t.Fatal(err)
				}
			}
			t.Chdir(work)
			if err := errors.Join(os.Symlink("../../outside", "d/link"),
				os.Symlink(filepath.Join(base, "outside", "f"), "d/passwd")); err != nil {
				t.Fatal(err)
			}
			o := make1(t, `{"file": "`+tt.path+`"}`)
			failed := write(t, o, `{"k":"`+tt.k+`"}`, `{"k":"fine"}`)
			done(t, o)
			if len(failed) != 1 || failed[0] != tt.want {
				t.Errorf("got  %q\nwant %q", failed, tt.want)
			}
			found, _ := filepath.Glob(filepath.Join(base, "outside", "*"))
			if len(found) > 0 {
				t.Errorf("data got to %q", found)
			}
		})
	}
}

func TestMorePathsThanOpenFiles(t *testing.T) {
	for _, component := range []string{`{"file": "d/$(k)"}`, `{"file": {"path": "d/$(k)", "append": false}}`,
		`{"file": {"path": "d/$(k)", "atomic": true}}`} {
		t.Run(component, func(t *testing.T) {
			t.Chdir(t.TempDir())
			const most = 8
			o := make1(t, component)
			o.share.Leave()
			o.share = openfiles.NewBudget(most).Join(o.giveUp)
			want := map[string]string{}
			for range 2 {
				var batch []string
				for i := range 3 * most {
					path := fmt.Sprintf("d/f%d", i)
					batch = append(batch, fmt.Sprintf(`{"k":"f%d"}`, i))
					want[path] += batch[i] + "\n"
				}
				if failed := write(t, o, batch...); failed != nil {
					t.Fatal(failed)
				}
				if len(o.streams) > most {
					t.Errorf("%d files are open", len(o.streams))
				}
			}
			done(t, o)
			wantFiles(t, want)
		})
	}
}

func TestOutputsShareTheFilesThatMayBeOpen(t *testing.T) {
	t.Chdir(t.TempDir())
	budget := openfiles.NewBudget(6)
	outputs := []*output{make1(t, `{"file": "a/$(k)"}`), make1(t, `{"file": "b/$(k)"}`), make1(t, `{"file": "c"}`)}
	open := func() (n []int) {
		for _, o := range outputs {
			n = append(n, len(o.streams))
		}
		return n
	}
	var keys []string
	for i := range 10 {
		keys = append(keys, fmt.Sprintf(`{"k":"%d"}`, i))
	}
	for _, o := range outputs {
		o.share.Leave()
		o.share = budget.Join(o.giveUp)
		for range o.streams {
			o.share.Opened()
		}
	}
	for i, want := range [][]int{{5, 0, 1}, {2, 3, 1}} {
		if failed := write(t, outputs[i], keys...); failed != nil {
			t.Fatal(failed)
		}
		if got := open(); !slices.Equal(got, want) {
			t.Errorf("behind output %d: %v files are open, want %v", i, got, want)
		}
	}
	for range 3 {
		for _, o := range outputs[:2] {
			if failed := write(t, o, keys...); failed != nil {
				t.Fatal(failed)
			}
		}
	}
	for i, o := range outputs {
		done(t, o)
		if got := tree(t)["a/9"]; i == 2 && got != strings.Repeat(keys[9]+"\n", 4) {
			t.Errorf("a/9 is %q", got)
		}
	}
}

func TestRotation(t *testing.T) {
	t.Run("by size, before a write that does not fit", func(t *testing.T) {
		t.Chdir(t.TempDir())
		synctest.Test(t, func(t *testing.T) {
			o := make1(t, `{"file": {"path": "app.log", "rotate": {"size": 4}}}`)
			write(t, o, "a", "b")
			write(t, o, "c")
			write(t, o, "longer than that")
			done(t, o)
			wantFiles(t, map[string]string{
				"app-20000101T000000.000.log": "a\nb\n", "app-20000101T000000.000-1.log": "c\n",
				"app.log": "longer than that\n",
			})
		})
	})
	t.Run("by age, at the next write", func(t *testing.T) {
		t.Chdir(t.TempDir())
		synctest.Test(t, func(t *testing.T) {
			o := make1(t, `{"file": {"path": "app", "atomic": true, "rotate": {"every": "1h"}}}`)
			write(t, o, "a")
			time.Sleep(30 * time.Minute)
			write(t, o, "b")
			time.Sleep(30 * time.Minute)
			wantFiles(t, map[string]string{"app.part": "a\nb\n"})
			write(t, o, "c")
			wantFiles(t, map[string]string{"app-20000101T010000.000": "a\nb\n", "app.part": "c\n"})
			done(t, o)
		})
	})
	t.Run("keeps the newest full files", func(t *testing.T) {
		for name, path := range map[string]string{"of one path": "dead/app.log", "of paths that messages choose": "dead/$(raw()[:3]).log"} {
			t.Run(name, func(t *testing.T) {
				t.Chdir(t.TempDir())
				synctest.Test(t, func(t *testing.T) {
					o := make1(t, fmt.Sprintf(`{"file": {"path": %q, "rotate": {"size": 6, "keep": 2}}}`, path))
					others := map[string]string{"dead/app-web-19990101T000000.000.log": "", "dead/app-19990101T000000.000.log.gz": "",
						"dead/app-1999.log": "", "dead/app-19990101T000000.000x.log": ""}
					write(t, o, "app 1")
					for name := range others {
						if err := os.WriteFile(name, nil, 0o600); err != nil {
							t.Fatal(err)
						}
					}
					write(t, o, "app 2")
					write(t, o, "app 3") // in the same millisecond
					time.Sleep(time.Second)
					write(t, o, "app 4")
					write(t, o, "app 5")
					done(t, o)
					others["dead/app-20000101T000001.000.log"] = "app 3\n"
					others["dead/app-20000101T000001.000-1.log"] = "app 4\n"
					others["dead/app.log"] = "app 5\n"
					wantFiles(t, others)
				})
			})
		}
	})
}

func TestStamped(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 678e6, time.UTC)
	for path, want := range map[string]string{
		"a/app.log":    "a/app-20260102T030405.678.log",
		"app.log.gz":   "app-20260102T030405.678.log.gz",
		"app":          "app-20260102T030405.678",
		".hidden":      ".hidden-20260102T030405.678",
		"v1.2/app.csv": "v1.2/app-20260102T030405.678.csv",
	} {
		if got := stamped(path, at, 0); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

func TestEveryCompressedWriteIsComplete(t *testing.T) {
	t.Chdir(t.TempDir())
	o := make1(t, `{"file": "out.gz"}`)
	defer done(t, o)
	want := ""
	for _, text := range []string{"a", "b"} {
		write(t, o, text)
		want += text + "\n"
		packed, err := os.ReadFile("out.gz")
		if err != nil {
			t.Fatal(err)
		}
		if got, err := compression.Decompress(compression.Gzip, packed, 100); err != nil || string(got) != want {
			t.Errorf("got %q and %v, want %q", got, err, want)
		}
	}
}

func TestCompressedDataIsNotCompressedAgain(t *testing.T) {
	t.Chdir(t.TempDir())
	o := make1(t, `{"file": "out.gz"}`)
	defer done(t, o)
	packed, err := compression.Compress(compression.Gzip, []byte("packed\n"), 0)
	if err != nil {
		t.Fatal(err)
	}
	write(t, o, "plain", string(packed), string(packed), "plain again")
	got, err := os.ReadFile("out.gz")
	if err != nil {
		t.Fatal(err)
	}
	text, err := compression.Decompress(compression.Gzip, got, 100)
	if want := "plain\npacked\npacked\nplain again\n"; err != nil || string(text) != want {
		t.Errorf("got %q and %v, want %q", text, err, want)
	}
}

func TestAFullDisk(t *testing.T) {
	if _, err := os.Stat("/dev/full"); err != nil {
		t.Skip("needs /dev/full")
	}
	o := make1(t, `{"file": "/dev/full"}`)
	defer done(t, o)
	want := []string{"transient: /dev/full: no space left on device (free space on the disk)",
		"transient: /dev/full: no space left on device (free space on the disk)"}
	if got := write(t, o, "a", "b"); !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

// TestADiskThatFillsUp limits the size of files. The system then fails in the middle of a write, as if a disk was full.
func TestADiskThatFillsUp(t *testing.T) {
	t.Chdir(t.TempDir())
	o := make1(t, `{"file": "out"}`)
	defer done(t, o)
	write(t, o, "before")

	var before syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &before); err != nil {
		t.Skip(err)
	}
	small := before
	small.Cur = 16 // "before\n" and 9 more bytes
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &small); err != nil {
		t.Skip(err)
	}
	b := enginetest.Batch("fits", "is cut", "is not there")
	err := o.Write(t.Context(), b)
	if restore := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &before); restore != nil {
		t.Fatal(restore)
	}
	if err != nil {
		t.Fatal(err)
	}
	if got, want := enginetest.WriteFates(b, nil), []string{"safe", "failed", "failed"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	wantFiles(t, map[string]string{"out": "before\nfits\n"})
	write(t, o, "again")
	wantFiles(t, map[string]string{"out": "before\nfits\nagain\n"})
}

// If the remains of a failed write can't be cut off because the disk has failed, they are cut off before the next write.
func TestATornRecordIsCutOffLater(t *testing.T) {
	for name, tt := range map[string]struct{ behind, want string }{
		"at the end":               {"", "a\nb\n"},
		"unless others wrote more": {"c\n", "a\ntorc\nb\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Chdir(t.TempDir())
			o := make1(t, `{"file": "out"}`)
			write(t, o, "a")
			if err := os.WriteFile("out", []byte("a\ntor"+tt.behind), 0o600); err != nil {
				t.Fatal(err)
			}
			o.only.torn = int64(len("a\ntor"))
			if failed := write(t, o, "b"); failed != nil {
				t.Error(failed)
			}
			done(t, o)
			wantFiles(t, map[string]string{"out": tt.want})
		})
	}
}

func TestAPipeWithoutAReaderIsWaitedFor(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := syscall.Mkfifo("pipe", 0o600); err != nil {
		t.Fatal(err)
	}
	reader := func() *os.File {
		f, err := os.OpenFile("pipe", os.O_RDONLY|syscall.O_NONBLOCK, 0)
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	first := reader()
	o := make1(t, `{"file": "pipe"}`)
	defer done(t, o)
	first.Close()
	b := enginetest.Batch("a")
	_ = o.Write(t.Context(), b)
	for m := range b.Ended() {
		if m.Err() == nil || !m.Err().HoldsOutput() {
			t.Errorf("got %v, want an error that holds the output", m.Err())
		}
	}
	second := reader()
	defer second.Close()
	if failed := write(t, o, "a"); failed != nil {
		t.Error(failed)
	}
	got := make([]byte, 10)
	if n, err := second.Read(got); string(got[:n]) != "a\n" {
		t.Errorf("read %q, %v", got[:n], err)
	}
}

func TestOpenSaysWhatCanNotBeWritten(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := errors.Join(os.Mkdir("dir", 0o700), os.WriteFile("plain", nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		"dir":        "dir: is a directory (name a file in it)",
		"plain/x":    "plain/x: not a directory",
		"plain/$(k)": "plain/: not a directory",
	} {
		o := enginetest.New(t, engine.Outputs, `{"file": "`+path+`"}`).(*output)
		if err := o.Open(t.Context()); err == nil || err.Error() != want {
			t.Errorf("%s: got %v, want %s", path, err, want)
		}
	}
}

func TestAMessageWithoutAPathFailsAlone(t *testing.T) {
	t.Chdir(t.TempDir())
	o := make1(t, `{"file": "d/$(k)"}`)
	failed := write(t, o, `{"k":"x"}`, `{}`, `{`)
	done(t, o)
	if len(failed) != 2 {
		t.Errorf("got %q, want two failures", failed)
	}
	wantFiles(t, map[string]string{"d/x": "{\"k\":\"x\"}\n"})
}

func TestWritingToOneFileAllocatesNothingEach(t *testing.T) {
	t.Chdir(t.TempDir())
	o := make1(t, `{"file": {"path": "out", "append": false}}`)
	defer done(t, o)
	payloads := slices.Repeat([]string{strings.Repeat("x", 330)}, 256)
	b := enginetest.Batch(payloads...)
	write := func() {
		if err := o.Write(t.Context(), b); err != nil {
			t.Fatal(err)
		}
	}
	write()
	if n := testing.AllocsPerRun(10, write); n > 5 { // two of them check the path
		t.Errorf("%v allocations for a write of 256 messages", n)
	}
}

func BenchmarkWrite(b *testing.B) {
	b.Chdir(b.TempDir())
	o := make1(b, `{"file": {"path": "/dev/null"}}`)
	defer done(b, o)
	batch := enginetest.Batch(slices.Repeat([]string{strings.Repeat("x", 330)}, 256)...)
	b.SetBytes(331 * 256)
	for b.Loop() {
		if err := o.Write(b.Context(), batch); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/256, "ns/msg")
}

func TestAPipeThatNobodyReadsEndsWithTheContext(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := syscall.Mkfifo("pipe", 0o600); err != nil {
		t.Fatal(err)
	}
	reader, err := os.OpenFile("pipe", os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	o := make1(t, `{"file": "pipe"}`)
	defer done(t, o)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	b := enginetest.Batch(strings.Repeat("x", 1<<20)) // larger than the buffer of a pipe
	err = o.Write(ctx, b)
	if fates := enginetest.WriteFates(b, err); !slices.Equal(fates, []string{"failed"}) {
		t.Errorf("got %v and %v, want the message to fail", fates, err)
	}
}

// TestANewInstanceContinuesItsFiles replaces an output by a new instance, as the engine does when a write hangs.
func TestANewInstanceContinuesItsFiles(t *testing.T) {
	for _, config := range []string{
		`{"file": {"path": "all.txt", "append": false}}`,
		`{"file": {"path": "./$('all').txt", "append": false}}`,
		`{"file": {"path": "all.txt", "append": false, "atomic": true}}`,
	} {
		t.Run(config, func(t *testing.T) {
			t.Chdir(t.TempDir())
			if err := os.WriteFile("all.txt", []byte("old\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			var spec struct {
				Use engine.Plugin[engine.Output] `yaml:",variant"`
			}
			steptest.Decode(t, config, &spec)
			env := enginetest.Env()
			var made []*output
			for range 2 {
				built, err := spec.Use.Build(env)
				if err != nil {
					t.Fatal(err)
				}
				o := built.(*output)
				if err := o.Open(t.Context()); err != nil {
					t.Fatal(err)
				}
				made = append(made, o)
				write(t, o, fmt.Sprint(len(made)))
			}
			done(t, made[0])
			write(t, made[1], "3")
			done(t, made[1])
			if got, want := tree(t), map[string]string{"all.txt": "1\n2\n3\n"}; !maps.Equal(got, want) {
				t.Errorf("got %q, want %q", got, want)
			}
		})
	}
}

func TestPayloadsOfAllKinds(t *testing.T) {
	t.Chdir(t.TempDir())
	o := enginetest.New(t, engine.Outputs, `{"file": {"path": "out", "framing": {"length": 4}}}`)
	enginetest.Carries(t, o, func(t *testing.T, _ int) (all [][]byte) {
		rest, err := os.ReadFile("out")
		if err != nil {
			t.Fatal(err)
		}
		for len(rest) > 4 {
			n := binary.BigEndian.Uint32(rest)
			all, rest = append(all, rest[4:4+n]), rest[4+n:]
		}
		return all
	})
}
