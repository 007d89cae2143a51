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

// pgMessage is a message of PostgreSQL's protocol, which announces more bytes than it has.
func pgMessage(kind byte, body string, more int) string {
	return string(binary.BigEndian.AppendUint32([]byte{kind}, uint32(4+len(body)+more))) + body
}

const (
	pgWelcome = "R\x00\x00\x00\x08\x00\x00\x00\x00"
	pgReady   = "Z\x00\x00\x00\x05I"
	pgParsed  = "1\x00\x00\x00\x04t\x00\x00\x00\x0a\x00\x01\x00\x00\x00\x19"
)

// pgColumns describes so many columns.
func pgColumns(n int) string {
	body := binary.BigEndian.AppendUint16(nil, uint16(n))
	for i := range n {
		body = fmt.Append(body, "v", i, "\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x19\xff\xff\xff\xff\xff\xff\x00\x00")
	}
	return pgMessage('T', string(body), 0)
}

// pgSettings are so many settings.
func pgSettings(n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(pgMessage('S', fmt.Sprintf("s%d\x00%s\x00", i, strings.Repeat("x", 200)), 0))
	}
	return b.String()
}

// hashes has the password be hashed so many times, more than once.
func hashes(times string) ill {
	return ill{name: "it has the password be hashed " + times + " times", does: func(c net.Conn, _ *standin, _ int) {
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
			_ = c.SetReadDeadline(time.Now().Add(10 * holds))
			if _, err := c.Read(buf); err != nil {
				return
			}
		}
	}}
}

// pgGreetings are servers that break a connection before it is ready, or a client that believes them.
func pgGreetings() []ill {
	return append(anything(), hashes("2147483647"), hashes("10000000"), hashes("4096"),
		says("a message of 2 GiB", "R\x7f\xff\xff\xff\x00"),
		says("a message of less than nothing", "R\x80\x00\x00\x00\x00"),
		says("an error of 1 GiB", "E\x40\x00\x00\x00S"),
		says("no kind of a login", pgMessage('R', "", 0)),
		says("a login that is not known", pgMessage('R', "\x7f\xff\xff\xff", 0)),
		says("a key of no bytes", pgWelcome+pgMessage('K', "", 0)),
		says("it is ready before it knows who is there", pgReady),
		says("two billion options of the protocol", pgMessage('v', "\x00\x00\x00\x00\x7f\xff\xff\xff", 0)),
		floods("settings without end", pgWelcome, pgSettings(100)),
		floods("notices without end", pgWelcome, pgMessage('N', "\x00", 0)),
		floods("requests for the password without end", "", pgMessage('R', "\x00\x00\x00\x03", 0)),
		floods("welcomes without end", "", pgWelcome))
}

// pgAnswers are such answers to a statement that is prepared, or carried out.
func pgAnswers(word string) (all []ill) {
	for _, answer := range [][2]string{
		{"half a message", "D\x00\x00"},
		{"a row of 65,535 values that do not come", pgMessage('D', "\xff\xff", 0)},
		{"a value of 2 GiB", pgMessage('D', "\x00\x01\x7f\xff\xff\xff", 0)},
		{"a value of less than nothing", pgMessage('D', "\x00\x01\x80\x00\x00\x00", 0)},
		{"65,535 columns that do not come", pgMessage('T', "\xff\xff", 0)},
		{"a million parameters", pgMessage('t', "\xff\xff", 4<<20)},
		{"an error of a megabyte", pgMessage('E', "SERROR\x00C40001\x00M"+strings.Repeat("\x1b", 1<<20-100)+"\x00\x00", 0) + pgReady},
		{"an error without its end", pgMessage('E', "SERROR", 0)},
		{"columns and rows of another number", pgParsed + pgColumns(3) + pgReady + "2\x00\x00\x00\x04" + pgMessage('D', "\x00\x07"+
			strings.Repeat("\xff", 28), 0) + pgReady},
		{"no parameters", "1\x00\x00\x00\x04n\x00\x00\x00\x04" + pgReady},
		{"nothing but that it is ready", pgReady},
		{"a copy", "W\x00\x00\x00\x07\x00\x00\x00"},
		{"an end of copying", "c\x00\x00\x00\x04"},
		{"a message of no kind", "\x00\x00\x00\x00\x04"},
	} {
		all = append(all, uponSays(word, answer[0], answer[1]))
	}
	return append(all,
		uponFloods(word, "notices without end", "", pgMessage('N', "\x00", 0)),
		uponFloods(word, "settings without end", "", pgSettings(100)),
		uponFloods(word, "columns without end", "", pgColumns(1000)),
		uponFloods(word, "parameters without end", "", pgParsed),
		uponFloods(word, "ends without end", "", pgMessage('C', "SELECT 1\x00", 0)),
		uponFloods(word, "data of a copy without end", "", pgMessage('d', strings.Repeat("x", 1000), 0)))
}

