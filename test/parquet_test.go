package test

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/flowd-io/flowd/internal/testing/npm"
	"github.com/google/go-cmp/cmp"
)

// duckdbDir returns a directory with DuckDB for Node, which npm installs into the user's cache once.
var duckdbDir = sync.OnceValues(func() (string, error) { return npm.Install("@duckdb/node-api@1.5.6-r.1") })

const duckdbProgram = `
import { DuckDBInstance } from '@duckdb/node-api';
const c = await (await DuckDBInstance.create(':memory:')).connect();
for (const q of process.argv.slice(1)) {
  const r = await c.runAndReadAll(q);
  for (const row of r.getRowObjectsJson()) console.log(JSON.stringify(row));
}
`

// duckdb runs queries, and returns the rows as lines of JSON in which numbers of 64 bits and more are strings. It skips the
// test if DuckDB can't be installed.
func duckdb(t *testing.T, queries ...string) []string {
	t.Helper()
	dir, err := duckdbDir()
	if err != nil {
		t.Skipf("SKIPPED: no DuckDB to read Parquet with: %v (install Node 20 or newer with npm)", err)
	}
	args := append([]string{"TZ=UTC", "node", "--input-type=module", "--eval", duckdbProgram, "--"}, queries...)
	got := command(t, dir, "", "env", args...)
	got.Want(t, 0)
	return strings.Split(strings.TrimSuffix(got.Stdout, "\n"), "\n")
}

// encodeParquet makes flowd write lines to a file, with a configuration of `encode: parquet`.
func encodeParquet(t *testing.T, config string, lines ...string) (file string) {
	t.Helper()
	dir := t.TempDir()
	file = filepath.Join(dir, "out.parquet")
	pipeline := fmt.Sprintf(`{"inputs": {"in": {"stdin": {}}},
		"batchers": {"b": {"batch": {"size": 10000, "timeout": "1m"}, "processors": [{"encode": {"parquet": %s}}], "output": "out"}},
		"outputs": {"out": {"file": {"path": %q, "framing": "whole"}}},
		"engine": {"order_by": "\"all\""}}`, config, file)
	path := filepath.Join(dir, "p.yaml")
	if err := os.WriteFile(path, []byte(pipeline), 0o600); err != nil {
		t.Fatal(err)
	}
	flowd(t, dir, strings.Join(lines, "\n")+"\n", "-c", path).Want(t, 0)
	return file
}

// allTypes has a column of each type.
const allTypes = `{"compression": "zstd", "schema": {"id": "int64 required", "i": "int32", "b": "bool", "f": "float", "d": "double",
	"t": "text", "x": "bytes", "j": "json", "small": "decimal(9,2)", "mid": "decimal(18,0)", "wide": "decimal(38,10)", "day": "date",
	"ms": "timestamp(ms)", "us": "timestamp", "ns": "timestamp(ns)", "u": "uuid", "l": ["int64"], "ll": [["text"]],
	"m": {"*": "double"}, "o": {"a": "int32", "s": [{"k": "text required", "v": {"*": ["int32"]}}]}}}`

const full = `{"id":9223372036854775807,"i":-2147483648,"b":true,"f":0.1,"d":0.1,"t":"a\u00e9\n","x":"AAH/","j":{"k":[1,2.50]},` +
	`"small":-1234567.89,"mid":"999999999999999999","wide":-1234567890123456789012345678.0123456789,"day":"1969-12-31",` +
	`"ms":"1969-12-31T23:59:59.999Z","us":"2026-01-02T04:04:05.123456+01:00","ns":"2026-01-02T03:04:05.123456789Z",` +
	`"u":"0198c5a2-7e4f-7cc3-98c4-dc0c0c07398f","l":[1,null,3],"ll":[["a"],[],null,["b","c"]],"m":{"x":1.5,"y":null},` +
	`"o":{"a":7,"s":[{"k":"k1","v":{"p":[1,2],"q":[],"r":null}},{"k":"k2"}]}}`

