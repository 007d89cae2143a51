package test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestTryOpensNoSocket runs a trial of a pipeline whose every part is on the network.
func TestTryOpensNoSocket(t *testing.T) {
	strace, err := exec.LookPath("strace")
	if err != nil {
		t.Skip("SKIPPED: strace is not installed, so nothing has checked that flowd try opens no socket (apt install strace)")
	}
	dir := t.TempDir()
	file, trace := filepath.Join(dir, "p.yaml"), filepath.Join(dir, "trace")
	err = os.WriteFile(file, []byte(`
inputs:
  in: {rabbitmq: {url: "amqp://broker.example", queue: orders}}
  more: {kafka: {brokers: ["kafka.example:9092"], topics: [orders], group: g}}
processors:
  - http: {url: "http://geo.example/lookup", into: geo}
  - sql: {driver: postgres, dsn: "postgres://db.example/x", query: "SELECT 1", into: rows}
  - redis: {url: "redis://cache.example", command: GET, args: [id], into: value}
  - dedupe: {key: id, cache: seen, window: 1h}
outputs:
  out: {http: {url: "https://partner.example/events"}}
resources:
  caches: {seen: {redis: {url: "redis://cache.example"}}}
`), 0o600)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(strace, "-f", "-qq", "-e", "signal=none", "-e", "trace=connect", "-o", trace, binary, "try", file)
	cmd.Stdin = strings.NewReader(`{"id": 1}` + "\n")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	calls, err := os.ReadFile(trace)
	for line := range strings.Lines(string(calls)) {
		if !strings.Contains(line, "/nscd/") { // the C library looks up the user
			t.Errorf("a socket was opened: %s", line)
		}
	}
	if err != nil {
		t.Error(err)
	}
	if !strings.Contains(string(out), "= delivered") || !strings.Contains(string(out), "not called: http, sql, redis") {
		t.Errorf("got\n%s", out)
	}
}
