package postgrescdc

import (
	"context"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/flowd-io/flowd/engine/enginetest"
	"github.com/flowd-io/flowd/schema"
	"github.com/jackc/pgx/v5/pgproto3"
)

// hangsUp starts a server that accepts each login, answers the first query, and then ends the connection. It never answers requests
// to cancel a query. came is the number of connections, most how many were open at once.
func hangsUp(t *testing.T, answer ...pgproto3.BackendMessage) (address string, came, most *atomic.Int64) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	came, most = new(atomic.Int64), new(atomic.Int64)
	open := new(atomic.Int64)
	var all sync.WaitGroup
	t.Cleanup(func() { l.Close(); all.Wait() })
	all.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			came.Add(1)
			if n := open.Add(1); n > most.Load() {
				most.Store(n) // here alone
			}
			context.AfterFunc(t.Context(), func() { c.Close() })
			all.Go(func() {
				defer open.Add(-1)
				defer c.Close()
				b := pgproto3.NewBackend(c, c)
				if m, err := b.ReceiveStartupMessage(); err == nil {
					if _, asks := m.(*pgproto3.StartupMessage); asks {
						b.Send(&pgproto3.AuthenticationOk{})
						b.Send(&pgproto3.BackendKeyData{ProcessID: 1, SecretKey: []byte{1, 2, 3, 4}})
						b.Send(&pgproto3.ReadyForQuery{TxStatus: 'I'})
						_ = b.Flush()
						_, _ = b.Receive()
						for _, m := range answer {
							b.Send(m)
						}
						_ = b.Flush()
						_ = c.(*net.TCPConn).CloseWrite()
					}
				}
				_, _ = io.Copy(io.Discard, c)
			})
		}
	})
	return l.Addr().String(), came, most
}

func TestAServerThatHangsUpGetsFewConnections(t *testing.T) {
	at, came, most := hangsUp(t)
	cfg := defaults
	cfg.Slot, cfg.DSN = "a", schema.NewSecret("postgres://u:p@"+at+"/d?sslmode=disable")
	cfg.Timeout = time.Second
	r := start(t, cfg, &enginetest.Sink{})
	until(t, "no more connections", func() bool {
		return came.Load() > 20*maxConns || strings.Contains(r.log.String(), "dial error: timeout")
	}, r.log.String)
	r.stop()
	if n := most.Load(); n > maxConns {
		t.Errorf("%d connections are open at once", n)
	}
}

func TestInvalidAnswers(t *testing.T) {
	column := pgproto3.FieldDescription{Name: []byte("a"), DataTypeOID: 25}
	for name, answer := range map[string][]pgproto3.BackendMessage{
		"is empty": {&pgproto3.RowDescription{Fields: []pgproto3.FieldDescription{column}},
			&pgproto3.CommandComplete{CommandTag: []byte("SELECT 0")}, &pgproto3.ReadyForQuery{TxStatus: 'I'}},
		"1 columns, not 4": {&pgproto3.RowDescription{Fields: []pgproto3.FieldDescription{column}},
			&pgproto3.DataRow{Values: [][]byte{[]byte("x")}}},
	} {
		at, _, _ := hangsUp(t, answer...)
		cfg := defaults
		cfg.Slot, cfg.DSN = "a", schema.NewSecret("postgres://u:p@"+at+"/d?sslmode=disable")
		r := start(t, cfg, &enginetest.Sink{})
		until(t, name, func() bool { return strings.Contains(r.log.String(), name) }, r.log.String)
		r.stop()
	}
}
