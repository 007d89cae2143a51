//go:build !no_aws && (!slim || aws)

package secrets

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/flowd-io/flowd/internal/systems/aws"
	"github.com/flowd-io/flowd/schema"
)

// fakeAWS answers GetSecretValue of AWS Secrets Manager, and fails as the service does.
func fakeAWS(w http.ResponseWriter, r *http.Request) {
	var in struct{ SecretId string }
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil || r.Header.Get("X-Amz-Target") != "secretsmanager.GetSecretValue" {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	fail := func(status int, code, message string) {
		w.Header().Set("X-Amzn-ErrorType", code)
		w.WriteHeader(status)
		fmt.Fprintf(w, `{"__type":%q,"Message":%q}`, code, message)
	}
	region := strings.Split(r.Header.Get("Authorization"), "/")[2]
	switch in.SecretId {
	case "/prod/db", "arn:aws:secretsmanager:eu-west-1:123456789012:secret:db-AbCdEf":
		text, _ := json.Marshal(fmt.Sprintf(`{"user":"u","password":"p/w","port":5432,"none":null,"region":%q}`, region))
		fmt.Fprintf(w, `{"SecretString":%s}`, text)
	case "text":
		fmt.Fprint(w, `{"SecretString":"a text"}`)
	case "binary":
		fmt.Fprint(w, `{"SecretBinary":"YmluYXJ5"}`)
	case "deleted":
		fail(400, "InvalidRequestException", "You can't perform this operation on the secret because it was marked for deletion.")
	case "denied":
		fail(400, "AccessDeniedException", "User is not authorized to perform: secretsmanager:GetSecretValue")
	case "busy":
		fail(503, "InternalServiceError", "")
	case "garbage":
		fmt.Fprint(w, `{"SecretString":"hunter2`)
	default:
		fail(400, "ResourceNotFoundException", "Secrets Manager can't find the specified secret.")
	}
}

func TestSecretsOfAWS(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(fakeAWS))
	t.Cleanup(server.Close)
	m, err := openAWS(&Config{AWS: &aws.Config{Endpoint: server.URL, Region: "eu-central-1",
		Credentials: &aws.Credentials{AccessKeyID: "id", SecretAccessKey: schema.NewSecret("the-key-of-aws")}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.close)
	for _, tt := range []struct {
		name, ref, want, err string
		down, missing        bool
	}{
		{"a field", "/prod/db#password", "p/w", "", false, false},
		{"a number", "/prod/db#port", "5432", "", false, false},
		{"the region of the configuration", "/prod/db#region", "eu-central-1", "", false, false},
		{"the region of an ARN", "arn:aws:secretsmanager:eu-west-1:123456789012:secret:db-AbCdEf#region", "eu-west-1", "", false, false},
		{"a text", "text", "a text", "", false, false},
		{"bytes", "binary", "binary", "", false, false},
		{"a field of a text", "text#user", "", `no field "user", since it is not a JSON object`, false, true},
		{"no such field", "/prod/db#passwd", "", `no field "passwd"`, false, true},
		{"a field that is null", "/prod/db#none", "", `no field "none"`, false, true},
		{"no such secret", "none#x", "", "has no secret with this name", false, true},
		{"a deleted secret", "deleted", "", "marked for deletion", false, false},
		{"no permission", "denied", "", "not authorized", false, false},
		{"a service that is down", "busy", "", "InternalServiceError", true, false},
		{"half an answer", "garbage", "", "the answer is not one of AWS", true, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r, err := newRef("aws_secret:" + tt.ref)
			if err != nil {
				t.Fatal(err)
			}
			var s secret
			s.fields, s.err = m.read(t.Context(), r.path)
			got, err := s.value(r)
			if tt.err == "" {
				if got != tt.want || err != nil {
					t.Errorf("got %q, %v, want %q", got, err, tt.want)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), tt.err) || isDown(err) != tt.down ||
				errors.Is(err, fs.ErrNotExist) != tt.missing {
				t.Errorf("got %q, %v, want the error %q, down: %v, missing: %v", got, err, tt.err, tt.down, tt.missing)
			}
			if err != nil && (strings.Contains(err.Error(), "hunter2") || strings.Contains(err.Error(), "the-key")) {
				t.Errorf("a secret shows: %v", err)
			}
		})
	}
}
