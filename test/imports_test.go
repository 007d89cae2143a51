package test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"path"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/flowd-io/flowd"

type row struct{ packages, imports string }

// house says what packages may import of this module, internal packages aside: the picture of CONTRIBUTING.md
// as a table. The first row with a pattern, as of path.Match, that matches a package counts.
var house = []row{
	{"schema engine/doc docs", ""},
	{"engine/expr", "engine/doc schema"},
	{"engine", "engine/doc engine/expr engine/internal/inside schema"},
	{"engine/internal/inside", "engine/doc"},
	{"engine/internal/guard engine/internal/rules", "engine schema"},
	{"engine/internal/limit", "engine engine/expr engine/internal/inside"},
	{"engine/internal/flow", "engine engine/doc engine/internal/inside"},
	{"engine/internal/ledger", "engine schema engine/internal/guard engine/internal/inside"},
	{"engine/internal/order", "engine engine/expr engine/internal/flow engine/internal/inside"},
	{"engine/internal/retry", "engine engine/internal/guard engine/internal/inside engine/internal/ledger"},
	{"engine/internal/steps",
		"engine engine/expr schema engine/internal/flow engine/internal/guard engine/internal/inside engine/internal/order " +
			"engine/internal/retry"},
	{"engine/internal/life", "engine schema engine/internal/guard"},
	{"engine/internal/stage", "engine engine/doc engine/expr schema engine/internal/*"},
	{"engine/runtime", "engine schema engine/internal/*"},
	{"engine/polling", "engine schema"},
	{"engine/source engine/cause", "engine"},
	{"engine/enginetest", "engine engine/expr engine/internal/inside engine/runtime schema"},
	{"config", "config/yamltext engine engine/doc engine/expr engine/runtime schema"},
	{"config/yamltext", "schema"},

	// A root lists the plugins of its kind; a plugin never knows a sibling.
	{"inputs", "inputs/*"},
	{"processors", "processors/*"},
	{"batchers", "batchers/*"},
	{"outputs", "outputs/*"},

	{"internal/pipetest", "config engine engine/doc engine/expr engine/runtime schema"}, // of flowd test, not of plugins
	{"internal/testing/*", "engine engine/enginetest engine/runtime schema"},
	{"internal/pool/wire", "engine engine/doc engine/expr engine/runtime schema"},
	{"internal/pool/worker", "engine engine/runtime schema"},
	{plugins + " internal/* internal/*/*", "engine engine/cause engine/doc engine/expr engine/polling engine/source schema"},

	{"cmd/flowd", "cmd/flowd/cli inputs processors batchers outputs"},
	{"cmd/flowd/cli", "config docs engine engine/expr engine/polling engine/runtime schema"},
	{"test test/*", "config engine engine/runtime schema inputs processors batchers outputs"},
}

// plugins are the packages of which each knows no other.
const plugins = "inputs/* processors/* batchers/* outputs/*"

