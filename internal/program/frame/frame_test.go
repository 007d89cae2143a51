package frame

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/enginetest"
)

func TestAFrameIsReadAsItWasWritten(t *testing.T) {
	var buf bytes.Buffer
	w := NewWriter(&buf)
	big := bytes.Repeat([]byte("0123456789"), 300_000)
	for _, parts := range [][][]byte{nil, {[]byte("ab"), nil, []byte("c")}, {big}} {
		if err := w.Write([]byte(`{"type":"x"}`), parts...); err != nil {
			t.Fatal(err)
		}
	}
	r := bufio.NewReader(&buf)
	for _, want := range []string{"", "abc", string(big)} {
		f, err := Read(r, len(big))
		if err != nil || string(f.Header) != `{"type":"x"}` || string(f.Body) != want {
			t.Errorf("%q, %.20q, %v", f.Header, f.Body, err)
		}
	}
	if _, err := Read(r, 1); err != io.EOF {
		t.Errorf("at the end: %v", err)
	}
}

func TestAFrameWithoutItsEnd(t *testing.T) {
	whole := "\x00\x00\x00\x02\x00\x00\x00\x01{}x"
	for n := 1; n < len(whole); n++ {
		if _, err := Read(bufio.NewReader(strings.NewReader(whole[:n])), 10); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("%d bytes: %v", n, err)
		}
	}
	for text, want := range map[string]string{
		"\x01\x00\x00\x01\x00\x00\x00\x00": "a header of 16777217 bytes is longer than 16777216",
		"\x00\x00\x00\x02\x00\x00\x00\x0b": "a body of 11 bytes is longer than max_message, 10",
	} {
		if _, err := Read(bufio.NewReader(strings.NewReader(text)), 10); err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// A length that lies costs no memory beyond what has arrived.
func TestALengthClaimsNoMemory(t *testing.T) {
	claim := []byte{0, 0, 0, 2, 0x40, 0, 0, 0, '{', '}'}
	allocated := testing.Benchmark(func(b *testing.B) {
		for range b.N {
			if _, err := Read(bufio.NewReader(bytes.NewReader(claim)), 1<<30); err == nil {
				b.Fatal("it was read")
			}
		}
	}).AllocedBytesPerOp()
	if allocated > 2*step {
		t.Errorf("%d bytes", allocated)
	}
}

func TestABatchHasWhatItsMessagesHave(t *testing.T) {
	b := enginetest.Batch("a", "bcd")
	var all []*engine.Message
	for m := range b.All() {
		all = append(all, m)
	}
	compare := func(want string, spec Batch) {
		t.Helper()
		if got := string(AppendBatch(nil, spec, all)); got != want || !json.Valid([]byte(got)) {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
	compare(`{"type":"batch","batch":7,"sizes":[1,3]}`, Batch{Number: 7})
	all[1].Meta = all[1].Meta.With("s", "ü\x00\"").With("t", time.Unix(0, 0).UTC()).With("bad", func() {})
	all[1].Attempt = 2
	all[0].Fail(engine.Errorf(engine.Rejected, "no"))
	compare(`{"type":"batch","batch":8,"sizes":[1,3],"meta":[{},{"s":"ü\u0000\"","t":"1970-01-01T00:00:00Z"}],"attempts":[0,2],`+
		`"errors":[{"text":"no","class":"rejected"},null],"timeout":1.5}`,
		Batch{Number: 8, Timeout: 1500 * time.Millisecond, DeadLetters: true})
}

func TestResults(t *testing.T) {
	tests := []struct {
		name, header, body string
		want, err          string
	}{
		{"all kinds", `{"type":"results","batch":3,"first":2,"results":[null,2,{"size":1,"meta":{"a":1}},{"drop":true},{"parts":[1,0]}]}`, "abcd",
			`u, "ab", "c" map[a:1], drop, parts ["d" ""]`, ""},
		{"a payload without bytes", `{"type":"results","batch":3,"results":[0]}`, "", `""`, ""},
		{"more than the body", `{"type":"results","batch":3,"results":[3]}`, "ab", "", "say more than the 2 bytes"},
		{"less than the body", `{"type":"results","batch":3,"results":[1]}`, "ab", "", "has 1 bytes more than its sizes say"},
		{"a negative size", `{"type":"results","batch":3,"results":[-1]}`, "ab", "", "say more than the 2 bytes"},
		{"a fraction", `{"type":"results","batch":3,"results":[1.5]}`, "ab", "", "1.5 is not a valid size"},
		{"a text", `{"type":"results","batch":3,"results":["x"]}`, "", "", `"x" is not a valid result`},
		{"a wrong field", `{"type":"results","batch":3,"results":[{"parts":7}]}`, "", "", `"parts" can't be a number`},
		{"no batch", `{"type":"results","batch":"x","results":[]}`, "", "", `batch of a "results" frame is not a valid number: "x"`},
		{"no list", `{"type":"results","batch":3,"results":7}`, "", "", "are not a list"},
		{"too many", `{"type":"results","results":[null` + strings.Repeat(",null", MaxMessages) + `]}`, "", "", "has more than 100000 results"},
		{"no type", `{"batch":3}`, "", "", "the header has no type"},
		{"no object", `[]`, "", "", "the header is not valid"},
		{"not JSON", `{`, "", "", "the header is not valid"},
		{"too deep", `{"type":"results","x":` + strings.Repeat("[", 600) + strings.Repeat("]", 600) + `}`, "", "", "the header is not valid"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s, err := ParseSent(Frame{[]byte(tt.header), []byte(tt.body)})
			var got []string
			if err == nil {
				var results []Result
				_, _, results, err = s.Results()
				for _, r := range results {
					got = append(got, shown(r))
				}
			}
			if tt.err != "" {
				if err == nil || !strings.Contains(err.Error(), tt.err) {
					t.Errorf("got %v, want %s", err, tt.err)
				}
				return
			}
			if text := strings.Join(got, ", "); err != nil || text != tt.want {
				t.Errorf("got %s, %v\nwant %s", text, err, tt.want)
			}
		})
	}
}

// shown describes a result in short.
func shown(r Result) string {
	switch r.Outcome {
	case Unchanged:
		return "u"
	case Dropped:
		return "drop"
	case Split:
		return fmt.Sprintf("parts %q", r.Parts)
	case Failed:
		return r.Err.Error()
	}
	text := ""
	if r.NewPayload {
		text = fmt.Sprintf("%q", r.Payload)
	}
	for _, c := range r.Meta {
		text += fmt.Sprintf(" map[%s:%v]", c.Name, c.Value)
	}
	return text
}

func TestMessages(t *testing.T) {
	for header, want := range map[string]string{
		`{"type":"messages","sizes":[1,2]}`:                                             "",
		`{"type":"messages","sizes":[1,2],"meta":[{},null],"positions":[null,{"a":1}]}`: "",
		`{"type":"messages","sizes":[1,1]}`:                                             "has 1 bytes more",
		`{"type":"messages","sizes":[1,3]}`:                                             "say more than the 3 bytes",
		`{"type":"messages","sizes":[1,2],"meta":[{}]}`:                                 "meta of a \"messages\" frame does not have as many",
		`{"type":"messages","sizes":[1,2],"positions":[1,2,3]}`:                         "positions of a \"messages\" frame does not have as",
		`{"type":"messages","sizes":[1,2],"meta":[{},7]}`:                               "metadata is not an object: 7",
	} {
		s, err := ParseSent(Frame{[]byte(header), []byte("abc")})
		if err != nil {
			t.Fatal(err)
		}
		all, err := s.Messages()
		switch {
		case want == "" && (err != nil || len(all) != 2 || string(all[1].Payload) != "bc"):
			t.Errorf("%s: %v, %v", header, all, err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%s: got %v, want %s", header, err, want)
		}
	}
}

func TestLogFieldsAreBounded(t *testing.T) {
	for n, want := range map[int]int{10: 1, maxLogFields: 0} {
		s, err := ParseSent(Frame{Header: fmt.Appendf(nil, `{"type":"log","text":"a","fields":{"x":%q}}`, strings.Repeat("x", n))})
		if err != nil {
			t.Fatal(err)
		}
		if _, text, fields, err := s.Log(); err != nil || text != "a" || len(fields) != want {
			t.Errorf("%d bytes: %d fields, %v", n, len(fields), err)
		}
	}
}

func FuzzSent(f *testing.F) {
	f.Add([]byte(`{"type":"results","batch":3,"results":[null,2,{"size":1,"meta":{"a":1}},{"drop":true},{"parts":[1,0]}]}`), []byte("abcd"))
	f.Add([]byte(`{"type":"messages","sizes":[1,2],"meta":[{},null],"positions":[null,{"a":1}]}`), []byte("abc"))
	f.Add([]byte(`{"type":"ready","version":1,"error":{"text":"x","setting":"y","after":1e300}}`), []byte{})
	f.Add([]byte(`{"type":"metric","value":1e400,"labels":{"a":"b"}}`), []byte{})
	f.Fuzz(func(t *testing.T, header, body []byte) {
		s, err := ParseSent(Frame{header, body})
		if err != nil {
			return
		}
		size := 0
		if _, _, results, err := s.Results(); err == nil {
			for _, r := range results {
				size += len(r.Payload)
				for _, p := range r.Parts {
					size += len(p)
				}
			}
			if size != len(body) {
				t.Errorf("%d bytes of %d", size, len(body))
			}
		}
		s.at = 0
		_, _ = s.Messages()
		_, _ = s.Ready()
		if e, err := s.Failure(); err == nil && (e.Delay < 0 || e.Delay > MaxDelay || e.Error() == "") {
			t.Errorf("%+v", e)
		}
		_, _, _, _ = s.Log()
		_, _ = s.Metric()
		_, _, _ = s.State()
	})
}

func FuzzRead(f *testing.F) {
	f.Add([]byte("\x00\x00\x00\x02\x00\x00\x00\x01{}x"))
	f.Fuzz(func(t *testing.T, text []byte) {
		r := bufio.NewReader(bytes.NewReader(text))
		for {
			fr, err := Read(r, 1000)
			if err != nil {
				return
			}
			if len(fr.Body) > 1000 {
				t.Errorf("%d bytes", len(fr.Body))
			}
		}
	})
}
