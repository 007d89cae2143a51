package s3

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/enginetest"
	"github.com/flowd-io/flowd/engine/runtime"
	"github.com/flowd-io/flowd/internal/systems/objects"
	"github.com/flowd-io/flowd/internal/testing/fakes3"
	"github.com/flowd-io/flowd/schema"
)

// run runs a pipeline until its input ends.
func run(t *testing.T, in engine.Input, dst *enginetest.Sink, edit ...func(*engine.Pipeline)) runtime.Report {
	t.Helper()
	p := &engine.Pipeline{
		Name: "test",
		Inputs: enginetest.Named(
			"in",
			engine.InputSpec{Use: engine.Use(func(engine.Env) (engine.Input, error) { return in, nil })},
		),
		Outputs: enginetest.Named("out", dst.Output()),
		Engine:  engine.EngineSpec{Workers: 1},
	}
	for _, e := range edit {
		e(p)
	}
	return enginetest.Run(t, p, nil)
}

// lines returns n numbered lines.
func lines(n int) (text string, all []string) {
	for i := range n {
		all = append(all, fmt.Sprintf("line %06d %s", i, strings.Repeat("x", 40)))
	}
	return strings.Join(all, "\n") + "\n", all
}

func zipped(t *testing.T, text string) string {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := w.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestLostConnectionsAreContinued(t *testing.T) {
	t.Parallel()
	text, want := lines(20_000)
	for _, tt := range []struct{ name, key, body string }{
		{"plain", "a.log", text},
		{"compressed", "a.log.gz", zipped(t, text)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := fakes3.Start(t)
			s.Put(t, tt.key, tt.body)
			s.Fault(fakes3.Fault{Method: "GET", Key: tt.key, Cut: len(tt.body) / 3, Times: 2})
			s.Fault(fakes3.Fault{Method: "GET", Key: tt.key, Status: 503, Code: "SlowDown", Times: 1})
			dst := &enginetest.Sink{}
			rep := run(t, made(t, s, ""), dst)
			if got := dst.Bodies(); rep.Err != nil || !slices.Equal(got, want) {
				t.Errorf("err %v, %d messages, want %d", rep.Err, len(got), len(want))
			}
			ranges := 0
			for _, c := range s.Calls("GET") {
				if c.Key == tt.key && c.Header.Get("Range") != "" {
					ranges++
					if c.Header.Get("If-Match") == "" {
						t.Error("an object is continued that may be another one")
					}
				}
			}
			if ranges < 2 {
				t.Errorf("%d requests continue the object, want at least 2", ranges)
			}
		})
	}
}

func TestReplacedObjectsAreReadFromTheirBeginning(t *testing.T) {
	t.Parallel()
	s := fakes3.Start(t)
	old, _ := lines(20_000)
	s.Put(t, "a", old)
	s.Put(t, "b", "after\n")
	replaced := false
	s.Fault(fakes3.Fault{Method: "GET", Key: "/a", Cut: len(old) / 2})
	s.Fault(fakes3.Fault{Method: "GET", Key: "/a", Times: 1, Status: 412, Code: "PreconditionFailed", Hook: func() {
		s.Put(t, "a", "new 1\nnew 2\n")
		replaced = true
	}})
	dst := &enginetest.Sink{}
	rep := run(t, made(t, s, `, "after": "delete"`), dst)
	got := dst.Bodies()
	n := len(got)
	if rep.Err != nil || !replaced || n < 1000 || !slices.Equal(got[n-3:], []string{"new 1", "new 2", "after"}) {
		t.Fatalf("err %v, replaced %v, %d messages that end with %q", rep.Err, replaced, n, got[max(0, n-3):])
	}
	if keys := s.Keys(t); len(keys) != 0 {
		t.Errorf("there are %q, want none", keys)
	}
}

func TestObjectsWithoutReadableContentBecomeFailedMessagesAndStay(t *testing.T) {
	t.Parallel()
	text, want := lines(3000)
	packed := zipped(t, text)
	s := fakes3.Start(t)
	s.Put(t, "1.gz", packed[:len(packed)/2])
	s.Put(t, "2.gz", "this is not gzip")
	s.Put(t, "3", "archived\n")
	s.Put(t, "4", "good\n")
	s.Fault(fakes3.Fault{Method: "GET", Key: "/3", Status: 403, Code: "InvalidObjectState", Times: -1})
	dst, dead := &enginetest.Sink{}, &enginetest.Sink{}
	rep := run(t, made(t, s, `, "after": "delete"`), dst, func(p *engine.Pipeline) {
		p.Outputs = schema.MapOf(schema.Entry[engine.OutputSpec]{Key: "out", Value: dst.Output()},
			schema.Entry[engine.OutputSpec]{Key: "dead", Value: dead.Output()})
		p.Engine.OnFailure.DeadLetter = "dead"
	})
	if rep.Err != nil {
		t.Fatal(rep.Err)
	}
	if n := len(dead.Bodies()); n != 3 {
		t.Errorf("%d dead letters, want 3", n)
	}
	if got := dst.Bodies(); !slices.Equal(got[len(got)-1:], []string{"good"}) || !slices.Equal(got[:10], want[:10]) {
		t.Errorf("delivered %d", len(got))
	}
	if keys := s.Keys(t); !slices.Equal(keys, []string{"1.gz", "2.gz", "3"}) {
		t.Errorf("there are %q, want those that could not be read", keys)
	}
}

