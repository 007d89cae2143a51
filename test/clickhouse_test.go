package test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/flowd-io/flowd/internal/testing/clickhousetest"
)

const clickhousePipeline = `
inputs:
  old: {file: {path: old.ndjson, checkpoint: cp}}
batchers:
  all: {batch: {size: 100, timeout: 5ms}, output: new}
outputs:
  new:
    sql: {driver: clickhouse, dsn: "${DSN}", table: t, columns: {id: id, kind: kind}, connect_timeout: 1s}
    timeout: 2s
    retry: {backoff: 1ms, max_backoff: 100ms, max_attempts: 1000}
  failed: {file: {path: failed.ndjson, framing: messages}}
engine:
  on_failure: {then: dead_letter, dead_letter: failed}
`

const clickhouseTable = "CREATE TABLE t (id UInt32, kind Enum8('a' = 1)) ENGINE = MergeTree ORDER BY id"

func numberedKinds(n int, bad ...int) string {
	var b strings.Builder
	for i := range n {
		kind := "a"
		if len(bad) > 0 && i == bad[0] {
			kind, bad = "b", bad[1:]
		}
		fmt.Fprintf(&b, `{"id":%d,"kind":%q}`+"\n", i, kind)
	}
	return b.String()
}

// A file is written to ClickHouse completely, in spite of kills, restarts and network failures.
func TestClickHouseLosesNothing(t *testing.T) {
	t.Parallel()
	const rows, slow = 12_000, 3 * time.Millisecond
	server := clickhousetest.Own(t, clickhousetest.Settings{})
	net := startProxy(t, server.Address)
	net.set(false, slow)
	dir := t.TempDir()
	config := write(t, dir, "p.yaml", strings.Replace(clickhousePipeline, "${DSN}", "http://default:secret@"+net.addr+"/default", 1))
	write(t, dir, "old.ndjson", numberedKinds(rows))
	clickhousetest.Exec(t, server.URL(), clickhouseTable)
	reaches := func(n int) {
		t.Helper()
		for late := time.Now().Add(deadline); ; time.Sleep(2 * time.Millisecond) {
			var got int
			if _, err := fmt.Sscan(clickhousetest.Exec(t, server.URL(), "SELECT uniqExact(id) FROM t"), &got); err != nil {
				t.Fatal(err)
			}
			if got >= n {
				return
			}
			if time.Now().After(late) {
				t.Fatalf("%d rows after %v, want %d", got, deadline, n)
			}
		}
	}
	p := start(t, dir, "-c", config)
	for i, disturb := range []func(){
		net.cut,
		func() { p.Signal(syscall.SIGKILL); p.Wait(); p = start(t, dir, "-c", config) },
		func() { net.set(true, 0); net.cut(); p.Says("output is down"); net.set(false, slow) },
		func() { server.Stop(); net.cut(); server.Start(t) },
		func() { net.set(false, 20*time.Millisecond); reaches(rows * 6 / 10); net.set(false, slow) },
		func() { net.silence(); p.Says("no answer"); net.cut(); net.endSilence() },
		func() { p.Signal(syscall.SIGKILL); p.Wait(); p = start(t, dir, "-c", config) },
	} {
		reaches(rows * (i + 1) / 10)
		disturb()
	}
	reaches(rows)
	p.Wait().Want(t, 0)
}

// Rows that are known to be written are not written again when a later part of the write fails.
func TestClickHouseWritesOnce(t *testing.T) {
	t.Parallel()
	dsn := clickhousetest.Database(t)
	to, err := url.Parse(dsn)
	if err != nil {
		t.Fatal(err)
	}
	var inserts atomic.Int64
	way := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: to.Scheme, Host: to.Host})
	own := &http.Transport{} // the default transport loses connections whenever another test closes its server
	t.Cleanup(own.CloseIdleConnections)
	way.Transport = own
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// Every third of the INSERTs that search for the bad rows fails.
		if r.ContentLength > 300 && inserts.Add(1)%3 == 0 {
			http.Error(w, "no server", http.StatusServiceUnavailable)
			return
		}
		way.ServeHTTP(w, r)
	}))
	t.Cleanup(proxy.Close)
	clickhousetest.Exec(t, dsn, clickhouseTable)
	dir := t.TempDir()
	config := strings.Replace(clickhousePipeline, "${DSN}", strings.Replace(dsn, to.Host, proxy.Listener.Addr().String(), 1), 1)
	config = strings.Replace(config, "file: {path: old.ndjson, checkpoint: cp}", "stdin: {}", 1)
	// A write that times out may take effect and be repeated, so it must not time out.
	config = strings.Replace(config, "timeout: 2s", "timeout: 1m", 1)
	flowd(t, dir, numberedKinds(500, 77, 300, 301), "-c", write(t, dir, "p.yaml", config)).
		Want(t, 0, "3 dead-lettered: rejected in output new")
	if inserts.Load() < 6 {
		t.Errorf("%d INSERTs, want at least 6", inserts.Load())
	}
	if got := clickhousetest.Exec(t, dsn, "SELECT count(), uniqExact(id) FROM t"); got != "497\t497" {
		t.Errorf("numbers of rows and of different ids: %q, want 497 of each", got)
	}
}
