package engine

import (
	"errors"
	"os"
	"testing"
)

func TestPathsThatMayBeConfiguration(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := errors.Join(os.MkdirAll("conf/sub", 0o700), os.Mkdir("real", 0o700), os.Symlink("real", "link"),
		os.Symlink("conf", "alias"),
		os.WriteFile("real/linked.yaml", nil, 0o600),
		os.Symlink("../real/linked.yaml", "conf/linked.yaml")); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name, path string
		whole      bool
		read       string // the code of the expression
		want       bool
	}{
		{"a folder of its own", "out/", false, "p.yaml", false},
		{"the folder in which the file lies", "./", false, "p.yaml", true},
		{"a folder above it", "conf/", false, "conf/sub/schema.json", true},
		{"the root", "/", false, "p.yaml", true},
		{"a name in that folder that can't be the file's", "./lake-", false, "p.yaml", false},
		{"the beginning of its name", "./p", false, "p.yaml", true},
		{"a name that the folder begins with", "con", false, "conf/", true},
		{"a directory of configuration", "conf/", false, "conf/", true},
		{"a name in a directory of configuration", "conf/lake-", false, "conf/", true},
		{"a folder in it, which is not read", "conf/out/", false, "conf/", false},
		{"a sibling of it", "conf-out/", false, "conf/", false},
		{"a whole path beside the file", "out.ndjson", true, "p.yaml", false},
		{"the file itself", "./p.yaml", true, "p.yaml", true},
		{"a pipeline in a directory of configuration", "conf/new.yaml", true, "conf/", true},
		{"another file in it", "conf/out.ndjson", true, "conf/", false},
		{"a link to the directory of configuration", "alias/", false, "conf/", true},
		{"a link to the file's folder", "link/", false, "real/p.yaml", true},
		{"a folder to which the file links", "real/", false, "conf/linked.yaml", true},
		{"above of where it is", "../", false, "p.yaml", true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			read, got := ReadFrom([]string{tt.read}).Meet(tt.path, tt.whole)
			if got != tt.want {
				t.Errorf("%q (whole: %v) and %q: got %v (%s), want %v", tt.path, tt.whole, tt.read, got, read, tt.want)
			}
		})
	}
}
