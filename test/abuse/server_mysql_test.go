package abuse

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/flowd-io/flowd/internal/testing/mariadbtest"
	"github.com/flowd-io/flowd/test/flowdtest"
)

// myPackets encodes packets of MySQL's protocol, with sequence numbers from number on.
func myPackets(number byte, bodies ...string) string {
	var b strings.Builder
	for i, body := range bodies {
		n := len(body)
		b.Write([]byte{byte(n), byte(n >> 8), byte(n >> 16), number + byte(i)})
		b.WriteString(body)
	}
	return b.String()
}

// myCycle repeats a packet 256 times, so that sequence numbers stay right when the result is repeated.
func myCycle(from byte, body string) string {
	return myPackets(from, slices.Repeat([]string{body}, 256)...)
}

const (
	myGreeting = "\x0a8.0.0\x00\x01\x00\x00\x00abcdefgh\x00\xff\xf7\xff\x02\x00\xff\xdf\x15" +
		"\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00abcdefghijkl\x00mysql_native_password\x00"
	myColumn = "\x03def\x00\x00\x00\x02id\x00\x0c\x3f\x00\xff\x00\x00\x00\xfd\x00\x00\x00\x00\x00"
	myMore   = "\x00\x00\x00\x0a\x00\x00\x00" // an OK packet after which another result follows
)

// myBreaks are servers that violate the protocol, or harm a client that trusts them.
func myBreaks(word string) (all []serverAttack) {
	all = genericAttacks()
	for name, greeting := range map[string]string{
		"a greeting of one byte": "\x0a", "a truncated greeting": myGreeting[:30], "a greeting without a plugin": myGreeting[:60],
		"an old greeting": "\x09", "an error of one byte": "\xff", "a greeting of zeros": strings.Repeat("\x00", 80),
		"a greeting of tens": strings.Repeat("\x0a", 80),
	} {
		all = append(all, alwaysSend(name, myPackets(0, greeting)))
	}
	for name, login := range map[string]string{
		"a challenge of three bytes": "\xfemysql_native_password\x00abc\x00", "no challenge": "\xfecaching_sha2_password\x00",
		"a login of one byte": "\x00", "more of a login": "\x01\x04",
		"an invalid key": "\x01-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n",
	} {
		all = append(all, alwaysSend(name, myPackets(0, myGreeting)+myPackets(2, login)))
	}
	all = append(all,
		alwaysSend("a packet of 16 MiB", "\xff\xff\xff\x00\x0a"),
		alwaysFlood("endless packets of 16 MiB", "", "\xff\xff\xff\x00"+strings.Repeat("\x0a", 1<<16)),
		alwaysFlood("endless empty packets", "", "\x00\x00\x00\x00"),
		alwaysFlood("endless greetings", "", myPackets(0, myGreeting)))
	return append(all, myAnswers(word)...)
}

// myAnswers are hostile responses to a statement that contains word.
func myAnswers(word string) (all []serverAttack) {
	for name, answer := range map[string]string{
		"68,719,476,735 columns":                myPackets(1, "\xfe\xff\xff\xff\xff\x0f\x00\x00\x00"),
		"18,446,744,073,709,551,615 columns":    myPackets(1, "\xfe\xff\xff\xff\xff\xff\xff\xff\xff"),
		"9,223,372,036,854,775,808 columns":     myPackets(1, "\xfe\x00\x00\x00\x00\x00\x00\x00\x80"),
		"16,777,215 columns":                    myPackets(1, "\xfd\xff\xff\xff"),
		"65,535 columns, none of which follows": myPackets(1, "\xfc\xff\xff"),
		"16,777,215 columns in a second result": myPackets(1, myMore, "\xfd\xff\xff\xff"),
		"a truncated number of columns":         myPackets(1, "\xfd\xff"),
		"a request for a file of the client":    myPackets(1, "\xfb/etc/passwd"),
		"a response of one byte":                myPackets(1, "\x00"),
		"an error of two bytes":                 myPackets(1, "\xff\x01"),
		"an error of a megabyte":                myPackets(1, "\xff\x01\x00#HY000"+strings.Repeat("\x1b", 1<<20-100)),
		"a description of one byte":             myPackets(1, "\x01", "\x03"),
		"a description of 2^63 bytes":           myPackets(1, "\x01", "\xfe\xff\xff\xff\xff\xff\xff\xff\x7f"),
		"an empty row":                          myPackets(1, "\x01", myColumn, "\x00"),
		"a row of a text of 2^64 bytes":         myPackets(1, "\x01", myColumn, "\xfd\xff\xff\xff"),
		"an EOF packet of one byte":             myPackets(1, "\x01", myColumn, "\xfe"),
		"a wrong sequence number":               myPackets(7, "\x01"),
		"two responses":                         myPackets(1, "\x00\x00\x00\x02\x00\x00\x00", "\x00\x00\x00\x02\x00\x00\x00"),
		"a greeting instead of a response":      myPackets(1, myGreeting),
	} {
		all = append(all, onRequestSend(word, name, answer))
	}
	return append(all,
		onRequestFlood(word, "endless results", "", myCycle(1, myMore)),
		onRequestFlood(word, "endless column definitions", myPackets(1, "\xfd\xff\xff\x00"), myCycle(2, myColumn)))
}

