package file

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/enginetest"
	"github.com/fsnotify/fsnotify"
	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
)

// script is a follower without file events, whose clock the test controls.
type script struct {
	t    *testing.T
	in   *follower
	log  strings.Builder
	now  time.Time
	got  []string // messages since the last call of wants
	refs []uint64 // Refs of all messages
	room int
}

// following opens an input that follows files in the working directory.
func following(t *testing.T, component string) *script {
	t.Helper()
	s := &script{t: t, now: time.Now(), room: 3}
	s.in = enginetest.New(t, engine.Inputs, component).(*follower)
	s.open()
	return s
}

func noEvents() (*fsnotify.Watcher, error) { return nil, errors.New("none in this test") }

func (s *script) open() {
	s.t.Helper()
	s.in.now = func() time.Time { return s.now }
	s.in.listener, s.in.unwatched = noEvents, true
	s.in.log = slog.New(slog.NewTextHandler(&s.log, nil))
	if err := s.in.Open(s.t.Context()); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() {
		if err := s.in.Close(context.Background()); err != nil {
			s.t.Error(err)
		}
	})
}

// tick lets a second pass, and reads all new lines.
func (s *script) tick() {
	s.t.Helper()
	s.now = s.now.Add(poll)
	s.in.due = true
	s.in.keepUp(s.t.Context())
	s.readAll()
}

func (s *script) readAll() {
	s.t.Helper()
	for len(s.in.ready) > 0 {
		s.readOnce()
	}
}

// readOnce calls Read once. There must be a file to check.
func (s *script) readOnce() {
	b := engine.NewBatch(s.room)
	s.in.read(s.t.Context(), b)
	for m := range b.All() {
		s.got, s.refs = append(s.got, where(m)+" "+string(m.Bytes())), append(s.refs, m.Ref)
	}
	for m := range b.Ended() {
		s.got, s.refs = append(s.got, where(m)+" !"+m.Err().Error()), append(s.refs, m.Ref)
	}
}

// wants checks the messages since its last call, after a tick.
func (s *script) wants(want ...string) {
	s.t.Helper()
	s.tick()
	if !slices.Equal(s.got, want) {
		s.t.Errorf("read %q, want %q\nlog: %s", s.got, want, &s.log)
	}
	s.got = nil
}

// ack settles all messages that were read so far.
func (s *script) ack() {
	s.t.Helper()
	for _, ref := range s.refs {
		s.settle(ref, engine.Delivered)
	}
	s.refs = nil
}

func (s *script) settle(ref uint64, fate engine.Fate) {
	s.t.Helper()
	if _, err := s.in.acks.Ack(s.t.Context(), []engine.Result{{Ref: ref, Fate: fate}}); err != nil {
		s.t.Fatal(err)
	}
}

// restart closes the input, and opens another one with the same configuration.
func (s *script) restart() {
	s.t.Helper()
	if err := s.in.Close(s.t.Context()); err != nil {
		s.t.Fatal(err)
	}
	s.again()
}

func (s *script) again() {
	s.t.Helper()
	in, err := newInput(s.in.cfg, enginetest.Env())
	if err != nil {
		s.t.Fatal(err)
	}
	s.in, s.refs = in.(*follower), nil
	s.open()
}

func must(t *testing.T, errs ...error) {
	t.Helper()
	for _, err := range errs {
		if err != nil {
			t.Fatal(err)
		}
	}
}

func appendTo(t *testing.T, path, text string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	must(t, err)
	_, err = f.WriteString(text)
	must(t, err, f.Close())
}

func rewrite(t *testing.T, path, text string) {
	t.Helper()
	must(t, os.WriteFile(path, []byte(text), 0o600))
}

func rename(t *testing.T, from, to string) {
	t.Helper()
	must(t, os.Rename(from, to))
}

