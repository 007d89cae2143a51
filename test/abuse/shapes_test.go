package abuse

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/flowd-io/flowd/internal/formats/compression"
	"github.com/flowd-io/flowd/test/flowdtest"
)

// mostMemory limits the memory of an attack, in MiB. All run with 16 MiB as engine.max_in_flight.bytes.
const mostMemory = 120

var shapes = []attack{
	{"a gzip bomb", bomb(compression.Gzip)},
	{"a zstd bomb", bomb(compression.Zstd)},
	{"a bzip2 bomb", bomb(compression.Bzip2)},
	{"a snappy bomb", bomb(compression.Snappy)},
	{"an lz4 bomb", bomb(compression.LZ4)},
	{"many small messages that decompress to just below the limit", func(t *testing.T) {
		for _, f := range []compression.Format{compression.Gzip, compression.Zstd, compression.Snappy,
			compression.LZ4} {
			packed := pack(t, f, make([]byte, 8<<20))
			r := runPipeline(t, `
inputs: {in: {stdin: {framing: {length: 4}}}}
processors: [{decompress: `+string(f)+`}, {set: {n: size()}}]
outputs: {out: {drop: {}}}
engine: {workers: 8}`, repeated(framed(packed), 8))
			r.Want(t, 1, "8 received: 8 dropped", "decode") // zeros are not a document
		}
	}},
	{"bombs in bombs", func(t *testing.T) {
		inner := pack(t, compression.Gzip, pack(t, compression.Zstd, pack(t, compression.Gzip, make([]byte, 300<<20))))
		r := runPipeline(t, `
inputs: {in: {stdin: {framing: {length: 4}}}}
processors: [{decompress: gzip}, {decompress: zstd}, {decompress: gzip}]
outputs: {out: {drop: {}}}`, repeated(framed(inner), 4))
		r.Want(t, 1, "4 received: 4 dropped", "over the limit")
	}},
	{"zstd frames that claim the largest window, in payloads", func(t *testing.T) {
		r := runPipeline(t, `
inputs: {in: {stdin: {framing: {length: 4}}}}
processors: [{decompress: zstd}]
outputs: {out: {drop: {}}}
engine: {workers: 16}`, repeated(framed(rle(0x88, 40)), 200)) // 128 MiB
		r.Want(t, 1, "200 received: 200 dropped", "window size")
		// On a busy machine, memory of four decoders at once is collected late.
		r = runPipelineWithin(t, 190, `
inputs: {in: {stdin: {framing: {length: 4}}}}
processors: [{decompress: zstd}]
outputs: {out: {drop: {}}}
engine: {workers: 32}`, repeated(framed(rle(0x68, 80)), 60)) // a window of 8 MiB, which is used
		r.Want(t, 0, "60 received: 60 delivered")
	}},
	{"zstd frames that claim the largest window, in many files at once", func(t *testing.T) {
		dir := t.TempDir()
		for i := range 8 {
			flowdtest.Write(t, dir, fmt.Sprintf("in/%d.zst", i), string(rle(0x88, 800)))
		}
		r := runPipelineIn(t, dir, 660, `
inputs: {in: {file: {path: in/*.zst}, concurrency: 8}}
outputs: {out: {drop: {}}}`, nil)
		r.Want(t, 1, "8 received: 8 dropped", "longer than max_record")
	}},
	{"lengths far above the actual size", func(t *testing.T) {
		claims := map[string][]byte{
			"length": binary.BigEndian.AppendUint64(nil, 1<<62),
			"snappy": append([]byte("\xff\x06\x00\x00sNaPpY\x00\x09\x00\x00\x00\x00\x00\x00"),
				"\xff\xff\xff\xff\x0f"...),
			"zstd":    binary.LittleEndian.AppendUint64([]byte("\x28\xb5\x2f\xfd\xe0"), 1<<33),
			"lz4":     []byte("\x04\x22\x4d\x18\x68\x70\xff\xff\xff\xff\xff\xff\xff\x7f\x00\xff\xff\xff\x7f"),
			"tar":     tarClaim(),
			"message": binary.BigEndian.AppendUint32(nil, 1<<31),
		}
		inputs := map[string]string{
			"length": "framing: {length: 8}", "snappy": "compression: snappy", "zstd": "compression: zstd",
			"lz4": "compression: lz4",
			"tar": "framing: tar", "message": "framing: {length: 4}",
		}
		for name, claim := range claims {
			r := runPipelineWithin(t, 30, `
inputs: {in: {stdin: {`+inputs[name]+`}}}
outputs: {out: {drop: {}}}`, io.MultiReader(bytes.NewReader(claim), strings.NewReader("and little more")))
			if r.Code != 1 {
				t.Errorf("%s: exit code %d\n%s", name, r.Code, r.Stderr)
			}
		}
	}},
	{"endless records in all framings", func(t *testing.T) {
		for framing, begin := range map[string]string{
			"lines": "", "json": `["`, "{csv: {}}": "a,b\n\"", `{delimiter: "--"}`: "", "{start: '^begin'}": "",
			"messages": `{"payload": "`,
			"whole":    "", "{length: 8}": "\x7f\xff\xff\xff\xff\xff\xff\xff",
		} {
			r := runPipelineWithin(t, 60, `
inputs: {in: {stdin: {framing: `+framing+`}}}
outputs: {out: {drop: {}}}`, io.MultiReader(strings.NewReader(begin), repeated(bytes.Repeat([]byte("x"), 1<<20), 48)))
			r.Want(t, 1, "1 received: 1 dropped")
		}
	}},
	{"many small rows with a large header", func(t *testing.T) {
		wide := strings.Repeat("h", 500<<10) + "\n" + strings.Repeat("1\n", 1000)
		runPipeline(t, `
inputs: {in: {stdin: {framing: {csv: {}}}}}
outputs: {out: {drop: {}}}`, strings.NewReader(wide)).Want(t, 0, "1,000 delivered")
		runPipeline(t, `
inputs: {in: {stdin: {framing: whole}}}
processors: [{decode: csv}]
outputs: {out: {drop: {}}}`, strings.NewReader(wide)).Want(t, 1, "dropped")
	}},
	{"a table whose columns have long names", func(t *testing.T) {
		dir := t.TempDir()
		flowdtest.Write(t, dir, "t.csv", "id,"+strings.Repeat("h", 2000)+"\n"+
			numberedCopies(50_000, "%d,"+strings.Repeat("v", 400)+"\n")) // 20 MB, but 120 MB with all names
		r := runPipelineIn(t, dir, 80, `
inputs: {in: {stdin: {framing: lines}}}
processors: [{set: {row: 'lookup("t", "49999") != nil'}}, {filter: row}]
outputs: {out: {drop: {}}}
resources: {tables: {t: {file: t.csv, key: id}}}`, strings.NewReader("{}\n"))
		r.Want(t, 0, "1 delivered")
	}},
	{"small documents with many nodes", func(t *testing.T) {
		for format, text := range map[string]string{
			"yaml":           "[" + strings.Repeat("a,", 1<<20) + "a]",
			"xml":            "<r>" + strings.Repeat("<a/>", 1<<19) + "</r>",
			protobufMessages: strings.Repeat("\x0a\x00", 3<<19),
			`{avro: {framing: container}}`: "Obj\x01\x02\x16avro.schema\x0c\"null\"\x00" + strings.Repeat("s", 16) +
				"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01\x00" + strings.Repeat("s", 16),
		} {
			runPipeline(t, `
inputs: {in: {stdin: {framing: {length: 4}, max_record: 8MiB}}}
processors: [{decode: `+format+`}]
outputs: {out: {drop: {}}}
engine: {workers: 8}`, repeated(framed([]byte(text)), 8)).Want(t, 1, "8 received: 8 dropped", "too_large")
		}
	}},
	{"nesting a million deep", func(t *testing.T) {
		deep := strings.Repeat("[", 1e6) + strings.Repeat("]", 1e6)
		runPipeline(t, `
inputs: {in: {stdin: {framing: json, max_record: 8MiB}}}
outputs: {out: {drop: {}}}`, strings.NewReader("{}"+strings.Repeat(deep, 8))).Want(t, 1, "9 received: 1 delivered, 8 dropped", "deep")
		for _, f := range []struct{ format, text, says string }{
			{"json", deep, "nested deeper"},
			{"yaml", strings.Repeat("[", 20_000) + strings.Repeat("]", 20_000), "max depth"},
			{"xml", strings.Repeat("<a>", 20_000) + strings.Repeat("</a>", 20_000), "nested deeper"},
			{protobufMessages, nestedProtobuf(20_000), "nested deeper"},
		} {
			runPipeline(t, `
inputs: {in: {stdin: {framing: {length: 4}, max_record: 8MiB}}}
processors: [{decode: `+f.format+`}]
outputs: {out: {drop: {}}}`, repeated(framed([]byte(f.text)), 8)).Want(t, 1, "8 received: 8 dropped", f.says)
		}
		runPipeline(t, `
inputs: {in: {stdin: {max_record: 8MiB}}}
processors: [{set: {a.b: this.c}}, {filter: 'len(raw()) > 0'}, {set: {d: 'fromJSON(raw())'}}]
outputs: {out: {drop: {}}}`, repeated([]byte(strings.Repeat(`{"c":`, 1e6)+strings.Repeat("}", 1e6)+"\n"), 8)).Want(t, 1,
			"8 received: 8 dropped", "deep")
	}},
	{"duplicate keys, huge numbers and NaN", func(t *testing.T) {
		r := runPipeline(t, `
inputs: {in: {stdin: {}}}
processors: [{set: {kind: role, admin: 'role == "admin"'}}]
outputs: {out: {stdout: {}}}
engine: {workers: 1} # else the two that are delivered may change places`, strings.NewReader(`{"role":"admin","role":"user"}
{"role":"admin","\u0072ole":"user"}
{"role":1e400}
{"role":-0}
{"role":NaN}
{"role":Infinity}
{"role":1`+strings.Repeat("0", 1<<19)+`}
`))
		r.Want(t, 1, "7 received: 2 delivered, 5 dropped", "1e400 is out of range", "NaN and Infinity are not values")
		if want := `{"role":"admin","role":"user","kind":"user","admin":false}
{"role":"admin","\u0072ole":"user","kind":"user","admin":false}
`; r.Stdout != want {
			t.Errorf("stdout:\n%.2000swant:\n%s", r.Stdout, want)
		}
		runPipeline(t, `
inputs: {in: {stdin: {}}}
processors: [{set: {n: n + 1}}]
outputs: {out: {drop: {}}}`, repeated([]byte(`{"n":1`+strings.Repeat("0", 1<<19)+"}\n"+`{"n":1e400}`+"\n"+`{"n":9223372036854775807}`+"\n"),
			20)).Want(t, 1, "60 received: 60 dropped", "expression")
	}},
	{"invalid UTF-8 as a key, a header and a label", func(t *testing.T) {
		r := runPipeline(t, `
inputs: {in: {stdin: {}}}
processors: [{metric: {counter: seen_total, labels: {who: raw()}}}, {rate_limit: {messages: 1000, per: 1ms, key: raw()}}, {dedupe: raw()}]
batchers: {b: {key: raw(), output: out, processors: [{archive: lines}]}}
outputs: {out: {stdout: {}}}
engine: {order_by: raw()}`, strings.NewReader("\xff\xfe\n\xc0\xaf\n\xed\xa0\x80\nfine\n"))
		r.Want(t, 0, "4 received", "4 delivered")
		if r.Stdout == "" || len(strings.Split(strings.TrimSpace(r.Stdout), "\n")) != 4 {
			t.Errorf("stdout: %q", r.Stdout)
		}
	}},
	{"a million batch keys", func(t *testing.T) {
		runPipeline(t, `
inputs: {in: {generate: {count: 1000000, body: '{"k": counter()}'}}}
batchers: {b: {key: k, batch: {size: 10, timeout: 1h}, output: out}}
outputs: {out: {drop: {}}}`, nil).Want(t, 0, "1,000,000 delivered")
	}},
	{"a million label values", func(t *testing.T) {
		runPipeline(t, `
inputs: {in: {generate: {count: 1000000, body: '{"k": counter()}'}}}
processors: [{metric: {counter: seen_total, labels: {k: k, l: 'repeat("x", 300)'}}}]
outputs: {out: {drop: {}}}`, nil).Want(t, 0, "1,000,000 delivered")
	}},
	{"a million limiter keys", func(t *testing.T) {
		runPipeline(t, `
inputs: {in: {generate: {count: 1000000, body: '{"k": counter()}'}}}
processors: [{rate_limit: {messages: 1000000, per: 1s, key: k}}]
outputs: {out: {drop: {}}}`, nil).Want(t, 0, "1,000,000 delivered")
	}},
	{"a million keys to remember", func(t *testing.T) {
		runPipeline(t, `
inputs: {in: {generate: {count: 300000, body: '{"k": counter()}'}}}
processors: [{dedupe: {key: 'repeat("x", 300) + string(k)', max_keys: 100000}}]
outputs: {out: {drop: {}}}`, nil).Want(t, 0, "300,000 delivered")
	}},
	{"expressions that never end, or have huge results", func(t *testing.T) {
		for _, e := range []string{ // n is 10,000
			`count(1..n, count(1..n, count(1..n, true) > 0) > 0)`,
			`reduce(1..n, #acc + repeat("x", 1000000), "")`,
			`repeat(repeat(repeat("x", n), n), n)`,
			`map(1..n, map(1..n, this))`,
			`join(map(1..n, repeat("x", n)), ",")`,
			`split(repeat("x", n * 1000), "")`,
			`replace(repeat("x", n * 10), "x", repeat("y", n))`,
			`toJSON(map(1..n, repeat("\u0000", n)))`,
			`sort(map(1..n * 1000, -#))`,
			`find(1..n * 1000000, # < 0)`,
		} {
			// An expression may use 64 MiB, and the garbage of the one before may take as much.
			runPipelineWithin(t, 150, `
inputs: {in: {stdin: {}}}
processors: [{set: {a: '`+e+`'}}]
outputs: {out: {drop: {}}}
engine: {workers: 1}`, repeated([]byte("{\"n\":10000}\n"), 3)).Want(t, 1, "3 received: 3 dropped", "engine.limits.expression")
		}
	}},
	{"regular expressions that blow up, and huge ones", func(t *testing.T) {
		for _, r := range []struct{ pattern, text string }{
			{`^(a+)+$`, strings.Repeat("a", 100_000) + "b"},
			{`(x+x+)+y`, strings.Repeat("x", 100_000)},
			{`((a{1,30}){1,30}){1,30}`, "aaa"},
			{`(((((((((a?){10}){10}){10}){10}){10}){10}){10}){10}){10}`, "aaa"},
			{strings.Repeat("(", 100_000), "a"},
			{strings.Repeat("[^a]|", 100_000), "a"},
			{`\pL{1000}\pL{1000}\pL{1000}`, "a"},
		} {
			doc := fmt.Sprintf(`{"p":%q,"t":%q}`+"\n", r.pattern, r.text)
			runPipeline(t, `
inputs: {in: {stdin: {}}}
processors: [{set: {a: 't matches p'}}]
outputs: {out: {drop: {}}}
engine: {workers: 1}`, repeated([]byte(doc), 10))
		}
		dir := t.TempDir()
		for _, pattern := range []string{`((a{1,30}){1,30}){1,30}`, strings.Repeat("(a|b)*", 5000)} {
			flowdtest.Write(t, dir, "p.yaml", "inputs: {in: {stdin: {}}}\nprocessors: [{filter: 't matches \""+pattern+
				"\"'}]\noutputs: {out: {drop: {}}}")
			flowdtest.Run(t, dir, "", "lint", "p.yaml").Want(t, 2)
		}
	}},
	{"many long responses at once", func(t *testing.T) {
		answer := bytes.Repeat([]byte("x"), 8<<20)
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.(http.Flusher).Flush() // so that the response has no Content-Length
			_, _ = w.Write(answer)
		}))
		defer server.Close()
		runPipeline(t, `
inputs: {in: {stdin: {}}}
processors: [{http: {url: "`+server.URL+`"}}]
outputs: {out: {drop: {}}}
engine: {workers: 8}`, repeated([]byte("{}\n"), 32)).Want(t, 0, "32 received: 32 delivered")
	}},
	{"messages that double at each step", func(t *testing.T) {
		steps := strings.TrimSuffix(strings.Repeat("{set: {a: '[a, a]'}}, ", 40), ", ")
		runPipelineWithin(t, 260, `
inputs: {in: {stdin: {}}}
processors: [`+steps+`]
outputs: {out: {drop: {}}}
engine: {workers: 4}`, repeated([]byte(`{"a":"`+strings.Repeat("x", 1000)+"\"}\n"), 4)).Want(t, 1, "4 received: 4 dropped", "too_large")
		splits := strings.TrimSuffix(strings.Repeat(`{split: '[this, this]'}, `, 14), ", ")
		runPipeline(t, `
inputs: {in: {stdin: {}}}
processors: [`+splits+`]
outputs: {out: {drop: {}}}
engine: {workers: 8}`, repeated([]byte(`{"a":"`+strings.Repeat("x", 1000)+"\"}\n"), 4)).Want(t, 0, "4 received: 4 delivered")
	}},
}

