package file

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/enginetest"
	"github.com/flowd-io/flowd/internal/formats/compression"
	"pgregory.net/rapid"
)

// run runs an input to its end, and settles n messages; -1: all.
func run(t *testing.T, component string, n int) (got []string) {
	t.Helper()
	in := make1(t, component)
	must(t, in.Open(t.Context()))
	defer func() { must(t, in.Close(t.Context())) }()
	for {
		b := engine.NewBatch(2)
		acker, err := in.Read(t.Context(), b)
		var results []engine.Result
		for m := range b.All() {
			got = append(got, where(m)+" "+string(m.Bytes()))
			fate := engine.Delivered
			if n == 0 {
				fate = engine.Returned
			} else {
				n--
			}
			results = append(results, engine.Result{Ref: m.Ref, Fate: fate})
		}
		slices.Reverse(results)
		if _, ackErr := acker.Ack(t.Context(), results); ackErr != nil {
			t.Fatal(ackErr)
		}
		if err == engine.ErrEnd {
			return got
		}
		must(t, err)
	}
}

func TestARunContinuesWhereTheLastOneStopped(t *testing.T) {
	packed, err := compression.Compress(compression.Gzip, []byte("1\n2\n3\n4\n"), 0)
	must(t, err)
	tree(t, map[string]string{
		"a.log": "1\n2\n3\n4\n", "b.log.gz": string(packed), "c.csv": "x\n1\n2\n3\n4\n", "d.log": "1\n2\n3\n4",
		"e.json": `[1,2,3,4]`, "f": "all of it",
	})
	for path, framing := range map[string]string{"a.log": "lines", "b.log.gz": "lines", "c.csv": "csv",
		"d.log": "lines", "e.json": "json"} {
		t.Run(path, func(t *testing.T) {
			component := fmt.Sprintf(`{"file": {"path": %q, "framing": %q, "checkpoint": "cp-%s"}}`, path, framing,
				path)
			all := run(t, component, 0)
			if len(all) != 4 {
				t.Fatalf("read %q", all)
			}
			for i, settles := range []int{1, 2, 0, -1} {
				want := all[[]int{0, 1, 3, 3}[i]:]
				if got := run(t, component, settles); !slices.Equal(got, want) {
					t.Errorf("run %d: got %q, want %q", i, got, want)
				}
			}
			if got := run(t, component, -1); got != nil {
				t.Errorf("all is done, got %q", got)
			}
		})
	}
	const whole = `{"file": {"path": "f", "framing": "whole", "checkpoint": "cp-f"}}`
	for _, step := range []struct{ text, want string }{{"all of it", "all of it"}, {"all of it", ""},
		{"all of it and more", "all of it and more"}, {"all new", "all new"}} {
		rewrite(t, "f", step.text)
		if got := strings.Join(run(t, whole, -1), ""); got != strings.TrimSuffix("f:1 "+step.want, "f:1 ") {
			t.Errorf("%s: got %q", step.text, got)
		}
	}
}

func TestAFileThatIsDoneAndHasGrownIsReadOn(t *testing.T) {
	const component = `{"file": {"path": "*", "checkpoint": "cp"}}` // the checkpoint itself is not one of the files
	tree(t, map[string]string{"a.log": "1\n2\n", "b.log": "1\n"})
	steps := []struct {
		does func()
		want []string
	}{
		{func() {}, []string{"a.log:1 1", "a.log:2 2", "b.log:1 1"}},
		{func() {}, nil},
		{func() { appendTo(t, "a.log", "3\n"); appendTo(t, "c.log", "new\n") }, []string{"a.log:3 3", "c.log:1 new"}},
		{func() { rename(t, "a.log", "d.log") }, nil},
		{func() { rewrite(t, "b.log", "other\n") }, []string{"b.log:1 other"}},
		{func() { rewrite(t, "b.log", "") }, nil},
		{func() { rewrite(t, "b.log", "x\n") }, []string{"b.log:1 x"}},
		{func() { must(t, os.Link("b.log", "e.log")) }, nil},
	}
	for i, step := range steps {
		step.does()
		for _, settles := range []int{0, -1} { // a run that settles nothing must not change the checkpoint
			if got := run(t, component, settles); !slices.Equal(got, step.want) {
				t.Errorf("step %d, settling %d: got %q, want %q", i, settles, got, step.want)
			}
		}
	}
}

