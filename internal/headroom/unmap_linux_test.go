package headroom

import (
	"os"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// The program is at 400000 to 5739000, and what it has changed or may change is not to be given back.
const smaps = `00400000-02d33000 r-xp 00000000 fe:00 9978971                            /opt/my flowd (deleted)
Size:              42188 kB
Rss:               18804 kB
Private_Dirty:     18804 kB
Anonymous:             0 kB
VmFlags: rd ex mr mw me
02d33000-055d9000 r--p 02933000 fe:00 9978971                            /opt/my flowd (deleted)
Rss:               17756 kB
Anonymous:             0 kB
055d9000-05600000 r--p 051d9000 fe:00 9978971                            /opt/my flowd (deleted)
Anonymous:             4 kB
05600000-05739000 rw-p 05200000 fe:00 9978971                            /opt/my flowd (deleted)
Anonymous:             0 kB
05739000-077a1000 rw-p 00000000 00:00 0 
Anonymous:           180 kB
677400000-677c00000 rw-p 00000000 00:00 0                                [heap]
Anonymous:          3924 kB
7f8bf958000-7f8bfaae000 r-xp 00026000 fe:00 326269                       /usr/lib/libc.so.6
Anonymous:             0 kB
`

func TestOnlyPagesAsInTheFileAreGivenBack(t *testing.T) {
	want := []mapping{{from: 0x400000, to: 0x2d33000, file: "fe:00 9978971", same: true},
		{from: 0x2d33000, to: 0x55d9000, file: "fe:00 9978971", same: true}}
	for name, code := range map[string]uint64{"first": 0x400000, "last": 0x2d32fff} {
		if got := programOf(strings.NewReader(smaps), code); !slices.Equal(got, want) {
			t.Errorf("with its %s byte at %x the program has %+v, want %+v", name, code, got, want)
		}
	}
	for _, text := range []string{"", "\n", "Anonymous: 0 kB\n", "x\n", "400000 r-xp\n", smaps[:100]} {
		if got := programOf(strings.NewReader(text), 0x1000); got != nil {
			t.Errorf("of %q it has %+v, want nothing", text, got)
		}
	}
}

func TestPagesAreGivenBackAndComeBack(t *testing.T) {
	before := pages(t)
	unmap()
	after := pages(t)
	if t.Logf("%d KiB of files before, %d after", before, after); after > before*9/10 {
		t.Errorf("%d KiB of files are in memory, and were %d before; want a tenth fewer", after, before)
	}
	runtime.GC() // reads much of the program's data
	if s := strings.Repeat("as before", 2); !regexp.MustCompile(`^(as before){2}$`).MatchString(s) {
		t.Error("the program is not what it was")
	}
}

// pages is how much of files this process has in memory, in KiB. Where the system doesn't tell, the test is skipped.
func pages(t *testing.T) int {
	t.Helper()
	status, err := os.ReadFile("/proc/self/status")
	if err != nil || !strings.Contains(string(status), "RssFile:") {
		t.Skip("this system doesn't tell how many pages of files a process has")
	}
	n, err := strconv.Atoi(regexp.MustCompile(`RssFile:\s+(\d+) kB`).FindStringSubmatch(string(status))[1])
	if err != nil {
		t.Fatal(err)
	}
	return n
}
