package gcs

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/enginetest"
	"github.com/flowd-io/flowd/engine/runtime"
	"github.com/flowd-io/flowd/internal/testing/fakegcs"
	"github.com/flowd-io/flowd/schema"
)

func made(t *testing.T, s *fakegcs.Server, fields string) engine.Input {
	t.Helper()
	return enginetest.New(t, engine.Inputs,
		fmt.Sprintf(`{"gcs": {"bucket": "bucket", "endpoint": %q, "anonymous": true%s}}`, s.URL, fields))
}

// run runs a pipeline until its input ends.
func run(t *testing.T, in engine.Input, edit ...func(*engine.Pipeline)) ([]string, runtime.Report) {
	t.Helper()
	dst := &enginetest.Sink{}
	p := &engine.Pipeline{
		Name:    "test",
		Inputs:  enginetest.Named("in", engine.InputSpec{Use: engine.Use(func(engine.Env) (engine.Input, error) { return in, nil })}),
		Outputs: enginetest.Named("out", dst.Output()),
		Engine:  engine.EngineSpec{Workers: 1},
	}
	for _, e := range edit {
		e(p)
	}
	rep := enginetest.Run(t, p, nil)
	return dst.Bodies(), rep
}

// lines returns n numbered lines.
func lines(n int) (text string, all []string) {
	for i := range n {
		all = append(all, fmt.Sprintf("line %06d %s", i, strings.Repeat("x", 40)))
	}
	return strings.Join(all, "\n") + "\n", all
}

func TestInput(t *testing.T) {
	s := fakegcs.Start(t)
	s.Page = 2
	s.Put("in/a", "1\n2\n")
	s.Put("in/b+ c.é%", "3\n")
	s.Put("in/c/", "")
	s.Put("in/d", "4\n5")
	s.Put("other", "6")
	enginetest.Input(t, func(t *testing.T) engine.Input { return made(t, s, `, "prefix": "in/"`) }, "1", "2", "3", "4", "5")
}

func TestAfter(t *testing.T) {
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
			s := fakegcs.Start(t)
			s.Put("in/a", "1\n")
			s.Put("in/b/c", "2\n")
			got, rep := run(t, made(t, s, `, "prefix": "in/", "after": `+tt.after))
			if rep.Err != nil || !slices.Equal(got, []string{"1", "2"}) {
				t.Errorf("err %v, delivered %q", rep.Err, got)
			}
			if keys := s.Keys(); !slices.Equal(keys, tt.want) {
				t.Errorf("there are %q, want %q", keys, tt.want)
			}
			if tt.name == "tag" {
				if m := s.Get("in/a").Metadata; m["state"] != "read" || m["origin"] != "test" {
					t.Errorf("metadata %v", m)
				}
			}
		})
	}
}

func TestLostConnectionsAreContinuedAndExpiredTokensRenewed(t *testing.T) {
	text, want := lines(20_000)
	s := fakegcs.Start(t)
	s.Put("a", text)
	in := enginetest.New(t, engine.Inputs, fmt.Sprintf(`{"gcs": {"bucket": "bucket", "endpoint": %q, "credentials": %q}}`,
		s.URL, s.Credentials()))
	s.Fault(fakegcs.Fault{Query: "alt=media", Cut: len(text) / 3})
	s.Fault(fakegcs.Fault{Query: "alt=media", Hook: s.Expire})
	s.Fault(fakegcs.Fault{Query: "alt=media", Status: 503, Reason: "backendError"})
	got, rep := run(t, in)
	if rep.Err != nil || !slices.Equal(got, want) {
		t.Errorf("err %v, %d messages, want %d", rep.Err, len(got), len(want))
	}
	ranges, opened := 0, 0
	for _, c := range s.Calls("GET") {
		if strings.HasSuffix(c.Path, "/b/bucket") {
			opened++
		}
		if c.Header.Get("Range") != "" {
			ranges++
			if !strings.Contains(c.Query, "ifGenerationMatch=") {
				t.Error("an object is continued that may be another one")
			}
		}
	}
	if ranges == 0 {
		t.Error("nothing was continued")
	}
	if opened != 1 {
		t.Errorf("the input was opened %d times, want once", opened)
	}
	if tokens := len(s.Calls("POST")); tokens < 2 {
		t.Errorf("%d tokens were asked for, want a second one after the first had expired", tokens)
	}
}

