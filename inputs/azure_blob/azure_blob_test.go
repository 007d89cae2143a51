package azureblob

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/enginetest"
	"github.com/flowd-io/flowd/engine/runtime"
	"github.com/flowd-io/flowd/internal/formats/compression"
	"github.com/flowd-io/flowd/internal/testing/fakeazure"
	"github.com/flowd-io/flowd/schema"
)

func made(t *testing.T, s *fakeazure.Server, fields string) engine.Input {
	t.Helper()
	return enginetest.New(t, engine.Inputs,
		fmt.Sprintf(`{"azure_blob": {"container": "container", "account": "account", "endpoint": %q, "account_key": "a2V5"%s}}`, s.URL,
			fields))
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
	s := fakeazure.Start(t)
	s.Page = 2
	s.Put("in/a", "1\n2\n")
	s.Put("in/b+ c.é%", "3\n")
	s.Put("in/c/", "")
	s.Put("in/d", "4\n5")
	s.Put("other", "6")
	enginetest.Input(t, func(t *testing.T) engine.Input { return made(t, s, `, "prefix": "in/"`) }, "1", "2", "3", "4", "5")
}

func TestStoredCompressionIsUndone(t *testing.T) {
	packed, err := compression.Compress(compression.Gzip, []byte("1\n2\n"), 0)
	if err != nil {
		t.Fatal(err)
	}
	s := fakeazure.Start(t)
	s.Put("a.log", string(packed))
	s.Get("a.log").Header = http.Header{"X-Ms-Blob-Content-Encoding": {"gzip"}}
	if got, rep := run(t, made(t, s, "")); rep.Err != nil || !slices.Equal(got, []string{"1", "2"}) {
		t.Errorf("err %v, %q", rep.Err, got)
	}
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
			s := fakeazure.Start(t)
			s.Put("in/a", "1\n")
			s.Put("in/b/c", "2\n")
			s.Get("in/a").Tags = map[string]string{"old": "1"}
			got, rep := run(t, made(t, s, `, "prefix": "in/", "after": `+tt.after))
			if rep.Err != nil || !slices.Equal(got, []string{"1", "2"}) {
				t.Errorf("err %v, delivered %q", rep.Err, got)
			}
			if keys := s.Keys(); !slices.Equal(keys, tt.want) {
				t.Errorf("there are %q, want %q", keys, tt.want)
			}
			if tt.name == "tag" {
				if m := s.Get("in/a").Tags; m["state"] != "read" || m["old"] != "1" {
					t.Errorf("tags %v", m)
				}
			}
		})
	}
}

func TestLostConnectionsAreContinued(t *testing.T) {
	text, want := lines(20_000)
	s := fakeazure.Start(t)
	s.Put("a", text)
	s.Fault(fakeazure.Fault{Method: "GET", Path: "container/a", Cut: len(text) / 3})
	s.Fault(fakeazure.Fault{Method: "GET", Path: "container/a", Status: 503, Reason: "ServerBusy"})
	got, rep := run(t, made(t, s, ""))
	if rep.Err != nil || !slices.Equal(got, want) {
		t.Errorf("err %v, %d messages, want %d", rep.Err, len(got), len(want))
	}
	ranges := 0
	for _, c := range s.Calls("GET") {
		if c.Header.Get("X-Ms-Range") != "" {
			ranges++
			if c.Header.Get("If-Match") == "" {
				t.Error("a blob is continued that may be another one")
			}
		}
	}
	if ranges == 0 {
		t.Error("nothing was continued")
	}
}

func TestReplacedObjectsAreReadFromTheirBeginning(t *testing.T) {
	old, _ := lines(20_000)
	s := fakeazure.Start(t)
	s.Put("a", old)
	s.Fault(fakeazure.Fault{Method: "GET", Path: "container/a", Cut: len(old) / 2})
	s.Fault(fakeazure.Fault{Method: "GET", Path: "container/a", Status: 400, Reason: "InvalidBlockList", Hook: func() {
		s.Put("a",
			"new 1\nnew 2\n")
	}})
	got, rep := run(t, made(t, s, `, "after": "delete"`))
	if n := len(got); rep.Err != nil || n < 1000 || !slices.Equal(got[n-2:], []string{"new 1", "new 2"}) {
		t.Fatalf("err %v, %d messages that end with %q", rep.Err, n, got[max(0, n-2):])
	}
	if keys := s.Keys(); len(keys) != 0 {
		t.Errorf("there are %q, want none", keys)
	}
}

