package framing

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"io"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/flowd-io/flowd/internal/formats/codec"
)

// framings are all of them, by number.
var framings = []Framing{
	{}, {Whole: &Plain{}}, {JSON: &Plain{}}, {CSV: &csvDefaults}, {Delimiter: ptr("ab")}, {Length: ptr(2)},
	{Start: regexp.MustCompile(`^\d`)}, {Messages: &Plain{}}, {Tar: &Plain{}}, {CSV: &CSV{Delimiter: ";"}},
}

// FuzzReader checks of every framing that it never panics, always ends, keeps to its limit,
// and finds the same however the data arrives.
func FuzzReader(f *testing.F) {
	f.Add(0, 5, []byte("a\r\n\nbb\n"))
	f.Add(1, 5, []byte("all of it"))
	f.Add(2, 50, []byte(`[{"a":"\""}, 2] `))
	f.Add(2, 50, []byte(`{"a":[1}} 2`))
	f.Add(3, 50, []byte("a,b\n1,\"x\n\"\"y\"\n2,\n"))
	f.Add(4, 50, []byte("xabyaab"))
	f.Add(5, 50, []byte("\x00\x01a\xff\xffb"))
	f.Add(6, 50, []byte("1 a\n b\n2 c"))
	f.Add(7, 50, []byte(`{"payload":"x","meta":{"a":{"$time":"2026-01-02T03:04:05Z"}}}`))
	f.Add(8, 5, tarOf(tarFile{"a.txt", "hello world"}, tarFile{"b", ""}))
	f.Add(9, 50, []byte("1;\"2\";3\n\"\n"))
	f.Add(0, 5, bytes.Repeat([]byte("x"), 5000))
	f.Add(2, 999, bytes.Repeat([]byte("["), 5000))
	f.Add(2, 999, bytes.Repeat([]byte("{}]"), 500))
	f.Add(3, 999, []byte("a,b\n\"x"+strings.Repeat("\n", 5000)))
	f.Add(3, 999, []byte(strings.Repeat("h", 500)+"\n"+strings.Repeat("1\n", 500)))
	f.Add(5, 999, []byte("\xff\xff"+strings.Repeat("x", 5000)))
	f.Add(7, 999, []byte(`{"payload":`+strings.Repeat("[", 5000)))
	f.Add(8, 999, tarOf(tarFile{"../../etc/passwd", strings.Repeat("x", 5000)})[:700])
	f.Fuzz(func(t *testing.T, kind, limit int, data []byte) {
		framing := framings[uint(kind)%uint(len(framings))]
		limit = 1 + int(uint(limit)%1000)
		read := func(r io.Reader) (all []string, lines []int) {
			in := config(framing, limit).Reader(r)
			for {
				rec, err := in.Next()
				if errors.Is(err, io.EOF) {
					return all, lines
				}
				if err != nil {
					t.Fatal(err)
				}
				if framing.CSV == nil && len(rec.Body) > limit {
					t.Fatalf("a record of %d bytes, the limit is %d", len(rec.Body), limit)
				}
				text := show(rec)
				if rec.Err != nil { // its text counts line ends that reads may part
					text = "!" + string(rec.Err.Class)
				}
				all, lines = append(all, text), append(lines, rec.Line)
				if len(all) > len(data)+2 {
					t.Fatal("there is no end to it")
				}
			}
		}
		whole, wholeLines := read(bytes.NewReader(data))
		bytewise, byteLines := read(iotest.OneByteReader(bytes.NewReader(data)))
		if !slices.Equal(whole, bytewise) {
			t.Errorf("at once  %q\nbytewise %q", whole, bytewise)
		}
		if !slices.Equal(wholeLines, byteLines) {
			t.Errorf("at once  %v\nbytewise %v", wholeLines, byteLines)
		}
	})
}

// FuzzLines checks that records and line ends are all that the data has.
func FuzzLines(f *testing.F) {
	f.Add([]byte("a\n\nb\r\nc"))
	f.Fuzz(func(t *testing.T, data []byte) {
		var want []string
		for line := range strings.Lines(string(data)) {
			line = strings.TrimSuffix(strings.TrimSuffix(line, "\n"), "\r")
			if line != "" {
				want = append(want, line)
			}
		}
		got, _ := readAll(t, config(Framing{}, 1<<20), bytes.NewReader(data))
		if !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	})
}

// FuzzJSON compares with the standard library's decoder on what that takes.
func FuzzJSON(f *testing.F) {
	f.Add([]byte(`{"a":1} [2] "x" null`))
	f.Add([]byte(`[1, {"b":"]"}]`))
	f.Fuzz(func(t *testing.T, data []byte) {
		var want []string
		d := json.NewDecoder(bytes.NewReader(data))
		for {
			var raw json.RawMessage
			err := d.Decode(&raw)
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil || len(want) == 0 && raw[0] == '[' {
				return // no stream of documents
			}
			want = append(want, string(raw))
		}
		got, _ := readAll(t, config(Framing{JSON: &Plain{}}, 1<<20), bytes.NewReader(data))
		for i := range got {
			if strings.HasPrefix(got[i], "!not a JSON document: ") {
				return // our check is stricter: UTF-8, depth
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	})
}

// FuzzCSVTwice checks that the step decode reads what the framing reads.
func FuzzCSVTwice(f *testing.F) {
	f.Add([]byte("a,b\n\"x\r\ny\",x\"y\n"))
	f.Add([]byte("a,b\r1,2\r"))
	f.Add([]byte("\ufeffa\r\n\n\"1\"\r"))
	f.Add([]byte("\ufeff\"a\n\"\n\"1\"\r"))
	f.Fuzz(func(t *testing.T, data []byte) {
		rows, _ := readAll(t, config(Framing{CSV: &csvDefaults}, 1<<20), bytes.NewReader(data))
		list, err := (&codec.CSV{}).Decode(nil, data)
		if broken := slices.ContainsFunc(rows, func(r string) bool { return r[0] == '!' }); broken || err != nil {
			if !broken && !strings.Contains(err.Error(), "the payload is empty") {
				t.Errorf("only the step refuses it: %v", err)
			} else if err == nil {
				t.Errorf("only the framing refuses it: %q", rows)
			}
			return
		}
		if got := "[" + strings.Join(rows, ",") + "]"; got != string(list) {
			t.Errorf("framing %s, step %s", got, list)
		}
	})
}

// FuzzCSV compares with the standard library's reader on what that takes.
func FuzzCSV(f *testing.F) {
	f.Add([]byte("a,\"b\"\"\n\"\n\nc,\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if bytes.Contains(data, []byte("\r")) || bytes.HasPrefix(data, utf8BOM) {
			return // read by rules of its own there
		}
		r := csv.NewReader(bytes.NewReader(data))
		r.FieldsPerRecord = -1
		rows, err := r.ReadAll()
		if err != nil {
			return
		}
		got, _ := readAll(t, config(Framing{CSV: &CSV{Delimiter: ","}}, 1<<20), bytes.NewReader(data))
		if len(got) != len(rows) {
			t.Fatalf("got %q, want %q", got, rows)
		}
		for i := range rows {
			var cells []string
			if strings.HasPrefix(got[i], "!not CSV: the record is not valid UTF-8") {
				continue
			}
			if err := json.Unmarshal([]byte(got[i]), &cells); err != nil || !slices.Equal(cells, rows[i]) {
				t.Errorf("row %d: got %s, want %q", i, got[i], rows[i])
			}
		}
	})
}
