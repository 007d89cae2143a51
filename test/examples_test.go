package test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/flowd-io/flowd/engine"
)

// TestExamplesAreClean lints every example on its own, without errors or warnings.
func TestExamplesAreClean(t *testing.T) {
	examples, err := filepath.Glob(filepath.Join(repo, "examples", "*.yaml"))
	if err != nil || len(examples) == 0 {
		t.Fatalf("no examples: %v", err)
	}
	t.Setenv("GITHUB_SECRET", "sesame") // for webhooks.yaml
	for _, e := range examples {
		t.Run(filepath.Base(e), func(t *testing.T) {
			got := flowd(t, repo, "", "lint", e)
			got.Want(t, 0, "0 errors, 0 warnings")
			if got.Stdout != "" {
				t.Error(got.Stdout)
			}
		})
	}
}

// TestExamplesRun runs the examples that need no server, in an empty directory, with the input
// from their comments or a similar one.
func TestExamplesRun(t *testing.T) {
	tests := []struct {
		example string
		stdin   string
		stdout  []string // lines, in any order
	}{
		{"stdin-errors.yaml", `{"status":200}` + "\n" + `{"status":503, "path":"/a"}`,
			[]string{`{"status":503, "path":"/a"}`}},
		{"dead-letter.yaml", `{"total": 25}` + "\nnot json\n" + `{"total": "x"}`,
			[]string{`{"total": 25,"total_eur":23}`}},
		{"split-each.yaml", `{"id": 7, "items": [{"sku": "a", "qty": 2}, {"sku": "b", "qty": 1}]}`,
			[]string{`{"sku": "A", "qty": 2}`}},
		{"batch-archive.yaml", `{"country":"SG","n":1}` + "\n" + `{"country":"DE","n":2}` + "\n" +
			`{"country":"SG","n":3}`, nil},
		{"order.yaml", `{"customer":"a","price":2,"qty":3}`, []string{`{"customer":"a","price":2,"qty":3,"total":6}`}},
		{"dedupe.yaml", `{"id": 1}` + "\n" + `{"id": 2}` + "\n" + `{"id": 1}`, []string{`{"id": 1}`, `{"id": 2}`}},
		{
			"cache.yaml", `{"user": 7, "name": "Kim"}` + "\n" + `{"user": 7, "order": 1}`,
			[]string{`{"user": 7, "name": "Kim"}`, `{"user": {"user": 7, "name": "Kim"}, "order": 1}`},
		},
		{
			"rate_limit.yaml", `{"customer":"a"}` + "\n" + `{"customer":"a"}` + "\n" + `{"customer":"b"}`,
			[]string{`{"customer":"a"}`, `{"customer":"a"}`, `{"customer":"b"}`},
		},
		{
			"csv.yaml", "sku,qty\na-1,3\nb-2,x\n",
			[]string{`{"sku":"a-1","qty":3}`,
				`{"sku":"b-2","qty":null,"problem":"int(): text \"x\" is not a whole number\n  int(qty)\n  ^"}`},
		},
		{"encode.yaml", "H4sIAAAAAAAAA6tWykxRslIw11FQKskvScwBso1rAW6uxCgVAAAA", []string{"7,3"}},
		{"exec.yaml", `{"name": "Ada Lovelace"}`, []string{`{"name": "Countess Lovelace","bytes":29}`}},
		{"formats.yaml", `{"format": "form", "data": "id=7&tag=a&tag=b"}`,
			[]string{`{"data": {"id":7,"tag":["a","b"]},"msgpack":"gqJpZAejdGFnkqFhoWI=","cbor":"omJpZAdjdGFngmFhYWI=","form":"id=7&tag=a&tag=b",` +
				`"ltsv":"id:7\ttag:a\ttag:b","ini":"id = 7\ntag = a\ntag = b\n","toml":"id = 7\ntag = ['a', 'b']\n"}`}},
		{"metric.yaml", `{"country": "SG", "total": 12}` + "\n" + `{"country": "DE", "total": 80}`,
			[]string{`{"country": "DE", "total": 80}`, `{"country": "SG", "total": 12}`}},
		{"parallel.yaml", `{"ip": "192.0.2.7", "user": {"id": 7}}`,
			[]string{`{"ip": "192.0.2.7", "user": {"id": 7,"plan":"free"},"country":"SG"}`}},
		{"pool.yaml", `{"name": "Ada Lovelace"}` + "\n" + `{"name": "Augusta Ada King, Countess of Lovelace"}`,
			[]string{`{"name": "Ada Lovelace","bytes":24,"long":false}`,
				`{"name": "Augusta Ada King, Countess of Lovelace","bytes":50,"long":true}`}},
		{"poll.yaml", "", []string{
			`{"id":1,"source":"bulk"}`, `{"id":1,"source":"critical"}`, `{"id":2,"source":"bulk"}`,
			`{"id":2,"source":"critical"}`,
			`{"id":3,"source":"critical"}`, `{"id":4,"source":"critical"}`, `{"id":5,"source":"critical"}`,
			`{"id":6,"source":"critical"}`,
		}},
		{"redact.yaml", `{"buyer": {"email": "ada@x.org", "phone": "555123"}, "note": "ring twice"}`,
			[]string{`{"buyer": {"email": "***", "phone": "…23"}, "note": null}`}},
		{"sample.yaml", userRequests(20), []string{`{"user":{"id":4}}`}}, // depends on a hash of the id
		{"steps.yaml", `{"kind": "admin", "name": " Kim "}` + "\n" + `{"kind": "test"}`,
			[]string{`{"name": "Kim","role":"owner"}`}},
		{
			"sort.yaml", `{"country":"SG","total":1}` + "\n" + `{"country":"SG","total":9}` + "\n" +
				`{"country":"SG","total":5}` + "\n" + `{"country":"SG","total":7}`,
			[]string{`{"country":"SG","total":5}`, `{"country":"SG","total":7}`, `{"country":"SG","total":9}`},
		},
		{
			"switch.yaml", `{"type":"click","page":"/","x":1}` + "\n" + `{"type":"order","sum":1200}`,
			[]string{`{"type":"click","page":"/"}`, `{"type":"order","total":1200,"vip":true}`},
		},
		{"while.yaml", `{"via": "a", "message": {"via": "b", "message": {"id": 7}}}`,
			[]string{`{"id": 7,"envelopes":2}`}},
		{
			"window.yaml", order("12:00:07", 3) + order("12:00:59", 4) + order("12:01:00", 5) + order("12:05:00", 6) +
				order("12:01:30", 7), // the last order is late
			[]string{total("12:00", 2, 7), total("12:01", 1, 5), total("12:05", 1, 6)},
		},
	}
	for _, tt := range tests {
		t.Run(tt.example, func(t *testing.T) {
			got := flowd(t, t.TempDir(), tt.stdin, "-c", filepath.Join(repo, "examples", tt.example))
			got.Want(t, 0)
			if lines := lines(got.Stdout); !slices.Equal(lines, tt.stdout) {
				t.Errorf("stdout\n%s\nwant\n%s", got.Stdout, strings.Join(tt.stdout, "\n"))
			}
		})
	}
}

