package gcs

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/enginetest"
	"github.com/flowd-io/flowd/internal/systems/objects"
	"github.com/flowd-io/flowd/internal/testing/fakegcs"
)

func made(t *testing.T, s *fakegcs.Server, fields string) engine.Output {
	t.Helper()
	return enginetest.New(t, engine.Outputs,
		fmt.Sprintf(`{"gcs": {"bucket": "bucket", "endpoint": %q, "anonymous": true%s}}`, s.URL, fields))
}

// write writes one message and gives its error.
func write(t *testing.T, out engine.Output, body string) error {
	t.Helper()
	if err := out.(engine.Opener).Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer out.(engine.Closer).Close(context.Background())
	b := engine.NewBatch(1)
	m := b.Add([]byte(body))
	if err := out.Write(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	if e := m.Err(); e != nil {
		return e
	}
	return nil
}

func TestAServerThatIsAway(t *testing.T) {
	t.Parallel()
	var s *fakegcs.Server
	payloads := []string{`{"id":1}`, `{"id":2}`, `{"id":3}`, `{"id":4}`, `{"id":5}`}
	enginetest.Remote{
		Reach: func(t *testing.T, wire *enginetest.Wire) func() engine.Output {
			s = fakegcs.Start(t)
			s.URL = wire.Over(s.URL)
			return func() engine.Output {
				return made(t, s, `, "key": "$(id)"`)
			}
		},
		Arrived: func(t *testing.T) (all []string) {
			for _, key := range s.Keys() {
				all = append(all, s.Get(key).Body)
			}
			return all
		},
		Payloads: payloads,
	}.Run(t)
}

func TestOutput(t *testing.T) {
	s := fakegcs.Start(t)
	enginetest.Output(t, func(t *testing.T) engine.Output { return made(t, s, `, "key": "out/$(id).json"`) },
		`{"id": 1}`, `{"id": 2}`)
	if o := s.Get("out/1.json"); o == nil || o.Body != `{"id": 1}` || o.ContentType != "application/json" {
		t.Errorf("the object is %v", o)
	}
}

const large = 12 << 20 // in three parts

func TestWhatAnObjectGets(t *testing.T) {
	for name, body := range map[string]string{"whole": "x", "in parts": strings.Repeat("0123456789abcdef", large/16)} {
		t.Run(name, func(t *testing.T) {
			s := fakegcs.Start(t)
			err := write(t, made(t, s, `, "key": "é/a.csv", "part_size": "5MiB", "storage_class": "COLDLINE", "kms_key": "k/1",
				"metadata": {"m": "é"}, "tags": {"t": "1"}, "content_encoding": "gzip", "acl": "private"`), body)
			if err != nil {
				t.Fatal(err)
			}
			o := s.Get("é/a.csv")
			if o == nil || o.Body != body || o.StorageClass != "COLDLINE" || o.Metadata["m"] != "é" || o.Metadata["t"] != "1" ||
				o.ContentType != "text/csv" || o.ContentEncoding != "gzip" {
				t.Fatalf("the object is %.300v", o)
			}
			if !strings.Contains(o.Query, "kmsKeyName=k%2F1") || !strings.Contains(o.Query, "predefinedAcl=private") {
				t.Errorf("query %q", o.Query)
			}
		})
	}
}

func TestLargeUploadsGoOnAfterFaults(t *testing.T) {
	s := fakegcs.Start(t)
	s.Fault(fakegcs.Fault{Method: "PUT", Status: 503, Reason: "backendError", Times: 2})
	s.Fault(fakegcs.Fault{Method: "PUT", Lose: true, After: 1})
	body := strings.Repeat("0123456789abcdef", large/16)
	if err := write(t, made(t, s, `, "key": "a", "part_size": "5MiB"`), body); err != nil {
		t.Fatal(err)
	}
	if o := s.Get("a"); o == nil || o.Body != body {
		t.Error("the object is not what was written")
	}
}

func TestFailedUploadsLeaveNothing(t *testing.T) {
	s := fakegcs.Start(t)
	s.Fault(fakegcs.Fault{Method: "PUT", After: 1, Status: 403, Reason: "forbidden", Times: -1})
	err := write(t, made(t, s, `, "key": "a", "part_size": "5MiB"`), strings.Repeat("x", large))
	if engine.ErrorOf(err, "").Class != engine.Auth {
		t.Errorf("error %v", err)
	}
	if n := s.Uploads(); n != 0 || len(s.Keys()) != 0 {
		t.Errorf("%d uploads and %q are left", n, s.Keys())
	}
	if len(s.Calls("DELETE")) != 1 {
		t.Error("the upload was not cancelled")
	}
}

func TestIfAbsent(t *testing.T) {
	for name, size := range map[string]int{"whole": 10, "in parts": large} {
		t.Run(name, func(t *testing.T) {
			s := fakegcs.Start(t)
			s.Put("a", "old")
			err := write(t, made(t, s, `, "key": "a", "if_absent": true, "part_size": "5MiB"`), strings.Repeat("x", size))
			if !errors.Is(err, objects.ErrExists) || engine.ErrorOf(err, "").Class != engine.Rejected || s.Get("a").Body != "old" {
				t.Errorf("error %v, and there is %.10q", err, s.Get("a").Body)
			}
		})
	}
}

// The answer to a write may be lost after the object was stored: the next attempt finds it, and counts as written.
func TestIfAbsentWhenAnAnswerIsLost(t *testing.T) {
	for name, fault := range map[string]fakegcs.Fault{"whole": {Method: "POST", Lose: true}, "in parts": {Method: "PUT", After: 2,
		Lose: true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			body := "x"
			if name == "in parts" {
				body = strings.Repeat("x", large)
			}
			s := fakegcs.Start(t)
			s.Fault(fault)
			o := made(t, s, `, "key": "a", "if_absent": true, "part_size": "5MiB"`)
			err := write(t, o, body)
			if err != nil && engine.ErrorOf(err, "").Class == engine.Transient {
				err = write(t, o, body)
			}
			if err != nil {
				t.Errorf("it is written, but: %v", err)
			}
			if err := write(t, o, "y"); !errors.Is(err, objects.ErrExists) || s.Get("a").Body != body {
				t.Errorf("error %v, and there is %.10q", err, s.Get("a").Body)
			}
		})
	}
}

