package abuse

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/flowd-io/flowd/internal/testing/pgtest"
	"github.com/flowd-io/flowd/test/flowdtest"
)

// pgMessage encodes a message of PostgreSQL's protocol, whose length field is too large by more.
func pgMessage(kind byte, body string, more int) string {
	return string(binary.BigEndian.AppendUint32([]byte{kind}, uint32(4+len(body)+more))) + body
}

const (
	pgWelcome = "R\x00\x00\x00\x08\x00\x00\x00\x00"
	pgReady   = "Z\x00\x00\x00\x05I"
	pgParsed  = "1\x00\x00\x00\x04t\x00\x00\x00\x0a\x00\x01\x00\x00\x00\x19"
)

// pgColumns encodes the description of n columns.
func pgColumns(n int) string {
	body := binary.BigEndian.AppendUint16(nil, uint16(n))
	for i := range n {
		body = fmt.Append(body, "v", i, "\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x19\xff\xff\xff\xff\xff\xff\x00\x00")
	}
	return pgMessage('T', string(body), 0)
}

// pgSettings encodes n ParameterStatus messages.
func pgSettings(n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(pgMessage('S', fmt.Sprintf("s%d\x00%s\x00", i, strings.Repeat("x", 200)), 0))
	}
	return b.String()
}

// hashes makes the client hash its password with times iterations, up to 100 times.
func hashes(times string) serverAttack {
	return serverAttack{name: "SCRAM with " + times + " iterations", run: func(c net.Conn, _ *standin, _ int) {
		buf := make([]byte, 1<<10)
		if _, err := c.Read(buf); err != nil {
			return
		}
		for range 100 {
			if _, err := io.WriteString(c, pgMessage('R', "\x00\x00\x00\x0aSCRAM-SHA-256\x00\x00", 0)); err != nil {
				return
			}
			n, err := c.Read(buf)
			if err != nil {
				return
			}
			_, nonce, _ := strings.Cut(string(buf[:n]), "r=")
			if _, err := io.WriteString(c, pgMessage('R', "\x00\x00\x00\x0br="+nonce+"x,s=QUJD,i="+times, 0)); err != nil {
				return
			}
			_ = c.SetReadDeadline(time.Now().Add(10 * holdTime))
			if _, err := c.Read(buf); err != nil {
				return
			}
		}
	}}
}

// pgGreetings are attacks before the connection is ready.
func pgGreetings() []serverAttack {
	return append(genericAttacks(), hashes("2147483647"), hashes("10000000"), hashes("4096"),
		alwaysSend("a message of 2 GiB", "R\x7f\xff\xff\xff\x00"),
		alwaysSend("a message of a negative length", "R\x80\x00\x00\x00\x00"),
		alwaysSend("an error of 1 GiB", "E\x40\x00\x00\x00S"),
		alwaysSend("a login without a method", pgMessage('R', "", 0)),
		alwaysSend("an unknown login method", pgMessage('R', "\x7f\xff\xff\xff", 0)),
		alwaysSend("an empty key", pgWelcome+pgMessage('K', "", 0)),
		alwaysSend("ready before the login", pgReady),
		alwaysSend("two billion protocol options", pgMessage('v', "\x00\x00\x00\x00\x7f\xff\xff\xff", 0)),
		alwaysFlood("endless settings", pgWelcome, pgSettings(100)),
		alwaysFlood("endless notices", pgWelcome, pgMessage('N', "\x00", 0)),
		alwaysFlood("endless requests for the password", "", pgMessage('R', "\x00\x00\x00\x03", 0)),
		alwaysFlood("endless login confirmations", "", pgWelcome))
}

// pgAnswers are hostile responses when a statement is prepared or executed.
func pgAnswers(word string) (all []serverAttack) {
	for _, answer := range [][2]string{
		{"half a message", "D\x00\x00"},
		{"a row of 65,535 values, none of which follows", pgMessage('D', "\xff\xff", 0)},
		{"a value of 2 GiB", pgMessage('D', "\x00\x01\x7f\xff\xff\xff", 0)},
		{"a value of a negative length", pgMessage('D', "\x00\x01\x80\x00\x00\x00", 0)},
		{"65,535 columns, none of which follows", pgMessage('T', "\xff\xff", 0)},
		{"a million parameters", pgMessage('t', "\xff\xff", 4<<20)},
		{"an error of a megabyte", pgMessage('E', "SERROR\x00C40001\x00M"+strings.Repeat("\x1b", 1<<20-100)+"\x00\x00", 0) + pgReady},
		{"a truncated error", pgMessage('E', "SERROR", 0)},
		{"a row with more values than columns", pgParsed + pgColumns(3) + pgReady + "2\x00\x00\x00\x04" + pgMessage('D', "\x00\x07"+
			strings.Repeat("\xff", 28), 0) + pgReady},
		{"no parameters", "1\x00\x00\x00\x04n\x00\x00\x00\x04" + pgReady},
		{"only ReadyForQuery", pgReady},
		{"CopyBothResponse", "W\x00\x00\x00\x07\x00\x00\x00"},
		{"CopyDone", "c\x00\x00\x00\x04"},
		{"a message of kind 0", "\x00\x00\x00\x00\x04"},
	} {
		all = append(all, onRequestSend(word, answer[0], answer[1]))
	}
	return append(all,
		onRequestFlood(word, "endless notices", "", pgMessage('N', "\x00", 0)),
		onRequestFlood(word, "endless settings", "", pgSettings(100)),
		onRequestFlood(word, "endless columns", "", pgColumns(1000)),
		onRequestFlood(word, "endless parameters", "", pgParsed),
		onRequestFlood(word, "endless CommandComplete messages", "", pgMessage('C', "SELECT 1\x00", 0)),
		onRequestFlood(word, "endless CopyData", "", pgMessage('d', strings.Repeat("x", 1000), 0)))
}

