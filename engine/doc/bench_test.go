package doc_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/flowd-io/flowd/engine/doc"
)

// event is an access-log record of 330 bytes.
const event = `{"ts":"2025-03-14T09:26:53.589793Z","level":"info","service":"checkout","host":"web-17.eu-central","method":"GET",` +
	`"path":"/api/v1/orders/81723","status":503,"bytes":18234,"duration_ms":12.75,"user":{"id":71234,"plan":"enterprise","country":"SG"},` +
	`"tags":["edge","tls"],"agent":"Mozilla/5.0 (X11; Linux x86_64)","trace":"4bf92f3577b34da6a3ce"}`

// large returns a document of about n bytes that consists of events.
func large(n int) []byte {
	var b bytes.Buffer
	b.WriteString(`{"batch":7,"events":[`)
	for b.Len() < n {
		b.WriteString(event + ",\n")
	}
	b.WriteString(event + `],"status":503,"level":"info"}`)
	return b.Bytes()
}

var sizes = []struct {
	name string
	data []byte
}{
	{"330B", []byte(event)},
	{"pretty", pretty()},
	{"utf8", []byte(`{"title":"` + strings.Repeat("日本語のテキスト", 10) + `","text":"` + strings.Repeat("größer und älter ",
		10) + `"}`)},
	{"5KB", large(5 << 10)},
	{"100KB", large(100 << 10)},
}

func pretty() []byte {
	var b bytes.Buffer
	if err := json.Indent(&b, []byte(event), "", "  "); err != nil {
		panic(err)
	}
	return b.Bytes()
}

func BenchmarkScan(b *testing.B) {
	for _, s := range sizes {
		b.Run(s.name, func(b *testing.B) {
			b.SetBytes(int64(len(s.data)))
			b.ReportAllocs()
			var a doc.Arena
			var d doc.Doc
			for b.Loop() {
				a.Reset()
				d.Reset(s.data, &a)
				if err := d.Valid(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// events returns records like event whose values differ in length and kind, so that the CPU can't predict branches from the
// previous message.
func events(n int) [][]byte {
	r := rand.New(rand.NewPCG(1, 2))
	word := func(min, max int) string {
		b := make([]byte, min+r.IntN(max-min+1))
		for i := range b {
			b[i] = "abcdefghijklmnopqrstuvwxyz0123456789-/"[r.IntN(38)]
		}
		return string(b)
	}
	list := make([][]byte, n)
	for i := range list {
		user := fmt.Sprintf(`{"id":%d,"plan":%q,"country":"SG"}`, r.IntN(1e6), word(3, 12))
		if r.IntN(4) == 0 {
			user = "null"
		}
		list[i] = fmt.Appendf(nil,
			`{"ts":"2025-03-14T09:26:%02d.%dZ","level":%q,"service":%q,"host":%q,"method":%q,"path":"/%s","status":%d,"bytes":%d,`+
				`"duration_ms":%.*f,"user":%s,"tags":["edge",%q],"agent":%q,"trace":%q}`,
			r.IntN(60), r.IntN(1e6), word(4, 5), word(4, 14), word(6, 20), word(3, 6), word(5, 40), 200+r.IntN(400),
			r.IntN(1e5), r.IntN(4), r.Float64()*100, user, word(2, 8), word(10, 60), word(20, 20))
	}
	return list
}

// BenchmarkVaried is BenchmarkScan and BenchmarkStep on events that differ.
func BenchmarkVaried(b *testing.B) {
	list := events(4096)
	size := 0
	for _, e := range list {
		size += len(e)
	}
	run := func(name string, do func(*doc.Doc)) {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(size / len(list)))
			b.ReportAllocs()
			var a doc.Arena
			var d doc.Doc
			for i := 0; b.Loop(); i++ {
				if i%128 == 0 {
					a.Reset()
				}
				d.Reset(list[i%len(list)], &a)
				do(&d)
			}
		})
	}
	run("scan", func(d *doc.Doc) { _ = d.Valid() })
	run("step", func(d *doc.Doc) { _, _ = step(d) })
}

func BenchmarkGet(b *testing.B) {
	for _, path := range []string{"status", "user.id", "ts", "missing"} {
		b.Run(path, func(b *testing.B) {
			p := doc.MustParsePath(path)
			var d doc.Doc
			d.Reset([]byte(event), nil)
			for b.Loop() {
				if _, _, err := d.Raw(p); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// step filters, sets two fields, and returns the payload if the message passes.
func step(d *doc.Doc) ([]byte, error) {
	raw, _, err := d.Raw(status)
	if err != nil {
		return nil, err
	}
	if n, ok := doc.ParseInt(raw); !ok || n < 500 {
		return nil, nil
	}
	if err := d.Set(level, "critical"); err != nil {
		return nil, err
	}
	if err := d.Set(severity, 2); err != nil {
		return nil, err
	}
	return d.Bytes(), nil
}

var status, level, severity = doc.MustParsePath("status"), doc.MustParsePath("level"), doc.MustParsePath("severity")

// BenchmarkStep is one filter, two assignments and the new payload; std is the
// same by encoding/json.
func BenchmarkStep(b *testing.B) {
	for _, s := range sizes {
		if s.name == "utf8" {
			continue
		}
		b.Run(s.name, func(b *testing.B) {
			b.SetBytes(int64(len(s.data)))
			b.ReportAllocs()
			var a doc.Arena
			var d doc.Doc
			for b.Loop() {
				a.Reset()
				d.Reset(s.data, &a)
				if _, err := step(&d); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(s.name+"/std", func(b *testing.B) {
			b.SetBytes(int64(len(s.data)))
			b.ReportAllocs()
			for b.Loop() {
				var m map[string]any
				if err := json.Unmarshal(s.data, &m); err != nil {
					b.Fatal(err)
				}
				if m["status"].(float64) < 500 {
					b.Fatal("status")
				}
				m["level"], m["severity"] = "critical", 2
				if _, err := json.Marshal(m); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkDecode(b *testing.B) {
	for _, s := range sizes {
		b.Run(s.name, func(b *testing.B) {
			b.SetBytes(int64(len(s.data)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := doc.Decode(s.data); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkCanonical is decoding and encoding; std is the same by encoding/json.
func BenchmarkCanonical(b *testing.B) {
	for _, s := range sizes {
		b.Run(s.name, func(b *testing.B) {
			b.SetBytes(int64(len(s.data)))
			b.ReportAllocs()
			var out []byte
			for ok := true; b.Loop(); {
				if out, ok = doc.Canonical(out[:0], s.data); !ok {
					b.Fatal("not rewritten")
				}
			}
		})
		b.Run(s.name+"/decoded", func(b *testing.B) {
			b.ReportAllocs()
			var out []byte
			for b.Loop() {
				v, err := doc.DecodeRaw(s.data)
				if err != nil {
					b.Fatal(err)
				}
				out, _ = doc.Append(out[:0], v)
			}
		})
		b.Run(s.name+"/std", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				var v any
				if err := json.Unmarshal(s.data, &v); err != nil {
					b.Fatal(err)
				}
				if _, err := json.Marshal(v); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkAppend(b *testing.B) {
	v, err := doc.Decode([]byte(event))
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(event)))
	b.ReportAllocs()
	var out []byte
	for b.Loop() {
		if out, err = doc.Append(out[:0], v); err != nil {
			b.Fatal(err)
		}
	}
}
