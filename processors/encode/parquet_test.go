package encode_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/enginetest"
	"github.com/flowd-io/flowd/internal/testing/steptest"
)

func step(schema string) string { return `{"encode": {"parquet": {"schema": ` + schema + `}}}` }

// rowsOf returns the number of rows in the file that a step makes from documents, and the errors of the others.
func rowsOf(t *testing.T, step string, documents ...string) (rows int64, failures []string) {
	t.Helper()
	for _, o := range enginetest.Apply(t, enginetest.New(t, engine.Processors, step), documents...) {
		if o.Fate != "live" {
			failures = append(failures, fmt.Sprintf("%s %s: %v", o.Fate, o.Err.Class, o.Err.Err))
			continue
		}
		f, err := parquet.OpenFile(bytes.NewReader([]byte(o.Body)), int64(len(o.Body)))
		if err != nil {
			t.Fatal(err)
		}
		rows += f.NumRows()
	}
	return rows, failures
}

func TestAMessageThatDoesNotFitAParquetFileFailsAlone(t *testing.T) {
	tests := []struct{ name, schema, document, want string }{
		{"a number as text", `{"a": "text"}`, `{"a":1}`, "a: a number is not text"},
		{"text as a number", `{"a": "int64"}`, `{"a":"1"}`, `a: the text "1" is not int64`},
		{"a fraction as an integer", `{"a": "int64"}`, `{"a":1.5}`, "a: 1.5 is not a whole number"},
		{"33 bits", `{"a": "int32"}`, `{"a":2147483648}`, "a: 2147483648 does not fit 32 bits"},
		{"65 bits", `{"a": "int64"}`, `{"a":9223372036854775808}`, "a: 9223372036854775808 does not fit 64 bits"},
		{"an integer that a double rounds", `{"a": "double"}`, `{"a":9007199254740993}`, "does not fit double exactly"},
		{"a float beyond its range", `{"a": "float"}`, `{"a":1e39}`, "a: 1e39 does not fit float"},
		{"a decimal with too many digits", `{"a": "decimal(4,2)"}`, `{"a":123.4}`, "a: 123.4 has more digits than the column: decimal(4,2)"},
		{"a decimal with too many after the point", `{"a": "decimal(4,2)"}`, `{"a":"1.234"}`, "has more digits"},
		{"not base64", `{"a": "bytes"}`, `{"a":"?"}`, `a: "?" is not base64`},
		{"not a date", `{"a": "date"}`, `{"a":"2026-02-30"}`, `is not a date such as 2026-01-02`},
		{"a timestamp without a zone", `{"a": "timestamp"}`, `{"a":"2026-01-02T03:04:05"}`, "is not a timestamp such as"},
		{"a number as a timestamp", `{"a": "timestamp"}`, `{"a":1767322800}`, "a: a number is not timestamp"},
		{"a timestamp out of range", `{"a": "timestamp(ns)"}`, `{"a":"2300-01-02T03:04:05Z"}`, "the years 1678 to 2261"},
		{"not a UUID", `{"a": "uuid"}`, `{"a":"0198c5a2"}`, "is not a UUID such as"},
		{"a value where a list is", `{"a": ["text"]}`, `{"a":"x"}`, "a: text is not a list"},
		{"an item of a list", `{"a": [{"b": "int64"}]}`, `{"a":[{"b":1},{"b":true}]}`, "a.1.b: true or false is not int64"},
		{"a value of a map", `{"a": {"*": "int64"}}`, `{"a":{"k":1,"l":"x"}}`, "a.l: the text"},
		{"a key that comes twice in a map", `{"a": {"*": "int64"}}`, `{"a":{"k":1,"k":2}}`, "a.k: a key occurs twice"},
		{"a field without a column", `{"a": {"b": "text"}}`, `{"a":{"c":1}}`, `a: field "c" has no column`},
		{"what is required and missing", `{"a": "text required"}`, `{}`, "a: is missing, and required"},
		{"what is required and null", `{"a": ["text required"]}`, `{"a":["x",null]}`, "a.1: is missing, and required"},
		{"one object of a list", `{"a": "int64"}`, `[{"a":1},{"a":"x"}]`, "1.a: the text"},
		{"neither an object nor a list", `{"a": "text"}`, `"x"`, "text is neither an object nor a list of objects"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			good := `{"a":null}`
			if tt.schema == `{"a": "text required"}` {
				good = `{"a":"y"}`
			}
			rows, failures := rowsOf(t, step(tt.schema), good, tt.document, good)
			if rows != 2 || len(failures) != 1 || !strings.HasPrefix(failures[0], "failed permanent: parquet: ") ||
				!strings.Contains(failures[0], tt.want) {
				t.Errorf("%d rows, %q, want 2 and %q", rows, failures, tt.want)
			}
		})
	}
}