func TestAReopenedInputContinues(t *testing.T) {
	for _, component := range []string{`{"file": "*.log"}`, `{"file": {"path": "*.log", "checkpoint": "cp"}}`} {
		tree(t, map[string]string{"a.log": "1\n2\n3\n4\n5\n", "b.log": "6\n7\n"})
		in := make1(t, component)
		var got []string
		var err error
		for err == nil {
			must(t, in.Open(t.Context()))
			b := engine.NewBatch(2)
			_, err = in.Read(t.Context(), b)
			for m := range b.All() {
				got = append(got, where(m))
			}
			must(t, in.Close(t.Context()))
		}
		want := []string{"a.log:1", "a.log:2", "a.log:3", "a.log:4", "a.log:5", "b.log:6", "b.log:7"}
		want[5], want[6] = "b.log:1", "b.log:2"
		if err != engine.ErrEnd || !slices.Equal(got, want) {
			t.Errorf("%s: got %q, %v", component, got, err)
		}
	}
}

func TestFollowingContinuesWhereItWas(t *testing.T) {
	const component = `{"file": {"path": "*.log", "follow": true, "checkpoint": "cp"}}`
	t.Run("behind the last message before which all are settled", func(t *testing.T) {
		tree(t, map[string]string{"a.log": "1\n2\n3\n4\n"})
		s := following(t, component)
		s.wants("a.log:1 1", "a.log:2 2", "a.log:3 3", "a.log:4 4")
		s.settle(s.refs[3], engine.Delivered)
		s.settle(s.refs[0], engine.Dropped)
		s.settle(s.refs[2], engine.Filtered)
		s.restart()
		s.wants("a.log:2 2", "a.log:3 3", "a.log:4 4")
		s.settle(s.refs[0], engine.DeadLettered)
		s.settle(s.refs[1], engine.Returned)
		s.settle(s.refs[2], engine.Delivered)
		s.restart()
		s.wants("a.log:3 3", "a.log:4 4")
		s.ack()
		appendTo(t, "a.log", "half")
		s.wants()
		s.restart()
		s.wants()
		appendTo(t, "a.log", "5\n")
		s.wants("a.log:5 half5")
	})
	t.Run("in a file that was renamed meanwhile, to a name that is not followed", func(t *testing.T) {
		tree(t, map[string]string{"a.log": "1\n"})
		s := following(t, component)
		s.wants("a.log:1 1")
		s.ack()
		must(t, s.in.Close(t.Context()))
		appendTo(t, "a.log", "2\n")
		rename(t, "a.log", "a.log.1")
		appendTo(t, "a.log", "new\n")
		s.again()
		s.wants("a.log:2 2", "a.log:1 new")
	})
	t.Run("at the beginning of what was truncated, written anew or put in its place meanwhile", func(t *testing.T) {
		tree(t, map[string]string{"a.log": "1\n2\n", "b.log": "1\n2\n", "c.log": "1\n2\n"})
		s := following(t, component)
		s.tick()
		s.ack()
		must(t, s.in.Close(t.Context()))
		rewrite(t, "a.log", "3\n")
		rewrite(t, "b.log", "3\n4\n5\n")
		must(t, os.Remove("c.log"))
		rewrite(t, "c.log", "3\n4\n5\n")
		s.again()
		s.got = nil
		s.wants("a.log:1 3", "b.log:1 3", "b.log:2 4", "b.log:3 5", "c.log:1 3", "c.log:2 4", "c.log:3 5")
	})
	t.Run("in the same process: where it had read to", func(t *testing.T) {
		tree(t, map[string]string{"a.log": "1\n2\n"})
		s := following(t, component)
		s.wants("a.log:1 1", "a.log:2 2")
		must(t, s.in.Close(t.Context()))
		s.open()
		appendTo(t, "a.log", "3\n")
		s.wants("a.log:3 3")
		s.settle(s.refs[0], engine.Delivered)
		s.settle(s.refs[2], engine.Delivered)
		s.restart()
		s.wants("a.log:2 2", "a.log:3 3")
	})
	t.Run("unless what was not read is gone, which is said", func(t *testing.T) {
		tree(t, map[string]string{"a.log": "1\n2\n"})
		s := following(t, component)
		s.tick()
		s.settle(s.refs[0], engine.Delivered)
		must(t, s.in.Close(t.Context()), os.Remove("a.log"))
		s.got = nil
		s.again()
		s.wants()
		if !strings.Contains(s.log.String(), "is lost") {
			t.Errorf("the log says %s", &s.log)
		}
	})
}

