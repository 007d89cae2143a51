// Package bench measures the built flowd against small hand-written Go programs
// that do the same work. Run it with
//
//	go test -bench . -benchtime 3x ./test/bench
//
// Ratios are taken in one run, since machines drift; every result is checked, as
// a wrong answer has no speed.
package bench

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	_ "github.com/flowd-io/flowd/batchers"
	"github.com/flowd-io/flowd/config"
	_ "github.com/flowd-io/flowd/inputs"
	_ "github.com/flowd-io/flowd/outputs"
	_ "github.com/flowd-io/flowd/processors"
)

const (
	messages = 400_000 // of about 330 bytes
	checked  = 20_000  // compared one by one with the baseline's
)

const pipeline = `
inputs:
  events: {file: {path: %q}}
processors:
  - filter: status >= 500
  - set:
      severity: '"critical"'
      total_eur: total * 2
outputs:
  out: {file: {path: %q, append: false}}
`

// BenchmarkFileToFile is `filter` plus two `set` from file to file; a third of
// the messages pass. x_encoding_json is how many times faster flowd is than a
// loop around encoding/json, which runs beside it.
func BenchmarkFileToFile(b *testing.B) {
	dir := b.TempDir()
	flowd := buildFlowd(b, dir)
	in, out, file := filepath.Join(dir, "in.ndjson"), filepath.Join(dir, "out.ndjson"), filepath.Join(dir, "p.yaml")
	size := writeEvents(b, in, messages)
	writeFile(b, file, fmt.Sprintf(pipeline, in, out))
	var base, spent time.Duration
	var peak int64
	for b.Loop() {
		began := time.Now()
		byHand(b, in, filepath.Join(dir, "base.ndjson"))
		base += time.Since(began)
		began = time.Now()
		peak = max(peak, run(b, flowd, "-c", file))
		spent += time.Since(began)
	}
	same(b, out, filepath.Join(dir, "base.ndjson"))
	n := float64(b.N)
	b.ReportMetric(n*messages/spent.Seconds(), "messages/s")
	b.ReportMetric(n*float64(size)/1e6/spent.Seconds(), "MB/s")
	b.ReportMetric(base.Seconds()/spent.Seconds(), "x_encoding_json")
	b.ReportMetric(float64(peak)/1024, "peak_MiB")
	b.ReportMetric(allocations(b, file), "allocs/message")
	b.ReportMetric(0, "ns/op")
}

// BenchmarkStart is from start to exit with nothing to do.
func BenchmarkStart(b *testing.B) {
	dir := b.TempDir()
	flowd, file, in := buildFlowd(b, dir), filepath.Join(dir, "p.yaml"), filepath.Join(dir, "in.ndjson")
	writeEvents(b, in, 1)
	writeFile(b, file, fmt.Sprintf(pipeline, in, filepath.Join(dir, "out.ndjson")))
	for b.Loop() {
		run(b, flowd, "-c", file)
	}
	b.ReportMetric(float64(b.Elapsed().Milliseconds())/float64(b.N), "ms/start")
}

