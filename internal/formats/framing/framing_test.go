package framing

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/schema"
)

func ptr[T any](v T) *T { return &v }

func config(f Framing, limit int) *Config { return &Config{f, schema.Size(limit)} }

var csvDefaults = CSV{Delimiter: ",", Header: true}

// got is a record as tests write it: the body, or "!error: head of the body".
func show(rec Record) string {
	if rec.Err != nil {
		return fmt.Sprintf("!%s: %s", rec.Err, rec.Body)
	}
	return string(rec.Body)
}

func readAll(t testing.TB, c *Config, r io.Reader) (records []string, lines []int) {
	t.Helper()
	in := c.Reader(r)
	for {
		rec, err := in.Next()
		if errors.Is(err, io.EOF) {
			return records, lines
		}
		if err != nil {
			t.Fatal(err)
		}
		if rec.Err != nil && rec.Err.Class != engine.Decode {
			t.Errorf("class %q, want decode", rec.Err.Class)
		}
		if long := rec.Err != nil && strings.Contains(rec.Err.Error(),
			"longer than max_record"); long != (rec.Size > int64(len(rec.Body))) {
			t.Errorf("%s: size %d", show(rec), rec.Size)
		}
		records, lines = append(records, show(rec)), append(lines, rec.Line)
	}
}

// wayOut is how errors of a CSV header end.
const wayOut = " (name all with `columns`; the header is then a row, which `filter: meta(\"line\") > 1` drops)"

