package pgoutput

import (
	"encoding/binary"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"
)

// wire encodes a message as the server does.
func wire(parts ...any) (b []byte) {
	for _, p := range parts {
		switch p := p.(type) {
		case byte:
			b = append(b, p)
		case rune:
			b = append(b, byte(p))
		case int: // a count
			b = binary.BigEndian.AppendUint16(b, uint16(p))
		case uint32:
			b = binary.BigEndian.AppendUint32(b, p)
		case uint64:
			b = binary.BigEndian.AppendUint64(b, p)
		case string:
			b = append(append(b, p...), 0)
		case []byte: // a value
			b = append(binary.BigEndian.AppendUint32(append(b, 't'), uint32(len(p))), p...)
		}
	}
	return b
}

func TestDecode(t *testing.T) {
	var m Message
	read := func(b []byte) {
		t.Helper()
		if err := m.Decode(b); err != nil {
			t.Fatalf("%q: %v", b, err)
		}
	}
	day := uint64(time.Date(2026, 1, 31, 12, 0, 0, 1000, time.UTC).Sub(epoch).Microseconds())
	read(wire('B', uint64(0x16B374848), day, uint32(7)))
	if m.LSN.String() != "1/6B374848" || m.XID != 7 || m.Time.Format(time.RFC3339Nano) != "2026-01-31T12:00:00.000001Z" {
		t.Errorf("begin %v %v %v", m.LSN, m.XID, m.Time)
	}
	read(wire('C', byte(0), uint64(1), uint64(2), day))
	if m.LSN != 1 || m.End != 2 {
		t.Errorf("commit %v %v", m.LSN, m.End)
	}
	read(wire('R', uint32(9), "", "pg_x", 'f', 2, byte(1), "id", uint32(23), uint32(0xffffffff), byte(0), "v", uint32(25),
		uint32(0)))
	if want := []Column{{"id", true, 23, -1}, {"v", false, 25, 0}}; m.Namespace != "pg_catalog" || m.Name != "pg_x" ||
		m.Identity != 'f' || !slices.Equal(m.Columns, want) {
		t.Errorf("relation %+v", m)
	}
	read(wire('I', uint32(9), 'N', 3, []byte("1"), 'n', 'u'))
	if len(m.New) != 3 || string(m.New[0].Text) != "1" || m.New[1].Kind != Null || m.New[2].Kind != Unchanged {
		t.Errorf("insert %+v", m.New)
	}
	read(wire('U', uint32(9), 'O', 1, []byte("1"), 'N', 1, []byte("")))
	if !m.OldComplete || string(m.Old[0].Text) != "1" || m.New[0].Kind != Text || len(m.New[0].Text) != 0 {
		t.Errorf("update %+v", m)
	}
	read(wire('U', uint32(9), 'N', 1, []byte("2")))
	if len(m.Old) != 0 || m.OldComplete || string(m.New[0].Text) != "2" {
		t.Errorf("update without the old row %+v", m)
	}
	read(wire('D', uint32(9), 'K', 1, []byte("2")))
	if m.OldComplete || string(m.Old[0].Text) != "2" || len(m.New) != 0 {
		t.Errorf("delete %+v", m)
	}
	read(wire('T', uint32(2), byte(3), uint32(9), uint32(10)))
	if !slices.Equal(m.Tables, []uint32{9, 10}) {
		t.Errorf("truncate %v", m.Tables)
	}
	read(wire('Y', uint32(1), "public", "mood"))
	read(wire('O', uint64(1), "elsewhere"))
}

func TestDecodeRefuses(t *testing.T) {
	tests := []struct {
		name string
		in   []byte
		want string
	}{
		{"nothing", nil, "an empty message"},
		{"an unknown kind", wire('S', uint32(1), byte(1)), "unknown kind"},
		{"a short begin", wire('B', uint64(1)), "ends too early"},
		{"a value that is longer than the message", append(wire('I', uint32(9), 'N', 1, 't'), 0x7f, 0xff, 0xff, 0xff, 'x'),
			"ends too early"},
		{"a negative length", append(wire('I', uint32(9), 'N', 1, 't'), 0xff, 0xff, 0xff, 0xff), "ends too early"},
		{"more columns than a table can have", wire('I', uint32(9), 'N', 60000), "more columns"},
		{"more tables than bytes", wire('T', uint32(0xffffff), byte(0)), "more tables"},
		{"a name without an end", append(wire('R', uint32(9)), "public"...), "not terminated"},
		{"a value in binary", wire('I', uint32(9), 'N', 1, 'b'), "unknown kind"},
		{"a row of another kind", wire('U', uint32(9), 'X', 0), "unknown kind"},
		{"a delete without a row", wire('D', uint32(9), 'N', 0), "without its key"},
		{"extra bytes", append(wire('B', uint64(1), uint64(1), uint32(1)), 0), "extra bytes"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if err := new(Message).Decode(tt.in); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v, want %q", err, tt.want)
			}
		})
	}
}

