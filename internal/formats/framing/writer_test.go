package framing

import (
	"bytes"
	"errors"
	"io"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/doc"
)

func message(body string, meta engine.Meta) *engine.Message {
	m := engine.NewBatch(1).Add([]byte(body))
	m.Meta = meta
	return m
}

func TestWriter(t *testing.T) {
	tests := []struct {
		name string
		f    OutFraming
		in   []string
		want string
	}{
		{"lines", OutFraming{}, []string{"a", "", "b"}, "a\n\nb\n"},
		{"whole", OutFraming{Whole: &Plain{}}, []string{"a", "b"}, "ab"},
		{"delimiter", OutFraming{Delimiter: ptr("--")}, []string{"a", "b"}, "a--b--"},
		{"length", OutFraming{Length: ptr(2)}, []string{"a", ""}, "\x00\x01a\x00\x00"},
		{"csv", OutFraming{CSV: &OutCSV{Columns: []string{"a", "b c"}, Delimiter: ";"}},
			[]string{`{"b c":"x;\"y\"","a":1.50,"other":1}`, `{"a":{"k":[1]}}`, `{"a":"l\n"}`},
			"1.50;\"x;\"\"y\"\"\"\n\"{\"\"k\"\":[1]}\";\n\"l\n\";\n"},
		{"csv of one column has no empty lines", OutFraming{CSV: &OutCSV{Columns: []string{"a"}, Delimiter: ","}},
			[]string{`{}`}, "\"\"\n"},
		{"messages keep documents as they are", OutFraming{Messages: &Plain{}},
			[]string{`{"a": 1.0}`, `[1]`, `"x"`, "two\nlines", "\xff", `{"a":`, ""},
			"{\"payload\":{\"a\": 1.0}}\n{\"payload\":[1]}\n{\"payload\":\"\\\"x\\\"\"}\n{\"payload\":\"two\\nlines\"}\n{\"payload_base64\":\"/w=" +
				"=\"}\n{\"payload\":\"{\\\"a\\\":\"}\n{\"payload\":\"\"}\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := (&OutConfig{tt.f}).Writer()
			var got []byte
			for _, body := range tt.in {
				var err error
				if got, err = w.Append(got, message(body, engine.Meta{})); err != nil {
					t.Fatal(err)
				}
			}
			if string(got) != tt.want {
				t.Errorf("got  %q\nwant %q", got, tt.want)
			}
		})
	}
}

func TestAMessageThatCanNotBeWrittenLeavesNothing(t *testing.T) {
	tests := []struct {
		name  string
		f     OutFraming
		body  string
		class engine.Class
	}{
		{"longer than its length can say", OutFraming{Length: ptr(1)}, strings.Repeat("x", 256), engine.Rejected},
		{"several lines", OutFraming{}, "a\nb", engine.Permanent},
		{"the delimiter inside", OutFraming{Delimiter: ptr("||")}, "a||b", engine.Permanent},
		{"a number as a row", OutFraming{CSV: &OutCSV{Columns: []string{"a"}, Delimiter: ","}}, "5", engine.Permanent},
		{"a text as a row", OutFraming{CSV: &OutCSV{Columns: []string{"a"}, Delimiter: ","}}, `"a"`, engine.Permanent},
		{"a list as a row", OutFraming{CSV: &OutCSV{Columns: []string{"a"}, Delimiter: ","}}, `[{"a":1}]`, engine.Permanent},
		{"null as a row", OutFraming{CSV: &OutCSV{Columns: []string{"a"}, Delimiter: ","}}, "null", engine.Permanent},
		{"half of a character", OutFraming{CSV: &OutCSV{Columns: []string{"a"}, Delimiter: ","}}, `{"a":"\ud800"}`, engine.Permanent},
		{"no document", OutFraming{CSV: &OutCSV{Columns: []string{"a"}, Delimiter: ","}}, "{", engine.Decode},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := (&OutConfig{tt.f}).Writer()
			got, err := w.Append([]byte("before"), message(tt.body, engine.Meta{}))
			var e *engine.Error
			if !errors.As(err, &e) || e.Class != tt.class {
				t.Errorf("got %v, want class %s", err, tt.class)
			}
			if string(got) != "before" {
				t.Errorf("got %q", got)
			}
		})
	}
}

