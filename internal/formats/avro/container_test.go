package avro

import (
	"bytes"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"

	twmb "github.com/twmb/avro"
	"github.com/twmb/avro/ocf"

	"github.com/flowd-io/flowd/engine/doc"
	"github.com/flowd-io/flowd/internal/formats/codec"
)

// written is a container file as another implementation writes it.
func written(t testing.TB, schema string, values []any, o ...ocf.WriterOpt) []byte {
	t.Helper()
	var b bytes.Buffer
	w, err := ocf.NewWriter(&b, twmb.MustParse(schema), o...)
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range values {
		if err := w.Encode(v); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestContainerFilesAreLists(t *testing.T) {
	var many []any
	var want []string
	for i := range 200 {
		many = append(many, map[string]any{"v": i, "next": nil})
		want = append(want, fmt.Sprintf(`{"v":%d,"next":null}`, i))
	}
	zstandard, err := ocf.ZstdCodec(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, method := range map[string]ocf.Codec{"null": nil, "deflate": ocf.DeflateCodec(9), "snappy": ocf.SnappyCodec(),
		"zstandard": zstandard} {
		t.Run(name, func(t *testing.T) {
			o := []ocf.WriterOpt{ocf.WithBlockCount(20)}
			if method != nil {
				o = append(o, ocf.WithCodec(method))
			}
			file := written(t, list, many, o...)
			c := &container{}
			for range 2 {
				got, err := c.Decode([]byte("x"), file)
				if string(got) != "x["+strings.Join(want, ",")+"]" || err != nil {
					t.Fatalf("%.200s, %v", got, err)
				}
			}
			for n := range len(file) { // a block that is whole is a file that is
				if _, err := c.DecodeWithin(nil, file[:n], 1<<20); err == nil && !strings.HasSuffix(string(file[:n]), string(file[len(file)-16:])) {
					t.Fatalf("the first %d bytes of %d are read", n, len(file))
				}
			}
			damaged := bytes.Clone(file)
			damaged[len(damaged)-1]++
			if _, err := c.Decode(nil, damaged); err == nil || !strings.Contains(err.Error(),
				"the block after 180 values: does not end with the marker") {
				t.Errorf("%v", err)
			}
			if _, err := c.DecodeWithin(nil, file, 200); !errors.Is(err, codec.ErrLimit) {
				t.Errorf("%v", err)
			}
		})
	}
	c := &container{}
	for schema, want := range map[string]string{list: `[]`, `"long"`: `[7]`, `"string"`: `["x"]`} {
		values := map[string][]any{`"long"`: {int64(7)}, `"string"`: {"x"}}[schema]
		if got, err := c.Decode(nil, written(t, schema, values)); string(got) != want || err != nil {
			t.Errorf("got %s, %v, want %s", got, err, want)
		}
	}
}

// TestValuesOfAFileAreDeeperByOne: what is read is a document, and no deeper than one may be.
func TestValuesOfAFileAreDeeperByOne(t *testing.T) {
	p := program(t, list)
	for depth, want := range map[int]bool{codec.MaxDepth - 1: true, codec.MaxDepth: false} {
		value, err := p.Encode(nil, []byte(strings.Repeat(`{"v":1,"next":`, depth)+"null"+strings.Repeat("}", depth)))
		if err != nil {
			t.Fatal(err)
		}
		end := strings.Repeat("s", syncSize)
		file := append([]byte("Obj\x01\x02\x16avro.schema"), appendLong(nil, int64(len(list)))...)
		file = append(appendLong(append(file, list+"\x00"+end+"\x02"...), int64(len(value))), string(value)+end...)
		out, err := new(container).Decode(nil, file)
		var d doc.Doc
		if d.Reset(out, nil); (err == nil) != want || want && d.Valid() != nil {
			t.Errorf("%d levels: %.40s, %v", depth, out, err)
		}
	}
}

func TestFilesThatAreNot(t *testing.T) {
	file := func(method, block string) string {
		return "Obj\x01\x04\x16avro.schema\x0a\"int\"\x14avro.codec" + string(rune(2*len(method))) + method + "\x00" + strings.Repeat("s", 16) +
			block
	}
	end := strings.Repeat("s", 16)
	tests := []struct{ name, payload, want string }{
		{"one", file("null", "\x02\x02\x0e"+end), "[7]"},
		{"nothing", "", "is not a container file"},
		{"another file", "PAR1", "is not a container file"},
		{"a header that ends", "Obj\x01\x04\x16avro", "avro: header: "},
		{"a header without a schema", "Obj\x01\x00" + end, "the schema of the file: not an Avro schema"},
		{"a compression that is not read", file("xz", "\x02\x02\x0e"+end), `compressed by "xz" (null, deflate,`},
		{"a block of gigabytes", file("null", "\x02\xfe\xff\xff\xff\x0f"), "the block after 0 values: claims to be 2147483647 bytes long"},
		{"fewer values than none", file("null", "\x01\x02\x0e"+end), "claims to have -1 values"},
		{"more values than there are", file("null", "\x04\x02\x0e"+end), "avro: 1: the payload ends in the middle of it"},
		{"fewer values than there are", file("null", "\x02\x04\x0e\x0e"+end), "1 bytes are left after the 1 values of a block"},
		{"a checksum that is another", file("snappy", "\x02\x0e\x01\x00\x0e0000"+end), "the checksum of a block does not match"},
		{"a block that is too short for its checksum", file("snappy", "\x02\x02\x0e"+end), "the payload ends"},
		{"bytes that are not compressed", file("deflate", "\x02\x02\x0e"+end), "the block after 0 values: "},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := new(container).Decode(nil, []byte(tt.payload))
			if err != nil {
				got = []byte(err.Error())
			}
			if !strings.Contains(string(got), tt.want) {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}

// TestAFileThatIsMuchOfLittle: neither a bomb nor values that take no bytes take much memory.
func TestAFileThatIsMuchOfLittle(t *testing.T) {
	payloads := []string{"Obj\x01\x02\x16avro.schema\x0c\"null\"\x00" + strings.Repeat("s", 16) +
		"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01\x00" + strings.Repeat("s", 16)}
	for _, method := range []ocf.Codec{ocf.DeflateCodec(1), ocf.SnappyCodec(), ocf.MustZstdCodec(nil, nil)} {
		payloads = append(payloads, string(written(t, `"bytes"`, []any{make([]byte, 16<<20)}, ocf.WithCodec(method), ocf.WithBlockBytes(1<<30))))
	}
	for _, payload := range payloads {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		out, err := new(container).DecodeWithin(nil, []byte(payload), 1<<20)
		runtime.ReadMemStats(&after)
		if took := after.TotalAlloc - before.TotalAlloc; !errors.Is(err, codec.ErrLimit) || took > 14<<20 {
			t.Errorf("%d bytes, %v, after %d MiB", len(out), err, took>>20)
		}
	}
}

// FuzzContainer: what any bytes say is a list within the limit.
func FuzzContainer(f *testing.F) {
	f.Add(written(f, list, []any{map[string]any{"v": 1, "next": nil}}, ocf.WithCodec(ocf.SnappyCodec())))
	f.Add(written(f, `"long"`, []any{int64(1), int64(2)}, ocf.WithCodec(ocf.DeflateCodec(1))))
	f.Fuzz(func(t *testing.T, payload []byte) {
		const limit = 1 << 20
		out, err := new(container).DecodeWithin(nil, payload, limit)
		if err != nil {
			return
		}
		var d doc.Doc
		if d.Reset(out, nil); d.Valid() != nil || out[0] != '[' || len(out) > limit+4*len(payload)+100 {
			t.Fatalf("%x gives %d bytes: %.200s", payload, len(out), out)
		}
	})
}