// inside says which packages may import an internal one. Those in internal/testing are for tests, and for programs
// that are tests.
var inside = map[string]string{
	"internal/attempts": "inputs/nats inputs/sqs",
	"internal/avro":     "internal/formats",
	"internal/aws": "" +
		"inputs/sqs internal/objects/s3 internal/queue/kafka internal/queue/sqs outputs/sns outputs/sqs",
	"internal/azure":          "internal/objects/azure",
	"internal/builds":         "cmd/flowd/cli internal/pool/wire internal/queue",
	"internal/caches":         "processors",
	"internal/caches/file":    "internal/caches",
	"internal/caches/memory":  "internal/caches internal/pipetest processors/state",
	"internal/caches/nats_kv": "internal/caches",
	"internal/caches/redis":   "internal/caches",
	"internal/caches/sql":     "internal/caches",
	"internal/call": "" +
		"cmd/flowd/cli inputs/http internal/aws internal/caches/nats_kv internal/caches/sql internal/httpx internal/objects " +
		"internal/objects/azure internal/objects/s3 internal/queue/nats internal/queue/sqs internal/registry " +
		"internal/twophase outputs/http processors/exec processors/http processors/sql processors/state",
	"internal/checkpoint": "engine/source inputs/file inputs/http inputs/sql internal/cursor",
	"internal/codec": "" +
		"config/yamltext internal/avro internal/call internal/framing internal/jsonschema internal/parquet " +
		"internal/pgoutput internal/protobuf internal/sqldb internal/tables processors/archive processors/decode processors/encode " +
		"processors/split",
	"internal/compression": "" +
		"inputs/file inputs/http inputs/http_server inputs/stdin internal/avro internal/framing internal/objects " +
		"internal/parquet outputs/file processors/compress processors/decompress",
	"internal/controls": "" +
		"cmd/flowd/cli internal/mqtt internal/objects internal/queue/nats internal/queue/redis outputs/file " +
		"outputs/rabbitmq processors/archive",
	"internal/csv":    "internal/codec internal/framing internal/tables",
	"internal/cursor": "inputs/http inputs/sql",
	"internal/fake":   "engine/expr",
	"internal/fields": "" +
		"processors/aggregate processors/branch processors/cache processors/decode processors/each " +
		"processors/encode processors/exec processors/geoip processors/http processors/keep processors/map " +
		"processors/redis processors/rename processors/set processors/sql processors/state processors/unset",
	"internal/files":   "cmd/flowd/cli internal/caches/file internal/checkpoint internal/nats/embed outputs/file outputs/stdout",
	"internal/flock":   "internal/checkpoint internal/nats/embed internal/pool/hub",
	"internal/formats": "processors/archive processors/decode processors/encode",
	"internal/framing": "" +
		"cmd/flowd/cli inputs/file inputs/http inputs/http_server inputs/stdin internal/objects outputs/file " +
		"outputs/http outputs/stdout processors/archive processors/exec",
	"internal/google": "internal/objects/gcs",
	"internal/bounds": "" +
		"inputs/postgres_cdc inputs/redis_stream internal/mqtt internal/nats internal/pgwire internal/queue/amqp internal/queue/redis " +
		"internal/sqldb internal/testing/boundstest processors/redis",
	"internal/headroom": "cmd/flowd/cli test/bench",
	"internal/httpx": "" +
		"inputs/http inputs/http_server inputs/sqs internal/aws internal/azure internal/google internal/mqtt internal/objects/azure " +
		"internal/objects/gcs internal/objects/s3 internal/queue/amqp internal/queue/kafka internal/queue/sqs internal/registry " +
		"internal/service internal/sqldb internal/tables outputs/http outputs/reply processors/http",
	"internal/inner":      "internal/pool processors/branch processors/parallel processors/pool processors/while",
	"internal/jsonschema": "processors/decode processors/encode processors/validate",
	"internal/linked":     "batchers/batch batchers/window",
	"internal/logsum":     "cmd/flowd/cli inputs/http_server processors/exec processors/log",
	"internal/metadata": "" +
		"internal/aws internal/mqtt internal/objects internal/queue/amqp internal/queue/kafka internal/queue/nats internal/queue/redis " +
		"outputs/mqtt outputs/nats outputs/redis_stream " +
		"processors/redis",
	"internal/metrics":          "cmd/flowd/cli processors/metric",
	"internal/migrate":          "cmd/flowd/cli test/migrate",
	"internal/migrate/bloblang": "internal/migrate test/migrate",
	"internal/mqtt":             "inputs/mqtt outputs/mqtt",
	"internal/nats":             "internal/pool/wire internal/queue/nats",
	"internal/nats/embed":       "internal/pool/hub internal/queue/nats",
	"internal/objects": "" +
		"inputs/azure_blob inputs/gcs inputs/s3 internal/objects/azure internal/objects/gcs internal/objects/s3 " +
		"outputs/azure_blob outputs/gcs outputs/s3",
	"internal/objects/azure": "inputs/azure_blob outputs/azure_blob",
	"internal/objects/gcs":   "inputs/gcs outputs/gcs",
	"internal/objects/s3":    "inputs/s3 outputs/s3",
	"internal/openfiles":     "outputs/file",
	"internal/parquet":       "internal/formats",
	"internal/pgoutput":      "inputs/postgres_cdc test/bench",
	"internal/pgwire":        "inputs/postgres_cdc internal/sqldb",
	"internal/pipe":          "inputs/pipe outputs/pipe",
	"internal/pipetest":      "cmd/flowd/cli",
	"internal/pool":          "internal/pool/hub internal/pool/wire internal/pool/worker processors/pool",
	"internal/pool/hub":      "processors",
	"internal/pool/wire": "" +
		"cmd/flowd/cli config internal/pipetest internal/pool/hub internal/pool/worker processors/pool",
	"internal/pool/worker": "cmd/flowd/cli",
	"internal/protobuf":    "internal/formats",
	"internal/queue": "" +
		"cmd/flowd/cli internal/queue/amqp internal/queue/kafka internal/queue/nats internal/queue/redis " +
		"internal/queue/sqs internal/testing/queuetest",
	"internal/queue/amqp":  "inputs/rabbitmq outputs/rabbitmq",
	"internal/queue/kafka": "inputs/kafka outputs/kafka",
	"internal/queue/nats":  "inputs/nats internal/caches/nats_kv outputs/nats",
	"internal/queue/redis": "" +
		"inputs/redis_list inputs/redis_pubsub inputs/redis_stream internal/caches/redis outputs/redis_list " +
		"outputs/redis_pubsub outputs/redis_stream processors/redis",
	"internal/queue/sqs": "inputs/sqs",
	"internal/registry":  "config internal/avro internal/jsonschema internal/protobuf",
	"internal/reply":     "inputs/http_server outputs/reply",
	"internal/schedule":  "inputs/generate inputs/http",
	"internal/service":   "cmd/flowd/cli",
	"internal/sqldb": "" +
		"inputs/sql internal/caches/sql internal/tables internal/testing/sqltest outputs/sql processors/sql",
	"internal/tables":                 "config processors/geoip",
	"internal/testing/brokertest":     "test/bench",
	"internal/testing/cachetest":      "internal/testing/steptest",
	"internal/testing/clickhousetest": "internal/testing/sqltest test/bench",
	"internal/testing/daemon": "" +
		"internal/testing/brokertest internal/testing/clickhousetest internal/testing/mariadbtest " +
		"internal/testing/mqtttest internal/testing/natstest internal/testing/pgtest internal/testing/redistest " +
		"test/flowdtest",
	"internal/testing/debian": "" +
		"internal/testing/brokertest internal/testing/clickhousetest internal/testing/mariadbtest " +
		"internal/testing/mqtttest internal/testing/pgtest internal/testing/redistest",
	"internal/testing/fakes3":      "test/bench",
	"internal/testing/fakesqs":     "test/bench",
	"internal/testing/faults":      "internal/testing/fakeazure internal/testing/fakegcs",
	"internal/testing/mariadbtest": "internal/testing/sqltest",
	"internal/testing/mqtttest":    "test/bench",
	"internal/testing/npm":         "internal/testing/clickhousetest",
	"internal/testing/pgtest":      "internal/testing/sqltest test/bench",
	"internal/testing/redistest":   "test/bench",
	"internal/testing/servertest":  "internal/testing/pgtest",
	"internal/timing": "" +
		"inputs/generate inputs/mqtt inputs/poll inputs/sql inputs/sqs internal/objects internal/objects/azure " +
		"internal/objects/gcs internal/pipetest internal/pool/hub internal/pool/worker internal/queue/amqp " +
		"internal/twophase internal/writebehind outputs/mqtt processors/exec processors/sleep",
	"internal/tlsconf": "" +
		"cmd/flowd/cli config inputs/http_server inputs/postgres_cdc internal/aws internal/azure internal/google " +
		"internal/httpx internal/mqtt internal/objects/azure internal/pool/hub internal/pool/wire " +
		"internal/queue/amqp internal/queue/kafka internal/queue/nats internal/queue/redis internal/registry " +
		"internal/service internal/sqldb internal/tables",
	"internal/twophase": "processors/cache processors/dedupe",
	"internal/watermark": "" +
		"engine/source inputs/kafka inputs/mqtt inputs/postgres_cdc internal/cursor",
	"internal/waits":       "internal/twophase processors/state",
	"internal/writebehind": "internal/twophase processors/state",
}

