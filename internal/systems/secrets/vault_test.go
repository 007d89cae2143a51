//go:build !no_vault && (!slim || vault)

package secrets

import (
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/flowd-io/flowd/schema"
)

const token = "hvs.the-token"

// fakeVault serves two key-value engines: secret/ has version 2, and old/ version 1. A token that may not ask for mounts is
// refused there. Under odd/, it answers as something else than a healthy Vault would.
func fakeVault(w http.ResponseWriter, r *http.Request) {
	answer := func(status int, body string) {
		w.WriteHeader(status)
		fmt.Fprint(w, body)
	}
	path := strings.TrimPrefix(r.URL.Path, "/v1/")
	mount, isMount := strings.CutPrefix(path, "sys/internal/ui/mounts/")
	switch {
	case strings.Contains(path, "odd/"):
	case r.Header.Get("X-Vault-Token") == "narrow" && isMount,
		r.Header.Get("X-Vault-Token") != token && r.Header.Get("X-Vault-Token") != "narrow",
		r.Header.Get("X-Vault-Namespace") != "team":
		answer(403, fmt.Sprintf(`{"errors":["permission denied for %s"]}`, r.Header.Get("X-Vault-Token")))
		return
	}
	switch {
	case isMount && strings.HasPrefix(mount, "secret/"):
		answer(200, `{"data":{"path":"secret/","type":"kv","options":{"version":"2"}}}`)
	case isMount && strings.HasPrefix(mount, "old/"):
		answer(200, `{"data":{"path":"old/","type":"kv","options":null}}`)
	case isMount && strings.HasPrefix(mount, "database/"):
		answer(200, `{"data":{"path":"database/","type":"database"}}`)
	case isMount:
		answer(404, `{"errors":[]}`)
	case path == "secret/data/orders":
		answer(200, `{"data":{"data":{"pw":"p w","port":5672,"big":12345678901234567890,"on":true,"none":null,"in":{"a":[1]}},
			"metadata":{"version":3}}}`)
	case path == "secret/data/a b/ü":
		answer(200, `{"data":{"data":{"pw":"odd path"},"metadata":{"version":1}}}`)
	case path == "secret/data/deleted":
		answer(404, `{"data":{"data":null,"metadata":{"deletion_time":"2026-01-01T00:00:00Z","version":2}}}`)
	case path == "old/orders":
		answer(200, `{"data":{"pw":"v1","data":"x","metadata":"y"}}`)
	case path == "old/alike":
		answer(200, `{"data":{"data":{"pw":"inner"},"metadata":{"version":1}}}`)
	case path == "odd/sealed":
		answer(503, `{"errors":["Vault is sealed"]}`)
	case path == "odd/standby":
		w.Header().Set("Location", "http://192.0.2.1/v1/x")
		answer(307, "")
	case path == "odd/proxy":
		answer(200, "<html>hunter2")
	case path == "odd/empty":
		answer(200, "{}")
	case path == "odd/elsewhere":
		answer(404, "<html>not found")
	case path == "odd/half":
		w.Header().Set("Content-Length", "1000")
		answer(200, `{"data":{"pw":"hunter2`)
	case path == "odd/endless":
		for err := error(nil); err == nil; {
			_, err = fmt.Fprint(w, `{"data":{"pw":"`+strings.Repeat("hunter2", 1000))
		}
	case path == "odd/shape":
		answer(200, `{"data":["hunter2"]}`)
	default:
		answer(404, `{"errors":[]}`)
	}
}

// vaultOf returns a client of a fake, whose settings come from the environment.
func vaultOf(t *testing.T, token string) manager {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(fakeVault))
	t.Cleanup(server.Close)
	t.Setenv("VAULT_ADDR", server.URL+"/")
	t.Setenv("VAULT_NAMESPACE", "team")
	t.Setenv("VAULT_TOKEN", token)
	m, err := openVault(nil)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestVaultHasSecretsOfBothVersions(t *testing.T) {
	all, narrow := vaultOf(t, token), vaultOf(t, "narrow")
	for _, tt := range []struct {
		name string
		m    manager
		ref  string
		want string
	}{
		{"version 2", all, "secret/orders#pw", "p w"},
		{"the path of the API", all, "secret/data/orders#pw", "p w"},
		{"a number", all, "secret/orders#port", "5672"},
		{"a large number", all, "secret/orders#big", "12345678901234567890"},
		{"a boolean", all, "secret/orders#on", "true"},
		{"an object", all, "secret/orders#in", `{"a":[1]}`},
		{"a path with special characters", all, "secret/a b/ü#pw", "odd path"},
		{"version 1", all, "old/orders#pw", "v1"},
		{"version 1 with fields as in version 2", all, "old/alike#metadata", `{"version":1}`},
		{"version 2, without the permission to ask for it", narrow, "secret/data/orders#pw", "p w"},
		{"version 1, without the permission to ask for it", narrow, "old/orders#pw", "v1"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r, err := newRef("vault:" + tt.ref)
			if err != nil {
				t.Fatal(err)
			}
			var s secret
			s.fields, s.err = tt.m.read(t.Context(), r.path)
			if got, err := s.value(r); got != tt.want || err != nil {
				t.Errorf("got %q, %v, want %q", got, err, tt.want)
			}
		})
	}
}