// bomb sends a small stream that expands to 128 lines of 1 MiB.
func bomb(f compression.Format) func(t *testing.T) {
	return func(t *testing.T) {
		var packed []byte
		if f == compression.Bzip2 { // Go can't compress bzip2: this has 32 lines
			packed,
				_ = base64.StdEncoding.DecodeString("QlpoMTFBWSZTWQTbr2EAICpBAIAYIAAACCAAUGaaBSgw0OgQDrKkqWaCgqPMUFZJlNZXJzA2gAFmsEAgBggAAAIIABQZpoF" +
				"KDJpOqUSHYCoYaVIKjzFBWSZTWSIkQ5AACylBAIAYIAAACCAAUGaaBSgyaTqlEh2AqGGlSCo8xQVkmU1nnm7SCABC3wQCAGCAAAAggAFBmmgUoMmk6pRIdgKhhpUgqPMUFZ" +
				"JlNZagMNvwAWRkEAgBggAAAIIABQZpoFKDJpOqUSHYCoYaVIKjzFBWSZTWV+qzPEAG9TBAIAYIAAACCAAUGaaBSgyaTqlEh2AqGGlSCo8xQVkmU1kXhW7DABQIQQCAGCAAA" +
				"AggAFQzTQKUGWl0AE7CVJjSSpKcXckU4UJC7Np/DA==")
			packed = bytes.Repeat(packed, 4)
		} else {
			packed = pack(t, f, bytes.Repeat(append(bytes.Repeat([]byte("a"), 1<<20-1), '\n'), 128))
		}
		runPipeline(t, `
inputs: {in: {stdin: {compression: `+string(f)+`}}}
outputs: {out: {drop: {}}}`, bytes.NewReader(packed)).Want(t, 0, "128 received: 128 delivered")
	}
}

