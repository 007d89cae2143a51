package sqldb

import (
	"bytes"
	"context"
	"crypto/tls"
	"database/sql/driver"
	"io"
	"log"
	"net"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/flowd-io/flowd/internal/network/tlsconf"
	"github.com/flowd-io/flowd/internal/testing/mqtttest"
	"github.com/flowd-io/flowd/internal/testing/servertest"
	"github.com/flowd-io/flowd/schema"
	"github.com/go-sql-driver/mysql"
)

// myPacket returns a packet with a sequence number.
func myPacket(number byte, body ...byte) []byte {
	n := len(body)
	return append([]byte{byte(n), byte(n >> 8), byte(n >> 16), number}, body...)
}

const (
	myGreeting = "\x0a8.0.0\x00\x01\x00\x00\x00abcdefgh\x00\xff\xf7\xff\x02\x00\xff\xdf\x15" +
		"\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00abcdefghijkl\x00mysql_native_password\x00"
	myFine = "\x00\x00\x00\x02\x00\x00\x00"
	myEOF  = "\xfe\x00\x00\x02\x00\x00\x00"
	// myStatement is the answer to a prepare: a statement with one column.
	myStatement = "\x00\x01\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00"
	myColumn    = "\x03def\x00\x00\x00\x01v\x00\x0c\x3f\x00\xff\x00\x00\x00\xfd\x00\x00\x00\x00\x00"
)

// myKey is a public key that is not an RSA key.
const myKey = `-----BEGIN PUBLIC KEY-----
MCowBQYDK2VwAyEAGb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE=
-----END PUBLIC KEY-----
`

// myServer starts a server that sends the first of its answers, and then one more after each packet from the client. An answer consists
// of the bodies of its packets. After the last answer, the server waits.
func myServer(t *testing.T, answers ...[]string) *Config {
	t.Helper()
	address := servertest.Serve(t, func(c net.Conn) { myServe(c, answers) })
	c := Defaults
	c.Driver, c.DSN, c.MaxRow = "mysql", schema.NewSecret("root:secret@tcp("+address+")/"), 1<<20
	c.ConnectTimeout = time.Second
	return &c
}

func myServe(c net.Conn, answers [][]string) {
	defer c.Close()
	head := make([]byte, 4)
	number := byte(0)
	for _, answer := range answers {
		var all []byte
		for i, body := range answer {
			all = append(all, myPacket(number+byte(i), []byte(body)...)...)
		}
		if _, err := c.Write(all); err != nil && len(all) > 0 {
			return
		}
		if _, err := io.ReadFull(c, head); err != nil {
			return
		}
		if _, err := io.CopyN(io.Discard, c, int64(head[0])|int64(head[1])<<8|int64(head[2])<<16); err != nil {
			return
		}
		number = head[3] + 1
	}
	_, _ = io.Copy(io.Discard, c)
}

// myReady returns the answers until a connection is ready: the greeting, and those to the login and the driver's first statements.
func myReady(more ...[]string) [][]string {
	return append([][]string{{myGreeting}, {myFine},
		{"\x01", myColumn, "\x0867108864", myEOF}, {myFine}}, more...)
}

func TestAHostileMySQLServer(t *testing.T) {
	more := "\x00\x00\x00\x0a\x00\x00\x00"
	long := strings.Repeat("x", 1<<20+1)
	tests := []struct {
		name    string
		answers [][]string
		want    string
	}{
		{"a greeting of one byte", [][]string{{"\x0a"}}, "is not a MySQL or MariaDB server"},
		{"a greeting that ends early", [][]string{{myGreeting[:40]}}, "malformed packet: greeting"},
		{"an error that ends early", [][]string{{"\xff\x01"}}, "malformed packet: error"},
		{"a challenge that is too short", [][]string{{myGreeting}, {"\xfemysql_native_password\x00abc\x00"}}, "malformed packet: challenge"},
		{"a key of another kind", [][]string{{strings.Replace(myGreeting, "mysql_native_password", "sha256_password", 1)}, {"\x01" + myKey}},
			"malformed packet: public key"},
		{"a login without its end", [][]string{{myGreeting}, {"\x00"}}, "malformed packet: end"},
		{"too many bytes before the connection is ready", [][]string{{myGreeting}, {"\x01" + long}}, "64 KiB before"},
		{"a variable without a value", [][]string{{myGreeting}, {myFine}, {"\x01", myColumn, "\xfb"}}, "variable without"},
		{"an answer without a request", myReady([]string{myStatement, myColumn, myFine}), "an answer without a request"},
		{"so many columns that there is no memory", myReady([]string{myStatement, myColumn}, []string{"\xfe\xff\xff\xff\xff\x0f\x00\x00\x00"}),
			"announces an answer of 68719476735 columns"},
		{"so many columns in a second answer", myReady([]string{myStatement, myColumn}, []string{more, "\xfd\xff\xff\xff"}),
			"announces an answer of 16777215 columns"},
		{"a file of this machine", myReady([]string{myStatement, myColumn}, []string{"\xfb/etc/passwd"}), "file of this machine"},
		{"a row that ends early", myReady([]string{myStatement, myColumn}, []string{"\x01", myColumn, "\x00"}), "panic"},
		{"a row that is too long", myReady([]string{myStatement, myColumn}, []string{"\x01", myColumn, "\x00\x00" + long}),
			"larger than max_row, 1MiB"},
		{"an end that ends early", myReady([]string{myStatement, myColumn}, []string{"\x01", myColumn, myEOF[:2]}), "malformed packet: end"},
		{"a description that ends early", myReady([]string{myStatement, myColumn}, []string{"\x01", "\x03def"}), ""},
		{"a prepared statement that ends early", myReady([]string{"\x00"}), "panic"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			db, err := myServer(t, test.answers...).Open()
			if err != nil {
				t.Fatal(err)
			}
			defer db.Close()
			running := runtime.NumGoroutine()
			for range 2 * Defaults.Connections { // a failed attempt must not occupy a connection of the pool
				err := myAsk(t.Context(), db)
				if err == nil || !strings.Contains(err.Error(), test.want) {
					t.Fatalf("got error %v, want one with %q", err, test.want)
				}
			}
			for end := time.Now().Add(5 * time.Second); runtime.NumGoroutine() > running+Defaults.Connections; {
				if runtime.Gosched(); time.Now().After(end) {
					t.Fatalf("%d goroutines run, before there were %d", runtime.NumGoroutine(), running)
				}
			}
		})
	}
}