func TestReader(t *testing.T) {
	const cap10 = 10
	tests := []struct {
		name  string
		f     Framing
		max   int
		in    string
		want  []string
		lines []int
	}{
		{"lines end with a line feed or both characters", Framing{}, 0, "a\nb\r\nc\n", []string{"a", "b", "c"},
			[]int{1, 2, 3}},
		{"the last line needs no line feed", Framing{}, 0, "a\nb", []string{"a", "b"}, []int{1, 2}},
		{"empty lines are not records but are counted", Framing{}, 0, "\n\na\n\r\n\nb\n", []string{"a", "b"},
			[]int{3, 6}},
		{"an empty stream has no lines", Framing{}, 0, "", nil, nil},
		{"a line that is too long is cut and the stream goes on", Framing{}, cap10,
			"a\n" + strings.Repeat("x", 25) + "\nb\n",
			[]string{"a", "!record of 25 bytes is longer than max_record (10 bytes): xxxxxxxxxx", "b"}, []int{1, 2, 3}},
		{"a line of just the size allowed is whole", Framing{}, cap10, "0123456789\r\n0123456789",
			[]string{"0123456789", "0123456789"}, []int{1, 2}},
		{"a much too long line at the end is one record", Framing{}, cap10, "a\n" + strings.Repeat("x", 5000),
			[]string{"a", "!record of 5000 bytes is longer than max_record (10 bytes): xxxxxxxxxx"}, []int{1, 2}},

		{"whole takes everything", Framing{Whole: &Plain{}}, 0, "a\n\nb\n", []string{"a\n\nb\n"}, []int{1}},
		{"whole of nothing is an empty record", Framing{Whole: &Plain{}}, 0, "", []string{""}, []int{1}},
		{"whole has a limit, too", Framing{Whole: &Plain{}}, cap10, strings.Repeat("x", 1000),
			[]string{"!record of 1000 bytes is longer than max_record (10 bytes): xxxxxxxxxx"}, []int{1}},

		{"a delimiter may be several bytes", Framing{Delimiter: ptr("--")}, 0, "a-b--c\n--d",
			[]string{"a-b", "c\n", "d"}, []int{1, 2, 3}},
		{"a half delimiter belongs to the record", Framing{Delimiter: ptr("ab")}, 0, "xaabya", []string{"xa", "ya"},
			[]int{1, 2}},
		{"a record between delimiters has a limit", Framing{Delimiter: ptr("--")}, cap10,
			strings.Repeat("y", 700) + "--b",
			[]string{"!record of 700 bytes is longer than max_record (10 bytes): yyyyyyyyyy", "b"}, []int{1, 2}},

		{"a length stands in front", Framing{Length: ptr(2)}, 0, "\x00\x02hi\x00\x00\x00\x01x", []string{"hi", "", "x"},
			[]int{1, 2, 3}},
		{"a record shorter than its length is broken", Framing{Length: ptr(4)}, 0,
			"\x00\x00\x00\x01a\x00\x00\x00\x05ab",
			[]string{"a", "!record is cut off: it has 2 of 5 bytes: ab"}, []int{1, 2}},
		{"a length without a record is broken", Framing{Length: ptr(1)}, 0, "\x05",
			[]string{"!record is cut off: it has 0 of 5 bytes: "}, []int{1}},
		{"half a length is broken", Framing{Length: ptr(4)}, 0, "\x00\x00",
			[]string{"!length of a record is cut off: it has 2 of 4 bytes: \x00\x00"}, []int{1}},
		{"an absurd length takes no memory", Framing{Length: ptr(8)}, 0, "\x7f\xff\xff\xff\xff\xff\xff\xffabc",
			[]string{"!record is cut off: it has 3 of 9223372036854775807 bytes: abc"}, []int{1}},
		{"a longer record is skipped by its length", Framing{Length: ptr(2)}, cap10,
			"\x02\x00" + strings.Repeat("z", 512) + "\x00\x01b",
			[]string{"!record of 512 bytes is longer than max_record (10 bytes): zzzzzzzzzz", "b"}, []int{1, 2}},

		{"a record begins at each match", Framing{Start: regexp.MustCompile(`^\d`)}, 0, "1 a\n  at x\r\n2 b\n3 c",
			[]string{"1 a\n  at x", "2 b", "3 c"}, []int{1, 3, 4}},
		{"what stands before the first match is a record", Framing{Start: regexp.MustCompile(`^\d`)}, 0, "head\n1 a\n",
			[]string{"head", "1 a"}, []int{1, 2}},
		{"a record of many lines has a limit", Framing{Start: regexp.MustCompile(`^>`)}, cap10,
			">a\n" + strings.Repeat("trace\n", 100) + ">b\n" + strings.Repeat("w", 900) + "\n>c",
			[]string{"!record of 603 bytes is longer than max_record (10 bytes): >a\ntrace\nt",
				"!record of 904 bytes is longer than max_record (10 bytes): >b\nwwwwwww", ">c"}, []int{1, 102, 104}},

		{"json documents follow each other", Framing{JSON: &Plain{}}, 0, "{\"a\":[1,2]} {\"b\":\"}\\\"\"}\n3 \"x\"null",
			[]string{`{"a":[1,2]}`, `{"b":"}\""}`, "3", `"x"`, "null"}, []int{1, 2, 3, 4, 5}},
		{"the elements of one array", Framing{JSON: &Plain{}}, 0, " [ {\"a\":1} ,\n[2], 3]\n",
			[]string{`{"a":1}`, "[2]", "3"}, []int{1, 2, 3}},
		{"an empty array has no elements", Framing{JSON: &Plain{}}, 0, "[]", nil, nil},
		{"a byte order mark in front of lines is skipped", Framing{}, 0, "\ufeffa\n\ufeffb", []string{"a", "\ufeffb"},
			[]int{1, 2}},
		{"a byte order mark is skipped", Framing{JSON: &Plain{}}, 0, "\ufeff{}", []string{"{}"}, []int{1}},
		{"a document that is none fails alone", Framing{JSON: &Plain{}}, 0, `{"a":tru} {"b":1}`,
			[]string{`!not a JSON document: expected true at byte 5: {"a":tru}`, `{"b":1}`}, []int{1, 2}},
		{"behind a bracket that closes nothing all is lost", Framing{JSON: &Plain{}}, 0, `{"a":1}} {"b":2}`,
			[]string{`{"a":1}`,
				`!not JSON: unexpected '}' where a JSON value begins, at byte 7 of the stream; what follows can't be read: } {"b":2}`}, []int{1, 2}},
		{"brackets of two kinds don't match", Framing{JSON: &Plain{}}, 0, `1 {"a":[1} {}`,
			[]string{"1",
				`!not JSON: '}' closes '[', at byte 9 of the stream; what follows can't be read: {"a":[1} {}`},
			[]int{1, 2}},
		{"a document may be cut off", Framing{JSON: &Plain{}}, 0, `{} {"a":`,
			[]string{"{}", `!not JSON: the document is cut off at byte 8 of the stream: {"a":`}, []int{1, 2}},
		{"an array may be cut off", Framing{JSON: &Plain{}}, 0, `[1,2`,
			[]string{"1", "2", `!not JSON: the array is cut off at byte 4 of the stream: `}, []int{1, 2, 3}},
		{"a comma too many is an error", Framing{JSON: &Plain{}}, 0, `[1,,2]`,
			[]string{"1",
				`!not JSON: unexpected ',' where a JSON value begins, at byte 3 of the stream; what follows can't be read: ,2]`}, []int{1, 2}},
		{"arrays line by line are something else", Framing{JSON: &Plain{}}, 0, "[1]\n[2]",
			[]string{"1",
				"!not JSON: unexpected '[' after the array: only one array is read (for one array per line use framing lines), at byte 4 of the " +
					"stream; what follows can't be read: [2]"}, []int{1, 2}},
		{"a document that is too long is skipped", Framing{JSON: &Plain{}}, cap10,
			`{"a":"` + strings.Repeat("v", 600) + `"} {"b":2}`,
			[]string{`!record of 608 bytes is longer than max_record (10 bytes): {"a":"vvvv`, `{"b":2}`}, []int{1, 2}},

		{"csv rows become objects", Framing{CSV: &csvDefaults}, 0, "id,\"na me\"\r\n1,\"a, \"\"b\"\"\nc\"\n\n2,x\"y\n",
			[]string{`{"id":"1","na me":"a, \"b\"\nc"}`, `{"id":"2","na me":"x\"y"}`}, []int{2, 5}},
		{"csv may have another delimiter and no header", Framing{CSV: &CSV{Delimiter: ";"}}, 0, "1;;\"\"\n",
			[]string{`["1","",""]`}, []int{1}},
		{"csv columns may be given", Framing{CSV: &CSV{Delimiter: ",", Header: true, Columns: []string{"a", "b"}}}, 0,
			"1,2", []string{`{"a":"1","b":"2"}`}, []int{1}},
		{"a row of other length fails alone", Framing{CSV: &csvDefaults}, 0, "a,b\n1\n2,3\n",
			[]string{"!CSV row has 1 fields, the header 2: 1", `{"a":"2","b":"3"}`}, []int{2, 3}},
		{"text behind a quoted field fails alone", Framing{CSV: &csvDefaults}, 0, "a\n\"x\"y\nz\n",
			[]string{"!not CSV: field 1: text follows its closing quote: \"x\"y", `{"a":"z"}`}, []int{2, 3}},
		{"an open quote swallows the rest", Framing{CSV: &csvDefaults}, 0, "a\n1\n\"x\ny\n",
			[]string{`{"a":"1"}`, "!not CSV: a quoted field is not closed: \"x\ny"}, []int{2, 3}},
		{"a header with a name twice is no header", Framing{CSV: &csvDefaults}, 0, "a,a\n1,2\n3,4\n",
			[]string{`!the rows can't be read: CSV header: two columns are named "a"` + wayOut + ": a,a",
				`!the rows can't be read: CSV header: two columns are named "a"` + wayOut + ": 1,2\n3,4\n"}, []int{1, 2}},
		{"a row that is not UTF-8 fails alone", Framing{CSV: &csvDefaults}, 0, "a\n\xff\nb\n",
			[]string{"!not CSV: the record is not valid UTF-8: \xff", `{"a":"b"}`}, []int{2, 3}},

		{"messages carry text, documents and bytes", Framing{Messages: &Plain{}}, 0,
			"{\"payload\":\"a\\nb\"}\n{\"payload\":{\"a\": 1.0},\"meta\":{}}\n{\"payload_base64\":\"//4=\"}\n",
			[]string{"a\nb", `{"a": 1.0}`, "\xff\xfe"}, []int{1, 2, 3}},
		{"what is no message fails alone", Framing{Messages: &Plain{}}, 0,
			"{\"payload\":\"a\",\"x\":1}\n{}\n{\"payload\":\"b\"}\n",
			[]string{`!not a message in the form that framing messages writes: json: unknown field "x": {"payload":"a","x":1}`,
				`!not a message in the form that framing messages writes: it has neither "payload" nor "payload_base64": {}`, "b"}, []int{1, 2, 3}},
	}
	for _, tt := range tests {
		if tt.max == 0 {
			tt.max = 1 << 20
		}
		readers := map[string]func(io.Reader) io.Reader{
			"at once":      func(r io.Reader) io.Reader { return r },
			"byte by byte": iotest.OneByteReader,
			"in halves":    iotest.HalfReader,
			"data and EOF": iotest.DataErrReader,
		}
		for how, wrap := range readers {
			t.Run(tt.name+", read "+how, func(t *testing.T) {
				got, lines := readAll(t, config(tt.f, tt.max), wrap(strings.NewReader(tt.in)))
				if !slices.Equal(got, tt.want) {
					t.Errorf("got  %q\nwant %q", got, tt.want)
				}
				if !slices.Equal(lines, tt.lines) {
					t.Errorf("got lines %v, want %v", lines, tt.lines)
				}
			})
		}
	}
}

