package test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestPoolStoreHasOneOwner: a hub that is started twice does not touch what the first
// one has, and one that was killed leaves nothing that the next does not remove.
func TestPoolStoreHasOneOwner(t *testing.T) {
	t.Parallel()
	for _, where := range []string{"store: file, dir: jobs", "store: file", "store: memory"} {
		t.Run(where, func(t *testing.T) {
			t.Parallel()
			f := newFleet(t, onLoopback)
			temp := t.TempDir()
			folders := func() []string {
				in, errIn := filepath.Glob(filepath.Join(f.dir, "jobs", "flowd-jobs"))
				out, errOut := filepath.Glob(filepath.Join(temp, "*"))
				if errIn != nil || errOut != nil {
					t.Fatal(errIn, errOut)
				}
				return append(in, out...)
			}
			p := pipeline{cluster: where}
			serve := func() {
				f.hub = startAs(t, f.dir, "env", "TMPDIR="+temp, binary, "-c", f.file(p))
				_, addr, _ := strings.Cut(f.hub.Says("workers may join"), "addr=")
				f.addr, _, _ = strings.Cut(addr, " ")
			}
			serve()
			f.hub.Send(numbers(1, 20))
			f.shows(20, 0)
			before := folders()
			r := command(t, f.dir, "", "env", "TMPDIR="+temp, binary, "-c", f.file(p))
			if r.Want(t, 1, "service.cluster: "); strings.Contains(where, "dir") {
				r.Want(t, 1, "jobs/flowd-jobs belongs to another flowd",
					fmt.Sprintf("process %d, pipeline p", f.hub.Cmd.Process.Pid))
			} else {
				r.Want(t, 1, "address already in use")
			}
			if after := folders(); len(before) != 1 || !slices.Equal(after, before) {
				t.Errorf("there were the folders %q, and then %q", before, after)
			}
			f.join(1)
			f.lines(20)
			f.kill(f.hub)
			serve()
			if after := folders(); len(after) != 1 || after[0] == before[0] && f.size(after[0]) > 1<<20 {
				t.Errorf("a hub that was killed leaves %q", after)
			}
			f.joined(f.workers[0])
			f.hub.Send("1\n")
			f.finish(1, 1, f.workers...)
			if after := folders(); len(after) == 1 && f.size(after[0]) > 1000 || len(after) > 1 {
				t.Errorf("a hub that has ended leaves %q", after)
			}
		})
	}
}

// size is that of all files of a folder.
func (f *fleet) size(dir string) (n int64) {
	f.t.Helper()
	err := filepath.WalkDir(dir, func(_ string, e os.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		info, err := e.Info()
		if err == nil {
			n += info.Size()
		}
		return err
	})
	if err != nil {
		f.t.Fatal(err)
	}
	return n
}
