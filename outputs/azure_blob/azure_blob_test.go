package azureblob

import (
	"context"
	"crypto/md5"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/enginetest"
	"github.com/flowd-io/flowd/internal/systems/objects"
	"github.com/flowd-io/flowd/internal/testing/fakeazure"
)

func made(t *testing.T, s *fakeazure.Server, fields string) engine.Output {
	t.Helper()
	return enginetest.New(t, engine.Outputs,
		fmt.Sprintf(`{"azure_blob": {"container": "container", "account": "account", "endpoint": %q, "account_key": "a2V5"%s}}`, s.URL,
			fields))
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
	var s *fakeazure.Server
	payloads := []string{`{"id":1}`, `{"id":2}`, `{"id":3}`, `{"id":4}`, `{"id":5}`}
	enginetest.Remote{
		Reach: func(t *testing.T, wire *enginetest.Wire) func() engine.Output {
			s = fakeazure.Start(t)
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
	s := fakeazure.Start(t)
	enginetest.Output(t, func(t *testing.T) engine.Output { return made(t, s, `, "key": "out/$(id).json"`) },
		`{"id": 1}`, `{"id": 2}`)
	if b := s.Get("out/1.json"); b == nil || b.Body != `{"id": 1}` || b.Header.Get("X-Ms-Blob-Content-Type") != "application/json" {
		t.Errorf("the blob is %v", b)
	}
}

const large = 12 << 20 // in three parts

func TestWhatAnObjectGets(t *testing.T) {
	for name, body := range map[string]string{"whole": "x", "in parts": strings.Repeat("0123456789abcdef", large/16)} {
		t.Run(name, func(t *testing.T) {
			s := fakeazure.Start(t)
			err := write(t, made(t, s, `, "key": "é/a.csv", "part_size": "5MiB", "access_tier": "Cool", "encryption_scope": "sc",
				"metadata": {"a-b": "é", "1": "x"}, "tags": {"t": "1"}, "content_encoding": "gzip"`), body)
			if err != nil {
				t.Fatal(err)
			}
			b := s.Get("é/a.csv")
			if b == nil || b.Body != body || b.Tags["t"] != "1" {
				t.Fatal("the blob is not what was written")
			}
			sum := md5.Sum([]byte(body))
			for name, want := range map[string]string{"X-Ms-Meta-A_b": "=?UTF-8?b?w6k=?=", "X-Ms-Meta-_1": "x",
				"X-Ms-Access-Tier": "Cool", "X-Ms-Encryption-Scope": "sc", "X-Ms-Blob-Content-Type": "text/csv",
				"X-Ms-Blob-Content-Encoding": "gzip", "X-Ms-Blob-Content-Md5": base64.StdEncoding.EncodeToString(sum[:])} {
				if got := b.Header.Get(name); got != want {
					t.Errorf("%s is %q, want %q", name, got, want)
				}
			}
		})
	}
}

func TestFailedUploadsLeaveNothing(t *testing.T) {
	s := fakeazure.Start(t)
	s.Fault(fakeazure.Fault{Query: "comp=block", After: 1, Status: 403, Reason: "AuthorizationFailure", Times: -1})
	err := write(t, made(t, s, `, "key": "a", "part_size": "5MiB"`), strings.Repeat("x", large))
	if engine.ErrorOf(err, "").Class != engine.Auth {
		t.Errorf("error %v", err)
	}
	if keys := s.Keys(); len(keys) != 0 {
		t.Errorf("%q is left", keys)
	}
}

func TestLargeUploadsGoOnAfterFaults(t *testing.T) {
	s := fakeazure.Start(t)
	s.Fault(fakeazure.Fault{Query: "comp=block&", Status: 503, Reason: "ServerBusy"})
	s.Fault(fakeazure.Fault{Query: "comp=block&", Lose: true})
	body := strings.Repeat("0123456789abcdef", large/16)
	if err := write(t, made(t, s, `, "key": "a", "part_size": "5MiB"`), body); err != nil {
		t.Fatal(err)
	}
	if b := s.Get("a"); b == nil || b.Body != body {
		t.Error("the blob is not what was written")
	}
}

func TestIfAbsent(t *testing.T) {
	for name, size := range map[string]int{"whole": 10, "in blocks": large} {
		t.Run(name, func(t *testing.T) {
			s := fakeazure.Start(t)
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
	for name, fault := range map[string]fakeazure.Fault{"whole": {Method: "PUT", Lose: true}, "in parts": {Method: "PUT",
		Query: "comp=blocklist", Lose: true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			body := "x"
			if name == "in parts" {
				body = strings.Repeat("x", large)
			}
			s := fakeazure.Start(t)
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
		fault fakeazure.Fault
		class engine.Class
		holds bool
		delay time.Duration
	}{
		{"throttled", fakeazure.Fault{Status: 503, Reason: "ServerBusy", Header: map[string]string{"Retry-After": "7"}},
			engine.Transient, false, 7 * time.Second},
		{"no permission", fakeazure.Fault{Status: 403, Reason: "AuthorizationPermissionMismatch"}, engine.Auth, true, 0},
		{"refused credentials", fakeazure.Fault{Status: 401, Reason: "NoAuthenticationInformation"}, engine.Auth, true, 0},
		{"a container that has gone", fakeazure.Fault{Status: 404, Reason: "ContainerNotFound"}, engine.Transient, true, 0},
		{"a lease", fakeazure.Fault{Status: 412, Reason: "LeaseIdMissing"}, engine.Transient, false, 0},
		{"a policy", fakeazure.Fault{Status: 409, Reason: "BlobImmutableDueToPolicy"}, engine.Rejected, false, 0},
		{"a bad header", fakeazure.Fault{Status: 400, Reason: "InvalidHeaderValue"}, engine.Rejected, false, 0},
		{"damage on the way", fakeazure.Fault{Status: 400, Reason: "Md5Mismatch"}, engine.Transient, false, 0},
		{"too large", fakeazure.Fault{Status: 413, Reason: "RequestBodyTooLarge"}, engine.TooLarge, false, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := fakeazure.Start(t)
			tt.fault.Method, tt.fault.Times = "PUT", -1
			s.Fault(tt.fault)
			err := write(t, made(t, s, `, "key": "a"`), "x")
			var e *engine.Error
			if !errors.As(err, &e) || e.Class != tt.class || e.HoldsOutput() != tt.holds || e.Delay != tt.delay {
				t.Errorf("error %#v: %v", e, err)
			}
		})
	}
}
