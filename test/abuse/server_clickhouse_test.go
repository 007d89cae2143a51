package abuse

import (
	"slices"
	"strings"
	"testing"

	"github.com/flowd-io/flowd/internal/testing/clickhousetest"
	"github.com/flowd-io/flowd/test/flowdtest"
)

const chFine = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n"

// chAnswers are answers that break a client that believes them.
func chAnswers(word string) []ill {
	return []ill{
		uponSays(word, "half an answer", "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{"),
		uponSays(word, "an answer of 2^63 bytes", "HTTP/1.1 200 OK\r\nContent-Length: 9223372036854775807\r\n\r\n"),
		uponSays(word, "a chunk of 2^63 bytes", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n7fffffffffffffff\r\n"),
		uponSays(word, "a chunk of less than nothing", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\n"),
		uponSays(word, "an exception in the middle", chFine+`{"id": "Code: 241. DB::Exception: Memory limit`+"\n"),
		uponSays(word, "a page of a proxy", "HTTP/1.1 404 Not Found\r\nContent-Length: 6\r\n\r\n<html>"),
		uponSays(word, "a long exception", "HTTP/1.1 500 No\r\nConnection: close\r\n\r\n"+strings.Repeat("Code: 241. DB::Exception: ", 40_000)),
		uponFloods(word, "headers without end", "HTTP/1.1 200 OK\r\n", "X-Y: z\r\n"),
		uponFloods(word, "a header without end", "HTTP/1.1 200 OK\r\nX: ", "x"),
		uponFloods(word, "promises without end", "", "HTTP/1.1 103 Early Hints\r\n\r\n"),
		uponFloods(word, "an error without end", "HTTP/1.1 500 No\r\nConnection: close\r\n\r\n", "Code: 241. "),
	}
}

// chRows are rows that break a client that believes them.
func chRows(word string) []ill {
	return []ill{
		uponFloods(word, "a row without end", chFine+`{"id":"`, "x"),
		uponFloods(word, "lists in a row", chFine+`{"id":`, "["),
		uponFloods(word, "empty lines without end", chFine, "\n"),
		uponFloods(word, "blanks without end", chFine, " "),
		uponSays(word, "a row that is deep", chFine+`{"id":`+strings.Repeat("[", 100_000)+strings.Repeat("]", 100_000)+"}\n"),
		uponSays(word, "a row that is no row", chFine+"{\n"),
	}
}

// chTypes are descriptions of a table.
func chTypes() (all []ill) {
	row := func(text string) string { return chFine + `{"name":"id","type":"` + text + `"}` + "\n" }
	for _, part := range []string{"Array(", "LowCardinality("} {
		all = append(all, uponSays("describe table", "types in types, "+part, row(strings.Repeat(part, 500_000))))
	}
	return append(all,
		uponFloods("describe table", "columns without end", chFine, `{"name":"x","type":"Int8"}`+"\n"))
}

// chAddr is a dsn behind the stand-in, and the address of the server.
func chAddr(dsn string) (standin, good string) {
	good = hostOf(dsn)
	return strings.Replace(dsn, good, "ADDR", 1), good
}

func clickhouseInput(t *testing.T) {
	dsn := clickhousetest.Database(t)
	clickhousetest.Exec(t, dsn, "CREATE TABLE t (n Int32, id String) ENGINE = Memory")
	address, good := chAddr(dsn)
	survives(t, uses{
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
		arrives: prints,
	}, slices.Concat(anything(), chAnswers("select id"), chRows("select id"))...)
}

func clickhouseOutput(t *testing.T) {
	dsn := clickhousetest.Database(t)
	clickhousetest.Exec(t, dsn, "CREATE TABLE t (id String) ENGINE = Memory")
	address, good := chAddr(dsn)
	survives(t, uses{
		config: `
inputs: {in: {stdin: {}}}
outputs:
  out: {sql: {driver: clickhouse, dsn: "` + address + `", table: t, columns: {id: id}, connect_timeout: 1s, max_row: 1MiB}, timeout: 500ms,
    ` + writes + `}
`,
		good: good,
		send: sends,
		arrives: func(p *flowdtest.Process, id string) {
			until(p, id, func() bool {
				return clickhousetest.Exec(t, dsn, "SELECT id FROM t WHERE id = '"+id+"' LIMIT 1") == id
			})
		},
	}, slices.Concat(chTypes(), chAnswers("insert into"))...)
}