func TestParquetFilesOfABatch(t *testing.T) {
	var wide []string
	for i := range 1001 {
		wide = append(wide, fmt.Sprintf(`{"f%d":1}`, i))
	}
	tests := []struct {
		name, step string
		in         []string
		rows       int64
		failure    string
	}{
		{"an object is a row, and so is each object of a list", step(`{"a": "int64"}`), []string{`{"a":1}`, `[{"a":2},{"a":3}]`, `[]`}, 3, ""},
		{"an empty list is no row", step(`{"a": "int64"}`), []string{`[]`}, 0, ""},
		{"what fails is not in a file", step(`{"a": "int64"}`), []string{`[]`, `{"a":true}`}, 0, "a: true or false"},
		{"not a document", `{"encode": "parquet"}`, []string{`{"a":1}`, `{`}, 1, "failed decode: "},
		{"objects without fields have no schema", `{"encode": "parquet"}`, []string{`{}`}, 0, "has no columns"},
		{"an object without fields is a row of others", `{"encode": "parquet"}`, []string{`{}`, `{"a":1}`}, 2, ""},
		{"a document with one column too many", `{"encode": "parquet"}`, wide, 1000, `field "f1000" has no column`},
		{"fields without a column are dropped on request", `{"encode": {"parquet": {"schema": {"a": "int64"}, "drop_unknown": true}}}`,
			[]string{`{"a":1,"b":2}`}, 1, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			rows, failures := rowsOf(t, tt.step, tt.in...)
			if rows != tt.rows || (tt.failure == "") != (len(failures) == 0) || !strings.Contains(strings.Join(failures, ""), tt.failure) {
				t.Errorf("%d rows, %q, want %d and %q", rows, failures, tt.rows, tt.failure)
			}
		})
	}
}

// TestALittleTextIsNotManyValues checks a limit: an item of a list needs a value in each column below it.
func TestALittleTextIsNotManyValues(t *testing.T) {
	var fields []string
	for i := range 500 {
		fields = append(fields, fmt.Sprintf(`"f%d": "int64"`, i))
	}
	rows, failures := rowsOf(t, step(`{"a": [{`+strings.Join(fields, ",")+`}]}`), `{"a":[`+strings.Repeat("{},", 9999)+`{}]}`, `{"a":[{}]}`)
	if rows != 1 || len(failures) != 1 || !strings.Contains(failures[0], "too_large: parquet: a.") {
		t.Errorf("%d rows, %q", rows, failures)
	}
}

func TestParquetSchemasThatAreRefused(t *testing.T) {
	steptest.RunRefused(t, []steptest.Refused{
		{Name: "a type that is not one", Step: step(`{"a": "string"}`), Want: `"string" is not a type`},
		{Name: "a unit that is not one", Step: step(`{"a": "timestamp(s)"}`), Want: "is not a type"},
		{Name: "a decimal with more after the point than digits", Step: step(`{"a": "decimal(2,3)"}`), Want: "is not a decimal"},
		{Name: "a list of two types", Step: step(`{"a": ["text", "int64"]}`), Want: "is a list, not a type"},
		{Name: "a number", Step: step(`{"a": 1}`), Want: "is a number, not a type"},
		{Name: "a column that is named twice", Step: step(`{"a": "text required", "a": "text"}`), Want: "twice"},
		{Name: "nothing", Step: step(`{}`), Want: "expected names and types"},
		{Name: "an unknown compression", Step: `{"encode": {"parquet": {"compression": "lzo"}}}`, Want: "snappy"},
		{Name: "a field", Step: `{"encode": {"parquet": {}, "from": "a"}}`, Want: "made of whole messages"},
	})
	_, failures := steptest.Pipeline{Steps: `[{"encode": "parquet"}]`, In: []string{`{}`}}.Run(t)
	if !strings.Contains(strings.Join(failures, "\n"), "works on whole batches") {
		t.Errorf("outside of a batch: %q", failures)
	}
}

func TestParquetConforms(t *testing.T) {
	steptest.Conforms(t, `{"encode": "parquet"}`, `{"a":1}`, `{"a":2}`)
}
