package compress_test

import (
	"testing"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/enginetest"
	"github.com/flowd-io/flowd/internal/formats/compression"
	"github.com/flowd-io/flowd/internal/testing/steptest"
	_ "github.com/flowd-io/flowd/processors/compress"
)

func TestCompressedPayloadsReadBack(t *testing.T) {
	for _, format := range []compression.Format{compression.Gzip, compression.Zstd, compression.Snappy,
		compression.LZ4} {
		t.Run(string(format), func(t *testing.T) {
			p := enginetest.New(t, engine.Processors, `{"compress": "`+string(format)+`"}`)
			for _, o := range enginetest.Apply(t, p, "hello") {
				if o.Fate != "live" {
					t.Fatalf("fate %s: %v", o.Fate, o.Err)
				}
				back, err := compression.Decompress(format, []byte(o.Body), 1<<20)
				if err != nil {
					t.Fatal(err)
				}
				if got := string(back); got != "hello" {
					t.Errorf("reads back as %q", got)
				}
			}
		})
	}
}

func TestCompressRefuses(t *testing.T) {
	steptest.RunRefused(t, []steptest.Refused{
		{Name: "a format that can only be read", Step: `{"compress": "bzip2"}`,
			Want: "must be one of gzip, zstd, snappy, lz4"},
		{Name: "a level beyond those of gzip", Step: `{"compress": {"format": "gzip", "level": 10}}`,
			Want: "gzip has the levels 1 to 9"},
		{Name: "a level beyond those of zstd", Step: `{"compress": {"format": "zstd", "level": 23}}`,
			Want: "zstd has the levels 1 to 22"},
		{Name: "a level of a format without", Step: `{"compress": {"format": "snappy", "level": 1}}`,
			Want: "snappy has no levels"},
		{Name: "no format", Step: `{"compress": null}`, Want: "format"},
	})
}

func TestCompressConforms(t *testing.T) {
	steptest.Conforms(t, `{"compress": {"format": "gzip", "level": 1}}`, "hello", "")
	steptest.Conforms(t, `{"compress": {"format": "gzip", "level": 9}}`, "hello", "")
	steptest.Conforms(t, `{"compress": {"format": "zstd", "level": 22}}`, "hello", "")
}