func TestReplacedObjectsAreReadFromTheirBeginning(t *testing.T) {
	old, _ := lines(20_000)
	s := fakegcs.Start(t)
	s.Put("a", old)
	s.Fault(fakegcs.Fault{Query: "alt=media", Cut: len(old) / 2})
	s.Fault(fakegcs.Fault{Query: "alt=media", Status: 503, Hook: func() { s.Put("a", "new 1\nnew 2\n") }})
	got, rep := run(t, made(t, s, `, "after": "delete"`))
	if n := len(got); rep.Err != nil || n < 1000 || !slices.Equal(got[n-2:], []string{"new 1", "new 2"}) {
		t.Fatalf("err %v, %d messages that end with %q", rep.Err, n, got[max(0, n-2):])
	}
	if keys := s.Keys(); len(keys) != 0 {
		t.Errorf("there are %q, want none", keys)
	}
}

func TestStoredCompressionIsUndone(t *testing.T) {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, _ = w.Write([]byte("1\n2\n"))
	_ = w.Close()
	for _, key := range []string{"a.log.gz", "a.log"} {
		s := fakegcs.Start(t)
		s.Put(key, b.String())
		s.Get(key).ContentEncoding = "gzip"
		if got, rep := run(t, made(t, s, "")); rep.Err != nil || !slices.Equal(got, []string{"1", "2"}) {
			t.Errorf("%s: err %v, %q", key, rep.Err, got)
		}
	}
}

func TestCheckpoint(t *testing.T) {
	text, all := lines(5000)
	s := fakegcs.Start(t)
	s.Put("a", "first\n")
	s.Put("b", text)
	fields := fmt.Sprintf(`, "checkpoint": %q`, filepath.Join(t.TempDir(), "at"))
	in := made(t, s, fields)
	if err := in.(engine.Opener).Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	var acker engine.Acker
	var results []engine.Result
	for {
		b := engine.NewBatch(100)
		a, err := in.Read(t.Context(), b)
		for m := range b.All() {
			results = append(results, engine.Result{Ref: m.Ref, Fate: engine.Delivered})
		}
		if a != nil {
			acker = a
		}
		if err == engine.ErrEnd {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	const settled = 1 + 3000
	if _, err := acker.Ack(t.Context(), results[:settled]); err != nil {
		t.Fatal(err)
	}
	if err := in.(engine.Closer).Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	if got, rep := run(t, made(t, s, fields)); rep.Err != nil || !slices.Equal(got, all[settled-1:]) {
		t.Errorf("err %v, %d messages after the restart, want %d", rep.Err, len(got), len(all)-settled+1)
	}
	s.Put("a", "replaced\n")
	if got, rep := run(t, made(t, s, fields)); rep.Err != nil || !slices.Equal(got, []string{"replaced"}) {
		t.Errorf("err %v, the third run reads %q", rep.Err, got)
	}
}

func TestOpeningSaysWhatIsWrong(t *testing.T) {
	s, guarded := fakegcs.Start(t), fakegcs.Start(t)
	for _, tt := range []struct {
		name, config string
		fault        fakegcs.Fault
		class        engine.Class
		want         string
	}{
		{"a missing bucket", `"bucket": "none", "anonymous": true`, fakegcs.Fault{Path: "-"}, engine.Transient,
			"bucket none: the bucket does not exist"},
		{"a server error", `"bucket": "bucket", "anonymous": true`, fakegcs.Fault{Status: 503}, engine.Transient, "503"},
		{"a revoked grant", `"bucket": "bucket", "credentials": ` + fmt.Sprintf("%q", guarded.Credentials()),
			fakegcs.Fault{Path: "token", Status: 400}, engine.Auth, "set `credentials`"},
		{"a token server that is down", `"bucket": "bucket", "credentials": ` + fmt.Sprintf("%q", guarded.Credentials()),
			fakegcs.Fault{Path: "token", Status: 503, Times: -1}, engine.Transient, "no token"},
		{"a file that is not there", `"bucket": "bucket", "credentials": "/nowhere/key.json"`, fakegcs.Fault{Path: "-"},
			engine.Auth, "/nowhere/key.json"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := s
			if strings.Contains(tt.config, "credentials") {
				s = guarded
			}
			defer s.Heal()
			s.Fault(tt.fault)
			in := enginetest.New(t, engine.Inputs, fmt.Sprintf(`{"gcs": {"endpoint": %q, %s}}`, s.URL, tt.config))
			err := in.(engine.Opener).Open(t.Context())
			var e *engine.Error
			if !errors.As(err, &e) || e.Class != tt.class || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want class %s and %q", err, tt.class, tt.want)
			}
			if err != nil && strings.Contains(err.Error(), "refresh-secret") {
				t.Errorf("a secret is shown: %v", err)
			}
		})
	}
}