// userRequests makes n requests, each of another user.
func userRequests(n int) (all string) {
	for id := range n {
		all += fmt.Sprintf(`{"user":{"id":%d}}`+"\n", id+1)
	}
	return all
}

// order makes an order at a time of day.
func order(at string, total int) string {
	return fmt.Sprintf(`{"customer":"a","total":%d,"created_at":"2026-11-20T%sZ"}`+"\n", total, at)
}

// total makes the sum of the orders in a minute.
func total(minute string, orders, sum int) string {
	return fmt.Sprintf(`{"customer":"a","minute":"2026-11-20T%s:00Z","part":1,"orders":%d,"total":%d}`, minute, orders,
		sum)
}

// TestExamplesInTheRepository runs the examples that read files of the repository.
func TestExamplesInTheRepository(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"access.log", "items.csv", "order.avsc", "order.proto", "order.schema.json"} {
		write(t, dir, filepath.Join("examples", "data", name), read(t, repo, "examples", "data", name))
	}
	got := flowd(t, dir, `{"id": "a", "total": 3}`+"\n"+`{"id": 7}`, "-c",
		filepath.Join(repo, "examples", "validate.yaml"))
	got.Want(t, 0, "missing property 'total'", "1 delivered, 1 dead-lettered")
	if want := `{"id": "a", "total": 3}` + "\n"; got.Stdout != want {
		t.Errorf("validate: stdout %q, want %q", got.Stdout, want)
	}
	got = flowd(t, dir, "", "-c", filepath.Join(repo, "examples", "avro.yaml"))
	got.Want(t, 0)
	want := `{"id":1,"total":12.50,"placed_at":"2026-01-02T15:04:05.123Z","note":null}` + "\n"
	if !strings.Contains(got.Stdout, want) {
		t.Errorf("avro: stdout %q, want %q", got.Stdout, want)
	}
	got = flowd(t, dir, "", "-c", filepath.Join(repo, "examples", "protobuf.yaml"))
	got.Want(t, 0)
	if want := `{"id":1,"total":12.5,"placed_at":"2026-01-02T15:04:05.123Z","status":"PAID","tags":[]}`; !strings.Contains(got.Stdout, want+
		"\n") {
		t.Errorf("protobuf: stdout %q, want %q", got.Stdout, want)
	}

	got = flowd(t, dir, `{"sku": "a-1", "qty": 2}`+"\n"+`{"sku": "c-3", "qty": 1}`, "-c",
		filepath.Join(repo, "examples", "lookup.yaml"))
	got.Want(t, 0)
	if want := `{"sku": "a-1", "qty": 2,"item":{"name":"Hammer","price":12.5,"sku":"a-1"},"total":25}` + "\n" +
		`{"sku": "c-3", "qty": 1,"item":null}` + "\n"; !slices.Equal(lines(got.Stdout), lines(want)) {
		t.Errorf("lookup: stdout %q, want %q", got.Stdout, want)
	}

	got = flowd(t, dir, "the last line\n", "-c", filepath.Join(repo, "examples", "sequence.yaml"))
	got.Want(t, 0)
	if want := read(t, repo, "examples", "data", "access.log") + "the last line\n"; !slices.Equal(lines(got.Stdout),
		lines(want)) {
		t.Errorf("sequence: stdout\n%s", got.Stdout)
	}
}

