package archive_test

import (
	"archive/tar"
	"errors"
	"io"
	"strings"
	"testing"

	_ "github.com/flowd-io/flowd/batchers/batch"
	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/enginetest"
	"github.com/flowd-io/flowd/internal/testing/steptest"
	_ "github.com/flowd-io/flowd/processors/archive"
	"github.com/google/go-cmp/cmp"
)

func TestArchive(t *testing.T) {
	steptest.Run(t, []steptest.Case{
		{Name: "lines", Step: `{"archive": "lines"}`, In: []string{`{"a": 1}`, "b\n", ""},
			Want: []string{"{\"a\": 1}\nb\n\n"}},
		{Name: "a payload of several lines is no line", Step: `{"archive": "lines"}`, In: []string{"a\nb", "c"},
			Want: []string{"c\n", "failed permanent: the payload has several lines and is not JSON"}},
		{Name: "one array", Step: `{"archive": "json_array"}`, In: []string{` {"a": 1.0}`, "2"},
			Want: []string{`[{"a": 1.0},2]`}},
		{Name: "what is no document is in no array", Step: `{"archive": "json_array"}`, In: []string{"nope", "2"},
			Want: []string{"[2]", "failed decode: "}},
		{Name: "a table with a header line", Step: `{"archive": "csv"}`,
			In: []string{`{"id":1,"n":"x,y"}`, `{"n":null,"id":2}`}, Want: []string{"id,n\n1,\"x,y\"\n2,\n"}},
		{Name: "a table of named columns", Step: `{"archive": {"csv": {"columns": ["n", "id"], "delimiter": ";"}}}`,
			In: []string{`{"id":1,"n":"x"}`, `{"id":2}`}, Want: []string{"x;1\n;2\n"}},
		{Name: "a field without column fails alone", Step: `{"archive": "csv"}`,
			In:   []string{`{"id":1}`, `{"id":2,"x":3}`, `{"id":4}`},
			Want: []string{"id\n1\n4\n", `failed permanent: csv: field "x" has no column`}},
		{Name: "bytes behind each other", Step: `{"archive": {"concat": {"separator": "--"}}}`,
			In: []string{"a", "", "b"}, Want: []string{"a----b"}},
		{Name: "nothing that fits makes no archive", Step: `{"archive": "json_array"}`, In: []string{"nope"},
			Want: []string{"failed decode: "}},
	})
}

func TestNoMessageBecomesSeveralRecords(t *testing.T) {
	for separator, step := range map[string]string{"\n": `{"archive": "lines"}`, "--": `{"archive": {"concat": {"separator": "--"}}}`} {
		enginetest.Separated(t, separator, func(t *testing.T, payloads ...string) (archive string, failed []*engine.Error) {
			for _, o := range enginetest.Apply(t, enginetest.New(t, engine.Processors, step), payloads...) {
				if o.Fate == "live" {
					archive = o.Body
				} else if o.Err != nil {
					failed = append(failed, o.Err)
				}
			}
			return archive, failed
		})
	}
}

func TestTarHasAFileForEachPayload(t *testing.T) {
	tests := []struct {
		name, step string
		want       []string
	}{
		{"numbered", `{"archive": "tar"}`, []string{`000001={"id":"a"}`, `000002={"id":"b/c"}`}},
		{"named", `{"archive": {"tar": {"name": "x/$(id).json"}}}`,
			[]string{`x/a.json={"id":"a"}`, `x/b/c.json={"id":"b/c"}`}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			out := enginetest.Apply(t, enginetest.New(t, engine.Processors, tt.step), `{"id":"a"}`, `{"id":"b/c"}`)
			if len(out) != 1 || out[0].Fate != "live" {
				t.Fatalf("got %v, want one archive", out)
			}
			if diff := cmp.Diff(tt.want, files(t, out[0].Body)); diff != "" {
				t.Errorf("files (-want +got):\n%s", diff)
			}
		})
	}
}

func files(t *testing.T, archive string) (all []string) {
	t.Helper()
	for r := tar.NewReader(strings.NewReader(archive)); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, h.Name+"="+string(body))
	}
}

func TestANameCantLeadOutOfATar(t *testing.T) {
	p := enginetest.New(t, engine.Processors, `{"archive": {"tar": {"name": "$(id)"}}}`)
	for _, id := range []string{`../x`, `/etc/passwd`, `a/../../x`, `x\u0000`, `a\\b`, `.`, ``, `a//b`, `dir/`} {
		for _, o := range enginetest.Apply(t, p, `{"id":"`+id+`"}`) {
			if o.Fate != "failed" {
				t.Errorf("the name %q is accepted, want a failed message", id)
			}
		}
	}
}

func TestArchiveRefuses(t *testing.T) {
	steptest.RunRefused(t, []steptest.Refused{
		{Name: "no format", Step: `{"archive": {}}`, Want: "lines"},
		{Name: "an unknown format", Step: `{"archive": "zip"}`, Want: "tar"},
		{Name: "a word of peers", Step: `{"archive": "json"}`, Want: "json_array"},
	})
	_, failures := steptest.Pipeline{Steps: `[{"archive": "lines"}]`, In: []string{`{}`}}.Run(t)
	if len(failures) == 0 {
		t.Error("archive is accepted outside of a batch")
	}
}

func TestABatchIsDeliveredAsOneMessage(t *testing.T) {
	bodies, failures := steptest.Pipeline{Batch: `[{"archive": "lines"}]`, In: []string{"a", "b", "c"}}.Run(t)
	if diff := cmp.Diff([]string{"a\nb\nc\n"}, bodies); diff != "" || failures != nil {
		t.Errorf("failures %q, delivered (-want +got):\n%s", failures, diff)
	}
}

func TestArchiveConforms(t *testing.T) {
	for _, format := range []string{"lines", "json_array", "csv", "tar", "concat", "parquet"} {
		t.Run(format, func(t *testing.T) { steptest.Conforms(t, `{"archive": "`+format+`"}`, `{"a":1}`, `{"a":2}`) })
	}
}