func TestDeniedListingsAreOfClassAuth(t *testing.T) {
	s := fakegcs.Start(t)
	s.Fault(fakegcs.Fault{Path: "/o", Status: 403, Reason: "forbidden", Times: -1})
	in := made(t, s, "")
	if err := in.(engine.Opener).Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer in.(engine.Closer).Close(context.Background())
	_, err := in.Read(t.Context(), engine.NewBatch(1))
	if engine.ErrorOf(err, "").Class != engine.Auth || !strings.Contains(err.Error(), "roles/storage") {
		t.Errorf("error %v", err)
	}
}

func TestDamagedContentIsNotDelivered(t *testing.T) {
	s := fakegcs.Start(t)
	s.Put("a", "1\n")
	s.Fault(fakegcs.Fault{Query: "alt=media", Hook: func() { s.Get("a").Body = "2\n" }})
	dead := &enginetest.Sink{}
	_, rep := run(t, made(t, s, `, "after": "delete"`), func(p *engine.Pipeline) {
		out, _ := p.Outputs.Get("out")
		p.Outputs = schema.MapOf(schema.Entry[engine.OutputSpec]{Key: "out", Value: out},
			schema.Entry[engine.OutputSpec]{Key: "dead", Value: dead.Output()})
		p.Engine.OnFailure.DeadLetter = "dead"
	})
	if got := dead.Bodies(); rep.Err != nil || len(got) != 1 || len(s.Keys()) != 1 {
		t.Errorf("err %v, %d messages in the dead letter, and %q in the bucket", rep.Err, len(got), s.Keys())
	}
}

func TestConfigComplaints(t *testing.T) {
	for _, tt := range []struct{ fields, want string }{
		{`"bucket": "gs://b"`, "is a URL"},
		{`"bucket": "b", "anonymous": true, "credentials": "x.json"`, "contradicts `credentials`"},
		{`"bucket": "b", "endpoint": "http://storage.example"`, "clear text"},
		{`"bucket": "b", "notify": "q"`, "write `interval`"},
	} {
		problems := strings.Join(enginetest.Problems(t, engine.Inputs, `{"gcs": {`+tt.fields+`}}`), "\n")
		if !strings.Contains(problems, tt.want) {
			t.Errorf("%s: %q, want %q", tt.fields, problems, tt.want)
		}
	}
}

func TestConnectionsThatBreak(t *testing.T) {
	t.Parallel()
	var s *fakegcs.Server
	sent := 0
	enginetest.RemoteInput{
		Reach: func(t *testing.T, wire *enginetest.Wire) string {
			s = fakegcs.Start(t)
			return fmt.Sprintf(`{"gcs": {"bucket": "bucket", "endpoint": %q, "anonymous": true, "interval": "10ms", "after": "delete"}}`,
				wire.Over(s.URL))
		},
		Send: func(_ *testing.T, payloads ...string) {
			for _, p := range payloads {
				sent++
				s.Put(fmt.Sprintf("%05d", sent), p+"\n")
			}
		},
		SendHeaders: func(_ *testing.T, payload string, headers map[string]string) { s.PutWith("1", payload+"\n", headers) },

		Left:   func(*testing.T) int { return len(s.Keys()) },
		Shared: true,
	}.Run(t)
}