func TestCheckpoint(t *testing.T) {
	text, all := lines(5000)
	s := fakeazure.Start(t)
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
	for _, tt := range []struct {
		name, fields string
		fault        fakeazure.Fault
		class        engine.Class
		holds        bool
		want         string
	}{
		{"a missing container", `"container": "none", "sas_token": "sig=secret-signature"`, fakeazure.Fault{Path: "-"},
			engine.Transient, true, "container none: the container does not exist"},
		{"one that is being deleted", `"container": "container", "sas_token": "?sig=secret-signature"`,
			fakeazure.Fault{Status: 409, Reason: "ContainerBeingDeleted"}, engine.Transient, true, "create it"},
		{"a server error", `"container": "container", "sas_token": "sig=secret-signature"`, fakeazure.Fault{Status: 503,
			Reason: "ServerBusy", Header: map[string]string{"Retry-After": "60"}}, engine.Transient, false, "ServerBusy"},
		{"a signature that has expired", `"container": "container", "sas_token": "sig=secret-signature"`,
			fakeazure.Fault{Status: 403, Reason: "AuthenticationFailed"}, engine.Auth, true, "AuthenticationFailed"},
		{"a key that is none", `"container": "container", "account": "a", "account_key": "secret-signature"`,
			fakeazure.Fault{Path: "-"}, engine.Permanent, false, "not base64"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := fakeazure.Start(t)
			tt.fault.Times = -1
			s.Fault(tt.fault)
			in := enginetest.New(t, engine.Inputs, fmt.Sprintf(`{"azure_blob": {"endpoint": %q, %s}}`, s.URL, tt.fields))
			err := in.(engine.Opener).Open(t.Context())
			var e *engine.Error
			if !errors.As(err, &e) || e.Class != tt.class || e.Holds != tt.holds || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want class %s and %q", err, tt.class, tt.want)
			}
			if err != nil && strings.Contains(err.Error(), "secret-signature") {
				t.Errorf("a secret is shown: %v", err)
			}
		})
	}
}

func TestDamagedContentIsNotDelivered(t *testing.T) {
	s := fakeazure.Start(t)
	s.Put("a", "1\n")
	s.Get("a").MD5 = "1B2M2Y8AsgTpgAmY7PhCfg==" // of an empty text
	s.Fault(fakeazure.Fault{Method: "GET", Path: "container/a", Hook: func() { s.Get("a").Body = "2\n" }})
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
		{`"container": "a/b", "account": "a"`, "is not the name of a container"},
		{`"container": "b"`, "write `account`"},
		{`"container": "b", "account": "a", "sas_token": "x", "account_key": "y"`, "several credentials"},
		{`"container": "b", "endpoint": "http://storage.example", "sas_token": "x"`, "clear text"},
		{`"bucket": "b"`, "write `container`"},
	} {
		problems := strings.Join(enginetest.Problems(t, engine.Inputs, `{"azure_blob": {`+tt.fields+`}}`), "\n")
		if !strings.Contains(problems, tt.want) {
			t.Errorf("%s: %q, want %q", tt.fields, problems, tt.want)
		}
	}
}

func TestConnectionsThatBreak(t *testing.T) {
	t.Parallel()
	var s *fakeazure.Server
	sent := 0
	enginetest.RemoteInput{
		Reach: func(t *testing.T, wire *enginetest.Wire) string {
			s = fakeazure.Start(t)
			return fmt.Sprintf(`{"azure_blob": {"container": "container", "account": "account", "endpoint": %q, "account_key": "a2V5", `+
				`"interval": "10ms", "after": "delete"}}`, wire.Over(s.URL))
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