func pack(t *testing.T, f compression.Format, data []byte) []byte {
	t.Helper()
	packed, err := compression.Compress(f, data, 0)
	if err != nil {
		t.Fatal(err)
	}
	return packed
}

// rle is a zstd frame with a window descriptor, and blocks of 128 KiB with the same byte.
func rle(window byte, blocks int) []byte {
	frame := []byte{0x28, 0xb5, 0x2f, 0xfd, 0x00, window}
	for range blocks {
		frame = append(frame, 0x02, 0x00, 0x10, 'a')
	}
	return append(frame, 0x01, 0x00, 0x00) // the last one, empty
}

// tarClaim is a tar header of a file with a size of 8 GiB - 1.
func tarClaim() []byte {
	h := make([]byte, 512)
	copy(h, "claim")
	copy(h[100:], "0000600\x000000000\x000000000\x0077777777777\x0000000000000\x00        0")
	copy(h[257:], "ustar\x0000")
	sum := 0
	for _, b := range h {
		sum += int(b)
	}
	copy(h[148:], fmt.Sprintf("%06o\x00 ", sum))
	return h
}

// framed prefixes a message with its length.
func framed(message []byte) []byte {
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(message))), message...)
}

// repeated reads data n times.
func repeated(data []byte, n int) io.Reader {
	all := make([]io.Reader, n)
	for i := range all {
		all[i] = bytes.NewReader(data)
	}
	return io.MultiReader(all...)
}

