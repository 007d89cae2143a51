package azureblob

import (
	"crypto/md5"
	"encoding/base64"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/enginetest"
	"github.com/flowd-io/flowd/internal/testing/fakeazure"
	"github.com/flowd-io/flowd/internal/testing/storetest"
)

func made(t *testing.T, s *fakeazure.Server, fields string) engine.Output {
	t.Helper()
	return enginetest.New(t, engine.Outputs,
		fmt.Sprintf(`{"azure_blob": {"container": "container", "account": "account", "endpoint": %q, "account_key": "a2V5"%s}}`, s.URL,
			fields))
}

var outputs storetest.Outputs = func(t *testing.T, wire *enginetest.Wire) (storetest.Server, func(string) engine.Output) {
	s := fakeazure.Start(t)
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
	s := fakeazure.Start(t)
	enginetest.Output(t, func(t *testing.T) engine.Output { return made(t, s, `, "key": "out/$(id).json"`) },
		`{"id": 1}`, `{"id": 2}`)
	if b := s.Get("out/1.json"); b == nil || b.Body != `{"id": 1}` || b.Header.Get("X-Ms-Blob-Content-Type") != "application/json" {
		t.Errorf("the blob is %v", b)
	}
}

func TestPropertiesOfAnObject(t *testing.T) {
	for name, body := range map[string]string{"whole": "x", "in parts": strings.Repeat("0123456789abcdef", storetest.Large/16)} {
		t.Run(name, func(t *testing.T) {
			s := fakeazure.Start(t)
			err := storetest.Write(t, made(t, s, `, "key": "é/a.csv", "part_size": "5MiB", "access_tier": "Cool", "encryption_scope": "sc",
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
	err := storetest.Write(t, made(t, s, `, "key": "a", "part_size": "5MiB"`), strings.Repeat("x", storetest.Large))
	if engine.ErrorOf(err, "").Class != engine.Auth {
		t.Errorf("error %v", err)
	}
	if keys := s.Keys(); len(keys) != 0 {
		t.Errorf("%q is left", keys)
	}
}

func TestLargeUploadsContinueAfterFaults(t *testing.T) {
	s := fakeazure.Start(t)
	s.Fault(fakeazure.Fault{Query: "comp=block&", Status: 503, Reason: "ServerBusy"})
	s.Fault(fakeazure.Fault{Query: "comp=block&", Lose: true})
	body := strings.Repeat("0123456789abcdef", storetest.Large/16)
	if err := storetest.Write(t, made(t, s, `, "key": "a", "part_size": "5MiB"`), body); err != nil {
		t.Fatal(err)
	}
	if b := s.Get("a"); b == nil || b.Body != body {
		t.Error("the blob is not what was written")
	}
}

func TestIfAbsent(t *testing.T) { outputs.IfAbsent(t) }

func TestIfAbsentWhenAnAnswerIsLost(t *testing.T) {
	outputs.LostAnswers(t, fakeazure.Fault{Method: "PUT"}, fakeazure.Fault{Method: "PUT", Query: "comp=blocklist"})
}

func TestErrorsAreClassed(t *testing.T) {
	outputs.Meanings(t, "PUT", []storetest.Meaning{
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
	})
}