func TestDeletedFilesAreForgotten(t *testing.T) {
	tree(t, map[string]string{"a.log": "1\n", "b.log": "1\n"})
	s := following(t, `{"file": {"path": "*.log", "follow": true, "checkpoint": "cp"}}`)
	s.tick()
	s.ack()
	must(t, os.Remove("a.log")) // the removal is seen, so the entry is forgotten at once
	s.tick()
	s.now = s.now.Add(patience)
	s.tick()
	s.tick()
	remembers := func(want ...string) {
		t.Helper()
		must(t, s.in.book.Save())
		var got []string
		for e := range s.in.book.All() {
			got = append(got, e.Path)
		}
		if !slices.Equal(got, want) {
			t.Errorf("it remembers %q, want %q", got, want)
		}
	}
	remembers("b.log")
	must(t, s.in.Close(t.Context()), os.Rename("b.log", "b"), os.Mkdir("elsewhere", 0o700),
		os.Rename("b", "elsewhere/b")) // the removal is not seen, so the entry is forgotten after some days
	s.again()
	s.tick()
	remembers("b.log")
	s.now = s.now.Add(remembered - time.Hour)
	s.tick()
	s.restart() // another process knows since when the file is missing
	s.tick()
	remembers("b.log")
	s.now = s.now.Add(2 * time.Hour)
	s.tick()
	remembers()
}

func TestBadCheckpoints(t *testing.T) {
	tree(t, map[string]string{"a.log": "1\n", "bad": "{",
		"negative": `{"checkpoint_of":"file","version":1,"state":{"files":[{"offset":-1}]}}`})
	for component, want := range map[string]string{
		`{"file": {"path": "a.log", "checkpoint": "bad"}}`: "checkpoint bad: is damaged or not a checkpoint",
		`{"file": {"path": "a.log", "checkpoint": "negative"}}`: "checkpoint negative: is damaged: file 1: it is not a place " +
			"in a file (restore it",
		`{"file": {"path": "a.log", "checkpoint": "a.log", "follow": true}}`: "checkpoint a.log: is not a checkpoint",
		`{"file": {"path": "/dev/null", "checkpoint": "cp"}}`: "/dev/null: is not a regular file, so it has no position to " +
			"record",
		`{"file": {"path": "a.log", "checkpoint": "a.log/x", "follow": false}}`: "not a directory",
	} {
		for range 2 { // reopening it does not help
			err := enginetest.New(t, engine.Inputs, component).(engine.Opener).Open(t.Context())
			var classed *engine.Error
			if err == nil || !strings.Contains(err.Error(), want) || !errors.As(err, &classed) ||
				classed.Class != engine.Permanent {
				t.Errorf("%s: got %v, want %s", component, err, want)
			}
		}
	}
}

// TestACheckpointOfAnOlderFlowd is one JSON document. The first run converts it.
func TestACheckpointOfAnOlderFlowd(t *testing.T) {
	tree(t, map[string]string{"a.log": "1\n2\n3\n", "b.log": "1\n"})
	info, err := os.Stat("a.log")
	must(t, err)
	f, err := os.Open("a.log")
	must(t, err)
	h, err := headOf(f, headSize)
	must(t, err, f.Close())
	i := idOf("a.log", info)
	rewrite(t, "cp", fmt.Sprintf(`{"checkpoint_of":"file","version":1,"state":{"files":[{"path":"a.log","dev":%d,"inode":%d,`+
		`"head":{"bytes":%d,"sum":%d},"offset":4,"line":3,"size":6,"seen":"2026-01-02T03:04:05Z"}]}}`, i.dev, i.inode, h.Bytes, h.Sum))
	const component = `{"file": {"path": "*.log", "checkpoint": "cp"}}`
	for _, want := range [][]string{{"a.log:3 3", "b.log:1 1"}, nil} {
		if got := run(t, component, -1); !slices.Equal(got, want) {
			t.Errorf("read %q, want %q", got, want)
		}
	}
}

func TestInstancesShareACheckpoint(t *testing.T) {
	files := map[string]string{}
	for i := range 40 {
		files[fmt.Sprintf("%d.log", i)] = "1\n2\n"
	}
	tree(t, files)
	for _, follow := range []bool{true, false} {
		cfg := Config{}
		component := fmt.Sprintf(`{"file": {"path": "*.log", "follow": %v, "checkpoint": "cp-%v"}}`, follow, follow)
		if in := enginetest.New(t, engine.Inputs, component); follow {
			cfg = in.(*follower).cfg
		} else {
			cfg = in.(*input).cfg
		}
		for round, want := range []int{80, 0} {
			env := enginetest.Env()
			env.Instances = 3
			var ins []engine.Input
			for env.Index = range env.Instances {
				in, err := newInput(cfg, env)
				must(t, err)
				if f, ok := in.(*follower); ok {
					f.unwatched = true
				}
				must(t, in.(engine.Opener).Open(t.Context()))
				ins = append(ins, in)
			}
			got := 0
			for i, in := range ins {
				before := got
				for more := true; more; {
					b := engine.NewBatch(7)
					var acker engine.Acker
					if f, ok := in.(*follower); ok {
						if more = len(f.ready) > 0; more {
							f.read(t.Context(), b)
							acker = f.acks
						}
					} else {
						var err error
						acker, err = in.Read(t.Context(), b)
						more = err == nil
					}
					for m := range b.All() {
						got++
						_, err := acker.Ack(t.Context(), []engine.Result{{Ref: m.Ref}})
						must(t, err)
					}
				}
				if follow && round == 0 && got == before {
					t.Errorf("instance %d has nothing to do", i)
				}
			}
			for _, in := range ins {
				must(t, in.(engine.Closer).Close(t.Context()))
			}
			if got != want {
				t.Errorf("follow %v, round %d: %d messages, want %d", follow, round, got, want)
			}
		}
	}
}