// myRows are rows that exceed max_row.
func myRows(word string) []serverAttack {
	return []serverAttack{
		onRequestSend(word, "a row of 16 MiB", myPackets(1, "\x01", myColumn)+"\xff\xff\xff\x03x"),
		onRequestFlood(word, "an endless row", myPackets(1, "\x01", myColumn), "\xff\xff\xff\x03"+strings.Repeat("x", 1<<24-1)),
		onRequestFlood(word, "endless rows", myPackets(1, "\x01", myColumn), myCycle(3, "\x01x")),
	}
}

// myHost matches the address in a DSN.
var myHost = regexp.MustCompile(`\(.*\)`)

func myAddr(dsn string) (standin, good string) {
	good = strings.Trim(myHost.FindString(dsn), "()")
	return myHost.ReplaceAllString(dsn, "(ADDR)"), good
}

func mysqlInput(t *testing.T) {
	dsn := mariadbtest.Database(t)
	mariadbtest.Exec(t, dsn, "CREATE TABLE t (n int PRIMARY KEY AUTO_INCREMENT, id varchar(20))")
	address, good := myAddr(dsn)
	survivesAttacks(t, client{
		config: `
inputs:
  in:
    sql: {driver: mariadb, dsn: "` + address + `", query: "SELECT id, n FROM t WHERE n > ? ORDER BY n", args: ["cursor() ?? 0"], cursor: n,
      interval: 10ms, connect_timeout: 1s, query_timeout: 500ms, max_row: 1MiB}
processors: [payload: id]
outputs: {out: {stdout: {}}}
`,
		good: good,
		send: func(_ *flowdtest.Process, id string) {
			mariadbtest.Exec(t, dsn, "INSERT INTO t (id) VALUES ('"+id+"')")
		},
		arrives: waitForLine,
	}, slices.Concat(myBreaks("select id"), myRows("select id")[:2])...)
}

func mysqlOutput(t *testing.T) {
	dsn := mariadbtest.Database(t)
	mariadbtest.Exec(t, dsn, "CREATE TABLE t (id varchar(20))", "CREATE TABLE s (id varchar(20) PRIMARY KEY, v int)")
	address, good := myAddr(dsn)
	survivesAttacks(t, client{
		config: `
inputs: {in: {stdin: {}}}
processors:
  - {sql: {driver: mariadb, dsn: "` + address + `", connect_timeout: 1s, max_row: 1MiB, query: "SELECT count(*) AS c FROM s WHERE id <> ?",
      args: [id], into: c}, timeout: 500ms, ` + retryForever + `}
outputs:
  out: {sql: {driver: mariadb, dsn: "` + address + `", table: t, columns: {id: id}, connect_timeout: 1s, max_row: 1MiB}, timeout: 500ms,
    ` + retryWrites + `}
`,
		good: good,
		send: sendDocument,
		arrives: func(p *flowdtest.Process, id string) {
			waitFor(p, id, func() bool {
				return mariadbtest.Exec(t, dsn, "SELECT id FROM t WHERE id = '"+id+"' LIMIT 1") == id
			})
		},
	}, slices.Concat(myAnswers("select count"), myAnswers("insert"), myRows("insert"))...)
}