// forTests is what a plugin's tests may import in addition to what the plugin may: fakes and suites, and real components
// to work with.
const forTests = plugins +
	" engine/enginetest engine/runtime internal/aws internal/caches internal/compression internal/testing/*"

// yamlReaders are the only packages that import a YAML library. Those of migrate read and write what other systems have.
const yamlReaders = "config/yamltext internal/codec internal/migrate internal/migrate/bloblang test/migrate"

func TestImportsFollowTheDiagram(t *testing.T) {
	used := map[[2]string]bool{} // a row of house and a pattern in it, or an internal package and who imports it
	for _, p := range list(t) {
		name := strings.TrimPrefix(p.ImportPath, module+"/")
		row := slices.IndexFunc(house, func(r row) bool { return match(r.packages, name) != "" })
		if row < 0 {
			t.Errorf("%s has no place in the house (give it one in the table in test/imports_test.go)", name)
			continue
		}
		// permission is the row and the word in it that allow an import; the word is "" where none does.
		permission := func(imported string) [2]string {
			if strings.HasPrefix(imported, "internal/") {
				return [2]string{imported, match(inside[imported], name)}
			}
			return [2]string{house[row].packages, match(house[row].imports, imported)}
		}
		for _, i := range p.Imports {
			if rel, ours := strings.CutPrefix(i, module+"/"); ours {
				if by := permission(rel); by[1] == "" {
					t.Errorf("%s may not import %s (see the tables in test/imports_test.go)", name, rel)
				} else {
					used[by] = true
				}
			}
			if !strings.HasPrefix(i, module) && strings.Contains(i, "yaml") && match(yamlReaders, name) == "" {
				t.Errorf("%s imports %s: only %s read YAML", name, i, yamlReaders)
			}
		}
		if match(plugins, name) == "" {
			continue
		}
		for _, i := range append(p.TestImports, p.XTestImports...) {
			rel, ours := strings.CutPrefix(i, module+"/")
			if ours && rel != name && match(forTests, rel) == "" && permission(rel)[1] == "" {
				t.Errorf("a test of %s may not import %s (see the tables in test/imports_test.go)", name, rel)
			}
		}
	}

	for _, r := range house {
		for imported := range strings.FieldsSeq(r.imports) {
			if !used[[2]string{r.packages, imported}] {
				t.Errorf("none of %s imports %s: remove the permission", r.packages, imported)
			}
		}
	}
	for pkg, importers := range inside {
		for by := range strings.FieldsSeq(importers) {
			if match("internal/testing/*", pkg) != "" && match("test/* internal/testing/*", by) == "" {
				t.Errorf("%s may import %s, which is for tests: remove the permission", by, pkg)
			}
			if !used[[2]string{pkg, by}] {
				t.Errorf("%s does not import %s: remove the permission", by, pkg)
			}
		}
	}
}

// match is the first of the patterns that means a package, or "".
func match(patterns, pkg string) string {
	for p := range strings.FieldsSeq(patterns) {
		if ok, _ := path.Match(p, pkg); ok {
			return p
		}
	}
	return ""
}

type listed struct {
	ImportPath                         string
	Imports, TestImports, XTestImports []string
}

// list is what `go list` knows of the packages of this module.
func list(t *testing.T) []listed {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "list", "-json=ImportPath,Imports,TestImports,XTestImports", "./...")
	cmd.Dir = repo
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	var all []listed
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var p listed
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
}