func TestTwoInputsOnOneCheckpointAreRefused(t *testing.T) {
	tree(t, map[string]string{"a.log": "1\n"})
	first := make1(t, `{"file": {"path": "a.log", "checkpoint": "cp"}}`)
	must(t, first.Open(t.Context()))
	second := make1(t, `{"file": {"path": "a.log", "checkpoint": "./cp"}}`)
	if err := second.Open(t.Context()); err == nil ||
		!strings.Contains(err.Error(), "is already the checkpoint of input test (give each input its own)") {
		t.Errorf("got %v", err)
	}
	must(t, second.Close(t.Context()), first.Close(t.Context()), second.Open(t.Context()), second.Close(t.Context()))
}

// TestNothingIsLost appends, rotates, truncates, deletes, settles in any order, and kills, at random. It only truncates text that was
// read, since any follower of files loses the rest.
func TestNothingIsLost(t *testing.T) {
	if f := flag.Lookup("rapid.checks"); f.Value.String() == f.DefValue {
		must(t, f.Value.Set("25")) // each check writes to the disk
		defer func() { must(t, f.Value.Set(f.DefValue)) }()
	}
	rapid.Check(t, func(r *rapid.T) {
		dir, err := os.MkdirTemp("", "follow")
		must(t, err)
		defer os.RemoveAll(dir)
		path := dir + "/a.log"
		cfg := make2(t, dir)
		w := &world{t: t, r: r, path: path, times: map[string]int{}, low: map[string]bool{}}
		w.start(cfg)
		defer func() { must(t, w.s.in.Close(context.Background())) }()
		r.Repeat(map[string]func(*rapid.T){
			"append":   func(*rapid.T) { w.write(rapid.IntRange(1, 5).Draw(r, "lines")) },
			"half":     func(*rapid.T) { w.half() },
			"rotate":   func(*rapid.T) { w.rotate() },
			"truncate": func(*rapid.T) { w.readAll(); w.truncate() },
			"delete":   func(*rapid.T) { w.readAll(); w.remove() },
			"read":     func(*rapid.T) { w.readAll() },
			"settle":   func(*rapid.T) { w.settle() },
			"save":     func(*rapid.T) { w.save() },
			"kill":     func(*rapid.T) { w.kill(); w.start(cfg) },
			"reopen":   func(*rapid.T) { w.reopen() },
			"evict":    func(*rapid.T) { w.evict() },
			"wait":     func(*rapid.T) { w.s.now = w.s.now.Add(patience) },
			"":         func(*rapid.T) { w.check() },
		})
		w.readAll()
		w.s.now = w.s.now.Add(patience)
		w.finishLine()
		w.readAll()
		for _, line := range w.written {
			if w.times[line] == 0 {
				r.Fatalf("%s was written and never read; log: %s", line, &w.s.log)
			}
		}
	})
}

func make2(t *testing.T, dir string) Config {
	return enginetest.New(t, engine.Inputs,
		fmt.Sprintf(`{"file": {"path": "%s/*.log", "follow": true, "checkpoint": "%s/cp"}}`, dir, dir)).(*follower).cfg
}

// world is a file and its follower.
type world struct {
	t    *testing.T
	r    *rapid.T
	s    *script
	path string

	n       int
	pending string   // a line without its end
	written []string // whole lines
	times   map[string]int
	open    []string        // lines since the last restart, by position; "": no line
	low     map[string]bool // lines before the saved checkpoint
	done    []bool
	saved   []byte
}