func TestRecordsStayAsTheyWereHandedOut(t *testing.T) {
	var in bytes.Buffer
	var want []string
	for i := range 50_000 {
		want = append(want, fmt.Sprintf("line %d %s", i, strings.Repeat("x", i%700)))
		in.WriteString(want[i] + "\n")
	}
	r := config(Framing{}, 1<<20).Reader(iotest.HalfReader(&in))
	var kept [][]byte
	for {
		rec, err := r.Next()
		if err != nil {
			break
		}
		kept = append(kept, rec.Body)
	}
	if len(kept) != len(want) {
		t.Fatalf("got %d records, want %d", len(kept), len(want))
	}
	for i := range kept {
		if string(kept[i]) != want[i] {
			t.Fatalf("record %d changed to %q", i, kept[i])
		}
	}
}

func TestAppendingToARecordSparesTheNext(t *testing.T) {
	r := config(Framing{}, 100).Reader(strings.NewReader("a\nb\n"))
	first, _ := r.Next()
	_ = append(first.Body, "!!!"...)
	if second, _ := r.Next(); string(second.Body) != "b" {
		t.Errorf("got %q, want b", second.Body)
	}
}

func TestAReadErrorEndsTheStream(t *testing.T) {
	broken := errors.New("disk on fire")
	for _, f := range []Framing{{}, {JSON: &Plain{}}, {Whole: &Plain{}}, {Tar: &Plain{}}, {Length: ptr(4)},
		{CSV: &csvDefaults}} {
		r := config(f, 100).Reader(io.MultiReader(strings.NewReader("1"), iotest.ErrReader(broken)))
		if _, err := r.Next(); !errors.Is(err, broken) {
			t.Errorf("got %v, want the disk's error", err)
		}
	}
}

