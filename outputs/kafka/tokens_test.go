package kafka

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/testing/kafkatest"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// logins makes the fake broker accept logins of a mechanism that it does not have itself. check decides about the client's message, and
// says is the answer of the broker.
func logins(c *kafkatest.Cluster, mechanism, says string, check func(sent string) bool) {
	c.Fake.ControlKey(int16(kmsg.SASLHandshake), func(r kmsg.Request) (kmsg.Response, error, bool) {
		c.Fake.KeepControl()
		answer := r.ResponseKind().(*kmsg.SASLHandshakeResponse)
		if answer.SupportedMechanisms = []string{mechanism}; r.(*kmsg.SASLHandshakeRequest).Mechanism != mechanism {
			answer.ErrorCode = kerr.UnsupportedSaslMechanism.Code
		}
		return answer, nil, true
	})
	c.Fake.ControlKey(int16(kmsg.SASLAuthenticate), func(r kmsg.Request) (kmsg.Response, error, bool) {
		c.Fake.KeepControl()
		answer := r.ResponseKind().(*kmsg.SASLAuthenticateResponse)
		answer.SASLAuthBytes = []byte(says)
		if !check(string(r.(*kmsg.SASLAuthenticateRequest).SASLAuthBytes)) {
			answer.ErrorCode = kerr.SaslAuthenticationFailed.Code
		}
		return answer, nil, true
	})
}

// TestTokens uses brokers that accept tokens (RFC 7628), and an authorization server that issues them.
func TestTokens(t *testing.T) {
	t.Parallel()
	var issued atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id, secret, _ := r.BasicAuth()
		if r.ParseForm() != nil || id != "flowd" || secret != "s3cret" || r.Form.Get("scope") != "kafka" {
			http.Error(w, `{"error": "invalid_client"}`, http.StatusUnauthorized)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"access_token": "token-%d", "token_type": "bearer", "expires_in": 1}`, issued.Add(1))
	}))
	defer server.Close()
	c := kafkatest.Start(t, kfake.SeedTopics(1, "orders"))
	var last atomic.Value
	logins(c, "OAUTHBEARER", "", func(sent string) bool {
		last.Store(sent)
		return strings.Contains(sent, "auth=Bearer token-") || strings.Contains(sent, "auth=Bearer fixed")
	})
	from := fmt.Sprintf(`"topic": "orders", "sasl": {"mechanism": "OAUTHBEARER", "oauth": {"token_url": %q,
		"client_id": "flowd", "client_secret": "s3cret", "scopes": ["kafka"], "extensions": {"logicalCluster": "lkc-1"}}}`,
		server.URL)
	o := opened(t, c, from)
	if e, _ := failed(t, o, 10*time.Second, "x"); e != nil {
		t.Fatal(e)
	}
	first := fmt.Sprintf("n,,\x01auth=Bearer token-%d\x01logicalCluster=lkc-1\x01\x01", issued.Load())
	if last.Load() != first {
		t.Errorf("the client sent %q, want %q", last.Load(), first)
	}
	had := issued.Load()
	c.Cut() // the token has nearly expired, so the next login uses a new one
	if e, _ := failed(t, o, 10*time.Second, "x"); e != nil {
		t.Fatal(e)
	}
	if issued.Load() <= had {
		t.Error("a token that has expired was used again")
	}
	if e, _ := failed(t, opened(t, c, `"topic": "orders", "sasl": {"mechanism": "OAUTHBEARER", "token": "fixed"}`),
		10*time.Second, "x"); e != nil {
		t.Errorf("a token of the configuration: %v", e)
	}
	for fields, says := range map[string]string{
		strings.Replace(from, "s3cret", "wr0ng", 1):                                              "no token",
		`"topic": "orders", "sasl": {"mechanism": "OAUTHBEARER", "token": "revoked"}`:            "`sasl`",
		`"topic": "orders", "sasl": {"mechanism": "PLAIN", "user": "me", "password": "revoked"}`: "`sasl`",
	} {
		err := closed(t, c, fields).Open(t.Context())
		if e := engine.ErrorOf(err, ""); err == nil || e.Class != engine.Auth || !strings.Contains(err.Error(), says) ||
			strings.Contains(err.Error(), "wr0ng") || strings.Contains(err.Error(), "revoked") {
			t.Errorf("%s\nclass %s: %v; want %s: … %s …", fields, e.Class, err, engine.Auth, says)
		}
	}
}

// signature returns the signature (version 4) of a login to 127.0.0.1.
func signature(secret, region string, signed map[string]string) string {
	at, scope := signed["x-amz-date"], signed["x-amz-date"][:8]+"/"+region+"/kafka-cluster/aws4_request"
	query := url.Values{"Action": {"kafka-cluster:Connect"}, "X-Amz-Algorithm": {"AWS4-HMAC-SHA256"}, "X-Amz-Date": {at},
		"X-Amz-Credential": {"AKIDEXAMPLE/" + scope}, "X-Amz-Expires": {"900"}, "X-Amz-SignedHeaders": {"host"}}
	hash := func(text string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(text))) }
	request := hash("GET\n/\n" + query.Encode() + "\nhost:127.0.0.1\n\nhost\n" + hash(""))
	key := []byte("AWS4" + secret)
	for _, part := range []string{at[:8], region, "kafka-cluster", "aws4_request",
		"AWS4-HMAC-SHA256\n" + at + "\n" + scope + "\n" + request} {
		mac := hmac.New(sha256.New, key)
		mac.Write([]byte(part))
		key = mac.Sum(nil)
	}
	return fmt.Sprintf("%x", key)
}

// TestIAM uses brokers that accept logins with signatures as Amazon MSK expects them.
func TestIAM(t *testing.T) {
	t.Parallel()
	ca, conf := kafkatest.Authority(t)
	file := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(file, ca, 0o600); err != nil {
		t.Fatal(err)
	}
	c := kafkatest.Start(t, kfake.TLS(conf), kfake.SeedTopics(1, "orders"))
	logins(c, "AWS_MSK_IAM", "{}", func(sent string) bool {
		var signed map[string]string
		return json.Unmarshal([]byte(sent), &signed) == nil && signed["version"] == "2020_10_22" &&
			strings.HasPrefix(signed["x-amz-credential"], "AKIDEXAMPLE/") &&
			signed["x-amz-signature"] == signature("s3cret", "eu-west-1", signed)
	})
	fields := fmt.Sprintf(`"topic": "orders", "tls": {"ca": %q}, "sasl": {"mechanism": "AWS_MSK_IAM",
		"aws": {"region": "eu-west-1", "credentials": {"access_key_id": "AKIDEXAMPLE", "secret_access_key": "s3cret"}}}`, file)
	if e, _ := failed(t, opened(t, c, fields), 10*time.Second, "x"); e != nil {
		t.Error(e)
	}
	err := closed(t, c, strings.Replace(fields, "AKID", "ABCD", 1)).Open(t.Context())
	if e := engine.ErrorOf(err, ""); err == nil || e.Class != engine.Auth {
		t.Errorf("other keys: class %s: %v", e.Class, err)
	}
}