func TestMetadata(t *testing.T) {
	t.Parallel()
	s := fakes3.Start(t)
	s.Put(t, "in/a.log", "x\ny\n")
	in := made(t, s, `, "prefix": "in/"`)
	if err := in.(engine.Opener).Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer in.(engine.Closer).Close(context.Background())
	b := engine.NewBatch(10)
	if _, err := in.Read(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	var got []map[string]any
	for m := range b.All() {
		got = append(got, m.Meta.Map())
	}
	if len(got) != 2 {
		t.Fatalf("%d messages", len(got))
	}
	for name, want := range map[string]any{"bucket": "bucket", "key": "in/a.log", "size": 4, "line": 2, "origin": "test",
		"etag": "7a1b3f0bc9ff3b1d9ef9b2d1f4c5a9ab"} {
		if name == "etag" {
			if text, _ := got[1][name].(string); len(text) != 32 {
				t.Errorf("etag %v", got[1][name])
			}
		} else if got[1][name] != want {
			t.Errorf("%s is %v, want %v", name, got[1][name], want)
		}
	}
}

func TestAfter(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, after string
		want        []string
	}{
		{"keep", `"keep"`, []string{"in/a", "in/b/c"}},
		{"delete", `"delete"`, nil},
		{"move", `{"move": "done/"}`, []string{"done/a", "done/b/c"}},
		{"tag", `{"tag": {"state": "read"}}`, []string{"in/a", "in/b/c"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := fakes3.Start(t)
			s.Put(t, "in/a", "1\n")
			s.Put(t, "in/b/c", "2\n")
			dst := &enginetest.Sink{}
			rep := run(t, made(t, s, `, "prefix": "in/", "after": `+tt.after), dst)
			if got := dst.Bodies(); rep.Err != nil || !slices.Equal(got, []string{"1", "2"}) {
				t.Errorf("err %v, delivered %q", rep.Err, got)
			}
			if keys := s.Keys(t); !slices.Equal(keys, tt.want) {
				t.Errorf("there are %q, want %q", keys, tt.want)
			}
			if tags := s.Tags(t, "in/a"); tt.name == "tag" && tags["state"] != "read" {
				t.Errorf("tags %v", tags)
			}
		})
	}
}

// TestNothingIsDoneBeforeAllIsDelivered reads an object with one unsettled message.
func TestNothingIsDoneBeforeAllIsDelivered(t *testing.T) {
	t.Parallel()
	s := fakes3.Start(t)
	s.Put(t, "a", "1\n2\n3\n")
	in := made(t, s, `, "after": "delete"`)
	if err := in.(engine.Opener).Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	acker, refs := read(t, in)
	settle := func(ref uint64) {
		if _, err := acker.Ack(t.Context(), []engine.Result{{Ref: ref, Fate: engine.Delivered}}); err != nil {
			t.Fatal(err)
		}
	}
	settle(refs[0])
	settle(refs[2])
	if keys := s.Keys(t); len(keys) != 1 {
		t.Fatal("the object was deleted while one of its messages was not settled")
	}
	s.Fault(fakes3.Fault{Method: "DELETE", Status: 403, Code: "AccessDenied"})
	settle(refs[1])
	if keys := s.Keys(t); len(keys) != 1 {
		t.Fatal("the object was deleted by a call that was refused")
	}
	if _, err := in.Read(t.Context(), engine.NewBatch(1)); err != engine.ErrEnd {
		t.Errorf("read: %v", err)
	}
	if err := in.(engine.Closer).Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if keys := s.Keys(t); len(keys) != 0 {
		t.Errorf("there is still %q", keys)
	}
}