func TestDuckDBReadsParquet(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, config string
		lines        []string
		queries      []string // of FILE
		want         []string
	}{
		{
			"a given schema", allTypes,
			[]string{full, `{"id":1}`, `{"id":2,"l":[],"ll":[],"m":{},"o":{"s":[]}}`},
			[]string{"SELECT string_agg(column_type, ' ') AS t FROM (DESCRIBE FROM FILE)", "FROM FILE"},
			[]string{
				`{"t":"BIGINT INTEGER BOOLEAN FLOAT DOUBLE VARCHAR BLOB JSON DECIMAL(9,2) DECIMAL(18,0) DECIMAL(38,10) DATE ` +
					`TIMESTAMP WITH TIME ZONE TIMESTAMP WITH TIME ZONE TIMESTAMP WITH TIME ZONE UUID BIGINT[] VARCHAR[][] ` +
					`MAP(VARCHAR, DOUBLE) STRUCT(a INTEGER, s STRUCT(k VARCHAR, v MAP(VARCHAR, INTEGER[]))[])"}`,
				`{"id":"9223372036854775807","i":-2147483648,"b":true,"f":0.10000000149011612,"d":0.1,"t":"aé\n","x":"\\x00\\x01\\xFF",` +
					`"j":"{\"k\":[1,2.50]}","small":"-1234567.89","mid":"999999999999999999","wide":"-1234567890123456789012345678.0123456789",` +
					`"day":"1969-12-31","ms":"1969-12-31 23:59:59.999+00","us":"2026-01-02 03:04:05.123456+00",` +
					`"ns":"2026-01-02 03:04:05.123456+00","u":"0198c5a2-7e4f-7cc3-98c4-dc0c0c07398f","l":["1",null,"3"],` +
					`"ll":[["a"],[],null,["b","c"]],"m":[{"key":"x","value":1.5},{"key":"y","value":null}],` +
					`"o":{"a":7,"s":[{"k":"k1","v":[{"key":"p","value":[1,2]},{"key":"q","value":[]},{"key":"r","value":null}]},{"k":"k2","v":null}]}}`,
				`{"id":"1","i":null,"b":null,"f":null,"d":null,"t":null,"x":null,"j":null,"small":null,"mid":null,"wide":null,"day":null,` +
					`"ms":null,"us":null,"ns":null,"u":null,"l":null,"ll":null,"m":null,"o":null}`,
				`{"id":"2","i":null,"b":null,"f":null,"d":null,"t":null,"x":null,"j":null,"small":null,"mid":null,"wide":null,"day":null,` +
					`"ms":null,"us":null,"ns":null,"u":null,"l":[],"ll":[],"m":[],"o":{"a":null,"s":[]}}`,
			},
		},
		{
			"an inferred schema", `{}`,
			[]string{
				`{"id":1,"n":1,"mixed":1,"deep":{"l":[{"a":1},{"b":"x"}],"none":{}},"nothing":null}`,
				`{"id":9007199254740993,"n":2.5,"mixed":"x","deep":{"l":[]},"big":123456789012345678901234567890}`,
			},
			[]string{"SELECT string_agg(column_name || ' ' || column_type, ', ') AS t FROM (DESCRIBE FROM FILE)", "FROM FILE"},
			[]string{
				`{"t":"id BIGINT, n DOUBLE, mixed JSON, deep STRUCT(l STRUCT(a BIGINT, b VARCHAR)[], \"none\" JSON), nothing VARCHAR, big JSON"}`,
				`{"id":"1","n":1,"mixed":"1","deep":{"l":[{"a":"1","b":null},{"a":null,"b":"x"}],"none":"{}"},"nothing":null,"big":null}`,
				`{"id":"9007199254740993","n":2.5,"mixed":"\"x\"","deep":{"l":[],"none":null},"nothing":null,"big":"123456789012345678901234567890"}`,
			},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			file := encodeParquet(t, tt.config, tt.lines...)
			for i, q := range tt.queries {
				tt.queries[i] = strings.ReplaceAll(q, "FILE", "'"+file+"'")
			}
			if diff := cmp.Diff(tt.want, duckdb(t, tt.queries...)); diff != "" {
				t.Errorf("rows (-want +got):\n%s", diff)
			}
		})
	}
}

