package test

import (
	"crypto/sha256"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// vaultPipeline adds a hash of a secret to every message.
const vaultPipeline = `
inputs: {in: {stdin: {}}}
processors:
  - set: {sum: 'to_hex(sha256("${vault:secret/orders#pw}"))'}
outputs: {out: {stdout: {}}}
resources:
  secrets: {main: {vault: {address: %s, token_file: vault-token}, refresh: %s}}
`

// vaultServer is a fake of Vault with one secret. Without a value it is sealed.
type vaultServer struct {
	value atomic.Value
	asked atomic.Int64
}

func (v *vaultServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	v.asked.Add(1)
	refuse := func(status int, errors string) {
		w.WriteHeader(status)
		fmt.Fprintf(w, `{"errors":[%s]}`, errors)
	}
	switch value := v.value.Load(); {
	case value == "hang":
		<-r.Context().Done()
	case value == "":
		refuse(http.StatusServiceUnavailable, `"Vault is sealed"`)
	case r.Header.Get("X-Vault-Token") != "hvs.token":
		refuse(http.StatusForbidden, `"permission denied"`)
	case r.URL.Path == "/v1/sys/internal/ui/mounts/secret/orders":
		fmt.Fprint(w, `{"data":{"path":"secret/","type":"kv","options":{"version":"2"}}}`)
	case r.URL.Path == "/v1/secret/data/orders":
		fmt.Fprintf(w, `{"data":{"data":{"pw":%q},"metadata":{"version":1}}}`, value)
	default:
		refuse(http.StatusNotFound, "")
	}
}

// startVault starts a fake of Vault, and writes a pipeline that uses its secret.
func startVault(t *testing.T, value, refresh string) (v *vaultServer, dir string) {
	t.Helper()
	v, dir = &vaultServer{}, t.TempDir()
	v.value.Store(value)
	s := httptest.NewServer(v)
	t.Cleanup(s.Close)
	write(t, dir, "vault-token", "hvs.token\n")
	write(t, dir, "p.yaml", fmt.Sprintf(vaultPipeline, s.URL, refresh))
	return v, dir
}

func TestAReloadReadsSecretsAgainUnlessTheirManagerIsDown(t *testing.T) {
	t.Parallel()
	v, dir := startVault(t, "correct horse", "1h")
	p := start(t, dir, "-c", "p.yaml")
	step := func(value string) {
		t.Helper()
		p.Send("{}\n")
		if got, want := p.Line(), fmt.Sprintf(`{"sum":"%x"}`, sha256.Sum256([]byte(value))); got != want {
			t.Errorf("stdout %s, want %s", got, want)
		}
	}
	step("correct horse")
	v.value.Store("battery staple")
	p.Signal(syscall.SIGHUP)
	p.Says("reloaded")
	step("battery staple")
	v.value.Store("")
	p.Signal(syscall.SIGHUP)
	p.Says("its earlier value stays in use")
	p.Says("reloaded")
	step("battery staple")
	p.Signal(syscall.SIGTERM)
	end := p.Wait()
	end.Want(t, 0, "3 received: 3 delivered")
	for _, secret := range []string{"horse", "staple", "hvs."} {
		if strings.Contains(end.Stderr, secret) {
			t.Errorf("stderr shows a secret:\n%s", end.Stderr)
		}
	}
}

func TestAStartWithoutTheSecretsManagerFailsInTime(t *testing.T) {
	t.Parallel()
	v, dir := startVault(t, "", "1h")
	command(t, dir, "", binary, "lint", "p.yaml").Want(t, 0)
	if n := v.asked.Load(); n > 0 {
		t.Errorf("lint sent %d requests", n)
	}
	command(t, dir, "{}\n", binary, "-c", "p.yaml").Want(t, 1,
		"p.yaml:4:32: processors[0].set.sum: ${vault:secret/orders#pw}: Vault at http://127.0.0.1",
		"503 Service Unavailable: Vault is sealed (unseal it", "[secret-unavailable]")
	if n := v.asked.Load(); n != 4 {
		t.Errorf("a start sent %d requests, want 4", n)
	}
}

func TestAChangedSecretReloads(t *testing.T) {
	t.Parallel()
	v, dir := startVault(t, "correct horse", "1s")
	p := start(t, dir, "-c", "p.yaml")
	p.Send("{}\n")
	p.Line()
	good := read(t, dir, "p.yaml")
	write(t, dir, "p.yaml", "inputs: {") // a reload fails
	v.value.Store("battery staple")
	p.Says("a secret has changed")
	p.Says("1 error: nothing has changed")
	write(t, dir, "p.yaml", good)
	p.Says("reloaded") // after the next renewal
	p.Send("{}\n")
	if got, want := p.Line(), fmt.Sprintf(`{"sum":"%x"}`, sha256.Sum256([]byte("battery staple"))); got != want {
		t.Errorf("stdout %s, want %s", got, want)
	}
	p.Signal(syscall.SIGTERM)
	p.Wait().Want(t, 0, "2 received: 2 delivered")
}

// TestAStopDoesNotWaitForTheSecretsManager stops a process whose reload waits for a manager that does not answer.
func TestAStopDoesNotWaitForTheSecretsManager(t *testing.T) {
	t.Parallel()
	v, dir := startVault(t, "correct horse", "1h")
	p := start(t, dir, "-c", "p.yaml")
	p.Send("{}\n")
	p.Line()
	v.value.Store("hang")
	before := v.asked.Load()
	p.Signal(syscall.SIGHUP)
	for v.asked.Load() == before {
		<-time.After(time.Millisecond)
	}
	began := time.Now()
	p.Signal(syscall.SIGTERM)
	p.Wait().Want(t, 0, "it is too late to reload", "1 received: 1 delivered")
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("the stop took %v", took)
	}
}

func TestAChangeWithoutTheSecretsManagerIsUnavailable(t *testing.T) {
	t.Parallel()
	v, dir := startVault(t, "correct horse", "1h")
	m := startManaging(t, dir, "p.yaml")
	v.value.Store("")
	a := m.put("new", strings.Replace(idlePipeline, "{}", "${vault:secret/other#pw}", 1))
	if a.Status != http.StatusServiceUnavailable || len(a.Problems) != 1 || a.Problems[0].Code != "secret-unavailable" ||
		a.Problems[0].Line != 1 || a.Problems[0].Col == 0 {
		t.Errorf("got %d %s", a.Status, a.Text)
	}
	if got := m.files(); len(got) > 0 {
		t.Errorf("files are %v", got)
	}
	m.stop()
}