// The check also follows a connection inside TLS.
func TestAHostileMySQLServerWithTLS(t *testing.T) {
	files := mqtttest.Certificates(t)
	certificate, err := tls.X509KeyPair([]byte(files["server.pem"]), []byte(files["server.key"]))
	if err != nil {
		t.Fatal(err)
	}
	ask := func(header string) [][]string {
		return myReady([]string{myStatement, myColumn}, []string{header, myColumn, "\x00\x00\x01a", myEOF})[1:]
	}
	for _, test := range []struct {
		name    string
		answers [][]string
		want    [2]string // of the first attempt, and the second
	}{
		{"a good one", ask("\x01"), [2]string{}},
		{"so many columns that there is no memory", ask("\xfd\xff\xff\xff"), [2]string{"answer of 16777215 columns",
			"answer of 16777215 columns"}},
		// The driver leaks a goroutine each time, so attempts are delayed.
		{"a challenge that is too short", [][]string{{"\xfemysql_native_password\x00abc\x00"}}, [2]string{"panic", "the next attempt is in"}},
	} {
		address := servertest.Serve(t, func(c net.Conn) {
			greeting := strings.Replace(myGreeting, "\xff\xf7", "\xff\xff", 1)
			_, _ = c.Write(myPacket(0, []byte(greeting)...))
			_, _ = io.CopyN(io.Discard, c, 36)
			secure := tls.Server(c, &tls.Config{Certificates: []tls.Certificate{certificate}})
			myServe(secure, append([][]string{{}}, test.answers...))
		})
		c := Defaults
		c.Driver, c.DSN = "mysql", schema.NewSecret("root:secret@tcp("+address+")/")
		c.TLS = &tlsconf.Client{SkipVerify: true}
		db, err := c.Open()
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range test.want {
			if err := myAsk(t.Context(), db); (err != nil) != (want != "") || err != nil && !strings.Contains(err.Error(), want) {
				t.Errorf("%s: got error %v, want %q", test.name, err, want)
			}
			if want == "" {
				break // the server has sent all its answers
			}
		}
		db.Close()
	}
}

func myAsk(ctx context.Context, db DB) error {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	conn, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	return lastError(ctx, conn, "SELECT v")
}

// Whatever a server sends, the driver must not panic while it connects, since it would leak a goroutine. It must not allocate memory for
// what is only announced.
func FuzzMySQL(f *testing.F) {
	var all []byte
	for _, answer := range myReady([]string{myStatement, myColumn},
		[]string{"\x01", myColumn, "\x00\x00\x01a", myEOF}) {
		number := byte(1)
		if len(all) == 0 {
			number = 0
		}
		for i, body := range answer {
			all = append(all, myPacket(number+byte(i), []byte(body)...)...)
		}
	}
	f.Add(all)
	f.Add(bytes.Replace(all, []byte(myFine), []byte("\xfemysql_native_password\x00abcdefghijklmnopqrst\x00"), 1))
	f.Add(myPacket(0, '\n'))
	f.Add(append(myPacket(0, []byte(strings.Replace(myGreeting, "mysql_native_password", "sha256_password", 1))...),
		myPacket(2, append([]byte{myMore}, myKey...)...)...))
	f.Fuzz(func(t *testing.T, sent []byte) {
		cfg := mysql.NewConfig()
		cfg.User, cfg.Passwd, cfg.MaxAllowedPacket, cfg.Logger = "root", "secret", 0, log.New(io.Discard, "", 0)
		cfg.Params = map[string]string{"time_zone": "'+00:00'"}
		cfg.DialFunc = func(context.Context, string, string) (net.Conn, error) {
			return &myRecording{Reader: bytes.NewReader(sent)}, nil
		}
		connector, err := newMyConnector(cfg, 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		conn, err := connector.Connect(t.Context())
		if err != nil {
			if strings.Contains(err.Error(), "panic") {
				t.Error(err)
			}
			return
		}
		defer conn.Close()
		stmt, err := conn.(driver.ConnPrepareContext).PrepareContext(t.Context(), "SELECT v")
		if err != nil {
			return
		}
		rows, err := stmt.(driver.StmtQueryContext).QueryContext(t.Context(), nil)
		if err != nil {
			return
		}
		for row := make([]driver.Value, len(rows.Columns())); rows.Next(row) == nil; {
		}
		rows.Close()
	})
}

// myRecording is a connection that replays the bytes of a server.
type myRecording struct {
	net.Conn
	*bytes.Reader
}

func (c *myRecording) Read(p []byte) (int, error)  { return c.Reader.Read(p) }
func (c *myRecording) Write(p []byte) (int, error) { return len(p), nil }
func (c *myRecording) Close() error                { return nil }