func TestAppendedLinesAreRead(t *testing.T) {
	tree(t, map[string]string{"a.log": "1\n2\n3\n4\n"})
	s := following(t, `{"file": {"path": "*.log", "follow": true}}`)
	s.wants("a.log:1 1", "a.log:2 2", "a.log:3 3", "a.log:4 4")
	s.wants()
	appendTo(t, "a.log", "5\n6")
	s.wants("a.log:5 5")
	s.wants()
	appendTo(t, "a.log", "6")
	s.wants()
	appendTo(t, "a.log", "6\n\n7\n")
	s.wants("a.log:6 666", "a.log:8 7")
	appendTo(t, "b.log", "x\n")
	s.wants("b.log:1 x")
	s.now = s.now.Add(time.Hour)
	appendTo(t, "b.log", "y")
	s.wants()
	s.now = s.now.Add(time.Hour)
	s.wants()
}

func TestProgressIsTheBacklogOfEachFile(t *testing.T) {
	tree(t, map[string]string{"a.log": "1\n2\n", "b.log": "3\n"})
	s := following(t, `{"file": {"path": "*.log", "follow": true, "checkpoint": "state"}}`)
	wants := func(when string, want ...engine.Position) {
		t.Helper()
		if diff := cmp.Diff(engine.Progress{Bytes: true, Positions: want}, s.in.Progress()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", when, diff)
		}
	}
	wants("before anything is read", engine.Position{Name: "a.log", End: 4}, engine.Position{Name: "b.log", End: 2})
	s.readAll()
	wants("before anything is settled", engine.Position{Name: "a.log", Read: 4, End: 4}, engine.Position{Name: "b.log", Read: 2, End: 2})
	s.ack()
	wants("at the end", engine.Position{Name: "a.log", Settled: 4, Read: 4, End: 4},
		engine.Position{Name: "b.log", Settled: 2, Read: 2, End: 2})
}

