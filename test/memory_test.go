package test

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// mostMemory limits the memory of a pipeline with the default engine.max_in_flight.bytes, in MiB. The
// largest test case takes 215 to 275, depending on when the collector runs.
const mostMemory = 320

// The output of steps counts against max_in_flight, like messages that were read. Otherwise each test
// case would take gigabytes.
func TestMemoryOfStepsIsBounded(t *testing.T) {
	long := func(n int) string { return fmt.Sprintf(`repeat("x", %d)`, n) }
	lines := func(n int, line string) string { return strings.Repeat(line+"\n", n) }
	numbers := "[" + strings.TrimSuffix(strings.Repeat("7,", 100), ",") + "]"
	tests := []struct {
		name, input string
		n           int // messages read, all of which are delivered
		config      string
	}{
		{"set", lines(600, `{}`), 600, `processors: [{set: {s: '` + long(1<<20) + `'}}]`},
		{"map, in order", lines(600, `{}`), 600, `engine: {order_by: len(this) % 7}
processors: [{map: '{"s": ` + long(1<<20) + `}'}]`},
		{"two steps", lines(400, `{}`), 400, `processors: [{set: {s: '` + long(1<<20) + `'}}, {set: {t: "[s, s]"}}]`},
		{"split", lines(100, `{"a": `+numbers+`}`), 100,
			`processors: [{split: a}, {map: '{"s": ` + long(200<<10) + `}'}]`},
		{"each", lines(40, `{"a": `+numbers+`}`), 40,
			`processors: [{each: {in: a, do: [{map: '` + long(100<<10) + `'}]}}]`},
		{"parallel", lines(300, `{}`), 300, `processors: [{parallel: {a: [{set: {s: '` + long(1<<20) +
			`'}}], b: [{set: {t: '` + long(1<<20) + `'}}]}}]`},
		{"switch", lines(600, `{"n":1}`), 600, `processors: [{switch: [{when: n == 1, do: [{set: {s: '` + long(1<<20) +
			`'}}]}, {do: [{set: {t: '` + long(1<<20) + `'}}]}]}]`},
		{"decode csv", lines(60, `{"y": "`+strings.Repeat("h", 20<<10)+`\n`+strings.Repeat(`1\n`, 1000)+`"}`), 60,
			`processors: [{decode: {csv: {}, from: y}}]`},
		{"decode yaml", lines(20, `{"y": "a: &a [`+strings.TrimSuffix(strings.Repeat("x, ", 1000), ", ")+`]\nb: [`+
			strings.TrimSuffix(strings.Repeat("*a, ", 200), ", ")+`]"}`), 20,
			`processors: [{decode: {yaml: {}, from: y}}]`},
		{"decode cbor", lines(60, `{"y": "`+base64.StdEncoding.EncodeToString(append([]byte("\x99\x0f\xa0"),
			bytes.Repeat([]byte("\xc4\x82\x19\x0c\x00\x01"), 4000)...))+`"}`), 60,
			`processors: [{decode: {cbor: {}, from: y}}]`},
		{"encode", lines(300, `{}`), 300, `processors: [{set: {s: '` + long(1<<20) +
			`'}}, {encode: hex}, {compress: gzip}]`},
		{"steps of a batch", lines(400, `{}`), 400,
			`batchers: {b: {batch: {size: 300, timeout: 1h}, output: out, processors: [{set: {s: '` + long(1<<20) +
				`'}}]}}`},
		{"archive", lines(2000, `{}`), 2000, `processors: [{set: {s: '` + long(100<<10) + `'}}]
batchers: {b: {batch: {size: 400, timeout: 1h}, output: out, processors: [{archive: lines}, {compress: gzip}]}}`},
		{"group", lines(400, `{}`), 400, `processors: [{group: {size: 400, do: [{set: {s: '` + long(1<<20) + `'}}]}}]`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			write(t, dir, "in.jsonl", tt.input)
			write(t, dir, "p.yaml", "inputs: {in: {file: {path: in.jsonl}}}\noutputs: {out: {drop: {}}}\n"+tt.config)
			p := start(t, dir, "-c", "p.yaml")
			peak := make(chan int)
			go func() { peak <- peakUntilEnd(p.Cmd.Process.Pid) }()
			r := p.Wait()
			mib := <-peak
			r.Want(t, 0)
			if !strings.Contains(strings.ReplaceAll(r.Stderr, ",", ""), fmt.Sprintf("%d delivered", tt.n)) {
				t.Errorf("not all of %d delivered:\n%s", tt.n, r.Stderr)
			}
			t.Logf("%d MiB", mib)
			if mib == 0 || mib > mostMemory {
				t.Errorf("used %d MiB of memory, want at most %d", mib, mostMemory)
			}
		})
	}
}

// Each request is small until a step decompresses it, and then just fits.
func TestMemoryOfManyGzipBombsIsBounded(t *testing.T) {
	t.Parallel()
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	if _, err := z.Write(make([]byte, 60<<20)); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	write(t, dir, "p.yaml",
		"inputs: {in: {http_server: {listen: 127.0.0.1:0, timeout: 2m}}}\nprocessors: [{decompress: gzip}]\noutputs: {out: {drop: "+
			"{}}}\nengine: {timeout: 1m}\n")
	p := start(t, dir, "-c", "p.yaml")
	said := p.Says("listening on ")
	_, rest, _ := strings.Cut(said, "listening on ")
	url, _, _ := strings.Cut(rest, `"`)
	var posts sync.WaitGroup
	var ok, refused atomic.Int64
	for range 24 {
		posts.Go(func() {
			c := &http.Client{Timeout: 2 * time.Minute}
			resp, err := c.Post(url, "", bytes.NewReader(packed.Bytes()))
			if err != nil {
				t.Error(err)
				return
			}
			resp.Body.Close()
			switch resp.StatusCode {
			case http.StatusOK:
				ok.Add(1)
			case http.StatusServiceUnavailable: // full, while others are decompressed
				refused.Add(1)
			default:
				t.Errorf("got %s", resp.Status)
			}
		})
	}
	posts.Wait()
	if ok.Load() == 0 || ok.Load()+refused.Load() != 24 {
		t.Errorf("%d accepted, %d refused", ok.Load(), refused.Load())
	}
	mib, running := peakMemory(p.Cmd.Process.Pid)
	if !running {
		t.Fatal("flowd has exited")
	}
	t.Logf("%d MiB, %d accepted", mib, ok.Load())
	if mib > mostMemory {
		t.Errorf("used %d MiB of memory, want at most %d", mib, mostMemory)
	}
	p.Signal(syscall.SIGTERM)
	p.Wait()
}

// peakMemory returns the peak resident memory of a process, in MiB, or false once it has exited.
// The resource usage of an exited child can't be used: it includes the parent's memory at the fork.
func peakMemory(pid int) (int, bool) {
	status, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "status"))
	if err != nil {
		return 0, false
	}
	_, peak, found := strings.Cut(string(status), "VmHWM:")
	if !found {
		return 0, false
	}
	kib, err := strconv.Atoi(strings.Fields(peak)[0])
	return kib >> 10, err == nil
}

// peakUntilEnd samples the peak memory of a process until it exits.
func peakUntilEnd(pid int) int {
	look := time.NewTicker(5 * time.Millisecond)
	defer look.Stop()
	most := 0
	for range look.C {
		mib, running := peakMemory(pid)
		if !running {
			break
		}
		most = max(most, mib)
	}
	return most
}