func TestAnEndlessRecordTakesLittleMemory(t *testing.T) {
	endless := io.LimitReader(zeros{}, 1<<30)
	r := config(Framing{}, 1<<20).Reader(endless).(*blocks)
	rec, err := r.Next()
	if err != nil || rec.Err == nil || len(rec.Body) != 1<<20 {
		t.Fatalf("got %d bytes, %v and %v", len(rec.Body), rec.Err, err)
	}
	if len(r.block) > 4<<20 {
		t.Errorf("the block grew to %d bytes", len(r.block))
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }

func TestLinesAllocateNothingEach(t *testing.T) {
	line := strings.Repeat("x", 329) + "\n"
	in := strings.NewReader(strings.Repeat(line, 100_000))
	c := config(Framing{}, 1<<20)
	n := testing.AllocsPerRun(3, func() {
		in.Seek(0, io.SeekStart)
		r := c.Reader(in)
		for {
			if _, err := r.Next(); err != nil {
				break
			}
		}
	})
	// A block of 256 KiB holds 794 lines.
	if n > 100_000/794*1.1+10 {
		t.Errorf("%v allocations for 100,000 lines", n)
	}
}

func BenchmarkLines(b *testing.B) {
	line := strings.Repeat("x", 329) + "\n"
	in := strings.NewReader(strings.Repeat(line, 100_000))
	b.SetBytes(330 * 100_000)
	c := config(Framing{}, 1<<20)
	for b.Loop() {
		in.Seek(0, io.SeekStart)
		r := c.Reader(in)
		for {
			if _, err := r.Next(); err != nil {
				break
			}
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/100_000, "ns/line")
}