func TestRotation(t *testing.T) {
	const component = `{"file": {"path": ["*.log"], "follow": true}}`
	t.Run("by rename and create: the old file goes first, and to its end", func(t *testing.T) {
		tree(t, map[string]string{"a.log": "1\n"})
		s := following(t, component)
		s.wants("a.log:1 1")
		appendTo(t, "a.log", "2\n")
		rename(t, "a.log", "a.log.1")
		appendTo(t, "a.log", "new\n")
		s.wants("a.log:2 2", "a.log:1 new")
		appendTo(t, "a.log.1", "3\n4") // by a process that still has it open
		s.wants("a.log:3 3")
		s.now = s.now.Add(patience)
		s.wants("a.log:4 4")
		appendTo(t, "a.log.1", "x\n")
		s.wants("a.log:5 x")
		rename(t, "a.log.1", "a.log.2")
		appendTo(t, "a.log.2", "y\n")
		s.wants("a.log:6 y")
		s.now = s.now.Add(patience)
		s.wants()
		s.now = s.now.Add(oldAge)
		s.wants()
		if len(s.in.tails) != 1 {
			t.Errorf("%d files are followed, want the new one alone", len(s.in.tails))
		}
	})
	t.Run("by rename to a name that is followed, too", func(t *testing.T) {
		tree(t, map[string]string{"a.log": "1\n"})
		s := following(t, `{"file": {"path": "a.log*", "follow": true}}`)
		s.wants("a.log:1 1")
		rename(t, "a.log", "a.log.1")
		rewrite(t, "a.log.2.gz", "not looked at")
		rewrite(t, "a.log.3", "\x1f\x8b\x08\x00 compressed under another name")
		appendTo(t, "a.log", "2\n")
		s.wants("a.log:1 2")
	})
	t.Run("by truncation: it begins again", func(t *testing.T) {
		tree(t, map[string]string{"a.log": "1\n2\n"})
		s := following(t, component)
		s.wants("a.log:1 1", "a.log:2 2")
		rewrite(t, "a.log", "3\n")
		s.wants("a.log:1 3")
		if n := strings.Count(s.log.String(), "truncated"); n != 1 {
			t.Errorf("%d notes of it: %s", n, &s.log)
		}
		rewrite(t, "a.log", "")
		s.wants()
		rewrite(t, "a.log", "4\n")
		s.wants("a.log:1 4")
	})
	t.Run("by truncation, and it has grown larger or as large since", func(t *testing.T) {
		tree(t, map[string]string{"a.log": "1\n2\n"})
		s := following(t, component)
		s.wants("a.log:1 1", "a.log:2 2")
		rewrite(t, "a.log", "3\n4\n5\n")
		s.wants("a.log:1 3", "a.log:2 4", "a.log:3 5")
		must(t, os.WriteFile("a.log", []byte("6\n7\n8\n"), 0o600),
			os.Chtimes("a.log", time.Time{}, time.Now().Add(time.Second)))
		s.wants("a.log:1 6", "a.log:2 7", "a.log:3 8")
	})
	t.Run("by deletion: what is open is read to its end", func(t *testing.T) {
		tree(t, map[string]string{"a.log": "1\n"})
		s := following(t, component)
		s.wants("a.log:1 1")
		appendTo(t, "a.log", "2\n3")
		must(t, os.Remove("a.log"))
		s.wants("a.log:2 2")
		appendTo(t, "a.log", "new\n")
		s.wants("a.log:1 new")
		s.now = s.now.Add(patience)
		s.wants("a.log:3 3")
		s.wants()
		if len(s.in.tails) != 1 || len(s.in.files) != 1 {
			t.Errorf("%d files are followed, %d are open", len(s.in.tails), len(s.in.files))
		}
	})
	t.Run("by deletion of a file that is not open: its number is given to the next", func(t *testing.T) {
		tree(t, map[string]string{"a.log": "1\n2\n"})
		s := following(t, component)
		s.wants("a.log:1 1", "a.log:2 2")
		s.in.close(s.in.files[0])
		must(t, os.Remove("a.log"))
		appendTo(t, "a.log", "new\nnew\n")
		s.wants("a.log:1 new", "a.log:2 new")
	})
	t.Run("into another folder", func(t *testing.T) {
		tree(t, map[string]string{"a.log": "1\n", "old/x": ""})
		s := following(t, component)
		s.wants("a.log:1 1")
		appendTo(t, "a.log", "2\n")
		rename(t, "a.log", "old/a.log")
		s.wants("a.log:2 2")
		s.now = s.now.Add(patience)
		s.wants()
		s.wants()
		if len(s.in.tails) != 0 {
			t.Error("it is followed still")
		}
		rename(t, "old/a.log", "a.log")
		appendTo(t, "a.log", "3\n")
		s.wants("a.log:3 3")
	})
	t.Run("of a link to another file", func(t *testing.T) {
		tree(t, map[string]string{"pods/0": "1\n", "pods/1": "2\n"})
		must(t, os.Symlink("pods/0", "a.log"))
		s := following(t, component)
		s.wants("a.log:1 1")
		appendTo(t, "pods/0", "1b\n")
		must(t, os.Remove("a.log"), os.Symlink("pods/1", "a.log"))
		s.wants("a.log:2 1b", "a.log:1 2")
	})
}

func TestFramingsAreFollowed(t *testing.T) {
	tests := []struct {
		framing string
		steps   [][2]string // text that is appended, and messages that are read then
		late    string      // messages after patience
	}{
		{`"json"`, [][2]string{{`[{"a":1}, {"a"`, `{"a":1}`}, {`:2}`, `{"a":2}`}, {` , 3]`, `3`}}, ""},
		{`"csv"`, [][2]string{{"a,b\n", ""}, {"1,", ""}, {"2\n", `{"a":"1","b":"2"}`}, {"\"3\n", ""},
			{"4\",5\n", `{"a":"3\n4","b":"5"}`}}, ""},
		{`{"delimiter": "--"}`, [][2]string{{"a-", ""}, {"-b", "a"}, {"--", "b"}}, ""},
		{`{"length": 2}`, [][2]string{{"\x00", ""}, {"\x03a", ""}, {"bc\x00\x01", "abc"}, {"d", "d"}}, ""},
		{`{"start": "^\\d"}`, [][2]string{{"1 a\n at b\n", ""}, {" at c\n2 d\n", "1 a\n at b\n at c"}, {" at e\n", ""}},
			"2 d\n at e"},
		{`"messages"`, [][2]string{{`{"payload":"x"}`, ""}, {"\n", "x"}}, ""},
	}
	for _, keep := range []bool{true, false} {
		for _, tt := range tests {
			t.Run(fmt.Sprint(tt.framing, keep), func(t *testing.T) {
				tree(t, nil)
				s := following(t, `{"file": {"path": "f", "follow": true, "framing": `+tt.framing+`}}`)
				see := func(want string) {
					t.Helper()
					s.tick()
					got := ""
					for _, g := range s.got {
						_, body, _ := strings.Cut(g, " ")
						got += body
					}
					if got != want {
						t.Errorf("got %q, want %q (%s)", got, want, &s.log)
					}
					s.got = nil
				}
				for _, step := range tt.steps {
					appendTo(t, "f", step[0])
					see(step[1])
					if !keep { // a reopened file continues in the middle
						s.in.close(s.in.files[0])
					}
				}
				s.now = s.now.Add(patience)
				see(tt.late)
			})
		}
	}
}

