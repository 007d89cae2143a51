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

// throughRegistry writes a pipeline that encodes and decodes invoices with schemas from a registry.
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
	t.Parallel()
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
	t.Run("the latest schema of a subject", func(t *testing.T) {
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
			t.Error("the message is not in the dead letters, or the schema was added")
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

// TestProtobufSchemasOfARegistry encodes and decodes messages, one of them with a schema that has references.
func TestProtobufSchemasOfARegistry(t *testing.T) {
	t.Parallel()
	const header = `syntax = "proto3"; package shop; `
	const invoices = header + `import "money.proto"; message Other {} message Invoice { message Line { int64 id = 1; Money price = 2; } }`
	const plain = header + `message Line { int64 id = 1; }`
	const in = `{"id": 9007199254740993, "price": {"cents": 7}}` + "\n"
	start := func(t *testing.T) *srfake.Registry {
		r := srfake.New()
		t.Cleanup(r.Close)
		r.SeedSchema("money", 1, 41, sr.Schema{Type: sr.TypeProtobuf, Schema: header + `message Money { int64 cents = 1; }`})
		r.SeedSchema("invoices", 1, 42, sr.Schema{Type: sr.TypeProtobuf, Schema: invoices,
			References: []sr.SchemaReference{{Name: "money.proto", Subject: "money", Version: 1}}})
		r.SeedSchema("avro", 1, 43, sr.Schema{Schema: `"int"`})
		return r
	}
	pipeline := func(t *testing.T, url, steps string) (dir string) {
		dir = t.TempDir()
		write(t, dir, "line.proto", plain)
		write(t, dir, "invoices.proto", invoices)
		write(t, dir, "money.proto", header+`message Money { int64 cents = 1; }`)
		write(t, dir, "p.yaml", fmt.Sprintf(`
inputs:
  in: {stdin: {}}
processors: [%s]
outputs:
  out: {stdout: {}}
  dead: {file: {path: dead.ndjson}}
resources:
  registries:
    main: {url: %q, timeout: 1s}
engine:
  on_failure: {dead_letter: dead, retry: {max_attempts: 2, backoff: 1ms}}
`, steps, url))
		return dir
	}
	t.Run("the latest schema, and a nested message type", func(t *testing.T) {
		dir := pipeline(t, start(t).URL(),
			`{encode: {protobuf: {registry: main, subject: invoices, message: shop.Invoice.Line}, into: p, from: this}},
			{set: {bytes: p}}, {decode: {protobuf: {registry: main}, from: p}}, {set: {schema: meta("schema_id")}}`)
		got := flowd(t, dir, in, "-c", "p.yaml")
		got.Want(t, 0)
		const want = `{"id":9007199254740993,"price":{"cents":7},"p":{"id":9007199254740993,"price":{"cents":7}},` +
			`"bytes":"AAAAACoEAgAIgYCAgICAgBASAggH","schema":42}`
		if strings.ReplaceAll(strings.TrimSpace(got.Stdout), " ", "") != want {
			t.Errorf("got %s, want %s", got.Stdout, want)
		}
	})
	t.Run("a schema is added on request", func(t *testing.T) {
		r := start(t)
		dir := pipeline(t, r.URL(),
			`{encode: {protobuf: {registry: main, schema: line.proto, topic: lines, register: true}}}, {decode: {protobuf: {registry: main}}}`)
		got := flowd(t, dir, `{"id": 7}`, "-c", "p.yaml")
		got.Want(t, 0)
		added, ok := r.GetSchema("lines-value", 1)
		if !ok || added.Type != sr.TypeProtobuf || added.Schema.Schema != plain || strings.TrimSpace(got.Stdout) != `{"id":7}` {
			t.Errorf("%v %v, %s", added, ok, got.Stdout)
		}
	})
	t.Run("an Avro schema", func(t *testing.T) {
		dir := pipeline(t, start(t).URL(), `{encode: {avro: {registry: main, subject: avro}}}, {decode: {protobuf: {registry: main}}}`)
		flowd(t, dir, "7\n", "-c", "p.yaml").Want(t, 0, "decode", "schema id 43 is of type AVRO, not PROTOBUF")
		if got := read(t, filepath.Join(dir, "dead.ndjson")); got != "7\n" {
			t.Errorf("the dead letter is %q", got)
		}
	})
	t.Run("lint rejects a file with imports", func(t *testing.T) {
		dir := pipeline(t, "http://127.0.0.1:1", `{encode: {protobuf: {registry: main, schema: invoices.proto, message: shop.Other, topic: x}}}`)
		got := flowd(t, dir, "", "lint", "p.yaml")
		got.Want(t, 2)
		if !strings.Contains(got.Stdout, "invoices.proto imports other files") {
			t.Errorf("got %s", got.Stdout)
		}
	})
	t.Run("lint locates mistakes in files", func(t *testing.T) {
		dir := pipeline(t, "http://127.0.0.1:1",
			`{decode: {protobuf: bad.proto}}, {decode: {protobuf: {schema: line.proto, message: shop.Lime}}}, {decode: {avro: {registry: main}}}`)
		write(t, dir, "bad.proto", "syntax = \"proto3\";\nmessage M {\n  int23 a = 1;\n}\n")
		got := flowd(t, dir, "", "lint", "p.yaml")
		got.Want(t, 2)
		for _, want := range []string{"bad.proto:3:3: field M.a: unknown type int23", `did you mean "shop.Line"?`} {
			if !strings.Contains(got.Stdout, want) {
				t.Errorf("got %s, want %s", got.Stdout, want)
			}
		}
	})
}

func TestJSONSchemasOfARegistry(t *testing.T) {
	t.Parallel()
	const text = `{"title":"Order","type":"object","properties":{"total":{"type":"number","minimum":0}}}`
	pipeline := func(t *testing.T, url, framing, steps string) (dir string) {
		dir = t.TempDir()
		write(t, dir, "order.json", text)
		write(t, dir, "p.yaml", fmt.Sprintf(`
inputs:
  in: {stdin: {framing: %s}}
processors: [%s]
outputs:
  out: {stdout: {}}
  dead: {file: {path: dead.ndjson}}
resources:
  registries:
    main: {url: %q, timeout: 1s}
engine:
  on_failure: {dead_letter: dead, retry: {max_attempts: 2, backoff: 1ms}}
`, framing, steps, url))
		return dir
	}
	t.Run("a schema is added on request, by its title", func(t *testing.T) {
		r := srfake.New()
		defer r.Close()
		dir := pipeline(t, r.URL(), "lines", `{encode: {json_schema: {registry: main, schema: order.json, subject_name: record, register: true}}},
			{decode: {json_schema: {registry: main}}}`)
		got := flowd(t, dir, `{"total": 9007199254740993}`+"\n"+`{"total": -1}`+"\n", "-c", "p.yaml")
		got.Want(t, 0, "permanent", "/total: minimum: got -1, want 0", "1 delivered, 1 dead-lettered")
		added, ok := r.GetSchema("Order", 1)
		if want := `{"total": 9007199254740993}` + "\n"; got.Stdout != want || !ok || added.Type != sr.TypeJSON {
			t.Errorf("got %s, want %s; %v", got.Stdout, want, added)
		}
	})
	t.Run("a payload that does not match its schema", func(t *testing.T) {
		r := srfake.New()
		defer r.Close()
		r.SeedSchema("orders", 1, 42, sr.Schema{Type: sr.TypeJSON, Schema: text})
		dir := pipeline(t, r.URL(), "whole", `{decode: {json_schema: {registry: main}}}`)
		const in = "\x00\x00\x00\x00\x2a" + `{"total": -5}`
		flowd(t, dir, in, "-c", "p.yaml").Want(t, 0, "decode", "/total: minimum: got -5, want 0", "1 dead-lettered")
		if got := read(t, filepath.Join(dir, "dead.ndjson")); got != in+"\n" {
			t.Errorf("the dead letter is %q", got)
		}
	})
}
