//go:build !slim && !no_google && !no_azure

package secrets

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/flowd-io/flowd/internal/systems/google"
)

// issuer issues a token for the scope of the test.
type issuer struct{}

func (issuer) GetToken(_ context.Context, o policy.TokenRequestOptions) (azcore.AccessToken, error) {
	return azcore.AccessToken{Token: "for " + o.Scopes[0]}, nil
}

// fakeClouds is both services. What it answers depends on the name of the secret.
func fakeClouds(w http.ResponseWriter, r *http.Request) {
	azure := strings.HasPrefix(r.URL.Path, "/v-1/secrets/")
	name := strings.TrimPrefix(strings.TrimPrefix(r.URL.Path, "/v-1/secrets/"), "/v1/projects/p/secrets/")
	name = strings.TrimSuffix(strings.TrimSuffix(name, ":access"), "/versions/latest")
	if azure && (r.URL.Query().Get("api-version") == "" || r.Header.Get("Authorization") != "Bearer for https://0.0.1/.default") {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	switch name {
	case "text", "text/versions/3", "text/3":
		if azure {
			fmt.Fprint(w, `{"value":"a text"}`)
		} else {
			fmt.Fprint(w, `{"payload":{"data":"YSB0ZXh0"}}`)
		}
	case "json":
		if azure {
			fmt.Fprint(w, `{"value":"{\"pw\":\"p\",\"port\":1}"}`)
		} else {
			fmt.Fprint(w, `{"payload":{"data":"eyJwdyI6InAiLCJwb3J0IjoxfQ=="}}`)
		}
	case "denied":
		w.WriteHeader(http.StatusForbidden)
		fmt.Fprint(w, `{"error":{"message":"no permission"}}`)
	case "busy":
		w.WriteHeader(http.StatusServiceUnavailable)
	case "elsewhere":
		w.Header().Set("Location", "http://192.0.2.1/")
		w.WriteHeader(http.StatusFound)
	case "garbage":
		fmt.Fprint(w, `{"value": {"hunter2": 1}, "payload": "hunter2"}`)
	case "half":
		w.Header().Set("Content-Length", "1000")
		fmt.Fprint(w, `{"value":"hunter2`)
	default:
		w.WriteHeader(http.StatusNotFound)
	}
}

func TestSecretsOfGoogleAndAzure(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(fakeClouds))
	defer server.Close()
	t.Setenv("GOOGLE_CLOUD_PROJECT", "p")
	ofGoogle, err := openGCP(&Config{GCP: &GCP{Google: google.Config{Endpoint: server.URL, Anonymous: true}}})
	if err != nil {
		t.Fatal(err)
	}
	defer ofGoogle.close()
	ofAzure, err := openAzure(&Config{Azure: &Azure{Endpoint: server.URL + "/VAULT"}})
	if err != nil {
		t.Fatal(err)
	}
	defer ofAzure.close()
	ofAzure.(*keyVault).credential = issuer{}
	for _, tt := range []struct {
		name, ref, want, err string
		down, missing        bool
	}{
		{"a text", "gcp_secret:text", "a text", "", false, false},
		{"a version", "gcp_secret:projects/p/secrets/text/versions/3", "a text", "", false, false},
		{"a field", "gcp_secret:json#port", "1", "", false, false},
		{"no field", "gcp_secret:json#port2", "", `no field "port2"`, false, true},
		{"no secret", "gcp_secret:none", "", "has no secret with this name", false, true},
		{"a path that leads elsewhere", "gcp_secret:../x", "", "has no secret with this name", false, true},
		{"no permission", "gcp_secret:denied", "", "no permission", false, false},
		{"down", "gcp_secret:busy", "", "503 Service Unavailable", true, false},
		{"a redirect", "gcp_secret:elsewhere", "", "302 Found", false, false},
		{"garbage", "gcp_secret:garbage", "", "not one of Google", true, false},
		{"half an answer", "gcp_secret:half", "", "unexpected EOF", true, false},

		{"a text", "azure_secret:v-1/text", "a text", "", false, false},
		{"a version", "azure_secret:v-1/text/3", "a text", "", false, false},
		{"a field", "azure_secret:v-1/json#pw", "p", "", false, false},
		{"no secret", "azure_secret:v-1/none", "", "has no secret with this name", false, true},
		{"no vault", "azure_secret:text", "", "does not name a vault", false, false},
		{"a vault that is another host", "azure_secret:evil.example/text", "", "does not name a vault", false, false},
		{"no permission", "azure_secret:v-1/denied", "", "no permission", false, false},
		{"down", "azure_secret:v-1/busy", "", "503 Service Unavailable", true, false},
		{"a redirect", "azure_secret:v-1/elsewhere", "", "302 Found", false, false},
		{"garbage", "azure_secret:v-1/garbage", "", "not one of Azure", true, false},
		{"half an answer", "azure_secret:v-1/half", "", "unexpected EOF", true, false},
	} {
		t.Run(tt.ref+" "+tt.name, func(t *testing.T) {
			r, err := newRef(tt.ref)
			if err != nil {
				t.Fatal(err)
			}
			m := ofGoogle
			if r.kind == "azure_secret" {
				m = ofAzure
			}
			var s secret
			s.fields, s.err = m.read(t.Context(), r.path)
			got, err := s.value(r)
			switch {
			case tt.err == "" && (got != tt.want || err != nil):
				t.Errorf("got %q, %v, want %q", got, err, tt.want)
			case tt.err == "":
			case err == nil || !strings.Contains(err.Error(), tt.err) || isDown(err) != tt.down ||
				errors.Is(err, fs.ErrNotExist) != tt.missing || strings.Contains(err.Error(), "hunter2"):
				t.Errorf("got %q, %v, want the error %q, down: %v, missing: %v", got, err, tt.err, tt.down, tt.missing)
			}
		})
	}
}