func TestErrorsOfVaultHaveACauseAndARemedyButNoValue(t *testing.T) {
	all, stranger := vaultOf(t, token), vaultOf(t, "hvs.of-a-stranger")
	for _, tt := range []struct {
		name, ref, want string
		m               manager
		down, missing   bool
	}{
		{"no secret", "secret/none#pw", "Vault has no secret with this path", all, false, true},
		{"a deleted secret", "secret/deleted#pw", "Vault has no secret with this path", all, false, true},
		{"no field", "secret/orders#port2", `the secret has no field "port2"`, all, false, true},
		{"a field that is null", "secret/orders#none", `the secret has no field "none"`, all, false, true},
		{"another engine", "database/creds/x#pw", `of type "database", and only key-value engines are read`, all, false, false},
		{"a refused token", "secret/orders#pw", "403 Forbidden: permission denied for ***", stranger, false, false},
		{"sealed", "odd/sealed#pw", "503 Service Unavailable: Vault is sealed", all, true, false},
		{"a redirect", "odd/standby#pw", "307 Temporary Redirect redirects to another server", all, false, false},
		{"a proxy", "odd/proxy#pw", "is not one of Vault: 200 OK", all, true, false},
		{"an answer without a secret", "odd/empty#pw", "is not one of Vault: 200 OK", all, true, false},
		{"another server", "odd/elsewhere#pw", "is not one of Vault: 404 Not Found", all, true, false},
		{"half an answer", "odd/half#pw", "unexpected EOF", all, true, false},
		{"an endless answer", "odd/endless#pw", "the response is longer than 2 MiB", all, true, false},
		{"another shape", "odd/shape#pw", "is not one of Vault: 200 OK", all, true, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r, err := newRef("vault:" + tt.ref)
			if err != nil {
				t.Fatal(err)
			}
			var s secret
			s.fields, s.err = tt.m.read(t.Context(), r.path)
			value, err := s.value(r)
			e, ok := errors.AsType[*schema.LookupError](err)
			if !ok || value != "" || !strings.Contains(err.Error(), tt.want) || e.Remedy == "" || isDown(err) != tt.down ||
				errors.Is(err, fs.ErrNotExist) != tt.missing {
				t.Errorf("got %q, %v (%+v), want the error %q, down: %v, missing: %v", value, err, e, tt.want, tt.down, tt.missing)
			}
			if strings.Contains(err.Error(), "hunter2") || strings.Contains(err.Error(), "hvs.") {
				t.Errorf("a secret shows: %v", err)
			}
		})
	}
}

func TestSettingsOfVault(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"token": "from-file\n", "odd": "two words", "home/.vault-token": "from-home"} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"VAULT_ADDR", "VAULT_TOKEN", "VAULT_NAMESPACE", "VAULT_CACERT"} {
		t.Setenv(name, "")
	}
	of := func(address, file, token string) *Config {
		return &Config{Vault: &Vault{Address: address, TokenFile: file, Token: schema.NewSecret(token)}}
	}
	const address = "https://vault:8200"
	for _, tt := range []struct {
		name       string
		env        map[string]string
		conf       *Config
		token, err string
	}{
		{"no address", nil, nil, "", "the address of Vault is not set"},
		{"an address that is not a URL", map[string]string{"VAULT_ADDR": "vault:8200"}, nil, "", "VAULT_ADDR is not an http or https URL"},
		{"the file in the home directory", map[string]string{"VAULT_ADDR": address, "HOME": dir + "/home"}, nil, "from-home", ""},
		{"no token", map[string]string{"VAULT_ADDR": address, "HOME": dir}, nil, "", "there is no token for Vault"},
		{"a token of the environment", map[string]string{"VAULT_TOKEN": "env"}, of(address, "", ""), "env", ""},
		{"a token in the configuration", map[string]string{"VAULT_TOKEN": "env"}, of(address, "", "own"), "own", ""},
		{"a file", map[string]string{"VAULT_TOKEN": "env"}, of(address, dir+"/token", ""), "from-file", ""},
		{"no such file", nil, of(address, dir+"/none", ""), "", "does not exist"},
		{"a file with something else", nil, of(address, dir+"/odd", ""), "", "does not contain a token"},
		{"a directory", nil, of(address, dir, ""), "", "is not a regular file"},
		{"certificates that do not exist", map[string]string{"VAULT_CACERT": dir + "/ca"}, of(address, "", "own"), "", "TLS of Vault: tls.ca"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for name, value := range tt.env {
				t.Setenv(name, value)
			}
			m, err := openVault(tt.conf)
			if tt.err != "" {
				if err == nil || !strings.Contains(err.Error(), tt.err) || strings.Contains(err.Error(), "two words") {
					t.Errorf("got %v, want %q", err, tt.err)
				}
				return
			}
			if err != nil || m.(*vault).token != tt.token {
				t.Errorf("got %+v, %v, want the token %q", m, err, tt.token)
			}
		})
	}
}