// TestExamplesSortLargestFirst checks the order of the output of sort.yaml.
func TestExamplesSortLargestFirst(t *testing.T) {
	got := flowd(t, t.TempDir(), `{"country":"SG","total":1}`+"\n"+`{"country":"SG","total":9}`+"\n", "-c",
		filepath.Join(repo, "examples", "sort.yaml"), "-s", "engine.workers=1")
	got.Want(t, 0)
	if want := `{"country":"SG","total":9}` + "\n" + `{"country":"SG","total":1}` + "\n"; got.Stdout != want {
		t.Errorf("stdout %q, want %q", got.Stdout, want)
	}
}

// TestExamplesPassTheirTests runs the tests in the examples.
func TestExamplesPassTheirTests(t *testing.T) {
	examples, err := filepath.Glob(filepath.Join(repo, "examples", "*.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	tested := 0
	for _, e := range examples {
		if !strings.Contains(read(t, e), "\ntests:\n") {
			continue
		}
		tested++
		t.Run(filepath.Base(e), func(t *testing.T) {
			got := flowd(t, repo, "", "test", e)
			got.Want(t, 0, " 0 failed")
			if got.Code != 0 {
				t.Log(got.Stdout)
			}
		})
	}
	if tested == 0 {
		t.Error("no example has tests")
	}
}

// TestExamplesShowEveryComponent checks that each component is in an example.
func TestExamplesShowEveryComponent(t *testing.T) {
	examples, err := filepath.Glob(filepath.Join(repo, "examples", "*.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	folders, err := filepath.Glob(filepath.Join(repo, "examples", "*", "pipeline.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	examples = append(examples, folders...)
	all := ""
	for _, e := range examples {
		all += read(t, e)
	}
	for _, names := range [][]string{engine.Inputs.Names(), engine.Processors.Names(), engine.Batchers.Names(),
		engine.Outputs.Names()} {
		for _, name := range names {
			if name == "pipe" { // needs two files
				continue
			}
			if !regexp.MustCompile(`(?m)(^|[ {])` + name + `:`).MatchString(all) {
				t.Errorf("no example has %s", name)
			}
		}
	}
}

// TestExamplesOfSeveralOutputs checks the files that the examples write.
func TestExamplesOfSeveralOutputs(t *testing.T) {
	tests := []struct {
		example, stdin string
		files          map[string]string // the beginning of each file, by name
	}{
		{"fallback.yaml", `{"id": 1}` + "\n",
			map[string]string{"rest.ndjson": `{"payload":{"id": 1},"meta":{"error_class":"transient",`}},
		{"round_robin.yaml", "1\n2\n3\n4\n", map[string]string{"a.txt": "1\n3\n", "b.txt": "2\n4\n"}},
	}
	for _, tt := range tests {
		t.Run(tt.example, func(t *testing.T) {
			dir := t.TempDir()
			flowd(t, dir, tt.stdin, "-c", filepath.Join(repo, "examples", tt.example)).Want(t, 0)
			for name, want := range tt.files {
				if got := read(t, filepath.Join(dir, name)); !strings.HasPrefix(got, want) {
					t.Errorf("%s:\n%s\nwant\n%s", name, got, want)
				}
			}
		})
	}
	t.Run("partition.yaml", func(t *testing.T) {
		dir := t.TempDir()
		input := ""
		for i := range 20 {
			input += fmt.Sprintf(`{"customer": "c%d", "n": 1}`+"\n"+`{"customer": "c%d", "n": 2}`+"\n", i, i)
		}
		flowd(t, dir, input, "-c", filepath.Join(repo, "examples", "partition.yaml")).Want(t, 0)
		a, b := read(t, filepath.Join(dir, "a.ndjson")), read(t, filepath.Join(dir, "b.ndjson"))
		for i := range 20 {
			first, second := fmt.Sprintf(`{"customer": "c%d", "n": 1}`, i),
				fmt.Sprintf(`{"customer": "c%d", "n": 2}`, i)
			shard := a
			if strings.Contains(b, first) {
				shard = b
			}
			if at, next := strings.Index(shard, first), strings.Index(shard, second); at < 0 || next < at {
				t.Errorf("the messages of c%d are not in order in one file", i)
			}
		}
		if n := strings.Count(a+b, "\n"); n != 40 {
			t.Errorf("%d lines, want 40", n)
		}
	})
}

// lines returns the lines of a text, sorted.
func lines(text string) []string {
	if text == "" {
		return nil
	}
	l := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	slices.Sort(l)
	return l
}

func TestArchiveExampleWritesOneFilePerCountry(t *testing.T) {
	dir := t.TempDir()
	input := `{"country":"SG","n":1}` + "\n" + `{"country":"DE","n":2}` + "\n" + `{"country":"SG","n":3}` + "\n"
	flowd(t, dir, input, "-c", filepath.Join(repo, "examples", "batch-archive.yaml")).Want(t, 0)

	files, err := os.ReadDir(filepath.Join(dir, "lake"))
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, f := range files {
		country, _, _ := strings.Cut(f.Name(), "-")
		got[country] += command(t, dir, "", "gzip", "-dc", filepath.Join("lake", f.Name())).Stdout
	}
	lines := slices.Sorted(strings.Lines(got["SG"])) // without order_by, any order is right
	if want := []string{`{"country":"SG","n":1}` + "\n", `{"country":"SG","n":3}` + "\n"}; !slices.Equal(lines, want) {
		t.Errorf("SG: %q, want %q", lines, want)
	}
	if len(files) != 2 {
		t.Errorf("%d files, want 2: %v", len(files), files)
	}
}
