package compression

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
)

var writable = []Format{None, Gzip, Zstd, Snappy, LZ4}

func TestWhatIsCompressedComesBack(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	random := make([]byte, 300_000)
	for i := range random {
		random[i] = byte(rng.Uint32())
	}
	payloads := map[string][]byte{
		"one byte":       []byte("x"),
		"text":           []byte(strings.Repeat("the quick brown fox ", 5000)),
		"incompressible": random,
	}
	for _, f := range writable {
		for name, want := range payloads {
			t.Run(string(f)+" "+name, func(t *testing.T) {
				for range 3 { // pooled ones too
					packed, err := Compress(f, want, 0)
					if err != nil {
						t.Fatal(err)
					}
					got, err := Decompress(f, packed, int64(len(want)))
					if err != nil || !bytes.Equal(got, want) {
						t.Fatalf("got %d bytes and %v, want %d bytes", len(got), err, len(want))
					}
				}
			})
		}
	}
}

func TestABombIsStoppedAtItsLimit(t *testing.T) {
	zeros := make([]byte, 10<<20)
	for _, f := range writable {
		packed, err := Compress(f, zeros, 0)
		if err != nil {
			t.Fatal(err)
		}
		if _, err = Decompress(f, packed, 1<<20); !errors.Is(err, ErrTooLarge) {
			t.Errorf("%s: got %v, want ErrTooLarge", f, err)
		}
	}
}

func TestAZstdWindowClaimIsRefused(t *testing.T) {
	// A frame header that claims a window of 2 GiB, and no data.
	claim := []byte{0x28, 0xb5, 0x2f, 0xfd, 0x00, 0xa8, 0x01, 0x00, 0x00}
	if _, err := Decompress(Zstd, claim, 1<<30); err == nil {
		t.Error("got no error for a window of 2 GiB")
	}
}

func TestTruncatedDataIsAnError(t *testing.T) {
	text := []byte(strings.Repeat("never silently short ", 10_000))
	for _, f := range []Format{Gzip, Zstd, Snappy, LZ4} {
		packed, err := Compress(f, text, 0)
		if err != nil {
			t.Fatal(err)
		}
		r, err := NewReader(f, bytes.NewReader(packed[:len(packed)/2]), nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadAll(r); err == nil {
			t.Errorf("%s: half of the data read without an error", f)
		} else if !strings.Contains(err.Error(), string(f)) {
			t.Errorf("%s: error %q does not name the format", f, err)
		}
	}
}

func TestSeveralMembersAreOneStream(t *testing.T) {
	for _, f := range []Format{Gzip, Zstd} {
		a, _ := Compress(f, []byte("one "), 0)
		b, _ := Compress(f, []byte("two"), 0)
		got, err := Decompress(f, append(a, b...), 100)
		if err != nil || string(got) != "one two" {
			t.Errorf("%s: got %q and %v", f, got, err)
		}
	}
}

func TestTheExtensionNamesTheFormat(t *testing.T) {
	for path, want := range map[string]Format{
		"a.gz": Gzip, "a.GZ": Gzip, "a.tgz": Gzip, "a.zst": Zstd, "a.bz2": Bzip2, "a.log": None, "gz": None,
		"d.gz/a": None,
	} {
		if got := FromPath(path); got != want {
			t.Errorf("FromPath(%q) = %s, want %s", path, got, want)
		}
	}
}

func FuzzDecompress(f *testing.F) {
	for i, format := range writable {
		packed, _ := Compress(format, []byte("some text, some text"), 0)
		f.Add(i, packed)
	}
	f.Add(5, []byte("BZh91AY&SY"))
	for i, format := range writable { // bombs, one in another
		inner, _ := Compress(format, make([]byte, 1<<20), 0)
		outer, _ := Compress(format, inner, 0)
		f.Add(i, inner)
		f.Add(i, outer)
	}
	f.Add(2, claim(0x88))
	f.Add(2, []byte("\x28\xb5\x2f\xfd\xe0\xff\xff\xff\xff\xff\xff\xff\x7f"))
	f.Add(3, []byte("\xff\x06\x00\x00sNaPpY\x00\x09\x00\x00\x00\x00\x00\x00\xff\xff\xff\xff\x0f"))
	f.Add(4, []byte("\x04\x22\x4d\x18\x68\x70\xff\xff\xff\xff\xff\xff\xff\x7f\x00\xff\xff\xff\x7f"))
	f.Fuzz(func(t *testing.T, i int, data []byte) {
		formats := []Format{None, Gzip, Zstd, Snappy, LZ4, Bzip2}
		out, err := Decompress(formats[uint(i)%6], data, 1<<16)
		if err == nil && len(out) > 1<<16 {
			t.Fatalf("%d bytes came out of a limit of %d", len(out), 1<<16)
		}
	})
}
