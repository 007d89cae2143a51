package framing

import (
	"archive/tar"
	"bytes"
	"io"
	"strings"
	"testing"

	"github.com/flowd-io/flowd/engine"
)

type tarFile struct{ name, body string }

func tarOf(files ...tarFile) []byte {
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, f := range files {
		h := &tar.Header{Name: f.name, Mode: 0o640, Size: int64(len(f.body)), Typeflag: tar.TypeReg}
		if strings.HasSuffix(f.name, "/") {
			h.Typeflag = tar.TypeDir
		}
		if err := w.WriteHeader(h); err != nil {
			panic(err)
		}
		if _, err := io.WriteString(w, f.body); err != nil {
			panic(err)
		}
	}
	if err := w.Close(); err != nil {
		panic(err)
	}
	return out.Bytes()
}

func TestTar(t *testing.T) {
	data := tarOf(tarFile{"dir/", ""}, tarFile{"dir/a", "text"}, tarFile{"big", strings.Repeat("x", 600)},
		tarFile{"empty", ""})
	tests := []struct {
		name string
		in   []byte
		want []string
	}{
		{"each regular file is a record", data, []string{"text",
			"!record of 600 bytes is longer than max_record (10 bytes): xxxxxxxxxx", ""}},
		{"a file may be cut off", data[:512*2+2],
			[]string{"!not a whole tar archive: file number 1 is cut off; what follows can't be read: te"}},
		{"a header may be cut off", data[:512*3+10],
			[]string{"text", "!not a whole tar archive: file number 2 is cut off; what follows can't be read: "}},
		{"garbage is no archive", bytes.Repeat([]byte("garbage!"), 200),
			[]string{"!not a whole tar archive: archive/tar: invalid tar header; what follows can't be read: "}},
		{"an empty stream has no files", nil, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, _ := readAll(t, config(Framing{Tar: &Plain{}}, 10), bytes.NewReader(tt.in))
			if strings.Join(got, "|") != strings.Join(tt.want, "|") {
				t.Errorf("got  %q\nwant %q", got, tt.want)
			}
		})
	}
}

func TestTarFilesHaveMetadata(t *testing.T) {
	r := config(Framing{Tar: &Plain{}}, 10).Reader(bytes.NewReader(tarOf(tarFile{"a", "x"})))
	b := engine.NewBatch(1)
	if err := Fill(r, b, engine.Meta{}.With("path", "p.tar").WithIndex("line")); err != nil {
		t.Fatal(err)
	}
	for m := range b.All() {
		for name, want := range map[string]any{"name": "a", "mode": "0640", "path": "p.tar", "line": 1} {
			if got, _ := m.Meta.Get(name); got != want {
				t.Errorf("%s: got %v, want %v", name, got, want)
			}
		}
	}
}
