package parquet

import (
	"bytes"
	"encoding/binary"
	"errors"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress"

	"github.com/flowd-io/flowd/engine/doc"
	"github.com/flowd-io/flowd/internal/formats/codec"
)

func TestFilesThatAreNot(t *testing.T) {
	file := fileOf(t, Writes{Compression: "none"}, some(20)...)
	changed := func(change func(b []byte) []byte) string { return string(change(bytes.Clone(file))) }
	tests := []struct{ name, payload, want string }{
		{"nothing", "", "does not begin with PAR1"},
		{"another file", "{\"a\":1}            ", "does not begin with PAR1"},
		{"a file that is cut off", string(file[:len(file)-1]), "it is cut off"},
		{"an encrypted footer", changed(func(b []byte) []byte { return append(b[:len(b)-4], "PARE"...) }), "is encrypted"},
		{"a footer of gigabytes", changed(func(b []byte) []byte {
			binary.LittleEndian.PutUint32(b[len(b)-8:], 1<<31)
			return b
		}), "the footer claims to be 2147483648 bytes long"},
		{"an empty footer", "PAR1\x00\x00\x00\x00\x00PAR1", "the footer: "},
		{"a schema of nothing", "PAR1\x00\x01\x00\x00\x00PAR1", "is not valid"},
		{"columns without names", "PAR1\x29\x2c\x00\x00\x00\x05\x00\x00\x00PAR1", "a column has no name"},
		{"a list that is longer than the footer", "PAR1\x29\xfc\xff\xff\xff\xff\x0f\x07\x00\x00\x00PAR1", "the file ends in the middle"},
		{"a page that is damaged", changed(func(b []byte) []byte { b[bytes.Index(b, []byte("u19"))] ^= 1; return b }), "is damaged"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := new(Reads).Decode(nil, []byte(tt.payload))
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%.100s, %v, want %q", got, err, tt.want)
			}
		})
	}
}

// TestAFileThatIsMuchOfLittle: neither bombs nor runs take much memory before they are refused.
func TestAFileThatIsMuchOfLittle(t *testing.T) {
	type items struct {
		L []*int32 `parquet:"l,list"`
	}
	type texts struct {
		S string `parquet:"s,dict"`
	}
	type plain struct {
		S string `parquet:"s"`
	}
	bomb := []plain{{string(make([]byte, 4<<20))}}
	files := map[string][]byte{
		"a run":        written(t, []items{{make([]*int32, 1<<20)}}),
		"a dictionary": written(t, slices.Repeat([]texts{{strings.Repeat("x", 64<<10)}}, 1000)),
		"a long text":  written(t, bomb, parquet.Compression(&parquet.Uncompressed)),
		"many rows":    written(t, make([]struct{ B bool }, 1<<20)),
		"snappy":       written(t, bomb, parquet.Compression(&parquet.Snappy)),
		"gzip":         written(t, bomb, parquet.Compression(&parquet.Gzip)),
		"zstd":         written(t, bomb, parquet.Compression(&parquet.Zstd)),
		"lz4":          written(t, bomb, parquet.Compression(&parquet.Lz4Raw)),
		"brotli":       written(t, bomb, parquet.Compression(&parquet.Brotli)),
	}
	for name, file := range files {
		t.Run(name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			out, err := new(Reads).DecodeWithin(nil, file, 1<<18)
			runtime.ReadMemStats(&after)
			if took := after.TotalAlloc - before.TotalAlloc; !errors.Is(err, codec.ErrLimit) || took > 3<<20 {
				t.Errorf("%d bytes of %d, %v, after %d MiB", len(out), len(file), err, took>>20)
			}
		})
	}
}