func TestRowGroupsAndCompressions(t *testing.T) {
	t.Parallel()
	var lines []string
	for i := range 1050 {
		lines = append(lines, fmt.Sprintf(`{"id":%d,"word":"w%d","tags":["a","b%d"]}`, i, i%7, i%3))
	}
	for name, called := range map[string]string{"snappy": "SNAPPY", "zstd": "ZSTD", "gzip": "GZIP", "none": "UNCOMPRESSED"} {
		t.Run(name, func(t *testing.T) {
			file := encodeParquet(t, `{"row_group": 500, "compression": "`+name+`"}`, lines...)
			got := duckdb(t,
				"SELECT count(*)::INT AS n, sum(id)::INT AS ids, count(DISTINCT word)::INT AS words, sum(len(tags))::INT AS tags FROM '"+file+"'",
				"SELECT DISTINCT row_group_id::INT AS g, row_group_num_rows::INT AS n, compression FROM parquet_metadata('"+file+"') ORDER BY g")
			want := []string{`{"n":1050,"ids":550725,"words":7,"tags":2100}`, `{"g":0,"n":500,"compression":"` + called + `"}`,
				`{"g":1,"n":500,"compression":"` + called + `"}`, `{"g":2,"n":50,"compression":"` + called + `"}`}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestParquetExample(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "orders"), 0o700); err != nil {
		t.Fatal(err)
	}
	orders := `{"id":1,"at":"2026-01-02T10:00:00Z","tenant":"a","total":12.5,"items":[{"sku":"x","qty":2},{"sku":"y","qty":1}]}
{"id":2,"at":"2026-01-03T10:00:00Z","tenant":"b","total":7}
{"id":3,"at":"2026-01-02T11:00:00Z","tenant":"a","total":1.999}
`
	if err := os.WriteFile(filepath.Join(dir, "orders", "1.ndjson"), []byte(orders), 0o600); err != nil {
		t.Fatal(err)
	}
	flowd(t, dir, "", "-c", filepath.Join(repo, "examples", "parquet.yaml")).Want(t, 0,
		"parquet: total: 1.999 has more digits than the column: decimal(12,2)")
	misfits, err := os.ReadFile(filepath.Join(dir, "misfits.ndjson"))
	if err != nil || strings.Count(string(misfits), "\n") != 1 || !strings.Contains(string(misfits), `"payload":{"id":3,`) {
		t.Errorf("the rejected messages are %s (error %v)", misfits, err)
	}
	got := duckdb(t, "SELECT day, tenant, id, total, list_sum(list_transform(items, lambda i: i.qty))::INT AS qty FROM '"+dir+
		"/lake/**/*.parquet' ORDER BY id")
	want := []string{`{"day":"2026-01-02","tenant":"a","id":"1","total":"12.50","qty":3}`,
		`{"day":"2026-01-03","tenant":"b","id":"2","total":"7.00","qty":null}`}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestFlowdReadsWhatDuckDBWrites covers DuckDB's types, encodings, compressions and row groups.
func TestFlowdReadsWhatDuckDBWrites(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	const rows = 5000
	table := fmt.Sprintf(`SELECT i AS id, (i%%3=0)::BOOL AS b, CASE WHEN i%%5=0 THEN NULL ELSE i::INT-7 END AS n, 'word ' || (i%%100) AS w,
		'unique ' || i AS u, i/8.0 AS d, (i/8.0)::FLOAT AS f, (i*1.01)::DECIMAL(18,2) AS dec, (i::HUGEINT*1000000007)::DECIMAL(38,3) AS wide,
		DATE '1960-01-01' + i::INT AS day, TIMESTAMP '1960-01-01 00:00:00.5' + INTERVAL (i) SECOND AS ts,
		TIMESTAMPTZ '2026-01-01 00:00:00+00' + INTERVAL (i) SECOND AS tz, TIME '01:02:03.5' AS t,
		'0198c5a2-7e4f-7cc3-98c4-dc0c0c07398f'::UUID AS uid, (i%%200)::UTINYINT AS ut, (18446744073709551615::UBIGINT - i::UBIGINT) AS ub,
		[i, NULL, i+1] AS l, CASE WHEN i%%4=0 THEN [] ELSE [{'a': i, 'b': ['x', NULL]}, NULL] END AS ls, MAP {'k' || (i%%3): i} AS m,
		MAP {i: 'v'} AS mi, {'p': {'q': CASE WHEN i%%2=0 THEN i END}} AS s, NULL::INT AS nothing, '\x00\xFF'::BLOB AS bl,
		('{"k": [' || i || ']}')::JSON AS j, INTERVAL (i) DAY AS iv FROM (SELECT unnest(range(%d)) i)`, rows)
	var queries, files []string
	for _, version := range []string{"V1", "V2"} {
		for _, method := range []string{"snappy", "gzip", "zstd", "lz4_raw", "brotli", "uncompressed"} {
			file := filepath.Join(dir, version+method+".parquet")
			files = append(files, file)
			queries = append(queries, fmt.Sprintf("COPY (%s) TO '%s' (FORMAT parquet, COMPRESSION %s, PARQUET_VERSION %s, ROW_GROUP_SIZE 2048)",
				table, file, method, version))
		}
	}
	duckdb(t, queries...)
	var want strings.Builder
	for i := range rows {
		n, ls, q := fmt.Sprint(i-7), fmt.Sprintf(`[{"a":%d,"b":["x",null]},null]`, i), "null"
		if i%5 == 0 {
			n = "null"
		}
		if i%4 == 0 {
			ls = "[]"
		}
		if i%2 == 0 {
			q = fmt.Sprint(i)
		}
		eighths, _ := json.Marshal(float64(i) / 8)
		second := time.Unix(int64(i), 0).UTC()
		fmt.Fprintf(&want,
			`{"id":%d,"b":%t,"n":%s,"w":"word %d","u":"unique %d","d":%s,"f":%s,"dec":%d.%02d,"wide":%d.000,"day":%q,"ts":%q,"tz":%q,`+
				`"t":"01:02:03.5","uid":"0198c5a2-7e4f-7cc3-98c4-dc0c0c07398f","ut":%d,"ub":%d,"l":[%d,null,%d],"ls":%s,"m":{"k%d":%d},`+
				`"mi":{"%d":"v"},`+
				`"s":{"p":{"q":%s}},"nothing":null,"bl":"AP8=","j":{"k": [%d]},"iv":{"months":0,"days":%d,"milliseconds":0}}`+"\n",
			i, i%3 == 0, n, i%100, i, eighths, eighths, i*101/100, i*101%100, i*1000000007,
			time.Date(1960, 1, 1+i, 0, 0, 0, 0, time.UTC).Format(time.DateOnly), second.AddDate(-10, 0, 0).Format("2006-01-02T15:04:05")+".5",
			second.AddDate(56, 0, 0).Format(time.RFC3339), i%200, math.MaxUint64-uint64(i), i, i+1, ls, i%3, i, i, q, i, i)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			if got := decodeParquet(t, file); got != want.String() {
				t.Errorf("%s", cmp.Diff(strings.Split(want.String(), "\n")[:3], strings.Split(got, "\n")[:min(3, strings.Count(got, "\n"))]))
			}
		})
	}
}

// decodeParquet reads a Parquet file with flowd, and returns a line for each row.
func decodeParquet(t *testing.T, file string) string {
	t.Helper()
	dir := t.TempDir()
	path := filepath.Join(dir, "p.yaml")
	pipeline := fmt.Sprintf(`{"inputs": {"in": {"file": {"path": %q, "framing": "whole", "max_record": "64MiB"}}},
		"processors": [{"decode": "parquet"}, {"split": this}], "outputs": {"out": {"stdout": {}}}, "engine": {"workers": 1}}`, file)
	if err := os.WriteFile(path, []byte(pipeline), 0o600); err != nil {
		t.Fatal(err)
	}
	got := flowd(t, dir, "", "-c", path)
	got.Want(t, 0)
	return got.Stdout
}

func TestFlowdReadsTheParquetThatItWrites(t *testing.T) {
	t.Parallel()
	want := strings.NewReplacer(`"mid":"999999999999999999"`, `"mid":999999999999999999`, `2026-01-02T04:04:05.123456+01:00`,
		`2026-01-02T03:04:05.123456Z`, `\u00e9`, "\u00e9", `{"k":"k2"}`, `{"k":"k2","v":null}`).Replace(full) + "\n"
	if diff := cmp.Diff(want, decodeParquet(t, encodeParquet(t, allTypes, full))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