func TestFrames(t *testing.T) {
	f, err := ParseFrame(wire('w', uint64(1), uint64(2), uint64(3), 'I'))
	if err != nil || string(f.Data) != "I" || f.End != 2 || f.Reply {
		t.Errorf("data: %+v, %v", f, err)
	}
	if f, err = ParseFrame(wire('k', uint64(5), uint64(3), byte(1))); err != nil || f.Data != nil || f.End != 5 || !f.Reply {
		t.Errorf("a keepalive: %+v, %v", f, err)
	}
	for _, b := range [][]byte{nil, wire('k'), wire('w', uint64(1)), wire('x', uint64(1), uint64(2), uint64(3), byte(1))} {
		if _, err := ParseFrame(b); err == nil {
			t.Errorf("%q is accepted", b)
		}
	}
	status := AppendStatus(nil, 0x1122334455667788, epoch.Add(time.Second), true)
	if want := wire('r', uint64(0x1122334455667788), uint64(0x1122334455667788), uint64(0x1122334455667788),
		uint64(1_000_000), byte(1)); string(status) != string(want) {
		t.Errorf("status % x, want % x", status, want)
	}
}

func TestLSN(t *testing.T) {
	for _, s := range []string{"0/0", "0/16B3748", "FFFFFFFF/FFFFFFFF", "A/10"} {
		if l, err := ParseLSN(s); err != nil || l.String() != s {
			t.Errorf("%s became %s, %v", s, l, err)
		}
	}
	for _, s := range []string{"", "1", "1/", "/1", "1/100000000", "x/1"} {
		if _, err := ParseLSN(s); err == nil {
			t.Errorf("%q is accepted", s)
		}
	}
}

