package abuse

import (
	"slices"
	"strings"
	"testing"

	"github.com/flowd-io/flowd/internal/testing/clickhousetest"
	"github.com/flowd-io/flowd/test/flowdtest"
)

const chFine = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n"

// chAnswers are responses to a statement that contains word. They harm a client that trusts them.
func chAnswers(word string) []serverAttack {
	return []serverAttack{
		onRequestSend(word, "half a response", "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{"),
		onRequestSend(word, "a response of 2^63 bytes", "HTTP/1.1 200 OK\r\nContent-Length: 9223372036854775807\r\n\r\n"),
		onRequestSend(word, "a chunk of 2^63 bytes", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n7fffffffffffffff\r\n"),
		onRequestSend(word, "a chunk of a negative length", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\n"),
		onRequestSend(word, "an exception in the middle", chFine+`{"id": "Code: 241. DB::Exception: Memory limit`+"\n"),
		onRequestSend(word, "an error page of a proxy", "HTTP/1.1 404 Not Found\r\nContent-Length: 6\r\n\r\n<html>"),
		onRequestSend(word, "a long exception",
			"HTTP/1.1 500 No\r\nConnection: close\r\n\r\n"+strings.Repeat("Code: 241. DB::Exception: ", 40_000)),
		onRequestFlood(word, "endless headers", "HTTP/1.1 200 OK\r\n", "X-Y: z\r\n"),
		onRequestFlood(word, "an endless header", "HTTP/1.1 200 OK\r\nX: ", "x"),
		onRequestFlood(word, "endless interim responses", "", "HTTP/1.1 103 Early Hints\r\n\r\n"),
		onRequestFlood(word, "an endless error", "HTTP/1.1 500 No\r\nConnection: close\r\n\r\n", "Code: 241. "),
	}
}

// chRows are rows that harm a client that trusts them.
func chRows(word string) []serverAttack {
	return []serverAttack{
		onRequestFlood(word, "an endless row", chFine+`{"id":"`, "x"),
		onRequestFlood(word, "endless nested lists in a row", chFine+`{"id":`, "["),
		onRequestFlood(word, "endless empty lines", chFine, "\n"),
		onRequestFlood(word, "endless spaces", chFine, " "),
		onRequestSend(word, "a deeply nested row", chFine+`{"id":`+strings.Repeat("[", 100_000)+strings.Repeat("]", 100_000)+"}\n"),
		onRequestSend(word, "an invalid row", chFine+"{\n"),
	}
}

// chTypes are hostile descriptions of a table.
func chTypes() (all []serverAttack) {
	row := func(text string) string { return chFine + `{"name":"id","type":"` + text + `"}` + "\n" }
	for _, part := range []string{"Array(", "LowCardinality("} {
		all = append(all, onRequestSend("describe table", "nested types, "+part, row(strings.Repeat(part, 500_000))))
	}
	return append(all,
		onRequestFlood("describe table", "endless columns", chFine, `{"name":"x","type":"Int8"}`+"\n"))
}

// chAddr returns the DSN with a placeholder for the stand-in's address, and the address of the server.
func chAddr(dsn string) (standin, good string) {
	good = hostOf(dsn)
	return strings.Replace(dsn, good, "ADDR", 1), good
}

func clickhouseInput(t *testing.T) {
	dsn := clickhousetest.Database(t)
	clickhousetest.Exec(t, dsn, "CREATE TABLE t (n Int32, id String) ENGINE = Memory")
	address, good := chAddr(dsn)
	survivesAttacks(t, client{
		config: `
inputs:
  in:
    sql: {driver: clickhouse, dsn: "` + address +
			`", query: "SELECT id, n FROM t WHERE n > ? ORDER BY n", args: ["cursor() ?? 0"], cursor: n,
      interval: 10ms, connect_timeout: 1s, query_timeout: 500ms, max_row: 1MiB}
processors: [payload: id]
outputs: {out: {stdout: {}}}
`,
		good: good,
		send: func(_ *flowdtest.Process, id string) {
			clickhousetest.Exec(t, dsn, "INSERT INTO t SELECT count() + 1, '"+id+"' FROM t")
		},
		arrives: waitForLine,
	}, slices.Concat(genericAttacks(), chAnswers("select id"), chRows("select id"))...)
}

func clickhouseOutput(t *testing.T) {
	dsn := clickhousetest.Database(t)
	clickhousetest.Exec(t, dsn, "CREATE TABLE t (id String) ENGINE = Memory")
	address, good := chAddr(dsn)
	survivesAttacks(t, client{
		config: `
inputs: {in: {stdin: {}}}
outputs:
  out: {sql: {driver: clickhouse, dsn: "` + address + `", table: t, columns: {id: id}, connect_timeout: 1s, max_row: 1MiB}, timeout: 500ms,
    ` + retryWrites + `}
`,
		good: good,
		send: sendDocument,
		arrives: func(p *flowdtest.Process, id string) {
			waitFor(p, id, func() bool {
				return clickhousetest.Exec(t, dsn, "SELECT id FROM t WHERE id = '"+id+"' LIMIT 1") == id
			})
		},
	}, slices.Concat(chTypes(), chAnswers("insert into"))...)
}