func TestErrorsAreClassed(t *testing.T) {
	for _, tt := range []struct {
		name  string
		fault fakegcs.Fault
		class engine.Class
		holds bool
		delay time.Duration
	}{
		{"too many requests", fakegcs.Fault{Status: 429, Header: map[string]string{"Retry-After": "7"}}, engine.Transient, false,
			7 * time.Second},
		{"a quota", fakegcs.Fault{Status: 403, Reason: "userRateLimitExceeded"}, engine.Transient, false, 0},
		{"a server error", fakegcs.Fault{Status: 503}, engine.Transient, false, 0},
		{"no permission", fakegcs.Fault{Status: 403, Reason: "forbidden"}, engine.Auth, true, 0},
		{"refused credentials", fakegcs.Fault{Status: 401, Reason: "authError"}, engine.Auth, true, 0},
		{"a bucket that has gone", fakegcs.Fault{Status: 404, Reason: "notFound"}, engine.Transient, true, 0},
		{"a hold", fakegcs.Fault{Status: 403, Reason: "retentionPolicyNotMet"}, engine.Rejected, false, 0},
		{"a bad class", fakegcs.Fault{Status: 400, Reason: "invalid"}, engine.Rejected, false, 0},
		{"too large", fakegcs.Fault{Status: 413, Reason: "uploadTooLarge"}, engine.TooLarge, false, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := fakegcs.Start(t)
			tt.fault.Method, tt.fault.Times = "POST", -1
			s.Fault(tt.fault)
			err := write(t, made(t, s, `, "key": "a"`), "x")
			var e *engine.Error
			if !errors.As(err, &e) || e.Class != tt.class || e.HoldsOutput() != tt.holds || e.Delay != tt.delay {
				t.Errorf("error %#v: %v", e, err)
			}
		})
	}
}