// allocations counts heap objects per message of the whole pipeline in this process.
func allocations(b *testing.B, file string) float64 {
	set, problems := config.Load([]string{file}, config.Options{Log: slog.New(slog.DiscardHandler)})
	for _, p := range problems {
		b.Fatal(p)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	rep := set.Pipelines[0].Plan.Run(context.Background(), context.Background())
	runtime.ReadMemStats(&after)
	if rep.Code() != 0 {
		b.Fatalf("run: %+v", rep)
	}
	return float64(after.Mallocs-before.Mallocs) / messages
}

// byHand does the pipeline's work with bufio and encoding/json.
func byHand(b *testing.B, in, out string) {
	src, err := os.Open(in)
	check(b, err)
	defer src.Close()
	dst, err := os.Create(out)
	check(b, err)
	defer dst.Close()
	w := bufio.NewWriterSize(dst, 1<<18)
	lines := bufio.NewReaderSize(src, 1<<18)
	for {
		line, err := lines.ReadBytes('\n')
		if err == io.EOF {
			break
		}
		check(b, err)
		var event map[string]any
		check(b, json.Unmarshal(line, &event))
		if event["status"].(float64) < 500 {
			continue
		}
		event["severity"] = "critical"
		event["total_eur"] = event["total"].(float64) * 2
		body, err := json.Marshal(event)
		check(b, err)
		w.Write(body)
		w.WriteByte('\n')
	}
	check(b, w.Flush())
}

// same compares two outputs: how many documents there are, and the first one by one.
func same(b *testing.B, got, want string) {
	events, n := map[float64]map[string]any{}, 0
	eachLine(b, want, func(line []byte) {
		if n++; n <= checked {
			e := decoded(b, line)
			events[e["id"].(float64)] = e
		}
	})
	eachLine(b, got, func(line []byte) {
		n--
		if len(events) == 0 {
			return
		}
		e := decoded(b, line)
		id := e["id"].(float64)
		if want, ok := events[id]; ok && !reflect.DeepEqual(e, want) {
			b.Fatalf("got %v, want %v", e, want)
		}
		delete(events, id)
	})
	if n != 0 || len(events) > 0 {
		b.Fatalf("%d messages too few came out, %d of those that were looked for", n, len(events))
	}
}

func decoded(b *testing.B, line []byte) (e map[string]any) {
	check(b, json.Unmarshal(line, &e))
	return e
}

func eachLine(b *testing.B, path string, f func(line []byte)) {
	file, err := os.Open(path)
	check(b, err)
	defer file.Close()
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		f(lines.Bytes())
	}
	check(b, lines.Err())
}

func buildFlowd(b *testing.B, dir string) string {
	bin := filepath.Join(dir, "flowd")
	if out, err := exec.Command("go", "build", "-o", bin, "github.com/flowd-io/flowd/cmd/flowd").CombinedOutput(); err != nil {
		b.Fatalf("build: %v\n%s", err, out)
	}
	return bin
}

// run runs flowd and returns its peak memory in KiB. Linux counts the memory of
// this process at the fork, too, so it is kept small.
func run(b *testing.B, flowd string, args ...string) int64 {
	cmd := exec.Command(flowd, args...)
	var errs strings.Builder
	cmd.Stderr = &errs
	if err := cmd.Run(); err != nil {
		b.Fatalf("flowd: %v\n%s", err, errs.String())
	}
	return cmd.ProcessState.SysUsage().(*syscall.Rusage).Maxrss
}

// writeEvents writes n events and returns their size in bytes.
func writeEvents(b *testing.B, path string, n int) (size int) {
	file, err := os.Create(path)
	check(b, err)
	defer file.Close()
	w := bufio.NewWriter(file)
	for i := range n {
		status := []int{200, 404, 503}[i%3]
		wrote, _ := fmt.Fprintf(w, `{"id":%d,"status":%d,"method":"GET","path":"/api/v1/orders/%d","total":%d.%02d,`+
			`"customer":{"id":%d,"name":"Customer %d","plan":"enterprise"},"agent":"Mozilla/5.0 (X11; Linux x86_64; rv:115.0) Gecko/20100101 Firefox/115.0",`+
			`"tags":["checkout","web","eu-west"],"duration_ms":%d,"trace":"4bf92f3577b34da6a3ce929d0e0e4736"}`+"\n",
			i, status, i%9973, i%500, i%100, i%997, i%997, i%350)
		size += wrote
	}
	check(b, w.Flush())
	return size
}

func writeFile(b *testing.B, path, text string) { check(b, os.WriteFile(path, []byte(text), 0o600)) }

func check(b *testing.B, err error) {
	if err != nil {
		b.Helper()
		b.Fatal(err)
	}
}