func TestFollowingBeginsAtTheEnd(t *testing.T) {
	tree(t, map[string]string{"a.log": "1\n2\n3", "b.csv": "x,y\n1,2\n3,"})
	s := following(t, `{"file": {"path": "a*.log", "follow": true, "start": "end", "checkpoint": "cp"}}`)
	s.wants()
	s.restart() // before anything was read
	appendTo(t, "a.log", "3\n4\n")
	s.wants("a.log:1 33", "a.log:2 4")
	appendTo(t, "a2.log", "new files from their beginning\n")
	s.wants("a2.log:1 new files from their beginning")
	s.ack()
	must(t, s.in.Close(t.Context()))
	appendTo(t, "a3.log", "even those of the meantime\n")
	s.again()
	s.wants("a3.log:1 even those of the meantime")

	s = following(t, `{"file": {"path": "b.csv", "follow": true, "start": "end", "framing": "csv"}}`)
	s.wants()
	appendTo(t, "b.csv", "4\n")
	s.wants(`b.csv:3 {"x":"3","y":"4"}`)
}

func TestOpenFilesAndReadersAreBounded(t *testing.T) {
	files := map[string]string{}
	for i := range 2 * maxOpen {
		files[fmt.Sprintf("%d.log", i)] = "1\nhalf"
	}
	tree(t, files)
	s := following(t, `{"file": {"path": "*.log", "follow": true}}`)
	for round := range 3 {
		s.tick()
		if len(s.got) != len(files) {
			t.Fatalf("round %d: %d messages, want %d", round, len(s.got), len(files))
		}
		s.got = nil
		readers := 0
		for _, f := range s.in.files {
			if f.rows != nil {
				readers++
			}
		}
		if len(s.in.files) > maxOpen || readers > maxReaders {
			t.Fatalf("round %d: %d files are open, with %d readers", round, len(s.in.files), readers)
		}
		for path := range files {
			appendTo(t, path, " whole\nhalf")
		}
	}
}

func TestALongFileDoesNotHoldUpOthers(t *testing.T) {
	tree(t, map[string]string{"a.log": strings.Repeat(strings.Repeat("x", 1000)+"\n", 3*turn/1000), "b.log": "b\n"})
	s := following(t, `{"file": {"path": "*.log", "follow": true}}`)
	s.room = 256
	s.tick()
	i := slices.Index(s.got, "b.log:1 b")
	if i < turn/1001-300 || i > turn/1001+600 {
		t.Errorf("b.log was read behind %d messages of a.log, want about %d", i, turn/1001)
	}
	if len(s.got) != 3*turn/1000+1 {
		t.Errorf("%d messages", len(s.got))
	}
}