// runPipeline runs a pipeline with in as its stdin, and fails the test if it uses more than
// mostMemory.
func runPipeline(t *testing.T, pipeline string, in io.Reader) flowdtest.Result {
	t.Helper()
	return runPipelineIn(t, t.TempDir(), mostMemory, pipeline, in)
}

// runPipelineWithin is runPipeline with another limit, in MiB.
func runPipelineWithin(t *testing.T, most int, pipeline string, in io.Reader) flowdtest.Result {
	t.Helper()
	return runPipelineIn(t, t.TempDir(), most, pipeline, in)
}

func runPipelineIn(t *testing.T, dir string, most int, pipeline string, in io.Reader) flowdtest.Result {
	t.Helper()
	flowdtest.Write(t, dir, "p.yaml", strings.TrimSpace(pipeline))
	began := time.Now()
	p := flowdtest.Start(t, dir, "-c", "p.yaml", "-s", "engine.max_in_flight.bytes=16MiB")
	go func() {
		if in != nil {
			_, _ = io.Copy(p.Stdin, in) // flowd may exit before it has read all
		}
		_ = p.Stdin.Close()
	}()
	peak := p.Watch()
	r := p.Wait()
	mib := <-peak
	t.Logf("%d MiB, %v", mib, time.Since(began).Round(time.Millisecond))
	if mib > most {
		t.Errorf("used %d MiB of memory, want at most %d\n%s\n%s", mib, most, pipeline, r.Stderr)
	}
	return r
}

// protobufMessages is a format with recursive messages, each of which decodes to all of its fields.
const protobufMessages = `{protobuf: 'syntax = "proto3"; message M { repeated M messages = 1; int64 a_number = 2; }'}`

// nestedProtobuf encodes nested messages.
func nestedProtobuf(depth int) string {
	var sizes []string // inner messages first
	for n := 0; len(sizes) < depth; {
		head := string(binary.AppendUvarint([]byte{0x0a}, uint64(n)))
		sizes = append(sizes, head)
		n += len(head)
	}
	slices.Reverse(sizes)
	return strings.Join(sizes, "")
}