// read reads to the end, and returns the Refs of all messages.
func read(t *testing.T, in engine.Input) (acker engine.Acker, refs []uint64) {
	t.Helper()
	for {
		b := engine.NewBatch(100)
		a, err := in.Read(t.Context(), b)
		for m := range b.All() {
			refs = append(refs, m.Ref)
		}
		if a != nil {
			acker = a
		}
		if err == engine.ErrEnd {
			return acker, refs
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func TestMovedObjectsAreNotReadAgain(t *testing.T) {
	t.Parallel()
	s := fakes3.Start(t)
	s.Put(t, "a", "1\n")
	s.Put(t, "done/b", "2\n")
	dst := &enginetest.Sink{}
	rep := run(t, made(t, s, `, "after": {"move": "done/"}`), dst)
	if got := dst.Bodies(); rep.Err != nil || !slices.Equal(got, []string{"1"}) {
		t.Errorf("err %v, delivered %q", rep.Err, got)
	}
	if keys := s.Keys(t); !slices.Equal(keys, []string{"done/a", "done/b"}) {
		t.Errorf("there are %q", keys)
	}
}

// TestAReplacedObjectStays replaces an object after its last message was read, and before that is settled.
func TestAReplacedObjectStays(t *testing.T) {
	t.Parallel()
	for _, after := range []string{`"delete"`, `{"move": "done/"}`} {
		s := fakes3.Start(t)
		s.Put(t, "a", "1\n")
		in := made(t, s, `, "after": `+after)
		if err := in.(engine.Opener).Open(t.Context()); err != nil {
			t.Fatal(err)
		}
		acker, refs := read(t, in)
		s.Put(t, "a", "2\n")
		if _, err := acker.Ack(t.Context(), []engine.Result{{Ref: refs[0], Fate: engine.Delivered}}); err != nil {
			t.Fatal(err)
		}
		if err := in.(engine.Closer).Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		if body, _ := s.Get(t, "a"); body != "2\n" {
			t.Errorf("after %s the new object is %q", after, body)
		}
	}
}

func TestAWrongChecksumIsReported(t *testing.T) {
	t.Parallel()
	s := fakes3.Start(t)
	s.Put(t, "a", "1\n2\n")
	s.Fault(
		fakes3.Fault{
			Method: "GET",
			Key:    "/a",
			Header: map[string]string{"X-Amz-Checksum-Crc32c": "AAAAAA=="},
			Times:  -1,
		},
	)
	dst, dead := &enginetest.Sink{}, &enginetest.Sink{}
	rep := run(t, made(t, s, `, "after": "delete"`), dst, func(p *engine.Pipeline) {
		p.Outputs = schema.MapOf(schema.Entry[engine.OutputSpec]{Key: "out", Value: dst.Output()},
			schema.Entry[engine.OutputSpec]{Key: "dead", Value: dead.Output()})
		p.Engine.OnFailure.DeadLetter = "dead"
	})
	if rep.Err != nil || len(dead.Bodies()) != 1 {
		t.Errorf("err %v, delivered %q, dead letters %q", rep.Err, dst.Bodies(), dead.Bodies())
	}
	if keys := s.Keys(t); len(keys) != 1 {
		t.Error("the object was deleted")
	}
}

// TestAnImpossibleActionKeepsTheObject tags objects in a store without support for tags.
func TestAnImpossibleActionKeepsTheObject(t *testing.T) {
	t.Parallel()
	s := fakes3.Start(t)
	s.Put(t, "a", "1\n")
	s.Put(t, "b", "2\n")
	s.Fault(fakes3.Fault{Method: "PUT", Query: "tagging", Status: 501, Code: "NotImplemented", Times: -1})
	dst := &enginetest.Sink{}
	rep := run(t, made(t, s, `, "after": {"tag": {"state": "read"}}`), dst)
	if got := dst.Bodies(); rep.Err != nil || !slices.Equal(got, []string{"1", "2"}) {
		t.Errorf("err %v, delivered %q", rep.Err, got)
	}
}

func TestCheckpoint(t *testing.T) {
	t.Parallel()
	text, all := lines(5000)
	for _, tt := range []struct{ name, key, body, framing string }{
		{"plain", "b.log", text, ""},
		{"compressed", "b.log.gz", zipped(t, text), ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := fakes3.Start(t)
			s.Put(t, "a", "first\n")
			s.Put(t, tt.key, tt.body)
			s.Put(t, "c", "last\n")
			fields := fmt.Sprintf(`, "checkpoint": %q`, filepath.Join(t.TempDir(), "at"))
			in := made(t, s, fields)
			if err := in.(engine.Opener).Open(t.Context()); err != nil {
				t.Fatal(err)
			}
			acker, refs := read(t, in)
			const settled = 1 + 3000 // "first", and lines of the second object
			var results []engine.Result
			for _, ref := range refs[:settled] {
				results = append(results, engine.Result{Ref: ref, Fate: engine.Delivered})
			}
			if _, err := acker.Ack(t.Context(), results); err != nil {
				t.Fatal(err)
			}
			if err := in.(engine.Closer).Close(t.Context()); err != nil {
				t.Fatal(err)
			}

			dst := &enginetest.Sink{}
			want := append(slices.Clone(all[settled-1:]), "last")
			rep := run(t, made(t, s, fields), dst)
			if got := dst.Bodies(); rep.Err != nil || !slices.Equal(got, want) {
				t.Fatalf("err %v, %d messages, want %d", rep.Err, len(got), len(want))
			}
			again := &enginetest.Sink{}
			s.Put(t, "a", "replaced\n")
			s.Put(t, "0", "new\n")
			run(t, made(t, s, fields), again)
			if got := again.Bodies(); !slices.Equal(got, []string{"new", "replaced"}) {
				t.Errorf("the third run reads %q", got)
			}
		})
	}
}

func TestOpeningSaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		fault fakes3.Fault
		class engine.Class
		want  string
	}{
		{"a missing bucket", fakes3.Fault{Method: "HEAD", Status: 404}, engine.Transient, "bucket bucket: the bucket does not exist"},
		{"another region", fakes3.Fault{Method: "HEAD", Status: 301, Code: "PermanentRedirect",
			Header: map[string]string{"X-Amz-Bucket-Region": "eu-west-3"}}, engine.Transient, "in eu-west-3"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := fakes3.Start(t)
			tt.fault.Times = -1
			s.Fault(tt.fault)
			err := made(t, s, "").(engine.Opener).Open(t.Context())
			var e *engine.Error
			if !errors.As(err, &e) || e.Class != tt.class || !e.Holds || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want class %s and %q", err, tt.class, tt.want)
			}
		})
	}
}