func (w *world) start(cfg Config) {
	in, err := newInput(cfg, enginetest.Env())
	must(w.t, err)
	w.s = &script{t: w.t, in: in.(*follower), now: time.Now(), room: rapid.IntRange(1, 4).Draw(w.r, "room")}
	w.s.now = w.s.now.Add(time.Hour) // file times are old enough to be trusted
	w.s.in.now = func() time.Time { return w.s.now }
	w.s.in.listener, w.s.in.unwatched = noEvents, true
	must(w.t, w.s.in.Open(context.Background()))
	w.open, w.done = nil, nil
	w.keep()
}

func (w *world) append(text string) {
	f, err := os.OpenFile(w.path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	must(w.t, err)
	_, err = f.WriteString(text)
	must(w.t, err, f.Close(), w.touch())
}

// touch sets the modification time of the file, as if time had passed.
func (w *world) touch() error {
	w.n++
	return os.Chtimes(w.path, time.Time{}, time.Now().Add(time.Duration(w.n)*time.Millisecond))
}

func (w *world) write(lines int) {
	for range lines {
		w.finishLine()
		w.half()
	}
	w.finishLine()
}

func (w *world) half() {
	w.n++
	part := fmt.Sprintf("line%d", w.n)
	w.append(part)
	w.pending += part
}

func (w *world) finishLine() {
	if w.pending != "" {
		w.append("\n")
		w.written, w.pending = append(w.written, w.pending), ""
	}
}

func (w *world) rotate() {
	w.finishLine()
	w.s.in.due = true // the follower must see a file before it is renamed
	w.s.in.keepUp(context.Background())
	w.keep()
	w.n++
	if err := os.Rename(w.path, fmt.Sprintf("%s.%d", w.path, w.n)); err != nil && !os.IsNotExist(err) {
		w.t.Fatal(err)
	}
	if w.n%2 == 0 {
		w.append("")
	}
}

// truncate does what copytruncate does, once all text was read.
func (w *world) truncate() {
	if w.pending != "" || !w.allSettled() {
		return
	}
	if err := os.Truncate(w.path, 0); err == nil {
		must(w.t, w.touch())
	}
}

func (w *world) remove() {
	if w.pending != "" || !w.allSettled() {
		return
	}
	if err := os.Remove(w.path); err != nil && !os.IsNotExist(err) {
		w.t.Fatal(err)
	}
}

func (w *world) allSettled() bool {
	for i := range w.done {
		if !w.done[i] {
			return false
		}
	}
	w.save()
	return true
}

func (w *world) readAll() {
	w.s.tick()
	w.keep()
	for i, got := range w.s.got {
		_, line, _ := strings.Cut(got, " ")
		if w.low[line] {
			w.r.Fatalf("%s was read again though the checkpoint lies behind it; log: %s", line, &w.s.log)
		}
		w.times[line]++
		ref := int(w.s.refs[i])
		for len(w.open) <= ref { // positions in between are not messages
			w.open, w.done = append(w.open, ""), append(w.done, true)
		}
		w.open[ref], w.done[ref] = line, false
	}
	w.s.got, w.s.refs = nil, nil
}

func (w *world) settle() {
	if len(w.open) == 0 {
		return
	}
	for range rapid.IntRange(1, 5).Draw(w.r, "settled") {
		ref := rapid.IntRange(0, len(w.open)-1).Draw(w.r, "ref")
		if !w.done[ref] {
			w.done[ref] = true
			w.s.settle(uint64(ref), engine.Delivered)
		}
	}
	if rapid.Bool().Draw(w.r, "all") {
		for ref := range w.done {
			if !w.done[ref] {
				w.done[ref] = true
				w.s.settle(uint64(ref), engine.Delivered)
			}
		}
	}
}

func (w *world) save() {
	must(w.t, w.s.in.book.Save())
	for ref, line := range w.open {
		if !w.done[ref] {
			break
		}
		if line != "" {
			w.low[line] = true
		}
	}
	w.keep()
}

func (w *world) keep() {
	text, err := os.ReadFile(w.s.in.cfg.Checkpoint)
	must(w.t, err)
	w.saved = text
}

// kill restarts the follower with the checkpoint that was last saved.
func (w *world) kill() {
	saved := w.saved
	must(w.t, w.s.in.Close(context.Background()), os.WriteFile(w.s.in.cfg.Checkpoint, saved, 0o600))
}

func (w *world) reopen() {
	must(w.t, w.s.in.Close(context.Background()), w.s.in.Open(context.Background()))
	w.save()
}

func (w *world) evict() {
	if len(w.s.in.files) > 0 && !w.s.in.files[0].gone {
		w.s.in.close(w.s.in.files[0])
	}
}

func (w *world) check() {
	if len(w.s.in.ready) > 0 && len(w.s.in.files) == 0 {
		w.r.Log("ready, none open")
	}
}