// TestAPageIsNoLongerThanItClaims: what a page claims is what memory is taken for.
func TestAPageIsNoLongerThanItClaims(t *testing.T) {
	for name, method := range map[int64]compress.Codec{1: &parquet.Snappy, 2: &parquet.Gzip, 4: &parquet.Brotli, 6: &parquet.Zstd,
		7: &parquet.Lz4Raw} {
		page, err := method.Encode(nil, make([]byte, 1<<20))
		if err != nil {
			t.Fatal(err)
		}
		for size, fits := range map[int64]bool{1<<20 - 1: false, 1 << 20: true, 1<<20 + 1: false} {
			c := column{codec: name, memory: &memory{most: 2 << 20}}
			if _, out, err := c.decompress(page, size, 0); (err == nil) != fits || fits && len(out) != 1<<20 {
				t.Errorf("%s claims %d: %d bytes, %v", method, size, len(out), err)
			}
		}
	}
}

// TestDamageIsAnError: whatever byte is another, reading ends, with a document or an error.
func TestDamageIsAnError(t *testing.T) {
	for _, file := range [][]byte{fileOf(t, Writes{}, some(3)...), written(t, []foreign{{Prefix: "a", Map: map[int32]string{1: "x"}},
		{Prefix: "ab"}}, parquet.DataPageVersion(1))} {
		for at := range file {
			for _, b := range []byte{0xff, file[at] ^ 1, file[at] ^ 0x80} {
				damaged := bytes.Clone(file)
				damaged[at] = b
				checkDecodes(t, damaged)
			}
			checkDecodes(t, file[at:])
		}
	}
}

func checkDecodes(t *testing.T, payload []byte) {
	t.Helper()
	const limit = 1 << 20
	out, err := new(Reads).DecodeWithin(nil, payload, limit)
	if err != nil {
		return
	}
	var d doc.Doc
	if d.Reset(out, nil); d.Valid() != nil || out[0] != '[' || len(out) > 2*limit {
		t.Fatalf("%x gives %d bytes: %.200s", payload, len(out), out)
	}
}

// FuzzDecode: what any file says is a list within the limit. The seeds are small: before it goes on, the fuzzer makes
// an input that reaches new code shorter, for up to a minute and uncounted, and tries all pairs of places where it may
// cut. Of 2 KB, that is the minute, since a file whose offsets do not fit never gets shorter.
func FuzzDecode(f *testing.F) {
	f.Add(written(f, []struct{ A int32 }{{1}, {2}}))
	f.Add(written(f, []struct {
		A string `parquet:"a,optional,dict,zstd"`
	}{{"x"}, {"x"}, {""}}))
	f.Add(written(f, []struct {
		L []int32 `parquet:"l,list"`
	}{{[]int32{1, 2}}, {}}, parquet.DataPageVersion(1)))
	f.Add(written(f, []struct {
		A int64 `parquet:"a,delta"`
	}{{1}, {3}}))
	f.Add(written(f, []struct {
		A string `parquet:"a,delta,snappy"`
	}{{"x"}, {"xy"}}))
	f.Fuzz(checkDecodes)
}

// FuzzValues: a page gives no more values than its bytes say, and nothing outside of it.
func FuzzValues(f *testing.F) {
	f.Add(int64(physicalInt64), int64(encodingDelta), []byte{0x80, 1, 4, 3, 2, 2, 0, 0, 0, 0})
	f.Add(int64(physicalBytes), int64(encodingDeltaBytes), []byte{0x80, 1, 4, 1, 0, 0x80, 1, 4, 1, 2, 'x'})
	f.Add(int64(physicalBytes), int64(encodingDeltaBytes), []byte{0x80, 1, 4, 1, 10, 0x80, 1, 4, 1, 2, 'x'}) // a prefix of nothing
	f.Add(int64(physicalBytes), int64(encodingDict), []byte{2, 3, 0xe4, 0x1b})
	f.Add(int64(physicalFixed), int64(encodingSplit), []byte("abcabc"))
	f.Fuzz(func(t *testing.T, physical, encoding int64, page []byte) {
		e := &element{physical: physical, length: 3}
		d, err := newDictionary(e, bytes.Repeat([]byte{0}, 64), 4)
		if err != nil {
			d = nil
		}
		v, err := newValues(e, encoding, page, d)
		for n := 0; err == nil && n < 10_000; n++ {
			var one value
			if one, err = v.next(); len(one.bytes) > max(len(page), 64) {
				t.Fatalf("a value of %d bytes in a page of %d", len(one.bytes), len(page))
			}
		}
	})
}
