package gcs

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/enginetest"
	"github.com/flowd-io/flowd/internal/testing/fakegcs"
	"github.com/flowd-io/flowd/internal/testing/storetest"
)

func made(t *testing.T, s *fakegcs.Server, fields string) engine.Output {
	t.Helper()
	return enginetest.New(t, engine.Outputs,
		fmt.Sprintf(`{"gcs": {"bucket": "bucket", "endpoint": %q, "anonymous": true%s}}`, s.URL, fields))
}

var outputs storetest.Outputs = func(t *testing.T, wire *enginetest.Wire) (storetest.Server, func(string) engine.Output) {
	s := fakegcs.Start(t)
	if wire != nil {
		s.URL = wire.Over(s.URL)
	}
	return s, func(fields string) engine.Output { return made(t, s, ", "+fields) }
}

func TestAServerThatIsAway(t *testing.T) {
	t.Parallel()
	outputs.Away(t)
}

func TestOutput(t *testing.T) {
	s := fakegcs.Start(t)
	enginetest.Output(t, func(t *testing.T) engine.Output { return made(t, s, `, "key": "out/$(id).json"`) },
		`{"id": 1}`, `{"id": 2}`)
	if o := s.Get("out/1.json"); o == nil || o.Body != `{"id": 1}` || o.ContentType != "application/json" {
		t.Errorf("the object is %v", o)
	}
}

func TestPropertiesOfAnObject(t *testing.T) {
	for name, body := range map[string]string{"whole": "x", "in parts": strings.Repeat("0123456789abcdef", storetest.Large/16)} {
		t.Run(name, func(t *testing.T) {
			s := fakegcs.Start(t)
			err := storetest.Write(t, made(t, s, `, "key": "é/a.csv", "part_size": "5MiB", "storage_class": "COLDLINE", "kms_key": "k/1",
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

func TestLargeUploadsContinueAfterFaults(t *testing.T) {
	s := fakegcs.Start(t)
	s.Fault(fakegcs.Fault{Method: "PUT", Status: 503, Reason: "backendError", Times: 2})
	s.Fault(fakegcs.Fault{Method: "PUT", Lose: true, After: 1})
	body := strings.Repeat("0123456789abcdef", storetest.Large/16)
	if err := storetest.Write(t, made(t, s, `, "key": "a", "part_size": "5MiB"`), body); err != nil {
		t.Fatal(err)
	}
	if o := s.Get("a"); o == nil || o.Body != body {
		t.Error("the object is not what was written")
	}
}

func TestFailedUploadsLeaveNothing(t *testing.T) {
	s := fakegcs.Start(t)
	s.Fault(fakegcs.Fault{Method: "PUT", After: 1, Status: 403, Reason: "forbidden", Times: -1})
	err := storetest.Write(t, made(t, s, `, "key": "a", "part_size": "5MiB"`), strings.Repeat("x", storetest.Large))
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

func TestIfAbsent(t *testing.T) { outputs.IfAbsent(t) }

func TestIfAbsentWhenAnAnswerIsLost(t *testing.T) {
	outputs.LostAnswers(t, fakegcs.Fault{Method: "POST"}, fakegcs.Fault{Method: "PUT", After: 2})
}

func TestErrorsAreClassed(t *testing.T) {
	outputs.Meanings(t, "POST", []storetest.Meaning{
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
	})
}
