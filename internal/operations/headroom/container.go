package headroom

import (
	"io/fs"
	"math"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
)

// root is the root of the file system, in which Linux shows the limits of control groups.
var root = os.DirFS("/")

// Shortage returns the memory limit of this process's container, and how much the process may need if its pipelines may have
// this many bytes in flight together, both in bytes. ok reports that the limit is too low.
func Shortage(inFlight int) (limit, need int, ok bool) {
	limit, need = container(root), 2*min(inFlight, mostInFlight)+beside
	return limit, need, limit < need
}

// container returns the lowest memory limit of the control groups that this process is in, in bytes. It returns math.MaxInt
// if there is no limit, as on systems other than Linux.
func container(root fs.FS) int {
	least := math.MaxInt
	groups, _ := fs.ReadFile(root, "proc/self/cgroup")
	for line := range strings.Lines(string(groups)) {
		// ID:CONTROLLERS:PATH. The line of version 2 has no controllers.
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) < 3 {
			continue
		}
		top, names := "sys/fs/cgroup", []string{"memory.max", "memory.high"}
		if slices.Contains(strings.Split(parts[1], ","), "memory") {
			top, names = "sys/fs/cgroup/memory", []string{"memory.limit_in_bytes"}
		} else if parts[1] != "" {
			continue
		}
		// Limits of a group hold for the groups in it. A container sees its own group at the top, while its path may be
		// that outside of the container.
		for group := path.Join("/", parts[2]); ; group = path.Dir(group) {
			for _, name := range names {
				text, _ := fs.ReadFile(root, path.Join(top, group, name))
				// Without a limit, version 2 says max, and version 1 an enormous number.
				if n, err := strconv.Atoi(strings.TrimSpace(string(text))); err == nil && n > 0 && n < 1<<60 {
					least = min(least, n)
				}
			}
			if group == "/" {
				break
			}
		}
	}
	return least
}
