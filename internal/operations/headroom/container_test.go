package headroom

import (
	"io/fs"
	"math"
	"runtime/debug"
	"testing"
	"testing/fstest"
)

// files returns a file system with paths and texts in turn.
func files(pairs ...string) fs.FS {
	all := fstest.MapFS{}
	for i := 0; i < len(pairs); i += 2 {
		all[pairs[i]] = &fstest.MapFile{Data: []byte(pairs[i+1] + "\n")}
	}
	return all
}

// within runs the test with another root.
func within(t *testing.T, other fs.FS) {
	t.Helper()
	before := root
	root = other
	t.Cleanup(func() { root = before })
}

func TestTheLimitOfAContainerIsFound(t *testing.T) {
	for _, tt := range []struct {
		name string
		root fs.FS
		want int
	}{
		{"no control groups", files(), math.MaxInt},
		{"version 2 in a container", files("proc/self/cgroup", "0::/", "sys/fs/cgroup/memory.max", "104857600",
			"sys/fs/cgroup/memory.high", "max"), 100 << 20},
		{"a unit of systemd", files("proc/self/cgroup", "0::/system.slice/flowd.service",
			"sys/fs/cgroup/system.slice/flowd.service/memory.max", "max",
			"sys/fs/cgroup/system.slice/flowd.service/memory.high", "52428800"), 50 << 20},
		{"the limit of a group above", files("proc/self/cgroup", "0::/a/b", "sys/fs/cgroup/a/memory.max", "52428800",
			"sys/fs/cgroup/a/b/memory.max", "104857600"), 50 << 20},
		{"no limit", files("proc/self/cgroup", "0::/a", "sys/fs/cgroup/a/memory.max", "max"), math.MaxInt},
		{"version 1", files("proc/self/cgroup", "5:cpu,cpuacct:/docker/1\n4:memory:/docker/1\n0::/docker/1",
			"sys/fs/cgroup/memory/docker/1/memory.limit_in_bytes", "104857600",
			"sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712"), 100 << 20},
		{"version 1 in a container", files("proc/self/cgroup", "4:name=systemd:/docker/1\n3:memory:/docker/1",
			"sys/fs/cgroup/memory/memory.limit_in_bytes", "104857600"), 100 << 20},
		{"version 1 without a limit", files("proc/self/cgroup", "4:memory:/",
			"sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712"), math.MaxInt},
		{"a path outside of the namespace", files("proc/self/cgroup", "0::/../other", "sys/fs/cgroup/memory.max", "104857600"),
			100 << 20},
		{"damaged files", files("proc/self/cgroup", "0\n:\n0::/a", "sys/fs/cgroup/a/memory.max", "x"), math.MaxInt},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := container(tt.root); got != tt.want {
				t.Errorf("got %d, want %d", got, tt.want)
			}
		})
	}
}

func TestTheHeapStaysBelowTheLimitOfTheContainer(t *testing.T) {
	within(t, files("proc/self/cgroup", "0::/", "sys/fs/cgroup/memory.max", "104857600"))
	Set(64 << 20)
	if got := debug.SetMemoryLimit(-1); got != 90<<20 {
		t.Errorf("the limit is %d, want 90 MiB of 100", got)
	}
	if limit, need, ok := Shortage(64 << 20); limit != 100<<20 || need != 160<<20 || !ok {
		t.Errorf("got %d, %d, %v", limit, need, ok)
	}
	if _, _, ok := Shortage(34 << 20); ok {
		t.Error("34 MiB in flight are enough for 100 MiB")
	}
	root = files()
	Set(64 << 20)
	if got := debug.SetMemoryLimit(-1); got != 128<<20 {
		t.Errorf("without a container the limit is %d", got)
	}
}