func TestValues(t *testing.T) {
	int4s, texts, jsons := ShapeOf(23).List(','), ShapeOf(25).List(','), ShapeOf(3802).List(',')
	tests := []struct {
		shape      Shape
		text, want string
	}{
		{ShapeOf(16), "t", `true`}, {ShapeOf(16), "f", `false`}, {ShapeOf(16), "x", `"x"`},
		{ShapeOf(20), "9223372036854775807", `9223372036854775807`}, {ShapeOf(20), "-1", `-1`}, {ShapeOf(20), "", `""`},
		{ShapeOf(1700), "0.1000000000000000000001", `0.1000000000000000000001`}, {ShapeOf(1700), "NaN", `"NaN"`},
		{ShapeOf(1700), "01", `"01"`}, {ShapeOf(1700), "-", `"-"`}, {ShapeOf(1700), "1.", `"1."`},
		{ShapeOf(701), "1e+20", `1e+20`}, {ShapeOf(701), "-Infinity", `"-Infinity"`}, {ShapeOf(701), "1e", `"1e"`},
		{ShapeOf(17), `\x00ff`, `"AP8="`}, {ShapeOf(17), `\x`, `""`}, {ShapeOf(17), `\x0`, `"\\x0"`},
		{ShapeOf(3802), `{"a": 1.50}`, `{"a": 1.50}`}, {ShapeOf(114), "{\"a\":\n 1}", `{"a":1}`},
		{ShapeOf(114), "{", `"{"`}, {ShapeOf(114), "{\n", `"{\n"`},
		{ShapeOf(1184), "2026-01-31 12:00:00.5+00", `"2026-01-31T12:00:00.5Z"`},
		{ShapeOf(1184), "2026-01-31 12:00:00+00", `"2026-01-31T12:00:00Z"`},
		{ShapeOf(1184), "0044-03-15 12:00:00+00 BC", `"0044-03-15 12:00:00+00 BC"`},
		{ShapeOf(1184), "10000-01-31 12:00:00+00", `"10000-01-31 12:00:00+00"`},
		{ShapeOf(1184), "2026-01-31+00", `"2026-01-31+00"`},
		{ShapeOf(1114), "2026-01-31 12:00:00.123456", `"2026-01-31T12:00:00.123456"`},
		{ShapeOf(1114), "infinity", `"infinity"`},
		{ShapeOf(25), "a\"b\n", `"a\"b\n"`}, {ShapeOf(99999), "x", `"x"`},
		{int4s, "{1,NULL,-3}", `[1,null,-3]`}, {int4s, "{}", `[]`}, {int4s, "{{1,2},{3,4}}", `[[1,2],[3,4]]`},
		{int4s, "[0:1]={1,2}", `[1,2]`}, {int4s, "[0:1]", `"[0:1]"`},
		{texts, `{a,"b c","NULL",NULL,"q\"\\",""}`, `["a","b c","NULL",null,"q\"\\",""]`},
		{jsons, `{"{\"a\": [1, 2]}"}`, `[{"a": [1, 2]}]`},
		{ShapeOf(603).List(';'), "{(1,1),(0,0);(3,3),(2,2)}", `["(1,1),(0,0)","(3,3),(2,2)"]`},
		{int4s, "{1,2", `"{1,2"`}, {int4s, `{"1`, `"{\"1"`}, {int4s, "{1}x", `"{1}x"`}, {int4s, "", `""`},
		{int4s, strings.Repeat("{", 7) + strings.Repeat("}", 7), `"{{{{{{{}}}}}}}"`},
	}
	for _, tt := range tests {
		if got := string(tt.shape.Append([]byte("x"), []byte(tt.text))); got != "x"+tt.want {
			t.Errorf("%s became %s, want %s", tt.text, got, tt.want)
		}
	}
}

// After one message, Decode does not allocate for further messages of the same kind.
func TestDecodeAllocatesNothing(t *testing.T) {
	var m Message
	b := wire('U', uint32(9), 'O', 2, []byte("1"), 'n', 'N', 2, []byte("1"), []byte("x"))
	if n := testing.AllocsPerRun(100, func() {
		if err := m.Decode(b); err != nil {
			t.Fatal(err)
		}
	}); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

func FuzzDecode(f *testing.F) {
	for _, b := range [][]byte{
		wire('B', uint64(1), uint64(2), uint32(7)), wire('C', byte(0), uint64(1), uint64(2), uint64(3)),
		wire('R', uint32(9), "public", "t", 'd', 1, byte(1), "id", uint32(23), uint32(0)),
		wire('I', uint32(9), 'N', 2, []byte("1"), 'n'), wire('U', uint32(9), 'K', 1, []byte("1"), 'N', 1, 'u'),
		wire('D', uint32(9), 'O', 1, []byte("1")), wire('T', uint32(1), byte(0), uint32(9)),
		wire('w', uint64(1), uint64(2), uint64(3), 'I'), wire('k', uint64(5), uint64(3), byte(1)),
	} {
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		_, _ = ParseFrame(b)
		var m Message
		if m.Decode(b) != nil {
			return
		}
		if n := len(m.Columns) + len(m.Old) + len(m.New) + len(m.Tables); n > len(b) {
			t.Errorf("%d parts of %d bytes", n, len(b))
		}
	})
}

func FuzzValues(f *testing.F) {
	for _, s := range []string{"t", "-1.5e3", `\x00`, `{"a": 1}`, "2026-01-31 12:00:00+00", `{1,"a\"",NULL,{2}}`, "[1:2]={1,2}"} {
		f.Add(s)
	}
	shapes := []Shape{{}, ShapeOf(16), ShapeOf(1700), ShapeOf(17), ShapeOf(114), ShapeOf(1184), ShapeOf(1114)}
	f.Fuzz(func(t *testing.T, text string) {
		for _, s := range shapes {
			for _, s := range []Shape{s, s.List(','), s.List(';')} {
				if got := s.Append(nil, []byte(text)); !json.Valid(got) {
					t.Errorf("%q became %s, which is not valid JSON", text, got)
				}
			}
		}
	})
}