func TestFilesThatCannotBeFollowed(t *testing.T) {
	tree(t, map[string]string{"dir/x": "", "plain": ""})
	for path, want := range map[string]string{
		"dir": "dir: is a directory (write dir/* for the files in it)",
	} {
		in := enginetest.New(t, engine.Inputs, `{"file": {"path": "`+path+`", "follow": true}}`)
		err := in.(engine.Opener).Open(t.Context())
		var classed *engine.Error
		if err == nil || err.Error() != want || !errors.As(err, &classed) || classed.Class != engine.Permanent {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

func TestAFileWithoutPermissionIsFollowedOnceItHasIt(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("root may read everything")
	}
	tree(t, map[string]string{"a.log": "1\n"})
	must(t, os.Chmod("a.log", 0))
	s := following(t, `{"file": {"path": "*.log", "follow": true}}`)
	s.wants()
	s.wants()
	if n := strings.Count(s.log.String(), "permission denied"); n != 1 {
		t.Errorf("%d complaints: %s", n, &s.log)
	}
	must(t, os.Chmod("a.log", 0o600))
	s.wants("a.log:1 1")
}

// TestEventsAndPollingWorkAlone uses the real clock. The input is woken by file events only, or by ticks only.
func TestEventsAndPollingWorkAlone(t *testing.T) {
	for name, only := range map[string]func(f *follower){
		"events": func(f *follower) { f.every = time.Hour },
		"ticks":  func(f *follower) { f.every, f.listener = time.Millisecond, noEvents },
	} {
		t.Run(name, func(t *testing.T) {
			defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
			tree(t, map[string]string{"logs/a.log": "1\n", "pods/x/0.log": "linked\n"})
			must(t, os.Symlink("../pods/x/0.log", "logs/link.log"))
			in := enginetest.New(t, engine.Inputs, `{"file": {"path": ["logs/*.log"], "follow": true}}`).(*follower)
			only(in)
			must(t, in.Open(t.Context()))
			defer func() { must(t, in.Close(t.Context())) }()
			wants := func(want string) {
				t.Helper()
				for {
					b := engine.NewBatch(1)
					_, err := in.Read(t.Context(), b)
					must(t, err)
					for m := range b.All() {
						if got := where(m) + " " + string(m.Bytes()); got != want {
							t.Fatalf("got %s, want %s", got, want)
						}
						return
					}
				}
			}
			wants("logs/a.log:1 1")
			wants("logs/link.log:1 linked")
			appendTo(t, "logs/a.log", "2\n")
			wants("logs/a.log:2 2")
			appendTo(t, "pods/x/0.log", "more\n")
			wants("logs/link.log:2 more")
			appendTo(t, "logs/b.log", "b\n")
			wants("logs/b.log:1 b")
			rename(t, "logs/b.log", "logs/b.old")
			appendTo(t, "logs/b.log", "c\n")
			wants("logs/b.log:1 c")
			must(t, os.Truncate("logs/b.log", 0))
			appendTo(t, "logs/b.log", "d\n")
			wants("logs/b.log:1 d")
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(time.Millisecond, cancel)
			if _, err := in.Read(ctx, engine.NewBatch(1)); !errors.Is(err, context.Canceled) {
				t.Errorf("got %v", err)
			}
		})
	}
}

// TestAFollowerThatAReloadReplaces checks that the new input continues where the old one stopped, with a checkpoint and without.
func TestAFollowerThatAReloadReplaces(t *testing.T) {
	for _, fields := range []string{"", `, "start": "end"`, `, "checkpoint": "cp"`} {
		tree(t, map[string]string{"a.log": "1\n"})
		env := enginetest.Env()
		s := &script{t: t, now: time.Now(), room: 3}
		load := func() {
			t.Helper()
			cfg := enginetest.New(t, engine.Inputs, `{"file": {"path": "*.log", "follow": true`+fields+`}}`).(*follower).cfg
			in, err := newInput(cfg, env)
			must(t, err)
			s.in, s.refs = in.(*follower), nil
			s.open()
		}
		load()
		s.tick()
		s.ack()
		s.got = nil
		for i := range 3 {
			appendTo(t, "a.log", "more\n")
			s.wants(fmt.Sprintf("a.log:%d more", s.line(2+2*i)))
			s.ack()
			must(t, s.in.Close(t.Context()))
			appendTo(t, "a.log", "meanwhile\n")
			load()
			s.wants(fmt.Sprintf("a.log:%d meanwhile", s.line(3+2*i)))
			s.ack()
		}
	}
}

// line returns the number of a line if following began after the first one.
func (s *script) line(n int) int {
	if s.in.cfg.Start == "end" {
		return n - 1
	}
	return n
}