// pgRows are rows that are larger than a row may be: a step's message fails then.
func pgRows(word string) []ill {
	return []ill{
		uponSays(word, "a row of 2 GiB", "D\x7f\xff\xff\xff"),
		uponFloods(word, "a row without end", "D\x0f\xff\xff\xff", "x"),
	}
}

// pgAddr is a dsn behind the stand-in, and the address of the server.
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
	u.RawQuery = "sslmode=disable" // TLS would be asked for first, and nothing else until that is answered
	return u.String(), good
}

// The portal is run by the protocol's message Execute.
const pgExecute = "E\x00\x00\x00\x09"

func postgresInput(t *testing.T) {
	p := pgtest.Server(t)
	dsn := p.Database(t)
	p.Exec(t, dsn, "CREATE TABLE t (n int PRIMARY KEY GENERATED ALWAYS AS IDENTITY, id text)")
	address, good := pgAddr(t, dsn)
	survives(t, uses{
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
		arrives: prints,
	}, slices.Concat(pgGreetings(), pgAnswers("select id"), pgRows("select id"), pgAnswers(pgExecute), pgRows(pgExecute))...)
}

func postgresOutput(t *testing.T) {
	p := pgtest.Server(t)
	dsn := p.Database(t)
	p.Exec(t, dsn, "CREATE TABLE t (id text)", "CREATE TABLE s (id text)")
	address, good := pgAddr(t, dsn)
	survives(t, uses{
		config: `
inputs: {in: {stdin: {}}}
processors:
  - {sql: {driver: postgres, dsn: "` + address +
			`", connect_timeout: 1s, max_row: 1MiB, query: "SELECT count(*) AS c FROM s WHERE id <> $1",
      args: [id], into: c}, timeout: 500ms, ` + tryAgain + `}
outputs:
  out: {sql: {driver: postgres, dsn: "` + address +
			`", table: t, columns: {id: id}, copy: true, connect_timeout: 1s, max_row: 1MiB}, timeout: 500ms,
    ` + writes + `}
`,
		good: good,
		send: sends,
		arrives: func(proc *flowdtest.Process, id string) {
			until(proc, id, func() bool {
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
	survives(t, uses{
		config: `
inputs: {in: {postgres_cdc: {dsn: "` + address + `", slot: ` + slot + `, tables: [public.t], timeout: 1s, max_row: 1MiB}}}
processors: [payload: after.id]
outputs: {out: {stdout: {}}}
`,
		good:    good,
		send:    func(_ *flowdtest.Process, id string) { p.Exec(t, dsn, "INSERT INTO t (id) VALUES ('"+id+"')") },
		arrives: prints,
	}, slices.Concat(pgGreetings(), pgAnswers("server_version_num"), pgAnswers("start_replication"), pgChanges())...)
}

// pgChanges are streams of changes that a server breaks.
func pgChanges() (all []ill) {
	const begun = "W\x00\x00\x00\x07\x00\x00\x00"
	frame := func(body string) string {
		return begun + pgMessage('d', "w"+strings.Repeat("\x00", 24)+body, 0)
	}
	for _, change := range [][2]string{
		{"a frame of no kind", begun + pgMessage('d', "?", 0)},
		{"a sign of life of one byte", begun + pgMessage('d', "k", 0)},
		{"the end of the stream", begun + "c\x00\x00\x00\x04"},
	} {
		all = append(all, uponSays("start_replication", change[0], change[1]))
	}
	_ = frame
	return append(all,
		uponFloods("start_replication", "signs of life without end", begun, pgMessage('d', "k"+strings.Repeat("\x00", 16)+"\x01", 0)))
}