func TestRefusedCredentialsAreOfClassAuth(t *testing.T) {
	t.Parallel()
	s := fakes3.Start(t)
	s.Fault(fakes3.Fault{Method: "HEAD", Status: 400, Times: -1})
	s.Fault(fakes3.Fault{Method: "GET", Query: "list-type", Status: 400, Code: "ExpiredToken", Times: -1})
	if err := made(t, s, "").(engine.Opener).Open(t.Context()); engine.ErrorOf(err, "").Class != engine.Auth {
		t.Errorf("expired credentials at the start: %v", err)
	}
	for _, code := range []string{"ExpiredToken", "InvalidAccessKeyId", "AccessDenied", "RequestTimeTooSkewed"} {
		s := fakes3.Start(t)
		s.Fault(fakes3.Fault{Method: "GET", Query: "list-type", Status: 403, Code: code, Times: -1})
		in := made(t, s, "")
		if err := in.(engine.Opener).Open(t.Context()); err != nil {
			t.Fatal(err)
		}
		_, err := in.Read(t.Context(), engine.NewBatch(1))
		if engine.ErrorOf(err, "").Class != engine.Auth || !strings.Contains(err.Error(), code) {
			t.Errorf("%s: error %v", code, err)
		}
		if err := in.(engine.Closer).Close(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

func TestConfigComplaints(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ fields, want string }{
		{`, "prefix": "in/", "after": {"move": "in/"}`, "moved objects would be read again"},
		{`, "interval": "1m", "notify": "q"`, "names the objects to read"},
		{`, "after": {"tag": {}}`, "needs 1 to 10 tags"},
	} {
		problems := strings.Join(enginetest.Problems(t, engine.Inputs, `{"s3": {"bucket": "b"`+tt.fields+`}}`), "\n")
		if !strings.Contains(problems, tt.want) {
			t.Errorf("%s: %q, want %q", tt.fields, problems, tt.want)
		}
	}
}

// TestInstancesShareTheWork reads with several instances, and with those of a second plan of
// the same process, as after a reload.
func TestInstancesShareTheWork(t *testing.T) {
	t.Parallel()
	s := fakes3.Start(t)
	s.Page = 3
	var want []string
	for i := range 40 {
		text := fmt.Sprintf("%02d", i)
		s.Put(t, "in/"+text, text+"\n")
		want = append(want, text)
	}
	process := &engine.Shared{}
	for range 2 {
		var c Config
		c.Bucket, c.Endpoint, c.Region, c.Source = fakes3.Bucket, s.URL, "us-east-1", objects.Defaults
		c.Prefix = "in/"
		c.CheckConfig(func(path, message, _ string) { t.Errorf("%s: %s", path, message) })
		dst := &enginetest.Sink{}
		plan, problems := runtime.Build(&engine.Pipeline{Name: "test", Engine: engine.EngineSpec{Workers: 1},
			Inputs: enginetest.Named("in", engine.InputSpec{Concurrency: 4,
				Use: engine.Use(func(env engine.Env) (engine.Input, error) { return newInput(c, env) })}),
			Outputs: enginetest.Named(
				"out",
				dst.Output(),
			)}, runtime.Options{Shared: process, Log: slog.New(slog.DiscardHandler)})
		if plan == nil {
			t.Fatal(problems)
		}
		rep := plan.Run(t.Context(), t.Context())
		got := dst.Bodies()
		if slices.Sort(got); rep.Err != nil || !slices.Equal(got, want) {
			t.Errorf("err %v, delivered %q, want %q", rep.Err, got, want)
		}
	}
}