func TestCSVHasAHeadForNewFiles(t *testing.T) {
	w := (&OutConfig{OutFraming{CSV: &OutCSV{Columns: []string{"a", "b,c"}, Delimiter: ",", Header: true}}}).Writer()
	if string(w.Head) != "a,\"b,c\"\n" {
		t.Errorf("got %q", w.Head)
	}
}

func TestMessagesAreReadBackAsWritten(t *testing.T) {
	meta := engine.Meta{}.
		With("z", "first").
		With("text", "a\"b\n\u2028").
		With("binary", "\xff\xfe").
		With("none", nil).
		With("yes", true).
		With("int", -3).
		With("big", doc.Number("12345678901234567890")).
		With("float", 5.0).With("tiny", 1e-300).With("inf", math.Inf(-1)).
		With("time", time.Date(2026, 1, 2, 3, 4, 5, 6789, time.FixedZone("", 3600))).
		With("list", []any{1, "x", []any{nil}}).
		With("map", map[string]any{"$time": "not a time", "k": 1.5}).
		With("like ours", map[string]any{"$time": map[string]any{"$map": 1}}).
		WithIndex("line").At(7)
	for _, body := range []string{"", "text", "a\nb", `{"a": 1.0, "b":"\u00e9"}`, ` {"a":1}`, `{"a":1}` + "\r",
		"\xff\x00", `"x"`, "12", "[1,\t2]", "{bad}", strings.Repeat("\x01", 1000)} {
		w := (&OutConfig{OutFraming{Messages: &Plain{}}}).Writer()
		text, err := w.Append(nil, message(body, meta))
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Count(text, []byte("\n")) != 1 {
			t.Errorf("%q is not one line", text)
		}
		r := config(Framing{Messages: &Plain{}}, 1<<20).Reader(bytes.NewReader(text))
		rec, err := r.Next()
		if err != nil || rec.Err != nil {
			t.Fatalf("%s: %v, %v", text, err, rec.Err)
		}
		if string(rec.Body) != body {
			t.Errorf("got %q, want %q", rec.Body, body)
		}
		got := rec.Meta(engine.Meta{}.With("path", "x"))
		var names, wantNames []string
		for n, v := range got.All() {
			names = append(names, n)
			want, _ := meta.Get(n)
			if at, ok := want.(time.Time); ok {
				if !at.Equal(v.(time.Time)) {
					t.Errorf("%s: got %v, want %v", n, v, want)
				}
			} else if !reflect.DeepEqual(v, want) {
				t.Errorf("%s: got %#v, want %#v", n, v, want)
			}
		}
		for n := range meta.All() {
			wantNames = append(wantNames, n)
		}
		if !reflect.DeepEqual(names, wantNames) {
			t.Errorf("got names %v, want %v", names, wantNames)
		}
	}
}

func TestAppendingLinesAllocatesNothing(t *testing.T) {
	w := (&OutConfig{}).Writer()
	m := message(strings.Repeat("x", 300), engine.Meta{})
	buf := make([]byte, 0, 1<<10)
	if n := testing.AllocsPerRun(100, func() {
		if _, err := w.Append(buf, m); err != nil {
			t.Fatal(err)
		}
	}); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

// FuzzMessages checks that any message is read back as it was.
func FuzzMessages(f *testing.F) {
	f.Add([]byte("text"), "name", "value")
	f.Add([]byte(`{"a": [1, 2]}`), "$map", "\xff")
	f.Add([]byte("\xff\n"), "", "")
	f.Fuzz(func(t *testing.T, body []byte, name, value string) {
		m := engine.NewBatch(1).Add(body)
		m.Meta = engine.Meta{}.With(name, value)
		rec, err := config(Framing{Messages: &Plain{}}, 1<<20).Reader(bytes.NewReader(appendMessage(nil, m))).Next()
		if errors.Is(err, io.EOF) || rec.Err != nil {
			t.Fatal(err, rec.Err)
		}
		if !bytes.Equal(rec.Body, body) {
			t.Errorf("got %q, want %q", rec.Body, body)
		}
		if got, _ := rec.Meta(engine.Meta{}).Get(strings.ToValidUTF8(name, "\uFFFD")); got != value {
			t.Errorf("got %q, want %q", got, value)
		}
	})
}
