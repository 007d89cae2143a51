package test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/sr"
	"github.com/twmb/franz-go/pkg/sr/srfake"
)

const invoice = `{"type":"record","name":"Invoice","namespace":"shop","fields":[` +
	`{"name":"id","type":"long"},{"name":"note","type":["null","string"],"default":null}]}`

// throughRegistry writes and reads invoices by a registry's schemas.
func throughRegistry(t *testing.T, url, encode string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	write(t, dir, "invoice.avsc", invoice)
	write(t, dir, "p.yaml", fmt.Sprintf(`
inputs:
  in: {stdin: {}}
processors:
  - encode: {avro: %s}
  - decode: {avro: {registry: main}}
  - set: {schema: meta("schema_id")}
outputs:
  out: {stdout: {}}
  dead: {file: {path: dead.ndjson}}
resources:
  registries:
    main: {url: %q, timeout: 1s}
engine:
  on_failure: {dead_letter: dead, retry: {max_attempts: 2, backoff: 1ms}}
`, encode, url))
	return dir
}

func TestSchemasOfARegistry(t *testing.T) {
	const in = `{"id": 9007199254740993}` + "\n"
	t.Run("a schema is added on request, with its id in the metadata", func(t *testing.T) {
		r := srfake.New()
		defer r.Close()
		r.SeedSchema("other", 1, 41, sr.Schema{Schema: `"int"`})
		dir := throughRegistry(t, r.URL(), `{registry: main, schema: invoice.avsc, topic: invoices, register: true}`)
		got := flowd(t, dir, in, "-c", "p.yaml")
		got.Want(t, 0)
		added, ok := r.GetSchema("invoices-value", 1)
		want := fmt.Sprintf(`{"id":9007199254740993,"note":null,"schema":%d}`, added.ID)
		if strings.TrimSpace(got.Stdout) != want || !ok {
			t.Errorf("got %s, want %s", got.Stdout, want)
		}
	})
	t.Run("the newest schema of a subject", func(t *testing.T) {
		r := srfake.New()
		defer r.Close()
		r.SeedSchema("invoices", 1, 42, sr.Schema{Schema: invoice})
		dir := throughRegistry(t, r.URL(), `{registry: main, subject: invoices}`)
		got := flowd(t, dir, in, "-c", "p.yaml")
		got.Want(t, 0)
		if want := `{"id":9007199254740993,"note":null,"schema":42}`; strings.TrimSpace(got.Stdout) != want {
			t.Errorf("got %s, want %s", got.Stdout, want)
		}
	})
	t.Run("by default no schema is added", func(t *testing.T) {
		r := srfake.New()
		defer r.Close()
		dir := throughRegistry(t, r.URL(), `{registry: main, schema: invoice.avsc, topic: invoices}`)
		got := flowd(t, dir, in, "-c", "p.yaml")
		got.Want(t, 0, `the schema is not one of subject "invoices-value" (register it, or set`)
		if read(t, filepath.Join(dir, "dead.ndjson")) != in || r.SubjectExists("invoices-value") {
			t.Error("the message was not kept, or the schema was added")
		}
	})
	t.Run("a registry that fails loses nothing", func(t *testing.T) {
		bad := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, "<html>store is down</html>", http.StatusInternalServerError)
		}))
		defer bad.Close()
		dir := throughRegistry(t, bad.URL, `{registry: main, subject: invoices}`)
		flowd(t, dir, in, "-c", "p.yaml").Want(t, 0, "transient", "500 Internal Server Error")
		if got := read(t, filepath.Join(dir, "dead.ndjson")); got != in {
			t.Errorf("the dead letter is %q", got)
		}
	})
}
