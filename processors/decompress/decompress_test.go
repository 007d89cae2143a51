package decompress_test

import (
	"strings"
	"testing"

	"github.com/flowd-io/flowd/internal/formats/compression"
	"github.com/flowd-io/flowd/internal/testing/steptest"
	_ "github.com/flowd-io/flowd/processors/decompress"
)

func packed(t *testing.T, format compression.Format, body string) string {
	t.Helper()
	out, err := compression.Compress(format, []byte(body), 0)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

func TestDecompress(t *testing.T) {
	bomb := strings.Repeat("\x00", 65<<20)
	steptest.Run(t, []steptest.Case{
		{Name: "gzip", Step: `{"decompress": "gzip"}`, In: []string{packed(t, compression.Gzip, "hello")},
			Want: []string{"hello"}},
		{Name: "zstd", Step: `{"decompress": "zstd"}`, In: []string{packed(t, compression.Zstd, "hello")},
			Want: []string{"hello"}},
		{Name: "snappy", Step: `{"decompress": "snappy"}`, In: []string{packed(t, compression.Snappy, "hello")},
			Want: []string{"hello"}},
		{Name: "lz4", Step: `{"decompress": "lz4"}`, In: []string{packed(t, compression.LZ4, "hello")},
			Want: []string{"hello"}},
		{Name: "a payload that just fits", Step: `{"decompress": {"format": "gzip", "max_size": 5}}`,
			In: []string{packed(t, compression.Gzip, "hello")}, Want: []string{"hello"}},

		{Name: "a payload that is too large fails alone", Step: `{"decompress": {"format": "gzip", "max_size": 4}}`,
			In:   []string{packed(t, compression.Gzip, "hello"), packed(t, compression.Gzip, "hi")},
			Want: []string{"hi", "failed decode: raise `max_size`"}},
		{Name: "a bomb", Step: `{"decompress": "zstd"}`, In: []string{packed(t, compression.Zstd, bomb)},
			Want: []string{"failed decode: over the limit"}},
		{Name: "data that is not compressed", Step: `{"decompress": "gzip"}`, In: []string{"hello"},
			Want: []string{"failed decode: gzip"}},
		{Name: "data that ends early", Step: `{"decompress": "lz4"}`,
			In: []string{packed(t, compression.LZ4, "hello")[:9]}, Want: []string{"failed decode: lz4"}},
	})
}

func TestDecompressRefuses(t *testing.T) {
	steptest.RunRefused(t, []steptest.Refused{{Name: "an unknown format", Step: `{"decompress": "rar"}`,
		Want: "must be one of"}})
}

func TestDecompressConforms(t *testing.T) {
	steptest.Conforms(t, `{"decompress": "gzip"}`, packed(t, compression.Gzip, "hello"))
}
