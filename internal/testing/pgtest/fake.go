package pgtest

import (
	"net"
	"testing"

	"github.com/flowd-io/flowd/internal/testing/servertest"
	"github.com/jackc/pgx/v5/pgproto3"
)

// Fake is the DSN of a server that describes each statement as one without parameters and with columns, and answers
// each with a row of values, whether they fit or not.
func Fake(t testing.TB, columns, values int) string {
	t.Helper()
	address := servertest.Serve(t, func(c net.Conn) { fake(c, columns, values) })
	return "postgres://flowd@" + address + "/x?sslmode=disable"
}

func fake(c net.Conn, columns, values int) {
	defer c.Close()
	b := pgproto3.NewBackend(c, c)
	if _, err := b.ReceiveStartupMessage(); err != nil {
		return
	}
	described := &pgproto3.RowDescription{Fields: make([]pgproto3.FieldDescription, columns)}
	for i := range described.Fields {
		described.Fields[i].Name = []byte{byte('a' + i)}
	}
	row := &pgproto3.DataRow{Values: make([][]byte, values)}
	complete, ready := &pgproto3.CommandComplete{CommandTag: []byte("SELECT 1")}, &pgproto3.ReadyForQuery{TxStatus: 'I'}
	b.Send(&pgproto3.AuthenticationOk{})
	b.Send(ready)
	for b.Flush() == nil {
		m, err := b.Receive()
		if err != nil {
			return
		}
		switch m.(type) {
		case *pgproto3.Query:
			for _, m := range []pgproto3.BackendMessage{described, row, complete, ready} {
				b.Send(m)
			}
		case *pgproto3.Parse:
			b.Send(&pgproto3.ParseComplete{})
		case *pgproto3.Describe:
			b.Send(&pgproto3.ParameterDescription{})
			b.Send(described)
		case *pgproto3.Bind:
			b.Send(&pgproto3.BindComplete{})
		case *pgproto3.Execute:
			b.Send(row)
			b.Send(complete)
		case *pgproto3.Sync:
			b.Send(ready)
		case *pgproto3.Terminate:
			return
		}
	}
}