// pgRows are rows that exceed max_row.
func pgRows(word string) []serverAttack {
	return []serverAttack{
		onRequestSend(word, "a row of 2 GiB", "D\x7f\xff\xff\xff"),
		onRequestFlood(word, "an endless row", "D\x0f\xff\xff\xff", "x"),
	}
}

// pgAddr returns the DSN with a placeholder for the stand-in's address, and the address of the server.
func pgAddr(t *testing.T, dsn string) (standin, good string) {
	u, err := url.Parse(dsn)
	if err != nil {
		t.Fatal(err)
	}
	good, u.Host = u.Host, "ADDR"
	if u.User == nil {
		u.User = url.UserPassword("flowd", "secret")
	} else if _, set := u.User.Password(); !set {
		u.User = url.UserPassword(u.User.Username(), "secret")
	}
	u.RawQuery = "sslmode=disable" // otherwise the client waits for an answer about TLS first
	return u.String(), good
}

// pgExecute is the protocol's Execute message, which runs a prepared statement.
const pgExecute = "E\x00\x00\x00\x09"

func postgresInput(t *testing.T) {
	p := pgtest.Server(t)
	dsn := p.Database(t)
	p.Exec(t, dsn, "CREATE TABLE t (n int PRIMARY KEY GENERATED ALWAYS AS IDENTITY, id text)")
	address, good := pgAddr(t, dsn)
	survivesAttacks(t, client{
		config: `
inputs:
  in:
    sql: {driver: postgres, dsn: "` + address +
			`", query: "SELECT id, n FROM t WHERE n > $1 ORDER BY n", args: ["cursor() ?? 0"], cursor: n,
      interval: 10ms, connect_timeout: 1s, query_timeout: 500ms, max_row: 1MiB}
processors: [payload: id]
outputs: {out: {stdout: {}}}
`,
		good:    good,
		send:    func(_ *flowdtest.Process, id string) { p.Exec(t, dsn, "INSERT INTO t (id) VALUES ('"+id+"')") },
		arrives: waitForLine,
	}, slices.Concat(pgGreetings(), pgAnswers("select id"), pgRows("select id"), pgAnswers(pgExecute), pgRows(pgExecute))...)
}

func postgresOutput(t *testing.T) {
	p := pgtest.Server(t)
	dsn := p.Database(t)
	p.Exec(t, dsn, "CREATE TABLE t (id text)", "CREATE TABLE s (id text)")
	address, good := pgAddr(t, dsn)
	survivesAttacks(t, client{
		config: `
inputs: {in: {stdin: {}}}
processors:
  - {sql: {driver: postgres, dsn: "` + address +
			`", connect_timeout: 1s, max_row: 1MiB, query: "SELECT count(*) AS c FROM s WHERE id <> $1",
      args: [id], into: c}, timeout: 500ms, ` + retryForever + `}
outputs:
  out: {sql: {driver: postgres, dsn: "` + address +
			`", table: t, columns: {id: id}, copy: true, connect_timeout: 1s, max_row: 1MiB}, timeout: 500ms,
    ` + retryWrites + `}
`,
		good: good,
		send: sendDocument,
		arrives: func(proc *flowdtest.Process, id string) {
			waitFor(proc, id, func() bool {
				return p.Exec(t, dsn, "SELECT id FROM t WHERE id = '"+id+"' LIMIT 1") == id
			})
		},
	}, slices.Concat(pgAnswers("select count"), pgAnswers("insert"), pgAnswers("copy "), pgRows("copy "))...)
}

func postgresCDC(t *testing.T) {
	p := pgtest.Server(t)
	dsn := p.Database(t)
	p.Exec(t, dsn, "CREATE TABLE t (id text PRIMARY KEY)")
	address, good := pgAddr(t, dsn)
	slot := dsn[strings.LastIndexByte(dsn, '/')+1:]
	slot, _, _ = strings.Cut(slot, "?")
	survivesAttacks(t, client{
		config: `
inputs: {in: {postgres_cdc: {dsn: "` + address + `", slot: ` + slot + `, tables: [public.t], timeout: 1s, max_row: 1MiB}}}
processors: [payload: after.id]
outputs: {out: {stdout: {}}}
`,
		good:    good,
		send:    func(_ *flowdtest.Process, id string) { p.Exec(t, dsn, "INSERT INTO t (id) VALUES ('"+id+"')") },
		arrives: waitForLine,
	}, slices.Concat(pgGreetings(), pgAnswers("server_version_num"), pgAnswers("start_replication"), pgChanges())...)
}

// pgChanges are hostile streams of changes.
func pgChanges() (all []serverAttack) {
	const begun = "W\x00\x00\x00\x07\x00\x00\x00"
	frame := func(body string) string {
		return begun + pgMessage('d', "w"+strings.Repeat("\x00", 24)+body, 0)
	}
	for _, change := range [][2]string{
		{"a frame of an unknown kind", begun + pgMessage('d', "?", 0)},
		{"a keepalive of one byte", begun + pgMessage('d', "k", 0)},
		{"the end of the stream", begun + "c\x00\x00\x00\x04"},
	} {
		all = append(all, onRequestSend("start_replication", change[0], change[1]))
	}
	_ = frame
	return append(all,
		onRequestFlood("start_replication", "endless keepalives", begun, pgMessage('d', "k"+strings.Repeat("\x00", 16)+"\x01", 0)))
}
