package test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestPoolStoreHasOneOwner: a second hub with the same store fails and leaves the store alone.
// The next hub removes the files of one that was killed.
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
			f.waitForPool(20, 0)
			before := folders()
			r := command(t, f.dir, "", "env", "TMPDIR="+temp, binary, "-c", f.file(p))
			if r.Want(t, 1, "service.cluster: "); strings.Contains(where, "dir") {
				r.Want(t, 1, "jobs/flowd-jobs belongs to another flowd",
					fmt.Sprintf("process %d, pipeline p", f.hub.Cmd.Process.Pid))
			} else {
				r.Want(t, 1, "address already in use")
			}
			if after := folders(); len(before) != 1 || !slices.Equal(after, before) {
				t.Errorf("the folders were %q, and are %q after the second hub", before, after)
			}
			f.join(1)
			f.readLines(20)
			f.kill(f.hub)
			serve()
			if after := folders(); len(after) != 1 || after[0] == before[0] && f.size(after[0]) > 1<<20 {
				t.Errorf("a killed hub leaves %q", after)
			}
			f.waitForWorker(f.workers[0])
			f.hub.Send("1\n")
			f.finish(1, 1, f.workers...)
			if after := folders(); len(after) == 1 && f.size(after[0]) > 1000 || len(after) > 1 {
				t.Errorf("a stopped hub leaves %q", after)
			}
		})
	}
}

// size returns the total size of all files in a directory, in bytes.
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
