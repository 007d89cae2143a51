package test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/flowd-io/flowd/internal/components/builds"
)

// componentsOf lists the components of a flowd binary, as KIND NAME.
func componentsOf(t *testing.T, program string) (all []string) {
	t.Helper()
	got := command(t, repo, "", program, "list", "--json")
	got.Want(t, 0)
	var components []struct{ Kind, Name string }
	if err := json.Unmarshal([]byte(got.Stdout), &components); err != nil {
		t.Fatal(err)
	}
	for _, c := range components {
		all = append(all, c.Kind+" "+c.Name)
	}
	return all
}

func wantSize(t *testing.T, program string, most int64) {
	t.Helper()
	info, err := os.Stat(program)
	if err != nil {
		t.Fatal(err)
	}
	if info.Size() > most {
		t.Errorf("%s has %d bytes without symbols, want at most %d", program, info.Size(), most)
	}
}

// TestSlimCompilesLittle keeps README's first command short: it says how much that downloads and how long it takes.
func TestSlimCompilesLittle(t *testing.T) {
	t.Parallel()
	got := command(t, repo, "", "go", "list", "-tags=slim", "-deps", "-f", "{{with .Module}}{{.Path}}{{end}}", "./cmd/flowd")
	got.Want(t, 0)
	own, foreign, modules := 0, 0, map[string]bool{}
	for _, module := range strings.Fields(got.Stdout) {
		if module == "github.com/flowd-io/flowd" {
			own++
			continue
		}
		foreign++
		modules[module] = true
	}
	if own > 175 || foreign > 125 || len(modules) > 34 {
		t.Errorf("a slim build compiles %d packages of this module, and %d packages of %d others, "+
			"want at most 175, and 125 of 34", own, foreign, len(modules))
	}
}

// TestSlimBuild builds with the tag slim, which must leave out the components in builds.Families and no others.
func TestSlimBuild(t *testing.T) {
	t.Parallel()
	slim := filepath.Join(t.TempDir(), "slim")
	within(t, compiling, repo, "", "go", "build", "-tags=scribble,slim", "-o", slim, "./cmd/flowd").Want(t, 0)
	wantSize(t, binary, 110<<20)
	wantSize(t, slim, 32_000_000) // 30 MB before it had the commands that look into a pipeline: try, tap, dlq, eval

	whole, rest := componentsOf(t, binary), componentsOf(t, slim)
	for _, f := range builds.Families {
		for kind, names := range map[string][]string{"input": f.Inputs, "processor": f.Processors, "output": f.Outputs,
			"cache": f.Caches} {
			for _, name := range names {
				c := kind + " " + name
				if !slices.Contains(whole, c) {
					t.Errorf("builds.Families has %s, which the full build lacks", c)
				}
				if slices.Contains(rest, c) {
					t.Errorf("%s is in the family %s, but also in a build without that family", c, f.Name)
				}
				whole = slices.DeleteFunc(whole, func(of string) bool { return of == c })
			}
		}
	}
	if !slices.Equal(whole, rest) {
		t.Errorf("without the families, the full build has\n%q, but the slim build has\n%q", whole, rest)
	}

	const remedy = "(use a whole build, or one with -tags scribble,slim,"
	tells := func(got result, code int, wanted ...string) {
		t.Helper()
		got.Want(t, code)
		for _, want := range wanted {
			if !strings.Contains(got.Stdout, want) {
				t.Errorf("stdout lacks %q:\n%s", want, got.Stdout)
			}
		}
	}
	tells(command(t, repo, "", slim, "list"), 0, "left out of this build",
		"kafka     input kafka, output kafka, flowd queue kafka "+remedy+"kafka)")
	command(t, repo, "", slim, "-c", "examples/quickstart.yaml").Want(t, 0, "quickstart: 200 received")
	command(t, repo, "", slim, "queue", "ls", "sqs://").Want(t, 1, "sqs:// is not part of this build of flowd "+remedy+"aws)")
	command(t, repo, "", slim, "docs", "redis_list").Want(t, 2, `there is no "redis_list" in this build `+remedy+"redis)")
	command(t, repo, "", slim, "worker", "--join", "localhost").Want(t, 2,
		"flowd worker is not part of this build of flowd "+remedy+"nats)")
	command(t, repo, "", slim, "migrate", "benthos", "x.yaml").Want(t, 2,
		"flowd migrate is not part of this build of flowd "+remedy+"migrate)")
	command(t, repo, "", slim, "mcp").Want(t, 2, "flowd mcp is not part of this build of flowd "+remedy+"mcp)")
	command(t, repo, "", slim, "top").Want(t, 2, "flowd top is not part of this build of flowd "+remedy+"top)")
	file := write(t, t.TempDir(), "p.yaml", `
inputs: {in: {kafka: {brokers: [a], topics: [x]}}}
processors:
  - decode: parquet
  - encode: {avro: {registry: r}}
  - decode: {protobuf: {registry: r}}
  - pool: {name: p, workers: remote, do: [{set: {a: 1}}]}
resources:
  tables: {t: {sql: {driver: sqlite, dsn: x, query: y}, key: id}}
service: {cluster: {listen: 127.0.0.1:7000}, metrics: {otlp: {}}, log: {otlp: {}}}
outputs: {out: {s3: {bucket: x, key: y}}}
`)
	tells(command(t, repo, "", slim, "lint", file), 2,
		`inputs.in: unknown input type "kafka" (not part of this build: use a whole build, or one with -tags scribble,slim,kafka)`,
		"parquet is not part of this build of flowd "+remedy+"parquet)",
		"avro is not part of this build of flowd "+remedy+"avro)",
		"protobuf is not part of this build of flowd "+remedy+"protobuf)",
		"service.cluster is not part of this build of flowd "+remedy+"nats)",
		"service.metrics.otlp is not part of this build of flowd "+remedy+"otel)",
		"service.log.otlp is not part of this build of flowd "+remedy+"otel)",
		"sql is not part of this build of flowd "+remedy+"sql)",
		`unknown output type "s3" (not part of this build: use a whole build, or one with -tags scribble,slim,aws)`)
}

// TestMixedBuilds compiles with tags that leave out some families but not others that use them.
func TestMixedBuilds(t *testing.T) {
	t.Parallel()
	for _, tags := range []string{"no_avro,no_aws,no_nats,no_sql", "slim,avro,kafka,sql"} {
		within(t, compiling, repo, "", "go", "build", "-tags=scribble,"+tags, "./inputs", "./outputs", "./processors",
			"./cmd/flowd/cli").Want(t, 0)
	}
}
