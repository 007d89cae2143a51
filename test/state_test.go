package test

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

const countPipeline = `
inputs:
  in: {file: {path: in.ndjson, follow: true, checkpoint: cp}}
processors:
  - state: {key: k, set: {n: '(state("n") ?? 0) + 1', sum: '(state("sum") ?? 0) + v'}, cache: c, into: now}
outputs:
  out: {stdout: {}}
engine: {order_by: k}
resources: {caches: {c: {file: {path: c.db}}}}
`

// TestNoCountIsLostWhenFlowdIsKilled kills flowd several times while it counts messages by key. Each count must be at least
// the number of messages. The sum must not exceed the number of messages read, some of them repeatedly.
func TestNoCountIsLostWhenFlowdIsKilled(t *testing.T) {
	t.Parallel()
	const lives, each, keys = 6, 2000, 5
	dir := t.TempDir()
	config := write(t, dir, "p.yaml", countPipeline)
	lines := filepath.Join(dir, "in.ndjson")
	write(t, dir, "in.ndjson", "")
	written, read := 0, 0
	add := func(n int) {
		t.Helper()
		var text strings.Builder
		for range n {
			fmt.Fprintf(&text, `{"k":%d,"v":1}`+"\n", written%keys)
			written++
		}
		appendFile(t, lines, text.String())
	}
	for life := range lives {
		p := start(t, dir, "-c", config)
		add(each)
		for range each / 3 * (life%3 + 1) { // further messages are in flight
			p.Line()
			read++
		}
		p.Signal(syscall.SIGKILL)
		read += strings.Count(p.Wait().Stdout, "\n")
	}
	p := start(t, dir, "-c", config)
	var ends strings.Builder
	for k := range keys {
		fmt.Fprintf(&ends, `{"k":%d,"v":1,"end":true}`+"\n", k)
	}
	appendFile(t, lines, ends.String())
	total := 0
	for left := keys; left > 0; read++ {
		var m struct {
			K   int
			End bool
			Now struct{ N, Sum int }
		}
		if err := json.Unmarshal([]byte(p.Line()), &m); err != nil {
			t.Fatal(err)
		}
		if !m.End {
			continue
		}
		left--
		total += m.Now.N
		if m.Now.N < written/keys+1 || m.Now.N != m.Now.Sum {
			t.Errorf("key %d has the count %d and the sum %d, want at least %d of both", m.K, m.Now.N, m.Now.Sum, written/keys+1)
		}
	}
	p.Signal(syscall.SIGTERM)
	p.Wait().Want(t, 0)
	if most := read + lives*10_000; total > most { // max_in_flight
		t.Errorf("%d messages were counted, but at most %d were read", total, most)
	}
}
